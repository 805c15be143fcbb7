"""Cause: both directions share one stream, so a copy waits for one that goes the other way.

Evidence: it was ready long before it started, and in between its stream was busy with the others.
Owns: the stall, if that wait is most of it.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.diagnosis.queueing import held_up

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls whose copy waited for the other direction on its own stream."""
    yield from m.of_stalls(
        "shared_copy_stream",
        held_up(m, same_stream=True),
        lambda rows: {"queue_ns": int(m.queue_ns[m.blocker[rows]].sum())},
    )
