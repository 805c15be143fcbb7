"""The step time of two runs: by how much it differs, and whether that is a difference."""

from dataclasses import dataclass

import numpy as np

from nsysoffload.comparison.model import StepChange
from nsysoffload.comparison.noise import SMALLEST, beyond, noise
from nsysoffload.comparison.ranking import Order, ranking
from nsysoffload.comparison.runs import Subject

__all__ = ["Judged", "judged", "scale"]

_OUTCOMES = {
    Order.FASTER: "better",
    Order.SLOWER: "worse",
    Order.SAME: "no_difference",
    Order.CANNOT_TELL: "cannot_tell",
}


@dataclass(frozen=True)
class Judged:
    """A change of the step time, what comes out of it, and why where it cannot be told."""

    change: StepChange | None
    outcome: str
    why: str | None = None


def scale(base: Subject, new: Subject) -> float:
    """Return what makes times of the new run those of steps as large as the base's.

    It is 1 for steps of one size; else times per token are compared.
    """
    ours, theirs = base.workload, new.workload
    return ours.tokens / theirs.tokens if ours and theirs else 1.0


def judged(base: Subject, new: Subject) -> Judged:
    """Judge the step times of two runs that can be compared.

    Parameters
    ----------
    base, new : Subject
        The runs.
    """
    for subject in (base, new):
        if not subject.step_ns:
            why = f"no whole training step was found in {subject.spoken}"
            return Judged(None, "cannot_tell", why)
    ours, theirs = base.report.prediction, new.report.prediction
    if ours and theirs and ours.constants != theirs.constants:
        why = "the model's constants are others, so its ranges have no choice in common"
        return Judged(_change(base, new, None, None), "cannot_tell", why)
    if ours and theirs:
        found = ranking(ours, theirs, scale(base, new))
        change = _change(base, new, (found.low, found.high), "model")
        if abs(found.expected) < SMALLEST and found.order is not Order.CANNOT_TELL:
            return Judged(change, "no_difference")
        flips = "the model's range turns the ranking around"
        is_open = found.order is Order.CANNOT_TELL
        return Judged(change, _OUTCOMES[found.order], flips if is_open else None)
    if base.predicted:
        why = "how the runs were predicted is not known, and so neither is the model's range"
        return Judged(_change(base, new, None, None), "cannot_tell", why)
    return _measured(base, new)


def _measured(base: Subject, new: Subject) -> Judged:
    """Hold the difference against the spread of the steps."""
    durations = [
        factor * np.array([step.duration_ns for step in subject.steps], dtype=np.float64)
        for subject, factor in ((base, 1.0), (new, scale(base, new)))
    ]
    found = noise(*durations)
    if found is None:
        few = base if len(base.steps) < 2 else new
        one = f"{few.spoken} has a single step to compare, which shows no spread"
        why = f"{one}; record five or more"
        return Judged(_change(base, new, None, None), "cannot_tell", why)
    assert base.step_ns
    between = (found.low / base.step_ns, found.high / base.step_ns)
    change = _change(base, new, between, "steps")
    if not beyond(found, change.relative * base.step_ns, change.relative):
        return Judged(change, "no_difference")
    return Judged(change, "worse" if change.relative > 0 else "better")


def _change(
    base: Subject, new: Subject, between: tuple[float, float] | None, noise_from: str | None
) -> StepChange:
    assert base.step_ns and new.step_ns
    factor = scale(base, new)
    relative = factor * new.step_ns / base.step_ns - 1
    low, high = (min(between[0], relative), max(between[1], relative)) if between else (None, None)
    return StepChange(
        base.step_ns, new.step_ns, relative, low, high, noise_from, per_token=factor != 1
    )
