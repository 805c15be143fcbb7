"""Rows that are not believed: dropped, and counted in a warning.

CUPTI gives times of 0 when it could not collect any; rows of another clock lie far away or before
the call that made them. A row like that must not move a window or become hidden time.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.calls import CallIndex
from nsysoffload.trace.tables import NO_TIME, UNSET, TraceWarning

__all__ = ["believed", "believed_sizes"]

MAX_BEFORE_CALL_NS = 1_000_000
MAX_FROM_MEDIAN_NS = 24 * 3600 * 10**9
MAX_COPY_BYTES = 2**40  # more than any GPU's memory
_LARGEST_NS = 2**61  # beyond it differences of times could overflow; epoch times are below it

_REASONS = (
    "without a start or end",
    "with both times 0",
    "that end before they start",
    "without a device",
    "more than 24 h from the median row",
    "that start more than 1 ms before the API call that made them",
)


def believed(
    frames: Mapping[str, pd.DataFrame], calls: pd.DataFrame, index: CallIndex
) -> tuple[dict[str, pd.DataFrame], list[TraceWarning]]:
    """Leave out the rows of GPU tables that cannot be true.

    Parameters
    ----------
    frames : mapping of DataFrame
        GPU tables of a trace by name, with ``call`` (position in the index's keys, or -1).
    calls : DataFrame
        Table `CALLS`.
    index : CallIndex
        The calls by process and correlation id.

    Returns
    -------
    frames : dict of DataFrame
        The tables without those rows.
    warnings : list of TraceWarning
        At most one, with the number of rows per reason.
    """
    flaws = {name: _flaws(name, frame) for name, frame in frames.items()}
    starts = [frame["start_ns"].to_numpy()[flaws[name] < 0] for name, frame in frames.items()]
    joined = np.concatenate(starts) if starts else np.empty(0, dtype=np.int64)
    if len(joined):
        middle = int(np.partition(joined, len(joined) // 2)[len(joined) // 2])
        for name, frame in frames.items():
            _mark(flaws[name], _far(frame, middle), 4)
            _mark(flaws[name], _before_call(frame, calls, index), 5)
    counts = sum((np.bincount(f[f >= 0], minlength=len(_REASONS)) for f in flaws.values()), start=0)
    kept = {
        name: frame if (flaws[name] < 0).all() else frame[flaws[name] < 0]
        for name, frame in frames.items()
    }
    return kept, _warnings(np.atleast_1d(counts))


def believed_sizes(copies: pd.DataFrame) -> tuple[pd.DataFrame, list[TraceWarning]]:
    """Take sizes that cannot be true, below 0 or above 1 TiB, for unknown.

    Parameters
    ----------
    copies : DataFrame
        Table `COPIES`.

    Returns
    -------
    copies : DataFrame
        The table with such ``size_bytes`` UNSET.
    warnings : list of TraceWarning
        At most one, with the number of such copies.
    """
    size = copies["size_bytes"].to_numpy()
    wrong = (size != UNSET) & ((size < 0) | (size > MAX_COPY_BYTES))
    if not wrong.any():
        return copies, []
    message = f"{int(wrong.sum()):,} copies have sizes below 0 or above 1 TiB, taken as unknown."
    warning = TraceWarning("sizes_not_believed", message)
    return copies.assign(size_bytes=np.where(wrong, UNSET, size)), [warning]


def _flaws(name: str, frame: pd.DataFrame) -> NDArray[np.int8]:
    """Return per row the index of the first reason not to believe it, -1 for none."""
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    flaw = np.full(len(frame), -1, dtype=np.int8)
    _mark(flaw, (start == NO_TIME) | (end == NO_TIME), 0)
    _mark(flaw, (start == 0) & (end == 0), 1)
    _mark(flaw, end < start, 2)
    if name != "graph_spans":  # a graph that starts with a host node has no device of its own
        _mark(flaw, frame["device"].to_numpy() == UNSET, 3)
    _mark(flaw, (np.abs(start) > _LARGEST_NS) | (np.abs(end) > _LARGEST_NS), 4)
    return flaw


def _mark(flaw: NDArray[np.int8], where: NDArray[np.bool_], reason: int) -> None:
    if where.any():
        flaw[where & (flaw < 0)] = reason


def _far(frame: pd.DataFrame, middle: int) -> NDArray[np.bool_]:
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    return (start < middle - MAX_FROM_MEDIAN_NS) | (end > middle + MAX_FROM_MEDIAN_NS)


def _before_call(frame: pd.DataFrame, calls: pd.DataFrame, index: CallIndex) -> NDArray[np.bool_]:
    if len(index.keys) == 0:
        return np.zeros(len(frame), dtype=bool)
    called = calls["start_ns"].to_numpy()[index.first]
    # A call without a believable time says nothing about its rows.
    called = np.where((called < -_LARGEST_NS) | (called > _LARGEST_NS), -_LARGEST_NS, called)
    at = frame["call"].to_numpy()
    before: NDArray[np.bool_] = frame["start_ns"].to_numpy() < called[at] - MAX_BEFORE_CALL_NS
    return before & (at >= 0)


def _warnings(counts: NDArray[np.int64]) -> list[TraceWarning]:
    if not counts.any():
        return []
    parts = [f"{n:,} {reason}" for n, reason in zip(counts, _REASONS, strict=False) if n]
    total = int(counts.sum())
    verb = "row is" if total == 1 else "rows are"
    message = f"{total:,} GPU {verb} not believed and left out: {', '.join(parts)}."
    return [TraceWarning("rows_not_believed", message)]
