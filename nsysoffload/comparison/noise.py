"""Whether two runs differ by more than their own steps do.

The steps of each run are resampled, with replacement and as many as there are: the difference of
the medians of all such samples is the interval in which the true difference lies. Of a median
that distribution is known without drawing a single sample: the r-th smallest of n draws is at most
the k-th smallest step if r draws or more are, and how many are is binomial with k / n. Steps far
off are left out: a median over all steps does not see them, one of few draws would.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RULE", "SMALLEST", "Noise", "beyond", "noise"]

SMALLEST = 0.005
"""Share of the base below which a change is none: recordings of one program differ by as much."""

TAIL = 0.025  # on either side
ENOUGH = 4  # steps: of fewer, chance puts all of one run on one side of all of the other too often
SMALLEST_OF_FEW = 0.05

RULE = (
    f"A change counts where 0 lies outside the {1 - 2 * TAIL:.0%} interval of the difference of the"
    " medians (bootstrap over the steps, without those far off) and it is at least"
    f" {SMALLEST:.1%} of the base; with fewer than {ENOUGH} steps in a run it has to be"
    f" {SMALLEST_OF_FEW:.0%}, and a single step cannot tell."
).replace("%", " %")
"""The rule in words."""

_NEGLIGIBLE = 1e-9

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """What the difference of two medians lies between, and the steps of the run that has fewer."""

    low: float
    high: float
    steps: int


def noise(base: _Floats, new: _Floats) -> Noise | None:
    """Return the interval of the difference of the medians, new - base.

    Parameters
    ----------
    base, new : float array, shape (n,) and (m,)
        A value per step.

    Returns
    -------
    Noise or None
        None where a run has a single step, or none.
    """
    steps = min(len(base), len(new))
    if steps < 2:
        return None
    (ours, our_part), (theirs, their_part) = _medians(base), _medians(new)
    differences = np.subtract.outer(theirs, ours).ravel()
    order = np.argsort(differences)
    part = np.multiply.outer(their_part, our_part).ravel()[order]
    below, above = np.cumsum(part), np.cumsum(part[::-1])
    low = differences[order][np.searchsorted(below, TAIL)]
    high = differences[order][::-1][np.searchsorted(above, TAIL)]
    return Noise(float(low), float(high), steps)


def _medians(values: _Floats) -> tuple[_Floats, _Floats]:
    """Return the medians of all resamples, and which part of them has each.

    An even number of draws has two in the middle, which count by half each.
    """
    count = len(values)
    middle = (_at_most((count + 1) // 2, count) + _at_most(count // 2 + 1, count)) / 2
    part = np.diff(middle, prepend=0.0)
    telling = part > _NEGLIGIBLE
    return np.sort(values)[telling], part[telling] / part[telling].sum()


def _at_most(rank: int, count: int) -> _Floats:
    """Return the probability that so many draws or more are among the k smallest, k from 1."""
    successes = np.arange(rank, count + 1)
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    ways = logarithms[count] - logarithms[successes] - logarithms[count - successes]
    share = np.arange(1, count)[:, None] / count
    terms = ways + successes * np.log(share) + (count - successes) * np.log1p(-share)
    return np.append(np.exp(terms).sum(axis=1), 1.0)


def beyond(found: Noise | None, change: float, relative: float | None) -> bool | None:
    """Tell whether a change is one, see `RULE`; None where that is not known.

    Parameters
    ----------
    found : Noise or None
        Interval of the change.
    change : float
        Difference of the medians over all steps.
    relative : float or None
        It over the base; None where the base is 0, of which every change is a large one.
    """
    if found is None:
        return None
    if found.low <= 0 <= found.high or change == 0:
        return False
    least = SMALLEST if found.steps >= ENOUGH else SMALLEST_OF_FEW
    return relative is None or abs(relative) >= least
