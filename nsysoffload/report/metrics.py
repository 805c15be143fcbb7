"""Metrics of a report by name, such as ``overlap`` or ``stall_ms.d2h``.

A metric has one value per device, the median over its steps; without step markers the whole window
is one step. ``None`` means that the trace cannot tell, and comes with the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report.model import Device, PerStep, Report, StepBoth, StepDirection

__all__ = ["METRICS", "Measured", "Metric"]

_NO_STEPS = "no whole training step was recorded"
_NO_XLA = "the trace names no XLA operation"
_NO_MEMORY = "neither a prediction nor the manifest of a run says what memory a step needs"


class Measured(NamedTuple):
    """A value, or why there is none."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Metric:
    """A figure of a report that can be limited.

    ``unit`` is ``%``, ``ms``, ``GB/s``, ``B``, or nothing for counts. ``values`` gives one value
    per device, or a single one for what the report as a whole has, from nothing but what is in the
    JSON.
    """

    meaning: str
    unit: str
    higher_is_better: bool
    values: Callable[[Report], list[Measured]]


# --- How each is taken from a report ---


def _per_step(of: Callable[[PerStep], Measured]) -> Callable[[Report], list[Measured]]:
    """Measure the steps of each device."""

    def values(report: Report) -> list[Measured]:
        return [
            of(device.per_step) if device.per_step else Measured(None, _NO_STEPS)
            for device in report.devices
        ]

    return values


def _of_device(of: Callable[[Device], Measured]) -> Callable[[Report], list[Measured]]:
    return lambda report: [of(device) for device in report.devices]


def _known(value: float | None, reason: str) -> Measured:
    return Measured(value) if value is not None else Measured(None, reason)


def _overlap(moved: StepBoth | StepDirection) -> Measured:
    if moved.overlap is None:
        return Measured(None, moved.overlap_null_reason)
    return Measured(round(100 * moved.overlap, 9))  # so that 0.57 is 57 % and not a trace below


def _beside(moved: StepBoth | StepDirection, time_ns: int) -> Measured:
    """Give a time that rests on what ran beside copies: where overlap is unknown, so is this."""
    if moved.busy_ns and moved.overlap is None:
        return Measured(None, moved.overlap_null_reason)
    return Measured(time_ns / 1e6)


def _time(meaning: str, of: Callable[[PerStep], int]) -> Metric:
    return Metric(meaning, "ms", False, _per_step(lambda step: Measured(of(step) / 1e6)))


def _time_beside(meaning: str, of: Callable[[PerStep], int]) -> Metric:
    return Metric(meaning, "ms", False, _per_step(lambda step: _beside(step.both, of(step))))


def _maybe_ms(time_ns: int | None, reason: str) -> Measured:
    return _known(None if time_ns is None else time_ns / 1e6, reason)


def _whole_steps() -> dict[str, Metric]:
    return {
        "overlap": Metric(
            "transfer time behind compute, both directions",
            "%",
            True,
            _per_step(lambda step: _overlap(step.both)),
        ),
        "stall_ms": _time_beside("time for which copies hold compute up", lambda s: s.stall_ns),
        "exposed_ms": _time_beside("transfer time not behind compute", lambda s: s.both.exposed_ns),
        "hideable_ms": _time_beside(
            "part of the stall that another schedule could hide", lambda s: s.hideable_ns
        ),
        "lost_ms": _time_beside("time outside compute", lambda s: s.lost_ns),
        "best_ms": _time_beside("step without its hideable stall", lambda s: s.best_ns),
        "step_ms": _time("first GPU row of a step to its last", lambda s: s.duration_ns),
        "period_ms": Metric(
            "start of a step to the start of the next",
            "ms",
            False,
            _per_step(lambda step: _maybe_ms(step.period_ns, "no step has another after it")),
        ),
        "compute_ms": _time("time in which compute kernels run", lambda s: s.compute_busy_ns),
        "recompute_ms": Metric(
            "compute time that rematerialises",
            "ms",
            False,
            _per_step(lambda step: _maybe_ms(step.recompute_ns, _NO_XLA)),
        ),
        "collective_ms": _time("time in which collectives run", lambda s: s.collective_busy_ns),
        "idle_ms": _time("time in which nothing runs on the GPU", lambda s: s.idle_ns),
        "unattributed": Metric(
            "GPU rows of which no XLA operation is known",
            "%",
            False,
            _per_step(lambda step: _share(step.unattributed)),
        ),
    }


