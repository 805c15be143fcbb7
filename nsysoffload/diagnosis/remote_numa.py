"""Cause: host memory, or the thread that fills it, is on another socket than the GPU's.

Evidence: large pinned copies with nothing beside them, far below the low end of what the platform
reaches. Its cost is their excess over that end; it owns no time outside compute.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.diagnosis.staging_gaps import staged_runs
from nsysoffload.timeline.intervals import empty
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["BELOW", "MIN_BYTES", "claim"]

MIN_BYTES = 16 * 2**20
BELOW = 0.75  # of the low end


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield, per direction, the lone copies that are too slow for the platform."""
    if m.link is None:
        return
    large = m.lone & (m.transfers["host"] == "pinned").to_numpy() & (m.size_bytes >= MIN_BYTES)
    for staged in staged_runs(m):
        large[staged] = False  # the host fills and empties their buffer: no measure of the link
    for way, direction in enumerate(DIRECTIONS):
        low = (m.link.h2d if way == 0 else m.link.d2h).low_gbps
        rows = np.flatnonzero(large & (m.way == way) & (m.length_ns > 0))
        if not len(rows):
            continue
        gbps = m.size_bytes[rows] / m.length_ns[rows]
        # One fast copy shows that link and memory can do it: the slow ones have another reason.
        if gbps.max() >= BELOW * low:
            continue
        excess = m.length_ns[rows] - np.ceil(m.size_bytes[rows] / low).astype(np.int64)
        rows = rows[np.argsort(-excess, kind="stable")]
        evidence = {
            "copies": len(rows),
            "bytes": int(m.size_bytes[rows].sum()),
            "gbps": float(m.size_bytes[rows].sum() / m.length_ns[rows].sum()),
            "range_low_gbps": low,
            "link": m.link.name,
            "copy_row_ids": m.row_ids(rows[:10]),
        }
        yield Claim(
            "remote_numa",
            empty(),
            direction,
            evidence=evidence,
            excess_ns=int(excess.sum()),
            places=m.spans[rows[:10]],
        )
