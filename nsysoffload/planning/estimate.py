"""What placements probably cost that were not compiled, learnt from those that were.

To begin with, a name that is found saves time in proportion to the operations that make it, and one
that is offloaded costs the share of its copies that stays exposed. What compiled programs show
beyond that is put down to their names, each in its place: a linear model whose weights are unknown
in proportion to what a name is worth, so that the posterior says how far to trust each estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsysoffload.planning.space import Space
from nsysoffload.trace.prediction import Prediction

__all__ = ["Estimate", "Estimates", "estimates"]

Numbers = NDArray[np.floating[Any]]

_NOISE = (
    0.01  # of the step, and of what the names take: how far from a sum of its parts a program is
)
_EXPOSED = 0.5  # share of the copies, until a program that offloads has shown its own
_UNSURE_BYTES = 0.05  # of a name's bytes


@dataclass(frozen=True)
class Estimate:
    """A figure of every placement, and its standard deviation."""

    mean: Numbers
    deviation: Numbers

    @property
    def optimistic(self) -> Numbers:
        """As low as it may well be."""
        return self.mean - self.deviation


@dataclass(frozen=True)
class Estimates:
    """Time of a step in nanoseconds, and bytes on the device."""

    step: Estimate
    device: Estimate


def estimates(
    space: Space, runs: Mapping[int, Prediction], offloading: Prediction | None = None
) -> Estimates:
    """Estimate all placements.

    Parameters
    ----------
    space : Space
        The placements.
    runs : mapping of int to Prediction
        Compiled ones, by their row; row 0, policy ``remat``, has to be among them.
    offloading : Prediction, optional
        A program that offloads other names than the space has, for what its copies show.
    """
    rows = np.array(list(runs))
    features = np.column_stack([space.kept, space.offloaded]).astype(float)
    step_ns = np.array([made.step.expected_ns for made in runs.values()], float)
    device = np.array([made.memory.device_bytes if made.memory else 0 for made in runs.values()])
    base = runs[0]
    flop_ns = base.step.expected_ns / (space.model_flops + space.recompute_flops[0])
    link_ns = 1 / _rate(base, "h2d") + 1 / _rate(base, "d2h")  # of a byte, out and back
    share = _exposed_share([*runs.values(), *([offloading] if offloading else [])], link_ns)
    saved = flop_ns * (space.recompute_flops[0] - space.recompute_flops)
    guess = base.step.expected_ns - saved + share * link_ns * space.host_bytes
    worth = flop_ns * space.name_flops + link_ns * space.name_bytes / 2
    sizes = np.tile(_UNSURE_BYTES * space.name_bytes, 2)
    return Estimates(
        step=_learnt(
            features, np.tile(worth, 2), guess, (rows, step_ns), _NOISE * base.step.expected_ns
        ),
        device=_learnt(
            features,
            np.asarray(sizes, float),
            space.device_bytes + float(device[list(runs).index(0)]),
            (rows, device.astype(float)),
            _NOISE * float(space.name_bytes.sum()),
        ),
    )


def _rate(prediction: Prediction, name: str) -> float:
    """Return a rate of the host link in bytes per nanosecond, which is decimal GB/s."""
    return next(c.expected for c in prediction.constants if c.name == name)


def _exposed_share(runs: list[Prediction], link_ns: float) -> float:
    """Return which share of their copies' time compiled programs leave exposed, all together."""
    moved = [made for made in runs if made.memory and made.memory.host_bytes]
    exposed = sum(m.corners[0].h2d_exposed_ns + m.corners[0].d2h_exposed_ns for m in moved)
    taken = link_ns * sum(m.memory.host_bytes for m in moved if m.memory)
    return min(exposed / taken, 1.0) if taken else _EXPOSED


def _learnt(
    features: Numbers,
    deviation: Numbers,
    guess: Numbers,
    seen: tuple[NDArray[np.int64], Numbers],
    noise: float,
) -> Estimate:
    """Correct a guess by what was seen in some rows: linear regression with Gaussian weights."""
    rows, values = seen
    scaled = features * deviation
    at = scaled[rows]
    covariance = at @ at.T + noise**2 * np.eye(len(rows))
    to_rows = scaled @ at.T
    mean = guess + to_rows @ np.linalg.solve(covariance, values - guess[rows])
    known = (to_rows * np.linalg.solve(covariance, to_rows.T).T).sum(axis=1)
    variance = np.maximum((scaled**2).sum(axis=1) - known, 0)
    return Estimate(mean, np.sqrt(variance))
