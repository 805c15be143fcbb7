"""Unions, covered lengths and differences of half-open intervals ``[start, end)``.

An interval set is an int64 array of shape ``(n, 2)``; a *union* is one whose intervals are sorted,
not empty and do not touch. Nothing here knows about GPUs. All functions are vectorised and cost
one sort at most.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "Intervals",
    "clip",
    "covered_ns",
    "difference",
    "empty",
    "grouped_length_ns",
    "grouped_union",
    "intersection",
    "intervals",
    "length_ns",
    "spans_of",
    "union",
]

Intervals = NDArray[np.int64]


def intervals(start: NDArray[np.int64], end: NDArray[np.int64]) -> Intervals:
    """Pair starts and ends into an int64 array of shape ``(n, 2)``."""
    return np.column_stack([start, end]).astype(np.int64, copy=False)


def spans_of(rows: pd.DataFrame) -> Intervals:
    """Return ``start_ns`` and ``end_ns`` of rows as intervals, in their order."""
    return intervals(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def empty() -> Intervals:
    """Return the set without intervals."""
    return np.empty((0, 2), dtype=np.int64)


def union(*sets: Intervals) -> Intervals:
    """Merge intervals that overlap or touch, over all sets, and drop empty ones.

    ::

        in    [0    5)      [10 12)
                 [3    8)
        out   [0       8)   [10 12)

    Parameters
    ----------
    *sets : int64 array, shape (n, 2)
        Intervals in any order.

    Returns
    -------
    int64 array, shape (m, 2)
        The union, sorted by start.

    Raises
    ------
    ValueError
        If an interval ends before it starts.
    """
    spans = sets[0] if len(sets) == 1 else np.concatenate([empty(), *sets])
    start, end = spans[:, 0], spans[:, 1]
    if (end < start).any():
        raise ValueError("an interval ends before it starts")
    if (end == start).any():
        start, end = start[end > start], end[end > start]
    if len(start) == 0:
        return empty()
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.r_[True, start[1:] > reach[:-1]]
    closes = np.r_[opens[1:], True]
    return np.column_stack([start[opens], reach[closes]])


def length_ns(spans: Intervals) -> int:
    """Sum of the intervals' lengths; of a union, the time it covers."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def covered_ns(spans: Intervals, cover: Intervals) -> NDArray[np.int64]:
    """How much of each interval a union covers.

    ::

        spans   [2         12)
        cover [0    6) [8     14)     covered: 2..6 and 8..12, 8 in all

    Parameters
    ----------
    spans : int64 array, shape (n, 2)
        Intervals in any order; they may overlap each other.
    cover : int64 array, shape (m, 2)
        A union.

    Returns
    -------
    int64 array, shape (n,)
        Covered length of each interval.
    """
    if len(cover) == 0 or len(spans) == 0:
        return np.zeros(len(spans), dtype=np.int64)
    before = np.r_[0, np.cumsum(cover[:, 1] - cover[:, 0])]
    start, end = (_covered_before(times, cover, before) for times in spans.T)
    return end - start


