"""The answer in one or two sentences: how much is hidden, what is lost, what to change first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nsysoffload.report import causes
from nsysoffload.report.format import duration, labels, share
from nsysoffload.report.model import (
    Both,
    Device,
    Finding,
    PerStep,
    StepBoth,
    Total,
    Verdict,
)

__all__ = ["EXPOSED_BELOW", "HIDDEN_FROM", "slowest", "unusable", "verdict"]

HIDDEN_FROM = 0.95
EXPOSED_BELOW = 0.05

_HEADS = {
    "hidden": "Transfers hide behind compute",
    "partly_hidden": "Transfers hide only partly behind compute",
    "exposed": "Transfers do not hide behind compute",
}
_AS_KERNELS = (
    "It cannot be told how much transfer time is hidden: copies were recorded only as kernels,"
    " which do not say whether they moved data from or to the host."
)
_STARVED = "Transfers are hidden by time, not in effect"


def verdict(
    total: Total,
    devices: int,
    windows_ns: int,
    kind: str = "measured",
    *,
    chosen: Sequence[Device] = (),
    findings: Sequence[Finding] = (),
    steps_found_by: str = "window",
    as_kernels: bool = False,
) -> Verdict:
    """Say how much of the transfers runs behind compute, and what to change first.

    Parameters
    ----------
    total : Total
        Figures over the chosen devices.
    devices : int
        Devices in the trace, of which these may be a part.
    windows_ns : int
        Lengths of the chosen devices' windows, added.
    kind : str
        ``measured`` or ``predicted``; what is predicted says so wherever the sentence goes.
    chosen : sequence of Device
        The chosen devices. Where steps were found, the one with the longest step is spoken of.
    findings : sequence of Finding
        Worst first.
    steps_found_by : str
        As in `Window`; ``window`` speaks of the window.
    as_kernels : bool
        Whether copies are in the trace only as kernels, so that no transfer is none that ran.
    """
    by_steps = steps_found_by != "window"
    slow = slowest(chosen) if by_steps else None
    starved = any(f.cause == "starved" and f.severity == "finding" for f in findings)
    if slow and slow.per_step:
        answer = _of_step(slow.per_step, starved, _which(slow, chosen))
    else:
        answer = _of_window(total, devices, windows_ns, starved)
    if as_kernels and answer.outcome == "no_transfers":
        answer = Verdict(_AS_KERNELS, "cannot_tell")
    text = f"{answer.text}{_first(findings, by_steps)}"
    if kind != "measured":
        text = f"Predicted: {text[0].lower()}{text[1:]}"
    return replace(answer, text=text)


def unusable(answer: Verdict, why: str) -> Verdict:
    """Say first that a run is not to be used, then what it would show.

    Parameters
    ----------
    answer : Verdict
        The verdict on its transfers.
    why : str
        Words without a full stop.
    """
    return Verdict(f"Not to be used: {why}. {answer.text}", "not_usable")


def slowest(devices: Sequence[Device]) -> Device | None:
    """Return the device with the longest median step, which holds the others up; or none."""
    stepped = [device for device in devices if device.per_step]
    return max(stepped, key=_step_ns, default=None)


def _step_ns(device: Device) -> int:
    return device.per_step.duration_ns if device.per_step else 0


def _which(device: Device, devices: Sequence[Device]) -> str:
    return f" on GPU {labels(devices)[device.id]}, the slowest of {len(devices)}" * (
        len(devices) > 1
    )


@dataclass(frozen=True)
class _Judged:
    """Outcome of a known overlap, and how the sentence begins."""

    outcome: str
    head: str


def _judged(overlap: float, starved: bool) -> _Judged:
    """Judge an overlap; what starves under kernels is not praised, whatever its overlap."""
    if overlap >= HIDDEN_FROM:
        if starved:
            return _Judged("partly_hidden", _STARVED)
        return _Judged("hidden", _HEADS["hidden"])
    outcome = "exposed" if overlap < EXPOSED_BELOW else "partly_hidden"
    return _Judged(outcome, _HEADS[outcome])


def _unknown(both: Both | StepBoth, busy: str) -> Verdict:
    reason = (both.overlap_null_reason or "").removesuffix(".")
    return Verdict(f"It cannot be told how much of {busy} is hidden: {reason}.", "cannot_tell")


def _of_step(step: PerStep, starved: bool, which: str) -> Verdict:
    if step.h2d.copies + step.d2h.copies == 0:
        text = f"No transfers between host and GPU run in the training steps{which}."
        return Verdict(text, "no_transfers")
    both = step.both
    busy = f"{duration(both.busy_ns)} of transfer time per step"
    if both.overlap is None:
        return _unknown(both, f"{busy}{which}")
    judged = _judged(both.overlap, starved)
    text = f"{judged.head}: {share(both.overlap)} of {busy} is hidden{which}; {_waits(step)}."
    return Verdict(text, judged.outcome)


def _waits(step: PerStep) -> str:
    """Say how long compute waits for transfers."""
    of = f"the {duration(step.duration_ns)} step"
    if step.stall_ns:
        part = share(step.stall_ns / step.duration_ns)
        return f"compute waits {duration(step.stall_ns)} for them, {part} of {of}"
    return f"compute waits for none of them in {of}"


def _of_window(total: Total, devices: int, windows_ns: int, starved: bool) -> Verdict:
    both = total.both
    if total.h2d.copies + total.d2h.copies == 0:
        return Verdict("No transfers between host and GPU were recorded.", "no_transfers")
    busy = f"{duration(both.busy_ns)} of transfer time{_gpus(total.devices, devices)}"
    if both.overlap is None:
        return _unknown(both, busy)
    judged = _judged(both.overlap, starved)
    exposed = _exposed(total, windows_ns)
    text = f"{judged.head}: {share(both.overlap)} of {busy} is hidden{exposed}."
    return Verdict(text, judged.outcome)


def _gpus(chosen: int, devices: int) -> str:
    if devices == 1:
        return ""
    return f" on {chosen} of {devices} GPUs" if chosen < devices else f" on {devices} GPUs"


def _exposed(total: Total, windows_ns: int) -> str:
    """Say what is exposed, on which way; where both are at once the parts add up to more."""
    exposed, h2d, d2h = (way.exposed_ns for way in (total.both, total.h2d, total.d2h))
    if not exposed:
        return ""
    together = ", partly at once" if h2d + d2h > exposed else ""
    return (
        f", {duration(exposed)} is exposed, {share(exposed / windows_ns)} of the window"
        f" (H2D {duration(h2d)}, D2H {duration(d2h)}{together})"
    )


def _first(findings: Sequence[Finding], by_steps: bool) -> str:
    """Name the cause that costs most on a device; nothing if none costs anything."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.severity == "finding":
            groups.setdefault((finding.device, finding.cause), []).append(finding)
    if not groups:
        return ""
    worst = max((_together(group) for group in groups.values()), key=_cost_ns)
    unit = "per step" if by_steps else "in the window"
    words = causes.title(worst.cause)
    way = f", {worst.direction.upper()}" if worst.direction else ""
    cost = causes.cost(worst, unit)
    return f" First: {words[0].lower()}{words[1:]}, {cost} ({worst.cause}{way})."


def _together(findings: Sequence[Finding]) -> Finding:
    """One finding for all of a cause: what its operations and directions cost, added."""
    ways = {finding.direction for finding in findings}
    return replace(
        findings[0],
        direction=ways.pop() if len(ways) == 1 else None,
        lost_ns_per_step=sum(f.lost_ns_per_step for f in findings),
        excess_ns_per_step=sum(f.excess_ns_per_step for f in findings),
    )


def _cost_ns(finding: Finding) -> int:
    return finding.lost_ns_per_step + finding.excess_ns_per_step
