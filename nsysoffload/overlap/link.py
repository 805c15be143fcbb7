"""Bandwidth of copies: per row, per run, alone on the device, and by size.

One byte per nanosecond is 1 GB/s. A row's bandwidth says how fast the link was, a run's how well it
was kept busy; copies without a length have neither.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsysoffload.timeline.intervals import Intervals, covered_ns, grouped_length_ns

__all__ = ["SIZE_CLASSES", "SizeClass", "burst_gbps", "lone", "row_gbps", "size_classes"]

SIZE_CLASSES = tuple(1024 * 4**power for power in range(11))
"""Upper ends in bytes: 1 KiB, 4 KiB, ... 1 GiB; larger copies form one more class."""


def row_gbps(size_bytes: NDArray[np.int64], duration_ns: NDArray[np.int64]) -> float | None:
    """Bytes of the copies that have a length over the sum of their durations, or None."""
    timed = duration_ns > 0
    if not timed.any():
        return None
    return int(size_bytes[timed].sum()) / int(duration_ns[timed].sum())


def burst_gbps(
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    size_bytes: NDArray[np.int64],
    kernel_start_ns: NDArray[np.int64],
) -> float | None:
    """Bytes of runs of copies over the time from each run's first start to its last end.

    A run is consecutive copies of one direction with no kernel start between them::

        copies   [a)  [b)        [c)      two runs: a with b, and c
        kernel            [        )

    Parameters
    ----------
    start_ns, end_ns, size_bytes : int64 array, shape (n,)
        Copies of one direction, sorted by start.
    kernel_start_ns : int64 array, shape (m,)
        Sorted starts of all kernels of the device.

    Returns
    -------
    float or None
        GB/s over all runs that have a length.
    """
    if len(start_ns) == 0:
        return None
    before = np.searchsorted(kernel_start_ns, start_ns, side="left")
    until = np.searchsorted(kernel_start_ns, start_ns, side="right")
    opens = np.r_[True, before[1:] > until[:-1]]
    first = np.flatnonzero(opens)
    span = np.maximum.reduceat(end_ns, first) - start_ns[first]
    return row_gbps(np.add.reduceat(size_bytes, first), span)


def lone(spans: Intervals, transfers: Intervals, busy: Intervals) -> NDArray[np.bool_]:
    """Tell which copies had nothing beside them on their device.

    Parameters
    ----------
    spans : int64 array, shape (n, 2)
        The copies in question.
    transfers : int64 array, shape (m, 2)
        All copies of the device that have a length, both directions, sorted by start; those of
        `spans` with a length are among them.
    busy : int64 array, shape (k, 2)
        Union of everything else the device did.
    """
    started = np.searchsorted(transfers[:, 0], spans[:, 1], side="left")
    ended = np.searchsorted(np.sort(transfers[:, 1]), spans[:, 0], side="right")
    alone: NDArray[np.bool_] = (started - ended <= 1) & (covered_ns(spans, busy) == 0)
    return alone


@dataclass(frozen=True)
class SizeClass:
    """Copies larger than the class below and up to ``upto_bytes`` (``None``: no upper end).

    ``gbps`` is bytes over ``sum_ns``, the sum of the copies' durations, ``best_gbps`` the fastest
    copy; copies without a length are in neither.
    """

    upto_bytes: int | None
    copies: int
    bytes: int
    sum_ns: int
    busy_ns: int
    gbps: float | None
    best_gbps: float | None


def size_classes(
    start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> list[SizeClass]:
    """Total the copies of one direction, sorted by start, per size class that occurs."""
    code = np.searchsorted(np.array(SIZE_CLASSES), size_bytes, side="left")
    busy = grouped_length_ns(start_ns, end_ns, code, len(SIZE_CLASSES) + 1)
    duration = end_ns - start_ns
    totals = []
    for number in np.unique(code):
        mine = code == number
        size, length = size_bytes[mine], duration[mine]
        timed = length > 0
        totals.append(
            SizeClass(
                upto_bytes=SIZE_CLASSES[number] if number < len(SIZE_CLASSES) else None,
                copies=int(mine.sum()),
                bytes=int(size.sum()),
                sum_ns=int(length.sum()),
                busy_ns=int(busy[number]),
                gbps=row_gbps(size, length),
                best_gbps=float((size[timed] / length[timed]).max()) if timed.any() else None,
            )
        )
    return totals