def _share(fraction: float | None) -> Measured:
    return _known(None if fraction is None else round(100 * fraction, 9), _NO_XLA)


def _one_way(way: str) -> dict[str, Metric]:
    """Metrics of one direction, ``h2d`` or ``d2h``."""
    words = way.upper()
    none = f"no timed {words} copies of known size"
    lone = f"no pinned {words} copy of 16 MiB or more ran with nothing beside it"

    def moved(step: PerStep) -> StepDirection:
        return step.h2d if way == "h2d" else step.d2h

    def speed(meaning: str, name: str, reason: str) -> Metric:
        return Metric(
            meaning,
            "GB/s",
            True,
            _of_device(lambda d: _known(getattr(getattr(d.trace, way), name), reason)),
        )

    def beside(meaning: str, of: Callable[[StepDirection], int]) -> Metric:
        return Metric(
            meaning, "ms", False, _per_step(lambda step: _beside(moved(step), of(moved(step))))
        )

    return {
        f"overlap.{way}": Metric(
            f"{words} time behind compute", "%", True, _per_step(lambda s: _overlap(moved(s)))
        ),
        f"stall_ms.{way}": beside(
            f"time for which {words} copies hold compute up", lambda m: m.stall_ns
        ),
        f"exposed_ms.{way}": beside(f"{words} time not behind compute", lambda m: m.exposed_ns),
        f"hideable_ms.{way}": beside(
            f"part of the {words} stall that another schedule could hide", lambda m: m.hideable_ns
        ),
        f"gbps.{way}": Metric(
            f"{words} bytes over the durations of the copies",
            "GB/s",
            True,
            _per_step(lambda step: _known(moved(step).gbps, none)),
        ),
        f"burst_gbps.{way}": speed(
            f"{words} bytes over runs of copies, in the whole window", "burst_gbps", none
        ),
        f"lone_gbps.{way}": speed(
            f"fastest large {words} copy alone, in the whole window", "lone_gbps", lone
        ),
        f"bytes.{way}": Metric(
            f"{words} bytes of a step",
            "B",
            False,
            _per_step(
                lambda step: _known(moved(step).bytes, "the trace has copies without a size")
            ),
        ),
        f"copies.{way}": Metric(
            f"{words} copies of a step",
            "",
            False,
            _per_step(lambda step: Measured(moved(step).copies)),
        ),
    }


def _costs() -> dict[str, Metric]:
    """Measure what each cause costs: lost time, or excess time."""
    owners = [e for e in EXPLANATIONS.values() if e.owns]
    others = [e for e in EXPLANATIONS.values() if e.excess]
    lost = {f"lost_ms.{e.cause}": _lost(e.cause, e.title) for e in owners}
    return lost | {f"excess_ms.{e.cause}": _excess(e.cause, e.title) for e in others}


def _lost(cause: str, title: str) -> Metric:
    return _time_beside(f"lost time: {_lowered(title)}", lambda step: step.lost.get(cause, 0))


def _excess(cause: str, title: str) -> Metric:
    def values(report: Report) -> list[Measured]:
        excess_ns = dict.fromkeys((device.id for device in report.devices), 0)
        for finding in report.findings:
            if finding.cause == cause and finding.device in excess_ns:
                excess_ns[finding.device] += finding.excess_ns_per_step
        return [
            Measured(excess_ns[d.id] / 1e6) if d.per_step else Measured(None, _NO_STEPS)
            for d in report.devices
        ]

    return Metric(f"excess time: {_lowered(title)}", "ms", False, values)


def _lowered(title: str) -> str:
    return f"{title[0].lower()}{title[1:]}"


def _findings(report: Report) -> list[Measured]:
    if any(device.per_step is None for device in report.devices):
        return [Measured(None, _NO_STEPS)]
    costly = {f.cause for f in report.findings if f.severity == "finding"}
    return [Measured(len(costly))]


def _memory(meaning: str, name: str) -> Metric:
    return Metric(
        meaning,
        "B",
        False,
        lambda report: [_known(getattr(report.memory, name, None), _NO_MEMORY)],
    )


METRICS: Mapping[str, Metric] = {
    **_whole_steps(),
    **_one_way("h2d"),
    **_one_way("d2h"),
    "findings": Metric("causes that cost time", "", False, _findings),
    "device_bytes": _memory("memory of the GPU that a step needs", "device_bytes"),
    "host_bytes": _memory("pinned host memory that a step needs", "host_bytes"),
    **_costs(),
}
