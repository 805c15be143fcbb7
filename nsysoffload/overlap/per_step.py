"""What each step of a device consists of, as arrays over its steps.

Transfers and kernels count to the step that issued them; what hides a transfer may belong to any.
Time outside compute is that of the step's own window, from its first row to its last.
"""

from collections.abc import Mapping, Sequence
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
    spans_of,
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
    compute, collective, graphs = overlap.compute, overlap.collective, overlap.graphs
    transfers = _Transfers(overlap, transfer_step, stalls.stalls, steps)
    moving = {name: union(rows) for name, rows in transfers.spans.items()}
    stall_ns, stall_step = transfers.stall_ns, transfers.stall_step
    duration = spans[:, 1] - spans[:, 0]
    compute_busy = covered_ns(spans, compute)
    everything = union(compute, collective, overlap.other, graphs, *moving.values())
    kernels = (kernel_step >= 0) & (overlap.kernels["kind"].cat.codes < 2).to_numpy()
    return StepValues(
        kernels=np.bincount(kernel_step[kernels], minlength=steps).astype(np.int64),
        compute_busy_ns=compute_busy,
        collective_busy_ns=covered_ns(spans, collective),
        idle_ns=duration - covered_ns(spans, everything),
        lost_ns=duration - compute_busy,
        stall_ns=_added(stall_ns, stall_step, steps),
        stall_proven_ns=_added(np.where(stalls.stalls["proven"], stall_ns, 0), stall_step, steps),
        phases=None if phase is None else _phases(overlap.kernels, kernel_step, phase, steps),
        directions={
            name: transfers.measured((code,), covered_ns(spans, difference(compute, moving[name])))
            for code, name in enumerate(DIRECTIONS)
        },
        both=transfers.measured(range(len(DIRECTIONS)), duration),
    )


class _Transfers:
    """Transfers and stalls of the steps, and what runs beside them."""

    def __init__(
        self, overlap: DeviceOverlap, step: _Ints, stalls: pd.DataFrame, steps: int
    ) -> None:
        rows = overlap.transfers
        way = rows["direction"].cat.codes.to_numpy()
        every = spans_of(rows)
        self.spans = {name: every[way == code] for code, name in enumerate(DIRECTIONS)}
        self.stall_ns: _Ints = (stalls["end_ns"] - stalls["start_ns"]).to_numpy()
        self.stall_step: _Ints = stalls["step"].to_numpy()
        self._stall_way = way[stalls["blocker"].to_numpy()]
        self._steps = steps
        self._chosen, self._way = every[step >= 0], way[step >= 0]
        self._step = step[step >= 0]
        self._size = rows["size_bytes"].to_numpy()[step >= 0]
        self._compute = overlap.compute
        self._collective = difference(overlap.collective, overlap.compute)
        self._graphs = difference(overlap.graphs, overlap.compute)

    def measured(self, ways: Sequence[int], free_ns: _Ints) -> StepTransfers:
        """Measure the transfers of some directions; `free_ns` could hide stalls of theirs."""
        mine, held = np.isin(self._way, ways), np.isin(self._stall_way, ways)
        spans, step, size = self._chosen[mine], self._step[mine], self._size[mine]
        own, of_step = grouped_union(spans[:, 0], spans[:, 1], step)
        length, hidden = own[:, 1] - own[:, 0], covered_ns(own, self._compute)
        stall_ns = _added(self.stall_ns[held], self.stall_step[held], self._steps)
        steps = self._steps
        return StepTransfers(
            copies=np.bincount(step, minlength=steps).astype(np.int64),
            bytes=_added(size, step, steps) if (size != UNSET).all() else np.full(steps, UNSET),
            sum_ns=_added(spans[:, 1] - spans[:, 0], step, steps),
            busy_ns=_added(length, of_step, steps),
            hidden_ns=_added(hidden, of_step, steps),
            exposed_ns=_added(length - hidden, of_step, steps),
            hidden_by_collectives_ns=_added(covered_ns(own, self._collective), of_step, steps),
            undetermined_ns=_added(covered_ns(own, self._graphs), of_step, steps),
            stall_ns=stall_ns,
            hideable_ns=np.minimum(stall_ns, free_ns),
        )


def _phases(kernels: pd.DataFrame, step: _Ints, phase: _Ints, steps: int) -> Mapping[str, _Ints]:
    """Compute time of each step by phase: the union of its kernels of that phase."""
    rows = np.flatnonzero((step >= 0) & (kernels["kind"].cat.codes == 0).to_numpy())
    start, end = (kernels[name].to_numpy()[rows] for name in ("start_ns", "end_ns"))
    own, group = grouped_union(start, end, step[rows] * len(PHASES) + phase[rows])
    total = _added(own[:, 1] - own[:, 0], group, steps * len(PHASES)).reshape(steps, len(PHASES))
    return {name: total[:, code] for code, name in enumerate(PHASES)}


def _added(values: _Ints, group: NDArray[np.integer], groups: int) -> _Ints:
    """Sum of each group's values, exact for any integers."""
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, group, values)
    return total
