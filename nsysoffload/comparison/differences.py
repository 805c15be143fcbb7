"""Metrics of two runs side by side, each change with what it lies between."""

from collections.abc import Iterator, Mapping
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from nsysoffload.comparison.model import Difference
from nsysoffload.comparison.noise import ENOUGH, SMALLEST, Noise, beyond, noise
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.metrics import METRICS, Measured
from nsysoffload.report.model import Step

__all__ = ["OF_WHOLE_STEPS", "differences"]

_NEITHER = ("bytes.h2d", "bytes.d2h", "copies.h2d", "copies.d2h", "unattributed")
"""Metrics of which neither more nor less is better."""

OF_WHOLE_STEPS = ("step_ms", "period_ms", "best_ms")
"""Metrics that a window without steps does not have, for it is as long as the recording."""

_FIRST = ("step_ms", "stall_ms", "exposed_ms", "overlap", "recompute_ms")
_COSTS = ("lost_ms.", "excess_ms.")  # listed where a run has any
_MS, _PERCENT = 1e-6, 100.0


def _one_way(way: str) -> dict[str, tuple[str, float]]:
    return {
        f"overlap.{way}": (f"{way}.overlap", _PERCENT),
        f"stall_ms.{way}": (f"{way}.stall_ns", _MS),
        f"exposed_ms.{way}": (f"{way}.exposed_ns", _MS),
        f"hideable_ms.{way}": (f"{way}.hideable_ns", _MS),
        f"gbps.{way}": (f"{way}.gbps", 1.0),
        f"bytes.{way}": (f"{way}.bytes", 1.0),
        f"copies.{way}": (f"{way}.copies", 1.0),
    }


_OF_STEP: Mapping[str, tuple[str, float]] = {
    "overlap": ("both.overlap", _PERCENT),
    "stall_ms": ("stall_ns", _MS),
    "exposed_ms": ("both.exposed_ns", _MS),
    "hideable_ms": ("hideable_ns", _MS),
    "lost_ms": ("lost_ns", _MS),
    "best_ms": ("best_ns", _MS),
    "step_ms": ("duration_ns", _MS),
    "period_ms": ("period_ns", _MS),
    "compute_ms": ("compute_busy_ns", _MS),
    "recompute_ms": ("recompute_ns", _MS),
    "collective_ms": ("collective_busy_ns", _MS),
    "idle_ms": ("idle_ns", _MS),
    **_one_way("h2d"),
    **_one_way("d2h"),
}
"""Metrics that every step has: where in a step, and times what."""


def differences(base: Subject, new: Subject, run: int) -> Iterator[Difference]:
    """Yield the metrics of both, the step time first; costs that neither run has are left out.

    Parameters
    ----------
    base, new : Subject
        The runs.
    run : int
        Position of the new run.
    """
    for name in dict.fromkeys((*_FIRST, *METRICS)):
        values = [_value(subject, name) for subject in (base, new)]
        if name.startswith(_COSTS) and not any(measured.value for measured in values):
            continue
        yield _difference(name, run, values, _noise(name, base, new))


def _value(subject: Subject, name: str) -> Measured:
    """Return a metric of the device that speaks for the run.

    Without steps the whole window counts as one, which is no step to compare.
    """
    if name in OF_WHOLE_STEPS and not subject.steps:
        return Measured(None, "no whole training step was found")
    values = METRICS[name].values(subject.report)
    if len(values) == 1:
        return values[0]
    if subject.device is None:
        return Measured(None, "no whole training step was found on any of its devices")
    return values[subject.report.devices.index(subject.device)]


def _difference(
    name: str, run: int, values: list[Measured], found: tuple[Noise | None, bool]
) -> Difference:
    (base, new), metric = values, METRICS[name]
    between, is_exact = found
    known = Difference(
        run, name, metric.unit, base.value, new.value, None, None, None, None, None, _why(values)
    )
    if base.value is None or new.value is None:
        return known
    change = new.value - base.value
    relative = change / base.value if base.value else None
    counts = _counts(change, relative) if is_exact else beyond(between, change, relative)
    good = (change > 0) == metric.higher_is_better
    judged = counts is not False and change != 0 and name not in _NEITHER
    return Difference(
        run,
        name,
        metric.unit,
        base.value,
        new.value,
        change,
        relative,
        (min(between.low, change), max(between.high, change)) if between else None,
        counts,
        good if judged else None,
    )


def _counts(change: float, relative: float | None) -> bool:
    """Tell of figures without noise whether they differ by more than nothing."""
    return change != 0 and (relative is None or abs(relative) >= SMALLEST)


def _why(values: list[Measured]) -> str | None:
    """Return why a difference is not known; None if it is."""
    unknown = [measured for measured in values if measured.value is None]
    if not unknown:
        return None
    reason = (unknown[0].reason or "the trace cannot tell").removesuffix(".")
    if len(unknown) == 2:
        return reason
    return f"{'new' if values[0].value is not None else 'base'}: {reason}"


def _noise(name: str, base: Subject, new: Subject) -> tuple[Noise | None, bool]:
    """Return what a change lies between, and whether the figures have no noise.

    Modelled steps are all alike, and what a compiler counts is exact.
    """
    if base.predicted and new.predicted:
        between = _in_model(base, new) if name == "step_ms" else None
        return between, between is None
    if name not in _OF_STEP:
        return None, METRICS[name].unit in ("B", "")
    ours, theirs = (_values(subject, name) for subject in (base, new))
    return (None if ours is None or theirs is None else noise(ours, theirs)), False


def _in_model(base: Subject, new: Subject) -> Noise | None:
    """Return what the difference of two predicted steps lies between, choice by choice."""
    ours, theirs = base.report.prediction, new.report.prediction
    if not ours or not theirs or ours.constants != theirs.constants:
        return None
    before = {corner.name: corner.step_ns for corner in ours.corners}
    changes = [_MS * (c.step_ns - before[c.name]) for c in theirs.corners if c.name in before]
    # How many steps a trace of the model holds says nothing: each is the same.
    return Noise(min(changes), max(changes), ENOUGH) if changes else None


def _values(subject: Subject, name: str) -> NDArray[np.float64] | None:
    """Return a metric of each step that is not far off; None where some do not have it."""
    path, factor = _OF_STEP[name]
    of = attrgetter(path)
    steps: list[Step] = list(subject.steps)
    found = [of(step) for step in steps]
    if path == "period_ns":
        found = [period for period in found if period is not None]  # the last has none
    if not found or None in found:
        return None
    return factor * np.array(found, dtype=np.float64)
