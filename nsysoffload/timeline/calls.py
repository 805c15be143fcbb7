"""GPU row -> the API call that made it.

Correlation ids are unique within a process only, so the key is (process, correlation id). Calls of
other event classes, which repeat it, are never read. A GPU row whose call lies outside the
recording has none.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["CallIndex"]

_CORRELATION_BITS = 32
_MAX_PLACES_PER_CALL = 4  # beyond, looking up places takes more memory than the calls


@dataclass(frozen=True)
class CallIndex:
    """API calls by (process, correlation id).

    ``keys`` are sorted and distinct, ``first`` is the earliest call of each key, and ``group`` the
    position in ``keys`` of each call, -1 for a call without a correlation id. ``place`` is the
    position in ``keys`` by key, -1 at its end; there is none where ids are scattered too widely.
    """

    processes: pd.Index
    span: int
    keys: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.int64]
    place: NDArray[np.int64] | None

    @classmethod
    def build(cls, calls: pd.DataFrame) -> "CallIndex":
        """Index the calls of table `CALLS`."""
        processes = pd.Index(_shortened(calls["process"].to_numpy())).unique()
        correlation = calls["correlation"].to_numpy()
        span = 1 + int(correlation.max(initial=0, where=correlation < 1 << _CORRELATION_BITS))
        key = _keys(calls, processes, span)
        # Where several calls share an id the earliest counts, so that no row seems to precede it.
        by_start = np.argsort(calls["start_ns"].to_numpy(), kind="stable")
        order = by_start[np.argsort(key[by_start], kind="stable")]
        order = order[np.searchsorted(key[order], 0) :]
        opens = np.r_[True, np.diff(key[order]) > 0] if len(order) else np.empty(0, dtype=bool)
        group = np.full(len(calls), -1, dtype=np.int64)
        group[order] = np.cumsum(opens) - 1
        first = order[opens]
        place = None
        if len(processes) * span <= _MAX_PLACES_PER_CALL * len(calls):
            place = np.full(len(processes) * span + 1, -1, dtype=np.int64)
            place[key[first]] = np.arange(len(first))
        return cls(processes, span, key[first], first, group, place)

    def of(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return for each GPU row the position in ``keys`` of its call, -1 if it has none."""
        if len(self.keys) == 0:
            return np.full(len(rows), -1, dtype=np.int64)
        key = _keys(rows, self.processes, self.span)
        if self.place is not None:
            return self.place[key]
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where((key >= 0) & (self.keys[at] == key), at, -1)


def _keys(rows: pd.DataFrame, processes: pd.Index, span: int) -> NDArray[np.int64]:
    """Pack process and correlation id into one integer; -1 where no call can have them."""
    codes, unique = pd.factorize(_shortened(rows["process"].to_numpy()))
    process = processes.get_indexer(pd.Index(unique))[codes] if len(unique) else codes
    correlation = rows["correlation"].to_numpy()
    known = (process >= 0) & (correlation > 0) & (correlation < span)
    return np.where(known, process.astype(np.int64) * span + correlation, -1)


def _shortened(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """One value for all where they are alike, which is usual and quick to see."""
    return values[:1] if len(values) and (values == values[0]).all() else values
