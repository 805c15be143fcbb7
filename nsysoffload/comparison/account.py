"""From the base's step to the new one's, part by part, so that the parts add up.

Medians of parts do not add up to the median of their sum, so the account is of two real steps: the
median step of each run, whose compute and lost time make up its duration to the nanosecond::

    step     = recompute + contention + compute + stall + collectives + other
               |------- compute kernels --------|  |------ lost time -------|
"""

from collections.abc import Mapping

from nsysoffload.comparison.model import Account, Part
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.model import Step

__all__ = ["PARTS", "account"]

PARTS = ("recompute", "contention", "compute", "stall", "collectives", "other")
"""The parts, in the order in which they are told."""


def account(base: Subject, new: Subject) -> Account | None:
    """Explain the difference of two steps; None where a run has none.

    Parameters
    ----------
    base, new : Subject
        Runs whose steps do the same work.
    """
    ours, theirs = _median(base), _median(new)
    if ours is None or theirs is None:
        return None
    named = ours.recompute_ns is not None and theirs.recompute_ns is not None
    before, after = (
        _parts(step, _contention_ns(subject), named=named)
        for subject, step in ((base, ours), (new, theirs))
    )
    return Account(
        base_step=ours.index,
        new_step=theirs.index,
        base_ns=ours.duration_ns,
        new_ns=theirs.duration_ns,
        parts=tuple(
            Part(name, before[name], after[name], after[name] - before[name])
            for name in PARTS
            if name in before
        ),
    )


def _median(subject: Subject) -> Step | None:
    device = subject.device
    if device is None:
        return None
    return next((step for step in device.steps if step.index == device.median_step), None)


def _contention_ns(subject: Subject) -> int:
    """Return by how much kernels of a step ran longer under copies, as far as that is known."""
    device = subject.device
    rows = [row for row in subject.report.contention if device and row.device == device.id]
    return sum(row.excess_ns_per_step for row in rows)


def _parts(step: Step, contention_ns: int, *, named: bool) -> Mapping[str, int]:
    """Divide a step; recompute is known by the names of XLA's operations, in both runs or none."""
    recompute_ns = (step.recompute_ns or 0) if named else 0
    rest_ns = step.compute_busy_ns - recompute_ns
    slowed_ns = min(contention_ns, rest_ns)
    collectives_ns = step.lost.get("collective_only", 0)
    parts = {
        "contention": slowed_ns,
        "compute": rest_ns - slowed_ns,
        "stall": step.stall_ns,
        "collectives": collectives_ns,
        "other": step.lost_ns - step.stall_ns - collectives_ns,
    }
    return {"recompute": recompute_ns, **parts} if named else parts
