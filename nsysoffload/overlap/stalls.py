"""Gaps between kernels within steps, and which of them transfers own: the stalls.

A stall is what offloading costs. In a gap between kernels, a chain of transfers (pauses of 20 us at
most) owns the gap from the chain's start on, if it ends no more than 20 us before the next kernel,
or reaches the step's end, or if the next kernel is proven to wait for it: by an event, or right
behind it on one stream::

    kernels   [   )                    [   )
    transfers         [   )[      )
    gap            [                   )
    stall             [                )      the second transfer is the blocker

What waits may be a copy within the device, or a memset, ahead of the kernel: where nobody owns the
gap up to the kernel, it is looked at up to the work of that kind (pauses of 20 us at most) that
runs into the kernel.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.overlap.waits import Waits
from nsysoffload.timeline.intervals import (
    Intervals,
    difference,
    grouped_union,
    intervals,
    union,
)

__all__ = ["PAUSE_NS", "Stalls", "find_stalls"]

PAUSE_NS = 20_000

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stalls:
    """Gaps and stalls of one device.

    Attributes
    ----------
    gaps : DataFrame
        One row per gap without compute or collectives within a step, in order of time:
        ``start_ns``, ``end_ns``, ``step`` (position among the chosen), ``previous`` and ``next``
        (positions of the kernels that end and begin there, -1 at the ends of the step).
    stalls : DataFrame
        One row per gap that transfers own: ``start_ns``, ``end_ns``, ``step``, ``previous``,
        ``next``, ``blocker`` (position of the transfer that ended last), ``proven``,
        ``at_start`` and ``at_end`` (before the first or after the last compute kernel of the step).
    lost : int64 array, shape (n, 2)
        Union of the time of steps outside compute.
    """

    gaps: pd.DataFrame
    stalls: pd.DataFrame
    lost: Intervals


def find_stalls(
    kernels: pd.DataFrame,
    transfers: pd.DataFrame,
    steps: Intervals,
    waits: Waits,
    graphs: Intervals,
    other: Intervals,
) -> Stalls:
    """Find the gaps and stalls of one device.

    Parameters
    ----------
    kernels, transfers : DataFrame
        Rows of the device, sorted by start.
    steps : int64 array, shape (n, 2)
        First start and last end of the chosen steps, sorted by start.
    waits : Waits
        Waits between them that are proven, by events or by the order of a stream.
    graphs : int64 array, shape (m, 2)
        Union of graphs traced as a whole; what happens under them is unknown, so no stall.
    other : int64 array, shape (k, 2)
        Union of the copies within the device and memsets.
    """
    kind = kernels["kind"].cat.codes.to_numpy()
    start, end = kernels["start_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    working = np.flatnonzero((kind < 2) & (end > start))
    computing = np.flatnonzero((kind == 0) & (end > start))
    compute = union(intervals(start[computing], end[computing]))
    cells = _cells(steps)
    # Of kernels that start together a compute kernel ends the gap: what it waits for is known.
    by_start = working[np.lexsort((kind[working], start[working]))]
    gaps = _gaps(cells, start, end, by_start)
    first, last = _compute_bounds(cells, compute)
    return Stalls(
        gaps=gaps,
        stalls=_stalls(gaps, other, transfers, waits, graphs, first, last),
        lost=difference(union(steps), compute),
    )


def _cells(steps: Intervals) -> Intervals:
    """Cut steps that reach into the next one at its start, so that each moment is in one."""
    cells = steps.copy()
    cells[:-1, 1] = np.minimum(cells[:-1, 1], cells[1:, 0])
    return cells


def _gaps(cells: Intervals, start: _Ints, end: _Ints, working: _Ints) -> pd.DataFrame:
    busy = union(intervals(start[working], end[working]))
    spans = difference(cells[cells[:, 1] > cells[:, 0]], busy)
    by_end = working[np.argsort(end[working], kind="stable")]
    return pd.DataFrame(
        {
            "start_ns": spans[:, 0],
            "end_ns": spans[:, 1],
            "step": np.searchsorted(cells[:, 0], spans[:, 0], side="right") - 1,
            "previous": _row_at(end, by_end, spans[:, 0]),
            "next": _row_at(start, working, spans[:, 1]),
        }
    )


def _row_at(times: _Ints, rows: _Ints, at: _Ints) -> _Ints:
    """Return the first row whose time is exactly `at`, -1 for none; `rows` are in order of it."""
    if not len(rows):
        return np.full(len(at), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(times[rows], at), len(rows) - 1)
    return np.where(times[rows[place]] == at, rows[place], -1)


def _compute_bounds(cells: Intervals, compute: Intervals) -> tuple[_Ints, _Ints]:
    """First and last moment of compute in each cell; without any, the end and the start."""
    if not len(compute):
        return cells[:, 1], cells[:, 0]
    after = np.minimum(np.searchsorted(compute[:, 1], cells[:, 0], side="right"), len(compute) - 1)
    before = np.maximum(np.searchsorted(compute[:, 0], cells[:, 1], side="left") - 1, 0)
    first = np.where(compute[after, 1] > cells[:, 0], compute[after, 0], cells[:, 1])
    last = np.where(compute[before, 0] < cells[:, 1], compute[before, 1], cells[:, 0])
    return np.clip(first, cells[:, 0], cells[:, 1]), np.clip(last, cells[:, 0], cells[:, 1])


# --- Stalls ---


def _stalls(
    gaps: pd.DataFrame,
    other: Intervals,
    transfers: pd.DataFrame,
    waits: Waits,
    graphs: Intervals,
    first: _Ints,
    last: _Ints,
) -> pd.DataFrame:
    begins, ends = transfers["start_ns"].to_numpy(), transfers["end_ns"].to_numpy()
    blocker, proven = _blockers(gaps, begins, ends, waits)
    gaps = gaps.assign(end_ns=np.where(blocker < 0, _arrivals(gaps, other), gaps["end_ns"]))
    blocker, proven = _blockers(gaps, begins, ends, waits)
    owned = np.flatnonzero(blocker >= 0)
    gaps, blocker, proven = gaps.take(owned), blocker[owned], proven[owned]
    start = _beginnings(gaps, blocker, begins, ends)
    end, step = gaps["end_ns"].to_numpy(), gaps["step"].to_numpy()
    stalls = gaps.assign(
        start_ns=start,
        blocker=blocker,
        proven=proven,
        at_start=end <= first[step],
        at_end=start >= last[step],
    )
    undetermined = _meets(intervals(start, end), graphs)
    return stalls[(end > start) & ~undetermined].reset_index(drop=True)


def _arrivals(gaps: pd.DataFrame, other: Intervals) -> _Ints:
    """Where each gap ends for what waits in it: at the work that runs into the next kernel."""
    end: _Ints = gaps["end_ns"].to_numpy()
    if not len(other):
        return end
    begins = np.r_[True, other[1:, 0] - other[:-1, 1] > PAUSE_NS]
    since = np.maximum.accumulate(np.where(begins, other[:, 0], other[0, 0]))
    place = np.searchsorted(other[:, 0], end, side="left") - 1
    near = (place >= 0) & (end - other[np.maximum(place, 0), 1] <= PAUSE_NS)
    near &= gaps["next"].to_numpy() >= 0
    return np.where(near, np.maximum(since[np.maximum(place, 0)], gaps["start_ns"]), end)


def _meets(spans: Intervals, cover: Intervals) -> NDArray[np.bool_]:
    """Tell which intervals a union meets."""
    if not len(cover):
        return np.zeros(len(spans), dtype=bool)
    at = np.minimum(np.searchsorted(cover[:, 1], spans[:, 0], side="right"), len(cover) - 1)
    meets: NDArray[np.bool_] = (cover[at, 0] < spans[:, 1]) & (cover[at, 1] > spans[:, 0])
    return meets


def _blockers(
    gaps: pd.DataFrame, begins: _Ints, ends: _Ints, waits: Waits
) -> tuple[_Ints, NDArray[np.bool_]]:
    """Transfer that each gap's end waited for, -1 for none, and whether an event proves it."""
    nobody = np.full(len(gaps), -1, dtype=np.int64)
    moving = np.flatnonzero(ends > begins)
    if not len(moving):
        return nobody, nobody >= 0
    by_end = moving[np.argsort(ends[moving], kind="stable")]
    gap_start, gap_end = gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy()
    reached = np.searchsorted(ends[by_end], gap_end, side="right") - 1
    near = by_end[np.maximum(reached, 0)]
    ended = np.where(reached >= 0, ends[near], np.iinfo(np.int64).min)
    closes = gaps["next"].to_numpy() < 0  # at the step's end, which a transfer has to reach
    pause = np.where(closes, 0, PAUSE_NS)
    inferred = np.where((ended > gap_start) & (gap_end - ended <= pause), near, -1)
    inferred = np.where(closes & (inferred < 0), _running_at(gap_end, begins, ends), inferred)
    awaited = _awaited(gaps, ends, waits.transfer, waits.kernel)
    late = (awaited >= 0) & (gap_end - ends[awaited] <= PAUSE_NS)
    blocker = np.where(late | (inferred < 0), awaited, inferred)
    proven = (awaited >= 0) & (blocker == awaited)
    ahead = _awaited(gaps, ends, waits.leader, waits.follower)
    return np.where(blocker < 0, ahead, blocker), proven


