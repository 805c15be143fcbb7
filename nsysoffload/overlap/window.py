"""A window on a device's rows: what was recorded in it, and rows cut at its edges."""

import numpy as np
import pandas as pd

from nsysoffload.trace.tables import UNSET

__all__ = ["clamped", "cut"]


def clamped(recorded: tuple[int, int], window: tuple[int, int] | None) -> tuple[int, int]:
    """Return the part of what was recorded that lies in a window; all of it without one."""
    start, end = recorded
    if window is None:
        return start, end
    start = min(max(start, window[0]), end)
    return start, max(start, min(end, window[1]))


def cut(rows: pd.DataFrame, start: int, end: int, window: tuple[int, int] | None) -> pd.DataFrame:
    """Return the rows in ``[start, end)``, cut at its edges, their bytes in proportion.

    A row without length belongs to the window that was asked for if it starts in it.
    """
    if window is None:
        return rows
    begins, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    point = (begins == ends) & (begins >= window[0]) & (begins < window[1])
    rows = rows[((begins < end) & (ends > start) & (begins < ends)) | point]
    begins, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    columns = {"start_ns": np.clip(begins, start, end), "end_ns": np.clip(ends, start, end)}
    if "size_bytes" in rows:
        size = rows["size_bytes"].to_numpy().copy()
        for row in np.flatnonzero((begins < start) | (ends > end)):
            size[row] = _bytes_in(int(size[row]), int(begins[row]), int(ends[row]), start, end)
        columns["size_bytes"] = size
    return rows.assign(**columns)


def _bytes_in(size: int, begin: int, end: int, first: int, last: int) -> int:
    """Bytes moved in ``[first, last)``; shares of adjoining windows add up exactly."""
    if size == UNSET or begin == end:
        return size

    def moved(time: int) -> int:
        return size * (min(max(time, begin), end) - begin) // (end - begin)

    return moved(last) - moved(first)
