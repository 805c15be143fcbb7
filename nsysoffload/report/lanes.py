"""Marks of the timeline: GPU rows, merged per pixel column where there are too many to draw."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.intervals import covered_ns, intervals, union

__all__ = ["COARSE_COLUMNS", "Lane", "Marks", "columns_per_lane", "lanes"]

COARSE_COLUMNS = 1_000
"""Columns of the whole window: about one per pixel of a page's width."""

_PAGE_MARKS = 20_000  # at some 35 bytes each they leave room for plotly.js in 3 MB
_LANE_MARKS = 4_000
_SEVERAL = -1
_NONE = np.empty(0, np.int64)

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Marks:
    """Marks of one lane, as columns sorted by ``start_ns``. int64 arrays of one length.

    A mark stands for ``rows`` GPU rows; ``busy_ns`` is the length of their union. For lanes of
    transfers ``size_bytes`` is their payload and ``hidden_ns`` the part of ``busy_ns`` under
    compute; for the other lanes both are empty. ``name`` indexes `Lane.names`; -1 is "several".
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    rows: NDArray[np.int64]
    busy_ns: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    hidden_ns: NDArray[np.int64]
    name: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of marks."""
        return len(self.start_ns)

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """Return the columns in the order of the fields."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Lane:
    """One lane of the timeline of one device: ``compute``, ``collectives``, ``h2d`` or ``d2h``.

    ``coarse`` has at most one mark per pixel column of the whole window, ``fine`` as many as the
    page can carry. ``exact`` says that every row is a mark of its own in ``fine``.
    """

    device: str
    name: str
    exact: bool
    coarse: Marks
    fine: Marks
    names: tuple[str, ...]


def columns_per_lane(lanes: int) -> int:
    """How many fine columns a lane may have, so that a page of so many lanes stays small.

    Examples
    --------
    >>> columns_per_lane(4), columns_per_lane(32), columns_per_lane(100_000)
    (4000, 625, 1)
    """
    return max(1, min(_LANE_MARKS, _PAGE_MARKS // max(lanes, 1)))


def lanes(
    device: str,
    kernels: pd.DataFrame,
    transfers: pd.DataFrame,
    window: tuple[int, int],
    fine_columns: int,
    coarse_columns: int,
    keep: NDArray[np.bool_],
) -> tuple[Lane, ...]:
    """Lanes of one device, with no more marks than the page can carry.

    A lane of at most `fine_columns` rows is exact: every row is a mark, and marks overlap where
    rows of different streams do. In other lanes each row is first cut to the time that no earlier
    row of the lane covers; then the pieces that start in one column become one mark::

        column   0         1         2         3
        stream 1 [0   5)        [15             31)
        stream 2    [3    8)          [22  26)[30   35)
        pieces   [0   5)[5 8)   [15             31)[31 35)
        marks    [0       8)    [15             31)[31 35)
        rows         2                  2            1

    So these marks don't overlap, their ``busy_ns`` add up to the union of their rows and their
    ``rows`` to the number of rows. A row that lies inside earlier ones counts to the mark before
    it. A merged mark reaches over the pauses between its rows; its ``busy_ns`` doesn't count them.
    The rows of `keep` take no part in this: each is a whole mark of its own, on top of the others.

    Parameters
    ----------
    device : str
        Device id of the lanes.
    kernels : DataFrame
        ``start_ns``, ``end_ns`` (int64, within the window), ``name`` and ``kind`` (category;
        compute, collective, other), sorted by start.
    transfers : DataFrame
        ``start_ns``, ``end_ns``, ``size_bytes``, ``hidden_ns`` (int64; under compute) and
        ``direction`` (category; h2d, d2h), sorted by start; may have ``label`` (category), what a
        copy is called, such as its XLA operation.
    window : tuple of int
        Start and end of what is drawn.
    fine_columns, coarse_columns : int
        Columns of the window in `Lane.fine` and `Lane.coarse`; each has at most one mark per
        column besides those of `keep`.
    keep : bool array, shape (len(transfers),)
        Transfers that stay marks of their own.

    Returns
    -------
    tuple of Lane
        Compute, collectives if there are any, H2D and D2H.
    """
    names = kernels["name"].cat.categories
    edges = (_edges(window, fine_columns), _edges(window, coarse_columns))
    compute = _kernel_rows(kernels, "compute")
    made = [_lane(device, "compute", compute, names, edges)]
    collectives = _kernel_rows(kernels, "collective")
    if len(collectives):
        made.append(_lane(device, "collectives", collectives, names, edges))
    labels = transfers["label"].cat.categories if "label" in transfers else names[:0]
    for direction in ("h2d", "d2h"):
        chosen = (transfers["direction"] == direction).to_numpy()
        rows = _transfer_rows(transfers[chosen])
        made.append(_lane(device, direction, rows, labels, edges, compute, keep[chosen]))
    return tuple(made)


def _edges(window: tuple[int, int], columns: int) -> _Ints:
    """Where each column of the window starts."""
    start, end = window
    return start + np.arange(columns) * (end - start) // columns


def _kernel_rows(kernels: pd.DataFrame, kind: str) -> Marks:
    """One mark per kernel of that kind."""
    chosen = (kernels["kind"] == kind).to_numpy()
    start, end = kernels["start_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    name = np.asarray(kernels["name"].cat.codes, dtype=np.int64)
    if not chosen.all():
        start, end, name = start[chosen], end[chosen], name[chosen]
    return Marks(start, end, np.ones(len(start), np.int64), end - start, _NONE, _NONE, name)


def _transfer_rows(transfers: pd.DataFrame) -> Marks:
    """One mark per transfer; a size that isn't known counts as nothing."""
    start, end = transfers["start_ns"].to_numpy(), transfers["end_ns"].to_numpy()
    name = np.full(len(start), _SEVERAL)
    if "label" in transfers:
        name = transfers["label"].cat.codes.to_numpy().astype(np.int64)
    return Marks(
        start_ns=start,
        end_ns=end,
        rows=np.ones(len(start), np.int64),
        busy_ns=end - start,
        size_bytes=np.maximum(transfers["size_bytes"].to_numpy(), 0),
        hidden_ns=transfers["hidden_ns"].to_numpy(),
        name=name,
    )


