"""Cause: the host buffer is pageable, so the driver stages the copy and the call blocks.

Evidence: the host side of the copies, and how long their calls lasted. A row says so itself, in the
numbering of Nsight Systems (0 pageable, 1 pinned). Owns: the stalls that such copies end, and what
of their own time lies outside compute.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import union

__all__ = ["MIN_BLOCKED_SHARE", "claim"]

MIN_BLOCKED_SHARE = 0.9  # of the copy; a call that returns earlier did not wait for it


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield, per direction and operation, blocking copies from or to pageable memory."""
    pageable = (m.transfers["host"] == "pageable").to_numpy()
    blocking = pageable & (m.length_ns > 0) & (m.blocked_ns >= MIN_BLOCKED_SHARE * m.length_ns)
    if not blocking.any():
        return
    stalled = blocking[m.blocker]
    every = np.flatnonzero(blocking)
    for direction, op, rows in m.by_op(every, every):
        stalls = stalled & np.isin(m.blocker, rows)
        rows = rows[np.argsort(-m.length_ns[rows], kind="stable")]
        yield Claim(
            "pageable_memory",
            union(m.spans[rows], m.stall_spans[stalls]),
            direction,
            op,
            {
                "copies": len(rows),
                "blocked_ns": int(m.blocked_ns[rows].sum()),
                "copy_ns": int(m.length_ns[rows].sum()),
                "copy_row_ids": m.row_ids(rows[:10]),
            },
        )
