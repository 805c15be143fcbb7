"""Cause: the host stages a large transfer in chunks; each is fast, and the link idles in between.

Evidence: a run of four or more equal copies (the last may be smaller) at link speed, with pauses
longer than the copies. Owns: the pauses in which the GPU does nothing.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.diagnosis.small_copies import SMALL_BYTES
from nsysoffload.timeline.intervals import intervals, union
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["LINK_SPEED", "MIN_COPIES", "claim", "staged_runs"]

MIN_COPIES = 4
LINK_SPEED = 0.75  # of the best lone copy, or of the low end of the platform's range


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield, per direction, the pauses between equal copies at link speed."""
    found: dict[int, list[np.ndarray]] = {}
    for rows in staged_runs(m):
        found.setdefault(int(m.way[rows[0]]), []).append(rows)
    for way, runs in found.items():
        pauses = [
            intervals(
                m.spans[rows[:-1], 1], np.maximum(m.spans[rows[1:], 0], m.spans[rows[:-1], 1])
            )
            for rows in runs
        ]
        rows = np.concatenate(runs)
        yield Claim(
            "staging_gaps",
            m.idle_in(union(*pauses)),
            DIRECTIONS[way],
            evidence={
                "runs": len(runs),
                "copies": len(rows),
                "bytes": int(m.size_bytes[rows].sum()),
                "row_gbps": _gbps(m, rows),
                "copy_ns": int(m.length_ns[rows].sum()),
                "copy_row_ids": m.row_ids(rows[:10]),
            },
        )


def staged_runs(m: Measurements) -> Iterator[np.ndarray]:
    """Yield the runs of copies that the host stages."""
    for run in m.runs():
        for rows in _equal(m, run):
            if _paused(m, rows) and _at_link_speed(m, rows, int(m.way[rows[0]])):
                yield rows


def _equal(m: Measurements, run: np.ndarray) -> Iterator[np.ndarray]:
    """Yield four or more copies of one size, with the smaller one that may end them."""
    size = m.size_bytes[run]
    cuts = np.flatnonzero(np.r_[True, size[1:] != size[:-1], True])
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        if last - first >= MIN_COPIES and size[first] >= SMALL_BYTES:
            rest = last < len(run) and size[last] < size[first]
            yield run[first : last + rest]


def _paused(m: Measurements, rows: np.ndarray) -> bool:
    pause = m.spans[rows[1:], 0] - m.spans[rows[:-1], 1]
    return bool(np.median(pause) > np.median(m.length_ns[rows]))


def _at_link_speed(m: Measurements, rows: np.ndarray, way: int) -> bool:
    """Tell whether the copies are as fast as the link shows itself elsewhere."""
    alone = m.lone & (m.way == way) & (m.size_bytes >= SMALL_BYTES) & (m.length_ns > 0)
    reached = [float((m.size_bytes[alone] / m.length_ns[alone]).max())] if alone.any() else []
    if m.link:
        reached.append((m.link.h2d if way == 0 else m.link.d2h).low_gbps)
    return any(_gbps(m, rows) >= LINK_SPEED * gbps for gbps in reached)


def _gbps(m: Measurements, rows: np.ndarray) -> float:
    return float(m.size_bytes[rows].sum() / m.length_ns[rows].sum())
