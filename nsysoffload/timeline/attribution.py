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


@dataclass(frozen=True)
class CallIndex:
    """API calls by (process, correlation id).

    ``keys`` are sorted and distinct, ``first`` is the earliest call of each key, and ``group`` the
    position in ``keys`` of each call, -1 for a call without a correlation id.
    """

    processes: pd.Index
    keys: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.int64]

    @classmethod
    def build(cls, calls: pd.DataFrame) -> "CallIndex":
        """Index the calls of table `CALLS`."""
        processes = pd.Index(calls["process"].unique())
        key = _keys(calls, processes)
        # Where several calls share an id the earliest counts, so that no row seems to precede it.
        by_start = np.argsort(calls["start_ns"].to_numpy(), kind="stable")
        order = by_start[np.argsort(key[by_start], kind="stable")]
        order = order[np.searchsorted(key[order], 0) :]
        opens = np.r_[True, np.diff(key[order]) > 0] if len(order) else np.empty(0, dtype=bool)
        group = np.full(len(calls), -1, dtype=np.int64)
        group[order] = np.cumsum(opens) - 1
        first = order[opens]
        return cls(processes, key[first], first, group)

    def of(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return for each GPU row the position in ``keys`` of its call, -1 if it has none."""
        if len(self.keys) == 0:
            return np.full(len(rows), -1, dtype=np.int64)
        key = _keys(rows, self.processes)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where((key >= 0) & (self.keys[at] == key), at, -1)


def _keys(rows: pd.DataFrame, processes: pd.Index) -> NDArray[np.int64]:
    """Pack process and correlation id into one integer; negative where there is no id."""
    codes, unique = pd.factorize(rows["process"].to_numpy())
    process = processes.get_indexer(pd.Index(unique))[codes] if len(unique) else codes
    correlation = rows["correlation"].to_numpy()
    known = (process >= 0) & (correlation > 0) & (correlation < 1 << _CORRELATION_BITS)
    return np.where(known, (process.astype(np.int64) << _CORRELATION_BITS) | correlation, -1)
