"""Which of two predicted runs is faster, where the model can tell.

Both runs are timed with the same choices of constants, so that what is left open about the hardware
does not enter twice: they are compared choice by choice, and a ranking that turns around between
two choices is no ranking.
"""

from dataclasses import dataclass
from enum import StrEnum

from nsysoffload.trace.prediction import Prediction

__all__ = ["Order", "Ranking", "ranking"]


class Order(StrEnum):
    """Which of the two is faster, whatever the constants in their ranges."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Ranking:
    """A run against a base: ``order`` is the run's, changes are fractions of the base's step.

    ``low`` and ``high`` are the smallest and the largest change over all choices of constants,
    negative where the run is faster.
    """

    order: Order
    expected: float
    low: float
    high: float


def ranking(base: Prediction, run: Prediction, scale: float = 1.0) -> Ranking:
    """Rank a run against a base by the times of their steps.

    Parameters
    ----------
    base, run : Prediction
        Predictions for one target with the same constants.
    scale : float
        What to multiply the run's times by, where its steps are larger or smaller ones.

    Raises
    ------
    ValueError
        If they were not timed with the same choices of constants.
    """
    steps, bases = ({c.name: c.step_ns for c in p.corners} for p in (run, base))
    if steps.keys() != bases.keys() or run.constants != base.constants:
        raise ValueError("the runs were predicted with different constants")
    changes = {name: scale * steps[name] / bases[name] - 1 for name in steps}
    low, high = min(changes.values()), max(changes.values())
    if low == high == 0:
        order = Order.SAME
    elif high <= 0:
        order = Order.FASTER
    elif low >= 0:
        order = Order.SLOWER
    else:
        order = Order.CANNOT_TELL
    return Ranking(order, changes[base.corners[0].name], low, high)
