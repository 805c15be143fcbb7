"""Which placements to compile: few of many, by what those compiled so far have shown.

Each round estimates all placements and compiles those that look fastest if one is a little
optimistic about what is not known, until none is left that may beat the fastest one that fits.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nsysoffload.planning.estimate import estimates
from nsysoffload.planning.model import Limits
from nsysoffload.planning.space import Space
from nsysoffload.trace.prediction import Prediction

__all__ = ["AT_ONCE", "search"]

AT_ONCE = 2
"""Placements of a round; fixed, so that a plan does not hang on the machine that makes it."""

Compile = Callable[[Sequence[str]], Mapping[str, Prediction]]
"""Policies to the predictions of those that can be compiled."""


def search(
    space: Space,
    limits: Limits,
    compiled: Compile,
    fixed: Mapping[str, Prediction],
    compiles: int,
) -> dict[str, Prediction]:
    """Compile promising placements.

    Parameters
    ----------
    space : Space
        All placements.
    limits : Limits
        Memory that a step may take.
    compiled : callable
        Compiles some.
    fixed : mapping of str to Prediction
        What is known already, by policy: ``remat`` at least.
    compiles : int
        How many placements to compile at most.

    Returns
    -------
    dict of str to Prediction
        By policy, those that could be compiled, in the order in which they were tried.
    """
    rows = {0: fixed["remat"]}
    every = _row_of_all(space)
    if every is not None and "offload" in fixed:
        rows[every] = fixed["offload"]
    found: dict[str, Prediction] = {}
    tried = set(rows)
    left = compiles
    while left > 0:
        best_ns = _fastest([*fixed.values(), *found.values()], limits)
        chosen = _promising(space, limits, rows, fixed.get("offload"), tried, best_ns)
        chosen = chosen[: min(AT_ONCE, left)]
        if not chosen:
            break
        policies = {space.policy(row): row for row in chosen}
        made = compiled(list(policies))
        found |= made
        rows |= {policies[policy]: prediction for policy, prediction in made.items()}
        tried.update(chosen)
        left -= len(chosen)
    return found


def _row_of_all(space: Space) -> int | None:
    """Return the placement that is policy ``offload``, if all of the model's names are here."""
    rows = np.flatnonzero(space.offloaded.all(axis=1))
    return int(rows[0]) if space.is_whole else None


def _fastest(predictions: Sequence[Prediction], limits: Limits) -> float:
    return min((p.step.expected_ns for p in predictions if limits.admit(p)), default=np.inf)


def _promising(
    space: Space,
    limits: Limits,
    rows: Mapping[int, Prediction],
    offloading: Prediction | None,
    tried: set[int],
    best_ns: float,
) -> list[int]:
    """Return placements that may fit and be faster than the best so far, most promising first.

    Where nothing fits yet, and nothing seems to, they are those that break the limits least.
    """
    figures = estimates(space, rows, offloading)
    memory = rows[0].memory
    host = (space.host_bytes + (memory.host_bytes if memory else 0)) / limits.host_bytes
    fits = np.maximum(figures.device.optimistic / limits.device_bytes, host) <= 1
    new = np.ones(len(space), bool)
    new[list(tried)] = False
    if not fits.any() and best_ns == np.inf:
        least = int(np.argmin(np.maximum(figures.device.mean / limits.device_bytes, host)))
        return [least] if new[least] else []
    order = np.argsort(figures.step.optimistic, kind="stable")
    may_win = new & fits & (figures.step.optimistic < best_ns)
    return [int(row) for row in order[may_win[order]][:AT_ONCE]]
