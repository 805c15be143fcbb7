"""Which range surrounds a moment: the innermost one of its thread.

Ranges of a thread mostly nest, but need not: start/end ranges cross. What counts is which started
last of those that have not ended::

    range 0    [0                       20)
    range 1       [2          8)
    range 2           [5             12)
    moment           4    6     9          15    25
    innermost        1    2     2           0    -1
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nsysoffload.trace.tables import UNSET

__all__ = ["innermost", "occurrences"]

Ints = NDArray[np.int64]

_FOREVER = np.iinfo(np.int64).max


def innermost(start_ns: Ints, end_ns: Ints, group: Ints, at_ns: Ints, at_group: Ints) -> Ints:
    """Return for each moment the position of the innermost range of its group, -1 without one.

    Parameters
    ----------
    start_ns, end_ns : int64 array, shape (n,)
        Half-open ranges; one whose end is UNSET never ends.
    group : int64 array, shape (n,)
        What each belongs to, such as a thread.
    at_ns, at_group : int64 array, shape (m,)
        The moments, and the group whose ranges may surround each.

    Returns
    -------
    int64 array, shape (m,)
        Of ranges that start together the one that ends first is the innermost, of equal ones the
        last.

    Notes
    -----
    Takes time in proportion to (n + m) log n, however ranges lie.
    """
    end = np.where(end_ns == UNSET, _FOREVER, end_ns)
    order = np.lexsort((~end, start_ns, group))
    group = group[order]
    before = _started(start_ns[order], group, at_ns, at_group)
    found = _last_above(end[order], before, at_ns)
    surrounds = found >= 0
    surrounds[surrounds] = group[found[surrounds]] == at_group[surrounds]
    result = np.full(len(at_ns), -1, dtype=np.int64)
    result[surrounds] = order[found[surrounds]]
    return result


def occurrences(codes: Ints) -> Ints:
    """Return for each row how many earlier rows have the same code.

    Examples
    --------
    >>> occurrences(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(codes, kind="stable")
    rows = np.arange(len(codes))
    opens = np.r_[True, np.diff(codes[order]) != 0][: len(codes)]
    count = np.empty(len(codes), dtype=np.int64)
    count[order] = rows - np.maximum.accumulate(np.where(opens, rows, 0))
    return count


def _started(start: Ints, group: Ints, at_ns: Ints, at_group: Ints) -> Ints:
    """Return how many ranges, sorted by group and start, come up to each moment of its group."""
    before = np.zeros(len(at_ns), dtype=np.int64)
    for first, last, of_group in _slices(group, at_group):
        started = np.searchsorted(start[first:last], at_ns[of_group], side="right")
        before[of_group] = first + started
    return before


def _slices(group: Ints, at_group: Ints) -> Iterator[tuple[int, int, Ints]]:
    """Yield where each group begins and ends, and the moments of that group."""
    order = np.argsort(at_group, kind="stable")
    groups = np.unique(group)
    bounds = [np.searchsorted(group, groups, side) for side in ("left", "right")]
    moments = [np.searchsorted(at_group[order], groups, side) for side in ("left", "right")]
    for first, last, since, until in zip(*bounds, *moments, strict=True):
        yield first, last, order[since:until]


def _last_above(values: Ints, before: Ints, limit: Ints) -> Ints:
    """Return per query the last position under ``before`` whose value is above its limit, or -1.

    Goes up in a tree of maxima until a block to the left holds such a value, and down in that
    block::

        maxima        9               level 2
                  9       5           level 1
                9   4   5   2         level 0, the values; before 4, above 6: 2 and 5 are not, the
                                      block to the left of theirs is, and in it the 9
    """
    found = np.full(len(before), -1, dtype=np.int64)
    tree = _maxima(values)
    asking = np.flatnonzero(before)
    bound = before[asking]
    hits = []
    for maxima in tree:
        block = bound - 1
        hit = (bound & 1 == 1) & (maxima[block] > limit[asking])
        hits.append((asking[hit], block[hit]))
        above = ~hit & (bound > 1)
        asking, bound = asking[above], bound[above] >> 1
    query, block = hits.pop()
    for maxima, (more, at) in zip(tree[-2::-1], hits[::-1], strict=True):
        block = 2 * block + 1
        block -= maxima[block] <= limit[query]
        query, block = np.r_[query, more], np.r_[block, at]
    found[query] = block
    return found


def _maxima(values: Ints) -> list[Ints]:
    """Return the values, the maxima of pairs of them, of pairs of those, up to a single one."""
    tree = [values]
    while len(tree[-1]) > 1:
        below = tree[-1]
        if len(below) % 2:
            below = tree[-1] = np.r_[below, np.iinfo(np.int64).min]
        tree.append(np.maximum(below[::2], below[1::2]))
    return tree
