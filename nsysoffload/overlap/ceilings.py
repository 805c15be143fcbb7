"""What a step would save if something were different, computed from the trace alone.

Each is a bound under its stated assumption, not a forecast; they overlap and never add up.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.hardware import HostLink
from nsysoffload.timeline.intervals import Intervals, covered_ns, difference, intervals, union
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["Saving", "savings"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Saving:
    """Time that each step would save, int64 array, None where the trace cannot tell; and why."""

    name: str
    saving_ns: _Ints | None
    assumption: str


def savings(
    stalls: pd.DataFrame,
    transfers: pd.DataFrame,
    steps: Intervals,
    compute: Intervals,
    lone: NDArray[np.bool_],
    link: HostLink | None,
) -> tuple[Saving, ...]:
    """Compute the savings of each step.

    Parameters
    ----------
    stalls, transfers : DataFrame
        Of one device; see `nsysoffload.overlap.stalls`.
    steps : int64 array, shape (n, 2)
        The chosen steps.
    compute : int64 array, shape (m, 2)
        Union of compute.
    lone : bool array, shape (len(transfers),)
        Copies with nothing beside them.
    link : HostLink or None
        What is known of the host link.
    """
    what = _Stalled(stalls, transfers, len(steps))
    return (
        Saving(
            "all_transfers_hidden",
            what.added(what.length_ns),
            "every stall disappears, whether or not there is compute to hide it behind",
        ),
        _pinned(what, transfers, lone, link),
        _at_range(what, transfers, link),
        Saving(
            "prefetch_one_layer_earlier",
            _earlier(what, transfers, steps, compute),
            "each copy that compute waits for starts one stall of its direction earlier, behind"
            " compute that no copy of that direction uses",
        ),
    )


class _Stalled:
    """Stalls, and the copies that end them."""

    def __init__(self, stalls: pd.DataFrame, transfers: pd.DataFrame, steps: int) -> None:
        self.spans = intervals(stalls["start_ns"].to_numpy(), stalls["end_ns"].to_numpy())
        self.length_ns = self.spans[:, 1] - self.spans[:, 0]
        self.step = stalls["step"].to_numpy()
        self.blocker = stalls["blocker"].to_numpy()
        self.way = transfers["direction"].cat.codes.to_numpy()[self.blocker]
        self._steps = steps

    def added(self, values: _Ints) -> _Ints:
        total = np.zeros(self._steps, dtype=np.int64)
        np.add.at(total, self.step, values)
        return total


def _pinned(
    what: _Stalled, transfers: pd.DataFrame, lone: NDArray[np.bool_], link: HostLink | None
) -> Saving:
    host = transfers["host"].to_numpy()
    pageable = host == "pageable"
    assumption = "pageable copies run at the speed of pinned ones"
    held = pageable[what.blocker]
    if not held.any():
        return Saving("pinned", what.added(0 * what.length_ns), f"{assumption}; none holds up")
    start, end, size = (transfers[n].to_numpy() for n in ("start_ns", "end_ns", "size_bytes"))
    way = transfers["direction"].cat.codes.to_numpy()
    saved = np.zeros(len(what.blocker), dtype=np.int64)
    used = []
    for code, name in enumerate(DIRECTIONS):
        mine = held & (what.way == code)
        if not mine.any():
            continue
        known = lone & (host == "pinned") & (way == code) & (end > start) & (size >= 1 << 20)
        if known.any():
            gbps = float(np.median(size[known] / (end - start)[known]))
            used.append(f"{name.upper()} {gbps:.3g} GB/s, the median lone pinned copy")
        elif link:
            gbps = (link.h2d if code == 0 else link.d2h).low_gbps
            used.append(f"{name.upper()} {gbps:.3g} GB/s, the low end of {link.name}")
        else:
            reason = f"no lone pinned {name.upper()} copy, and the link is not known"
            return Saving("pinned", None, f"{assumption}; {reason}")
        rows = what.blocker[mine]
        faster = (end - start)[rows] - np.ceil(size[rows] / gbps).astype(np.int64)
        saved[mine] = np.clip(faster, 0, what.length_ns[mine])
    return Saving("pinned", what.added(saved), f"{assumption}: {', '.join(used)}")


def _at_range(what: _Stalled, transfers: pd.DataFrame, link: HostLink | None) -> Saving:
    name, assumption = "link_at_measured_range", "copies that compute waits for are no slower than"
    if link is None:
        reason = "the link's measured range, which is not known; name it with --link"
        return Saving(name, None, f"{assumption} {reason}")
    start, end, size = (transfers[n].to_numpy() for n in ("start_ns", "end_ns", "size_bytes"))
    length = end - start
    way = transfers["direction"].cat.codes.to_numpy()
    saved = np.zeros(len(what.blocker), dtype=np.int64)
    for code, measured in enumerate((link.h2d, link.d2h)):
        mine = what.way == code
        rows = np.flatnonzero((way == code) & (length > 0) & (size > 0))
        # Share of each copy's time that it takes longer than at the low end of the range.
        slow = rows[size[rows] / length[rows] < measured.low_gbps]
        if not mine.any() or not len(slow):
            continue
        needed = size[slow].sum() / measured.low_gbps
        share = max(0.0, 1 - needed / length[slow].sum())
        busy = union(intervals(start[slow], end[slow]))
        saved[mine] = np.floor(share * covered_ns(what.spans[mine], busy)).astype(np.int64)
    lows = f"H2D {link.h2d.low_gbps:g} GB/s, D2H {link.d2h.low_gbps:g} GB/s ({link.name}, low end)"
    return Saving(name, what.added(saved), f"{assumption} {lows}")


def _earlier(
    what: _Stalled, transfers: pd.DataFrame, steps: Intervals, compute: Intervals
) -> _Ints:
    start, end = transfers["start_ns"].to_numpy(), transfers["end_ns"].to_numpy()
    way = transfers["direction"].cat.codes.to_numpy()
    saved = np.zeros(len(what.blocker), dtype=np.int64)
    for code in range(len(DIRECTIONS)):
        rows = np.flatnonzero(what.way == code)
        if not len(rows):
            continue
        spans, step = what.spans[rows], what.step[rows]
        before = steps[step, 0]
        same = np.r_[False, step[1:] == step[:-1]]
        before[same] = spans[:-1, 1][same[1:]]
        free = difference(compute, union(intervals(start[way == code], end[way == code])))
        room = covered_ns(intervals(np.minimum(before, spans[:, 0]), spans[:, 0]), free)
        saved[rows] = np.minimum(what.length_ns[rows], room)
    return what.added(saved)
