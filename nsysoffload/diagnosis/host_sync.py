"""Cause: the host waits for the GPU, which then runs dry until the next launch.

Evidence: a synchronising call, and a kernel that was launched only after the GPU had gone idle.
Owns: the gap under the call, where no transfer runs. Where one runs, the transfer is what is waited
for, and the call is a remark.
"""

import re
from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import (
    covered_ns,
    difference,
    intersection,
    length_ns,
    spans_of,
    union,
)

__all__ = ["claim"]

_SYNC = re.compile(r"cu(?:da)?(?:Stream|Event|Ctx|Device|Thread)Synchronize(?:_ptsz)?")


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the gaps under synchronising calls, and what all such calls waited for."""
    calls = m.called(_SYNC)
    waiting = intersection(union(spans_of(calls)), union(m.steps))
    if not len(waiting):
        return
    spans = intersection(m.idle_in(m.late_gaps), waiting)
    working = union(m.compute, m.collective)
    under_copies = intersection(waiting, m.moving)
    rest = difference(waiting, m.moving)
    evidence = {
        "calls": int((covered_ns(spans_of(calls), union(m.steps)) > 0).sum()),
        "sync_ns": length_ns(waiting),
        "waiting_for_copies_ns": length_ns(under_copies),
        "waiting_for_compute_ns": length_ns(intersection(rest, working)),
        "waiting_for_nothing_seen_ns": length_ns(difference(rest, working)),
    }
    yield Claim("host_sync", spans, evidence=evidence)
