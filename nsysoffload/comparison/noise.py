"""Whether two runs differ by more than their own steps do.

The steps of a run are resampled, with replacement, and so are those of the other; the difference of
their medians, over and over, is the interval in which the true difference lies. Steps far off are
left out of this: a median over all steps does not see them, a resampled one of few steps would.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RULE", "SMALLEST", "Noise", "beyond", "noise"]

SMALLEST = 0.005
"""Share of the base below which a change is none: recordings of one program differ by as much."""

RESAMPLES = 2_000
CONFIDENCE = 0.95
ENOUGH = 4  # steps: of fewer, chance puts all of one run on one side of all of the other too often
SMALLEST_OF_FEW = 0.05

RULE = (
    f"A change counts where 0 lies outside the {CONFIDENCE:.0%} interval of the difference of the"
    f" medians ({RESAMPLES:,} bootstrap resamples of the steps, without those far off) and it is at"
    f" least {SMALLEST:.1%} of the base; with fewer than {ENOUGH} steps in a run it has to be"
    f" {SMALLEST_OF_FEW:.0%}, and a single step cannot tell."
).replace("%", " %")
"""The rule in words."""

_SEED = 0  # the same answer for the same runs
_CELLS = 2_000_000  # of one block of resamples

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
    generator = np.random.default_rng(_SEED)
    differences = _medians(new, generator) - _medians(base, generator)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(differences, [tail, 100 - tail])
    return Noise(float(low), float(high), steps)


def _medians(values: _Floats, generator: np.random.Generator) -> _Floats:
    """Return the median of each resample."""
    rows = max(1, _CELLS // len(values))
    blocks = [
        np.median(generator.choice(values, (min(rows, RESAMPLES - done), len(values))), axis=1)
        for done in range(0, RESAMPLES, rows)
    ]
    return np.concatenate(blocks)


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
