"""Whether the clocks of a device can be trusted: a stream runs one thing after another.

Rows of one stream that contain each other, or overlap by more than programmatic dependent launch
explains, have times that do not fit together, and no overlap can be computed from them. Nodes of a
CUDA graph are left out: their branches may run side by side under one stream id.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.intervals import grouped_length_ns
from nsysoffload.trace.tables import UNSET

__all__ = ["doubt"]

MAX_OVERLAP = 0.01  # of a stream's busy time; dependent launches overlap a little
_PAIRS_AT_ONCE = 2_000_000


def doubt(tables: list[pd.DataFrame]) -> str | None:
    """Say why the clocks of one device's rows are doubtful, or None.

    Parameters
    ----------
    tables : list of DataFrame
        Rows of one device that run in stream order: kernels, copies, memsets.
    """
    start, end, *place = _rows(tables)
    if len(start) == 0:
        return None
    stream, streams = _streams(place)
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(stream[order], kind="stable")]
    stream, start, end = stream[order], start[order], end[order]
    if ((end[:-1] <= start[1:]) | (stream[:-1] != stream[1:])).all():
        return None
    busy = grouped_length_ns(start, end, stream, len(streams))
    total = _sums(end - start, stream, len(streams))
    for number in np.flatnonzero(total > busy):
        overlap = (total[number] - busy[number]) / busy[number]
        if overlap > MAX_OVERLAP:
            return (
                f"doubtful clocks: rows of stream {streams[number]} overlap each other by"
                f" {overlap:.1%} of its busy time"
            )
        of_stream = stream == number
        if _contains_two(start[of_stream], end[of_stream]):
            return f"doubtful clocks: a row of stream {streams[number]} contains two others"
    return None


def _rows(tables: list[pd.DataFrame]) -> list[NDArray[np.int64]]:
    """Columns of the rows that run in stream order."""
    columns = ("start_ns", "end_ns", "process", "context", "stream")
    parts = [
        _chosen([table[name].to_numpy() for name in (*columns, "graph_node")]) for table in tables
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _chosen(columns: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    start, end, *place, graph_node = columns
    chosen = (graph_node == UNSET) & (place[-1] != UNSET) & (end > start)
    columns = [start, end, *place]
    return columns if chosen.all() else [column[chosen] for column in columns]


def _streams(place: list[NDArray[np.int64]]) -> tuple[NDArray[np.integer[Any]], list[int]]:
    """Return a code per row for its stream, and the stream id of each code."""
    code = np.zeros(len(place[0]), dtype=np.int64)
    for column in place:
        if (column != column[0]).any():  # processes and contexts are mostly one
            part, distinct = pd.factorize(column)
            code, _ = pd.factorize(code * len(distinct) + part)
    first = np.zeros(int(code.max()) + 1, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    # 16-bit codes are sorted by radix, several times faster than wider ones.
    short = np.uint16 if len(first) < 1 << 16 else np.int64
    return code.astype(short), place[-1][first].tolist()


def _sums(
    values: NDArray[np.int64], group: NDArray[np.integer[Any]], groups: int
) -> NDArray[np.int64]:
    totals = np.zeros(groups, dtype=np.int64)
    np.add.at(totals, group, values)
    return totals


def _contains_two(start: NDArray[np.int64], end: NDArray[np.int64]) -> bool:
    """Tell whether one interval contains two or more others; sorted by start."""
    order = np.lexsort((-end, start))  # of two that start together the longer one comes first
    start, end = start[order], end[order]
    after = np.arange(1, len(start) + 1)
    inside = np.searchsorted(start, end, side="left") - after  # how many start within each row
    candidates = np.flatnonzero(inside >= 2)
    while len(candidates):
        pairs = np.cumsum(inside[candidates])
        some = candidates[: max(1, int(np.searchsorted(pairs, _PAIRS_AT_ONCE)))]
        candidates = candidates[len(some) :]
        count = inside[some]
        first = np.cumsum(count) - count
        within = np.repeat(some + 1 - first, count) + np.arange(count.sum())
        contained = end[within] <= np.repeat(end[some], count)
        if (np.add.reduceat(contained.astype(np.int64), first) >= 2).any():
            return True
    return False
