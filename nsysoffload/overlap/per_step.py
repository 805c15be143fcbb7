"""What each step of a device consists of, as arrays over its steps.

Transfers and kernels count to the step that issued them; what hides a transfer may belong to any.
Time outside compute is that of the step's own window, from its first row to its last.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.overlap.stalls import Stalls
from nsysoffload.overlap.transfers import DeviceOverlap
from nsysoffload.timeline.intervals import (
    Intervals,
    covered_ns,
    difference,
    grouped_union,
    intervals,
    union,
)
from nsysoffload.timeline.phase import PHASES
from nsysoffload.timeline.timeline import DIRECTIONS
from nsysoffload.trace.tables import UNSET

__all__ = ["StepTransfers", "StepValues", "step_values"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StepTransfers:
    """Transfers of each step; int64 arrays, shape (steps,). ``bytes`` is UNSET if not known."""

    copies: _Ints
    bytes: _Ints
    sum_ns: _Ints
    busy_ns: _Ints
    hidden_ns: _Ints
    exposed_ns: _Ints
    hidden_by_collectives_ns: _Ints
    undetermined_ns: _Ints
    stall_ns: _Ints
    hideable_ns: _Ints


@dataclass(frozen=True)
class StepValues:
    """Figures of each step; int64 arrays, shape (steps,).

    ``compute_busy_ns + lost_ns`` is the step's duration. ``phases`` is compute time by phase, None
    without XLA names.
    """

    kernels: _Ints
    compute_busy_ns: _Ints
    collective_busy_ns: _Ints
    idle_ns: _Ints
    lost_ns: _Ints
    stall_ns: _Ints
    stall_proven_ns: _Ints
    phases: Mapping[str, _Ints] | None
    directions: Mapping[str, StepTransfers]
    both: StepTransfers

    @property
    def hideable_ns(self) -> _Ints:
        """What another schedule could hide, both directions added."""
        return sum((d.hideable_ns for d in self.directions.values()), start=0 * self.lost_ns)


def step_values(
    overlap: DeviceOverlap,
    spans: Intervals,
    kernel_step: _Ints,
    transfer_step: _Ints,
    phase: _Ints | None,
    stalls: Stalls,
) -> StepValues:
    """Measure each step.

    Parameters
    ----------
    overlap : DeviceOverlap
        The device.
    spans : int64 array, shape (steps, 2)
        The steps.
    kernel_step, transfer_step : int64 array
        Step of each row, -1 for none.
    phase : int64 array or None
        Position in `PHASES` of each kernel; None without XLA names.
    stalls : Stalls
        Its stalls.
    """
    steps = len(spans)
    kernels, transfers = overlap.kernels, overlap.transfers
    compute, collective = overlap.compute, overlap.collective
    graphs = overlap.graphs
    way = transfers["direction"].cat.codes.to_numpy()
    moving = {name: union(_pairs(transfers)[way == code]) for code, name in enumerate(DIRECTIONS)}
    stall = stalls.stalls
    stall_ns = (stall["end_ns"] - stall["start_ns"]).to_numpy()
    stall_step = stall["step"].to_numpy()
    stall_way = way[stall["blocker"].to_numpy()]
    kind = kernels["kind"].cat.codes.to_numpy()
    duration = spans[:, 1] - spans[:, 0]
    compute_busy = covered_ns(spans, compute)
    everything = union(compute, collective, overlap.other, graphs, *moving.values())

    def measured(mine: NDArray[np.bool_], held: NDArray[np.bool_], free: _Ints) -> StepTransfers:
        rows = transfers[mine & (transfer_step >= 0)]
        step = transfer_step[mine & (transfer_step >= 0)]
        own, of_step = grouped_union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), step)

        def added(values: _Ints, groups: NDArray[np.integer] = of_step) -> _Ints:
            return _added(values, groups, steps)

        length = own[:, 1] - own[:, 0]
        hidden = covered_ns(own, compute)
        exposed_collective = covered_ns(own, difference(collective, compute))
        unknown = covered_ns(own, difference(graphs, compute))
        size = rows["size_bytes"].to_numpy()
        stalled = _added(stall_ns[held], stall_step[held], steps)
        return StepTransfers(
            copies=np.bincount(step, minlength=steps).astype(np.int64),
            bytes=added(size, step) if (size != UNSET).all() else np.full(steps, UNSET),
            sum_ns=added((rows["end_ns"] - rows["start_ns"]).to_numpy(), step),
            busy_ns=added(length),
            hidden_ns=added(hidden),
            exposed_ns=added(length - hidden),
            hidden_by_collectives_ns=added(exposed_collective),
            undetermined_ns=added(unknown),
            stall_ns=stalled,
            hideable_ns=np.minimum(stalled, free),
        )

    directions = {
        name: measured(
            way == code, stall_way == code, covered_ns(spans, difference(compute, moving[name]))
        )
        for code, name in enumerate(DIRECTIONS)
    }
    all_rows, all_stalls = np.ones(len(way), dtype=bool), np.ones(len(stall), dtype=bool)
    return StepValues(
        kernels=np.bincount(kernel_step[(kernel_step >= 0) & (kind < 2)], minlength=steps).astype(
            np.int64
        ),
        compute_busy_ns=compute_busy,
        collective_busy_ns=covered_ns(spans, collective),
        idle_ns=duration - covered_ns(spans, everything),
        lost_ns=duration - compute_busy,
        stall_ns=_added(stall_ns, stall_step, steps),
        stall_proven_ns=_added(np.where(stall["proven"], stall_ns, 0), stall_step, steps),
        phases=None if phase is None else _phases(kernels, kernel_step, phase, steps),
        directions=directions,
        both=measured(all_rows, all_stalls, duration),
    )


def _phases(kernels: pd.DataFrame, step: _Ints, phase: _Ints, steps: int) -> Mapping[str, _Ints]:
    """Compute time of each step by phase: the union of its kernels of that phase."""
    rows = np.flatnonzero((step >= 0) & (kernels["kind"].cat.codes == 0).to_numpy())
    start, end = (kernels[name].to_numpy()[rows] for name in ("start_ns", "end_ns"))
    own, group = grouped_union(start, end, step[rows] * len(PHASES) + phase[rows])
    total = _added(own[:, 1] - own[:, 0], group, steps * len(PHASES)).reshape(steps, -1)
    return {name: total[:, code] for code, name in enumerate(PHASES)}


def _added(values: _Ints, group: NDArray[np.integer], groups: int) -> _Ints:
    """Sum of each group's values, exact for any integers."""
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, group, values)
    return total


def _pairs(rows: pd.DataFrame) -> Intervals:
    return intervals(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