def _covered_before(
    times: NDArray[np.int64], cover: Intervals, before: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Length of the union before each time, from that before each of its intervals."""
    index = np.searchsorted(cover[:, 0], times, side="right")
    last = np.maximum(index - 1, 0)
    inside = np.minimum(times, cover[last, 1]) - cover[last, 0]
    return np.where(index == 0, 0, before[last] + inside)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Union of the time that both unions cover.

    ::

        a     [0      7)   [9  11)
        b         [5     10)
        out       [5  7)   [9 10)
    """
    if len(a) == 0 or len(b) == 0:
        return empty()
    # Each interval of `a` meets the run of intervals of `b` from `first` up to `last`.
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    last = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(last - first, 0)
    of_a = np.repeat(np.arange(len(a)), count)
    offset = np.arange(len(of_a)) - np.repeat(np.cumsum(count) - count, count)
    of_b = first[of_a] + offset
    start = np.maximum(a[of_a, 0], b[of_b, 0])
    return np.column_stack([start, np.minimum(a[of_a, 1], b[of_b, 1])])


def difference(a: Intervals, b: Intervals) -> Intervals:
    """Union of the time that `a` covers and `b` does not; both are unions.

    ::

        a     [0        10)
        b        [3  5)
        out   [0 3)  [5 10)
    """
    if len(a) == 0 or len(b) == 0:
        return a
    # A count that goes up where `a` starts and `b` ends, and down where `a` ends and `b` starts, is
    # 1 in `a` without `b` and less elsewhere: between the n-th way up and the n-th way down.
    start = np.sort(np.concatenate([a[:, 0], b[:, 1]]), kind="stable")
    end = np.sort(np.concatenate([a[:, 1], b[:, 0]]), kind="stable")
    keep = end > start
    return np.column_stack([start[keep], end[keep]])


def clip(spans: Intervals, start: int, end: int) -> Intervals:
    """Cut each interval to ``[start, end)``, keeping rows; what lies outside becomes empty."""
    return np.clip(spans, start, end)


def grouped_length_ns(
    start: NDArray[np.int64], end: NDArray[np.int64], group: NDArray[np.integer[Any]], groups: int
) -> NDArray[np.int64]:
    """Length of the union of each group's intervals.

    Parameters
    ----------
    start, end : int64 array, shape (n,)
        Intervals sorted by start.
    group : int array, shape (n,)
        Group of each interval, from 0 to ``groups - 1``.
    groups : int
        Number of groups.

    Returns
    -------
    int64 array, shape (groups,)
        Covered time of each group.
    """
    lengths = np.zeros(groups, dtype=np.int64)
    if len(start) == 0:
        return lengths
    # 16-bit keys are sorted by radix, several times faster than wider ones.
    order = np.argsort(group.astype(np.uint16) if groups < 1 << 16 else group, kind="stable")
    group = group[order]
    # One running maximum serves all groups when each lives in a stretch of time of its own.
    origin = start.min()
    stretch = int(end.max() - origin) + 1
    at_once = max(1, (1 << 62) // stretch)
    for first in range(0, groups, at_once):
        last = min(first + at_once, groups)
        bounds = np.searchsorted(group, np.arange(first, last + 1))
        some = slice(bounds[0], bounds[-1])
        shift = (group[some] - np.int64(first)) * stretch - origin
        begins, ends = start[order[some]] + shift, end[order[some]] + shift
        reach = np.maximum.accumulate(ends)
        np.maximum(begins[1:], reach[:-1], out=begins[1:])
        done = np.zeros(len(ends) + 1, dtype=np.int64)
        np.cumsum(np.maximum(ends - begins, 0), out=done[1:])
        lengths[first:last] = np.diff(done[bounds - bounds[0]])
    return lengths


def grouped_union(
    start: NDArray[np.int64], end: NDArray[np.int64], group: NDArray[np.integer[Any]]
) -> tuple[Intervals, NDArray[np.integer[Any]]]:
    """Union of the intervals of each group.

    Parameters
    ----------
    start, end : int64 array, shape (n,)
        Intervals in any order.
    group : int array, shape (n,)
        Group of each interval.

    Returns
    -------
    spans : int64 array, shape (m, 2)
        The unions, sorted by group, then start.
    group : int array, shape (m,)
        Group of each of them.
    """
    order = np.lexsort((start, group))
    order = order[end[order] > start[order]]
    start, end, group = start[order], end[order], group[order]
    if len(start) == 0:
        return empty(), group
    new = np.r_[True, group[1:] != group[:-1]]
    # Ends of a group lie above those of the groups before it, so that one maximum serves all.
    lift = np.cumsum(new) - 1
    reach = end.copy()
    stretch = int(end.max() - start.min()) + 1
    if stretch <= (1 << 62) // (int(lift[-1]) + 1):
        reach = np.maximum.accumulate(end - start.min() + lift * stretch)
        reach += start.min() - lift * stretch
    else:
        for first, last in zip(
            np.flatnonzero(new), [*np.flatnonzero(new)[1:], len(new)], strict=True
        ):
            reach[first:last] = np.maximum.accumulate(end[first:last])
    opens = new | np.r_[True, start[1:] > reach[:-1]]
    closes = np.r_[opens[1:], True]
    return np.column_stack([start[opens], reach[closes]]), group[opens]
