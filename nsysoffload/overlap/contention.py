"""Hidden is not free: kernels run longer under transfers, and transfers beside other work.

Both are measured against lone twins in the same trace, and their cost is *excess* time: it is part
of busy time and never added to time outside compute.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.overlap.link import SIZE_CLASSES, lone
from nsysoffload.timeline.intervals import Intervals, covered_ns, intervals, union
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["COVERED", "LONE", "MIN_TWINS", "SLOW", "slow_transfers", "stretched_kernels"]

COVERED = 0.9  # of a kernel's time under transfers
LONE = 0.1
MIN_TWINS = 3
STRETCHED = 1.02  # times the lone median; below it is noise
SLOW = 0.8  # of the lone twins' bandwidth; above it is noise
MOSTLY = 0.5  # of a copy's time

_Ints = NDArray[np.int64]


def stretched_kernels(
    kernels: pd.DataFrame, chosen: NDArray[np.bool_], moving: Intervals
) -> pd.DataFrame:
    """Compare kernels of one name and launch shape under transfers with those without.

    Parameters
    ----------
    kernels : DataFrame
        Rows of one device, with ``kind``, ``name`` and ``shape``.
    chosen : bool array, shape (len(kernels),)
        Rows that count: those of the chosen steps.
    moving : int64 array, shape (n, 2)
        Union of the transfers.

    Returns
    -------
    DataFrame
        One row per kernel that is slower under transfers: ``name``, ``lone_ns`` and ``covered_ns``
        (medians), ``lone_count``, ``covered_count``, ``excess_ns`` (added over the covered ones)
        and ``rows`` (positions of the covered ones).
    """
    rows = np.flatnonzero(chosen & (kernels["kind"].cat.codes == 0).to_numpy())
    start, end = (kernels[name].to_numpy()[rows] for name in ("start_ns", "end_ns"))
    length = end - start
    rows, start, end = rows[length > 0], start[length > 0], end[length > 0]
    length = end - start
    under = covered_ns(intervals(start, end), moving) / length
    columns = ["name", "lone_ns", "covered_ns", "lone_count", "covered_count", "excess_ns", "rows"]
    name = kernels["name"].cat.codes.to_numpy()[rows]
    beside = np.isin(name, np.unique(name[under >= COVERED]))
    if not beside.any():
        return pd.DataFrame({column: [] for column in columns})
    rows, length, under = rows[beside], length[beside], under[beside]
    twin = pd.DataFrame(
        {
            "name": name[beside],
            "shape": kernels["shape"].to_numpy()[rows],
            "length": length,
            "row": rows,
        }
    )
    keys = ["name", "shape"]
    alone = twin[under <= LONE].groupby(keys)["length"].agg(["median", "size"])
    covered = twin[under >= COVERED]
    stretched = covered.groupby(keys)["length"].agg(["median", "size", "sum"])
    both = alone.add_suffix("_lone").join(stretched.add_suffix("_covered"), how="inner")
    both = both[(both["size_lone"] >= MIN_TWINS) & (both["size_covered"] >= MIN_TWINS)]
    both = both[both["median_covered"] > STRETCHED * both["median_lone"]]
    names = kernels["name"].cat.categories
    found = [
        (
            str(names[name]),
            int(row["median_lone"]),
            int(row["median_covered"]),
            int(row["size_lone"]),
            int(row["size_covered"]),
            int(row["sum_covered"]) - int(row["median_lone"]) * int(row["size_covered"]),
            covered["row"].to_numpy()[
                ((covered["name"] == name) & (covered["shape"] == shape)).to_numpy()
            ],
        )
        for (name, shape), row in both.iterrows()
    ]
    return pd.DataFrame(found, columns=columns).sort_values("excess_ns", ascending=False)


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
