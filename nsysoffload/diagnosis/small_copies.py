"""Cause: many small copies, each with its own call; the link idles between them.

Evidence: a run of copies without a kernel start between them, whose median size is below 64 KiB and
whose pauses add up to more than the copies. Owns: the run, pauses included.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import intervals, union
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["MAX_PAUSE_NS", "SMALL_BYTES", "claim"]

SMALL_BYTES = 64 * 1024
MAX_PAUSE_NS = 1_000_000  # a call takes microseconds; beyond it something else held them up


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield, per direction, the runs of small copies."""
    found: dict[int, list[np.ndarray]] = {}
    for rows in m.runs(longest_pause_ns=MAX_PAUSE_NS):
        start, end = m.spans[rows].T
        copying = int(m.length_ns[rows].sum())
        if 0 <= np.median(m.size_bytes[rows]) < SMALL_BYTES and end.max() - start[0] > 2 * copying:
            found.setdefault(int(m.way[rows[0]]), []).append(rows)
    run_of = np.full(len(m.spans), -1)
    for way, runs in found.items():
        for number, rows in enumerate(runs):
            run_of[rows] = number
        spans = [(m.spans[rows[0], 0], m.spans[rows, 1].max()) for rows in runs]
        held = (m.way[m.blocker] == way) & (run_of[m.blocker] >= 0)
        rows = np.concatenate(runs)
        start, end = np.array(spans, dtype=np.int64).T
        yield Claim(
            "small_copies",
            union(intervals(start, end), m.stall_spans[held]),
            DIRECTIONS[way],
            evidence={
                "runs": len(runs),
                "copies": len(rows),
                "median_bytes": int(np.median(m.size_bytes[rows])),
                "copy_ns": int(m.length_ns[rows].sum()),
                "pause_ns": int((end - start).sum() - m.length_ns[rows].sum()),
                "copy_row_ids": m.row_ids(rows[:10]),
            },
        )
