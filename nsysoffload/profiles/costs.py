"""Executions -> one cost for each instruction."""

from collections.abc import Mapping
from enum import StrEnum

import pandas as pd

from nsysoffload.profiles.instructions import Costed, Instructions, Role

__all__ = ["Copies", "costs"]

_COPIES = (Role.H2D, Role.D2H)


class Copies(StrEnum):
    """What a profile says of host copies.

    ``queued``: a copy takes as long as all copies of its direction in its loop's body, as they
    share one link, which the scheduler does not know. ``plain``: as long as it took. ``omit``:
    nothing, so that the scheduler takes its own guess, by which copies take longer than anything.
    """

    QUEUED = "queued"
    PLAIN = "plain"
    OMIT = "omit"


def costs(frame: pd.DataFrame, module: Instructions, copies: Copies) -> dict[str, float]:
    """Return what each instruction takes, in microseconds, by its name in the profile.

    That is the median over its executions. A collective counts as long as on the device where it
    was shortest: on the others it has waited for that one. What did not run is left out.

    Parameters
    ----------
    frame : DataFrame
        See `nsysoffload.profiles.executions.Executions`.
    module : Instructions
        What the names stand for.
    copies : Copies
        What to say of host copies.
    """
    roles = {costed.name: costed.role for costed in module.all}
    collective = frame["name"].map(roles) == Role.COLLECTIVE
    shortest = frame[collective].groupby(["name", "step", "occurrence"])["duration_ns"].min()
    typical = pd.concat(
        [
            frame[~collective].groupby("name")["duration_ns"].median(),
            shortest.groupby("name").median(),
        ]
    )
    found = {str(name): float(time) / 1_000 for name, time in typical.items()}
    queue = _queues(module, found)
    return {
        costed.name: _copy(costed, found, queue, copies)
        if costed.role in _COPIES
        else found[costed.name]
        for costed in module.all
        if costed.name in found and not (costed.role in _COPIES and copies is Copies.OMIT)
    }


def _copy(
    costed: Costed,
    found: Mapping[str, float],
    queue: Mapping[tuple[Role, str], float],
    copies: Copies,
) -> float:
    # Outside of loops there is no next iteration, to whose compute a copy could move.
    if copies is Copies.QUEUED and costed.loop:
        return queue[costed.role, costed.loop]
    return found[costed.name]


def _queues(module: Instructions, found: Mapping[str, float]) -> dict[tuple[Role, str], float]:
    """Time of all copies of a direction in the body of a loop."""
    queues: dict[tuple[Role, str], float] = {}
    for costed in module.all:
        if costed.role in _COPIES and costed.name in found:
            place = (costed.role, costed.loop)
            queues[place] = queues.get(place, 0.0) + found[costed.name]
    return queues