def _running_at(at: _Ints, begins: _Ints, ends: _Ints) -> _Ints:
    """Transfer that runs on past each moment, -1 for none."""
    reach = np.maximum.accumulate(ends)
    place = np.searchsorted(begins, at, side="left") - 1
    runs = (place >= 0) & (reach[np.maximum(place, 0)] > at)
    # Of those that began before, the one that reaches furthest.
    furthest = np.maximum.accumulate(np.where(ends == reach, np.arange(len(ends)), 0))
    return np.where(runs, furthest[np.maximum(place, 0)], -1)


def _awaited(gaps: pd.DataFrame, ends: _Ints, transfer: _Ints, kernel: _Ints) -> _Ints:
    """Of the transfers that the next kernel has to wait for, the last that ended in the gap."""
    found = np.full(len(gaps), -1, dtype=np.int64)
    if not len(kernel):
        return found
    order = np.argsort(kernel, kind="stable")
    following, transfer = kernel[order], transfer[order]
    next_kernel = gaps["next"].to_numpy()
    first = np.searchsorted(following, next_kernel, side="left")
    count = np.searchsorted(following, next_kernel, side="right") - first
    count[next_kernel < 0] = 0
    gap = np.repeat(np.arange(len(gaps)), count)
    candidate = transfer[
        np.repeat(first - np.r_[0, np.cumsum(count)[:-1]], count) + np.arange(len(gap))
    ]
    ended = ends[candidate]
    inside = (ended > gaps["start_ns"].to_numpy()[gap]) & (ended <= gaps["end_ns"].to_numpy()[gap])
    gap, candidate, ended = gap[inside], candidate[inside], ended[inside]
    by_end = np.argsort(ended, kind="stable")
    found[gap[by_end]] = candidate[by_end]  # of several the last one stays
    return found


