"""Hidden is not free: kernels run longer under transfers, and transfers beside other work.

Both are measured against lone twins in the same trace, and their cost is *excess* time: it is part
of busy time and never added to time outside compute.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.overlap.link import SIZE_CLASSES, lone
from nsysoffload.timeline.intervals import Intervals, covered_ns, intervals, spans_of, union
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = [
    "COVERED",
    "LONE",
    "MIN_TWINS",
    "SLOW",
    "SlowTransfers",
    "StretchedKernels",
    "slow_transfers",
    "stretched_kernels",
]

COVERED = 0.9  # of a kernel's time under transfers
LONE = 0.1
MIN_TWINS = 3
STRETCHED = 1.02  # times the lone median; below it is noise
SLOW = 0.8  # of the lone twins' bandwidth; above it is noise
MOSTLY = 0.5  # of a copy's time
_TWIN = ["name", "shape"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StretchedKernels:
    """Kernels of one name and launch shape that are slower under transfers than without.

    Attributes
    ----------
    table : DataFrame
        One row per kernel, the most costly first: ``name``, ``lone_ns`` and ``covered_ns``
        (medians), ``lone_count``, ``covered_count``, ``excess_ns`` (added over the covered ones).
    worst : int64 array, shape (n,)
        Positions of the covered rows of the first kernel, the longest first.
    """

    table: pd.DataFrame
    worst: _Ints


def stretched_kernels(
    kernels: pd.DataFrame, chosen: NDArray[np.bool_], moving: Intervals
) -> StretchedKernels:
    """Compare kernels of one name and launch shape under transfers with those without.

    Parameters
    ----------
    kernels : DataFrame
        Rows of one device, with ``kind``, ``name`` and ``shape``.
    chosen : bool array, shape (len(kernels),)
        Rows that count: those of the chosen steps.
    moving : int64 array, shape (n, 2)
        Union of the transfers.
    """
    twin = _twins(kernels, chosen, moving)
    alone, covered = twin[twin["under"] <= LONE], twin[twin["under"] >= COVERED]
    both = (
        alone.groupby(_TWIN)["length"]
        .agg(lone_ns="median", lone_count="size")
        .join(
            covered.groupby(_TWIN)["length"].agg(
                covered_ns="median", covered_count="size", total="sum"
            ),
            how="inner",
        )
        .reset_index()
    )
    both = both[(both["lone_count"] >= MIN_TWINS) & (both["covered_count"] >= MIN_TWINS)]
    both = both[both["covered_ns"] > STRETCHED * both["lone_ns"]]
    both = both.assign(
        lone_ns=both["lone_ns"].astype(np.int64), covered_ns=both["covered_ns"].astype(np.int64)
    )
    both = both.assign(excess_ns=both["total"] - both["lone_ns"] * both["covered_count"])
    both = both.sort_values("excess_ns", ascending=False, kind="stable")
    worst = covered[:0]
    if len(both):
        first = both.iloc[0]
        worst = covered[(covered["name"] == first["name"]) & (covered["shape"] == first["shape"])]
        worst = worst.sort_values("length", ascending=False, kind="stable")
    names = kernels["name"].cat.categories
    return StretchedKernels(
        both.assign(name=[str(names[code]) for code in both["name"]]),
        worst["row"].to_numpy(dtype=np.int64),
    )


def _twins(kernels: pd.DataFrame, chosen: NDArray[np.bool_], moving: Intervals) -> pd.DataFrame:
    """Return the compute kernels that count, of names that transfers cover at all."""
    spans = spans_of(kernels)
    length = spans[:, 1] - spans[:, 0]
    compute = (kernels["kind"].cat.codes == 0).to_numpy()
    row = np.flatnonzero(chosen & compute & (length > 0))
    under = covered_ns(spans[row], moving) / length[row]
    name = kernels["name"].cat.codes.to_numpy()[row]
    beside = np.isin(name, np.unique(name[under >= COVERED]))
    row, under, name = row[beside], under[beside], name[beside]
    shape = kernels["shape"].to_numpy()[row]
    columns = {"name": name, "shape": shape, "length": length[row], "under": under, "row": row}
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class SlowTransfers:
    """Transfers that took clearly longer than lone ones of their direction and size class.

    ``row`` are positions of the transfers, ``excess_ns`` by how much each took longer, and
    ``against`` is True where the other direction ran for most of it, else kernels did.
    ``lone_gbps`` is the bandwidth of the lone twins of each.
    """

    row: _Ints
    excess_ns: _Ints
    against: NDArray[np.bool_]
    lone_gbps: NDArray[np.float64]


def slow_transfers(
    transfers: pd.DataFrame, chosen: NDArray[np.bool_], working: Intervals, beside: Intervals
) -> SlowTransfers:
    """Find the transfers that something beside them slowed down.

    Parameters
    ----------
    transfers : DataFrame
        Rows of one device, sorted by start.
    chosen : bool array, shape (len(transfers),)
        Rows that count; lone twins may be any.
    working : int64 array, shape (n, 2)
        Union of the kernels.
    beside : int64 array, shape (m, 2)
        Union of everything but transfers.
    """
    start, end, size = (transfers[n].to_numpy() for n in ("start_ns", "end_ns", "size_bytes"))
    timed = np.flatnonzero((end > start) & (size > 0))
    start, end, size = start[timed], end[timed], size[timed]
    spans = intervals(start, end)
    way = transfers["direction"].cat.codes.to_numpy()[timed]
    pinned = (transfers["host"] == "pinned").to_numpy()[timed]
    alone = lone(spans, spans, beside) & pinned
    rate = size / np.maximum(end - start, 1)
    group = way.astype(np.int64) * 64 + np.searchsorted(SIZE_CLASSES, size)
    usual = np.full(len(timed), np.nan)
    for code in np.unique(group[alone]):
        twins = alone & (group == code)
        if twins.sum() >= MIN_TWINS:
            usual[group == code] = np.median(rate[twins])
    other = np.zeros(len(timed), dtype=np.int64)
    for code in range(len(DIRECTIONS)):
        mine = way == code
        other[mine] = covered_ns(spans[mine], union(spans[~mine]))
    length = end - start
    against = other >= MOSTLY * length
    under = covered_ns(spans, working) >= MOSTLY * length
    slow = chosen[timed] & pinned & ~alone & (against | under) & (rate < SLOW * usual)
    slow = np.flatnonzero(slow)
    return SlowTransfers(
        timed[slow],
        length[slow] - np.ceil(size[slow] / usual[slow]).astype(np.int64),
        against[slow],
        usual[slow],
    )
