"""Figures of steps as fields of the report, and their medians."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsysoffload.diagnosis.examine import Examined
from nsysoffload.overlap.per_step import StepTransfers
from nsysoffload.report.model import PerStep, Step, StepBoth, StepDirection, WhatIf
from nsysoffload.timeline.intervals import covered_ns
from nsysoffload.trace.tables import UNSET

__all__ = ["MOST_STEPS", "lost_by_owner", "median", "median_step", "per_step", "steps"]

MOST_STEPS = 1_000  # in the report; medians are over all
_Ints = NDArray[np.int64]


def median(values: _Ints) -> int:
    """Median of whole numbers, rounded down to one.

    Examples
    --------
    >>> median(np.array([1, 2, 4, 9]))
    3
    """
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high) // 2


def median_step(device: Examined) -> int | None:
    """Return the position of the step whose duration is the median; of two the shorter one."""
    duration = device.steps.duration_ns
    if not len(duration):
        return None
    return int(np.argsort(duration, kind="stable")[(len(duration) - 1) // 2])


def steps(device: Examined, lost: Mapping[str, _Ints]) -> tuple[Step, ...]:
    """Fill the chosen steps.

    Parameters
    ----------
    device : Examined
        The device.
    lost : mapping of str to int64 array
        Time outside compute of each step by owner.
    """
    found, values = device.steps, device.values
    unknown = device.overlap.unknown
    return tuple(
        Step(
            index=int(found.index[n]),
            start_ns=int(found.start_ns[n]),
            end_ns=int(found.end_ns[n]),
            duration_ns=int(found.duration_ns[n]),
            period_ns=None if found.period_ns[n] == UNSET else int(found.period_ns[n]),
            outlier=bool(found.outlier[n]),
            **_figures(device, lost, lambda array, at=n: int(array[at])),
            lost={cause: int(time[n]) for cause, time in lost.items() if time[n]},
            h2d=_direction(values.directions["h2d"], lambda a, at=n: int(a[at]), unknown),
            d2h=_direction(values.directions["d2h"], lambda a, at=n: int(a[at]), unknown),
            both=_both(values.both, lambda a, at=n: int(a[at]), unknown),
        )
        for n in range(min(len(found), MOST_STEPS))
    )


def per_step(
    device: Examined, lost: Mapping[str, _Ints], what_if: tuple[WhatIf, ...]
) -> PerStep | None:
    """Medians over the chosen steps; ``None`` if there is none."""
    found, values = device.steps, device.values
    if not len(found):
        return None
    unknown = device.overlap.unknown
    periods = found.period_ns[found.period_ns != UNSET]
    usual = {cause: median(time) for cause, time in lost.items()}
    return PerStep(
        steps=len(found),
        duration_ns=median(found.duration_ns),
        period_ns=median(periods) if len(periods) else None,
        **_figures(device, lost, median),
        lost={cause: time for cause, time in usual.items() if time},
        h2d=_direction(values.directions["h2d"], median, unknown),
        d2h=_direction(values.directions["d2h"], median, unknown),
        both=_both(values.both, median, unknown),
        outliers=tuple(found.index[found.outlier].tolist()),
        unattributed=_unattributed(device),
        what_if=what_if,
    )


def _figures(device: Examined, lost: Mapping[str, _Ints], take: Any) -> dict[str, Any]:
    values = device.values
    phases = values.phases
    best = device.steps.duration_ns - values.hideable_ns
    return {
        "kernels": take(values.kernels),
        "compute_busy_ns": take(values.compute_busy_ns),
        "collective_busy_ns": take(values.collective_busy_ns),
        "idle_ns": take(values.idle_ns),
        "recompute_ns": None if phases is None else take(phases["recompute"]),
        "phases": None if phases is None else {name: take(time) for name, time in phases.items()},
        "lost_ns": take(values.lost_ns),
        "stall_ns": take(values.stall_ns),
        "stall_proven_ns": take(values.stall_proven_ns),
        "hideable_ns": take(values.hideable_ns),
        "best_ns": take(best),
    }


def _direction(way: StepTransfers, take: Any, unknown: str | None) -> StepDirection:
    known = bool((way.bytes != UNSET).all())
    summed, size = take(way.sum_ns), take(way.bytes) if known else None
    return StepDirection(
        copies=take(way.copies),
        bytes=size,
        sum_ns=summed,
        **_cover(way, take, unknown),
        gbps=size / summed if size is not None and summed else None,
        stall_ns=take(way.stall_ns),
        hideable_ns=take(way.hideable_ns),
    )


def _both(both: StepTransfers, take: Any, unknown: str | None) -> StepBoth:
    return StepBoth(**_cover(both, take, unknown))


def _cover(way: StepTransfers, take: Any, unknown: str | None) -> dict[str, Any]:
    busy, hidden, undetermined = (
        take(values) for values in (way.busy_ns, way.hidden_ns, way.undetermined_ns)
    )
    reason = unknown
    if not busy:
        reason = "no transfer time was recorded"
    elif reason is None and undetermined:
        reason = f"{undetermined:,} ns of it lie under CUDA graphs traced as a whole"
    return {
        "busy_ns": busy,
        "hidden_ns": hidden,
        "exposed_ns": take(way.exposed_ns),
        "hidden_by_collectives_ns": take(way.hidden_by_collectives_ns),
        "undetermined_ns": undetermined,
        "overlap": None if reason else min(1.0, hidden / busy),
        "overlap_null_reason": reason,
    }


def _unattributed(device: Examined) -> float | None:
    """Share of the steps' rows without an XLA operation; None if no row has one."""
    thunks = np.concatenate(
        [
            device.kernel_thunk[device.kernel_step >= 0],
            device.transfer_thunk[device.transfer_step >= 0],
        ]
    )
    return float((thunks < 0).mean()) if (thunks >= 0).any() else None


def lost_by_owner(device: Examined) -> dict[str, _Ints]:
    """Time outside compute of each step by the cause that owns it."""
    spans = device.measurements.steps
    return {cause: covered_ns(spans, owned) for cause, owned in device.diagnosis.by_cause().items()}