def _lane(
    device: str,
    lane: str,
    rows: Marks,
    names: pd.Index,
    edges: tuple[_Ints, _Ints],
    compute: Marks | None = None,
    keep: NDArray[np.bool_] | None = None,
) -> Lane:
    """One lane of rows sorted by start; `compute` is what hides them, if they are transfers."""
    fine_edges, coarse_edges = edges
    kept, rest = (
        (_take(rows, _NONE), rows) if keep is None else (_take(rows, keep), _take(rows, ~keep))
    )
    fine = coarse = rows
    exact = len(rows) <= len(fine_edges)
    if not exact:
        rest = _merged(_pieces(rest, compute), fine_edges)
        fine = coarse = _joined(kept, rest)
    if len(fine) > len(coarse_edges):
        rest = _pieces(rest, compute) if exact else rest
        coarse = _joined(kept, _merged(rest, coarse_edges))
    used = np.unique(np.r_[fine.name, coarse.name])
    used = used[used != _SEVERAL]
    return Lane(device, lane, exact, _named(coarse, used), _named(fine, used), tuple(names[used]))


def _take(marks: Marks, index: NDArray[np.bool_] | _Ints) -> Marks:
    """Pick marks, in the order of the index."""
    return Marks(*(column[index] if len(column) else column for column in marks.columns()))


def _joined(kept: Marks, rest: Marks) -> Marks:
    """Join both, sorted by start."""
    if not len(kept):
        return rest
    both = zip(kept.columns(), rest.columns(), strict=True)
    marks = Marks(*(np.concatenate(columns) for columns in both))
    return _take(marks, np.argsort(marks.start_ns, kind="stable"))


def _pieces(rows: Marks, compute: Marks | None) -> Marks:
    """Of each row, the part that no earlier one covers; of a row inside earlier ones, nothing."""
    reach = np.maximum.accumulate(rows.end_ns)
    start = rows.start_ns.copy()
    start[1:] = np.maximum(start[1:], reach[:-1])
    end = np.maximum(start, rows.end_ns)
    cut = np.flatnonzero(start > rows.start_ns)
    hidden = rows.hidden_ns
    if compute is not None and len(cut):
        gone = intervals(rows.start_ns[cut], np.minimum(start, rows.end_ns)[cut])
        cover = union(intervals(compute.start_ns, compute.end_ns))
        hidden = hidden.copy()
        hidden[cut] -= covered_ns(gone, cover)
    return replace(rows, start_ns=start, end_ns=end, busy_ns=end - start, hidden_ns=hidden)


def _merged(pieces: Marks, edges: _Ints) -> Marks:
    """Pieces that start in one column as one mark; one inside earlier rows never opens a mark."""
    start, end = pieces.start_ns, pieces.end_ns
    opens = np.flatnonzero((end > start) | np.r_[True, start[1:] > end[:-1]][: len(start)])
    first = np.unique(np.searchsorted(start[opens], edges))
    first = opens[first[first < len(opens)]]
    if not len(first):
        return pieces
    last = np.r_[first[1:], len(start)] - 1
    lowest = np.minimum.reduceat(pieces.name, first)
    highest = np.maximum.reduceat(pieces.name, first)

    def total(column: _Ints) -> _Ints:
        return np.add.reduceat(column, first) if len(column) else column

    return Marks(
        start_ns=start[first],
        end_ns=end[last],
        rows=total(pieces.rows),
        busy_ns=total(pieces.busy_ns),
        size_bytes=total(pieces.size_bytes),
        hidden_ns=total(pieces.hidden_ns),
        name=np.where(lowest == highest, lowest, _SEVERAL),
    )


def _named(marks: Marks, used: _Ints) -> Marks:
    """Give the names of the marks their place in `used` as number."""
    name = np.where(marks.name == _SEVERAL, _SEVERAL, np.searchsorted(used, marks.name))
    return replace(marks, name=name)