def _beginnings(gaps: pd.DataFrame, blocker: _Ints, begins: _Ints, ends: _Ints) -> _Ints:
    """Where the stall of each gap begins: with the chain of transfers up to its blocker.

    A transfer counts in the gap that it ends in; one that runs on under the next kernel did not
    hold it up. Only at a step's end may the blocker run on, and then it alone is the chain.
    """
    start: _Ints = gaps["start_ns"].to_numpy()
    if not len(blocker):
        return start
    gap = np.searchsorted(gaps["end_ns"].to_numpy(), ends, side="left")
    ending = np.flatnonzero(ends > np.append(start, np.iinfo(np.int64).max)[gap])
    pieces, of_gap = grouped_union(begins[ending], ends[ending], gap[ending])
    first = np.r_[True, of_gap[1:] != of_gap[:-1]][: len(pieces)]
    first[1:] |= pieces[1:, 0] - pieces[:-1, 1] > PAUSE_NS
    chain = np.maximum.accumulate(np.where(first, np.arange(len(pieces)), 0))
    # Each piece ends in its own gap, and gaps are in order of time, so pieces are too.
    place = np.minimum(np.searchsorted(pieces[:, 1], ends[blocker]), max(len(pieces) - 1, 0))
    runs_on = ends[blocker] > gaps["end_ns"].to_numpy()
    began = pieces[chain[place], 0] if len(pieces) else begins[blocker]
    return np.maximum(start, np.where(runs_on, begins[blocker], began))
