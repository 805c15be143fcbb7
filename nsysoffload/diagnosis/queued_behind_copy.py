"""Cause: a copy, issued in time, queued behind copies of its direction on another stream.

Evidence: it was ready long before it started, and in between its direction was busy elsewhere.
Owns: the stall, if that wait is most of it.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.diagnosis.queueing import held_up

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls whose copy queued behind a burst of its own direction."""
    yield from m.of_stalls(
        "queued_behind_copy",
        held_up(m, same_stream=False),
        lambda rows: {"queue_ns": int(m.queue_ns[m.blocker[rows]].sum())},
    )
