"""Whether as many bytes went to the host and back as were to be offloaded."""

from dataclasses import dataclass, replace

from nsysoffload.report.format import labels, size
from nsysoffload.report.model import Device, Report, Warning_

__all__ = ["LEAST", "NEAR", "Judgement", "judged", "judged_report", "warned"]

LEAST = 0.5
"""Share of the expected bytes under which offloading is not in effect."""

NEAR = 0.1
"""Share of the expected bytes by which those that moved may differ without a word."""

_ADVICE = "see whether the policy names values that the model has, and what XLA made of them"


@dataclass(frozen=True)
class Judgement:
    """``state`` is ``ok``, ``warning`` (off by more than `NEAR`) or ``problem``; ``text`` why."""

    state: str
    text: str


def judged(expected_bytes: int, d2h_bytes: int | None, h2d_bytes: int | None) -> Judgement:
    """Judge the bytes that one device moved in a step.

    Parameters
    ----------
    expected_bytes : int
        Bytes per step, of either direction.
    d2h_bytes, h2d_bytes : int or None
        Bytes of explicit copies; None where the trace cannot tell.

    Examples
    --------
    >>> judged(10**9, 10**9, 950_000_000).state
    'ok'
    >>> judged(10**9, 0, 10**9).text.split(" and ")[0]
    'offload requested, 0 bytes device-to-host'
    """
    if d2h_bytes is None or h2d_bytes is None:
        way = "device-to-host" if d2h_bytes is None else "host-to-device"
        return Judgement(
            "problem",
            f"offload requested, bytes {way} unknown, for the trace has copies without a size;"
            " record with another nsys.",
        )
    text = (
        f"offload requested, {_amount(d2h_bytes)} device-to-host and {_amount(h2d_bytes)}"
        f" host-to-device per step where {size(expected_bytes)} each way were expected"
    )
    if min(d2h_bytes, h2d_bytes) < LEAST * expected_bytes:
        return Judgement("problem", f"{text}; {_ADVICE}.")
    off = max(abs(moved - expected_bytes) for moved in (d2h_bytes, h2d_bytes))
    return Judgement("warning" if off > NEAR * expected_bytes else "ok", f"{text}.")


def judged_report(report: Report, expected_bytes: int) -> Judgement:
    """Judge every device of a report; the first of those that are worst speaks for all.

    Parameters
    ----------
    report : Report
        The report, with its findings.
    expected_bytes : int
        Bytes per step, of either direction, on each device.
    """
    order = ("problem", "warning", "ok")
    found = [(_judged_device(report, device, expected_bytes), device) for device in report.devices]
    worst, device = min(found, key=lambda item: order.index(item[0].state))
    if len(found) == 1 or worst.state == "ok":
        return worst
    return Judgement(worst.state, f"GPU {labels(report.devices)[device.id]}: {worst.text}")


def warned(report: Report, judgement: Judgement) -> Report:
    """Return the report with a warning of a judgement, unless that is ``ok``."""
    if judgement.state == "ok":
        return report
    text = f"{judgement.text[0].upper()}{judgement.text[1:]}"
    warnings = (*report.trace.warnings, Warning_("offload_bytes", text))
    return replace(report, trace=replace(report.trace, warnings=warnings))


def _judged_device(report: Report, device: Device, expected_bytes: int) -> Judgement:
    step = device.per_step
    if step is None:
        text = "offload requested, bytes unknown, for no whole training step was recorded."
        return Judgement("problem", text)
    carried = any(f.cause == "kernel_copy" and f.device == device.id for f in report.findings)
    ways = (("device-to-host", step.d2h), ("host-to-device", step.h2d))
    missing = next((name for name, way in ways if not way.copies), None)
    if carried and missing:
        text = (
            f"offload requested, bytes {missing} unknown, for there is no such copy and kernels"
            " seem to carry transfers (kernel_copy), of which a trace tells no bytes."
        )
        return Judgement("problem", text)
    return judged(expected_bytes, step.d2h.bytes, step.h2d.bytes)


def _amount(size_bytes: int) -> str:
    return size(size_bytes) if size_bytes else "0 bytes"
