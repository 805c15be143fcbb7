"""One device: its steps, stalls, contention and causes, from the timeline and its overlap."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.diagnosis.diagnose import Diagnosis, diagnose
from nsysoffload.diagnosis.measurements import Calls, Measurements
from nsysoffload.hardware import HostLink
from nsysoffload.overlap.contention import slow_transfers, stretched_kernels
from nsysoffload.overlap.link import SIZE_CLASSES, lone
from nsysoffload.overlap.per_step import StepValues, step_values
from nsysoffload.overlap.stalls import find_stalls
from nsysoffload.overlap.transfers import DeviceOverlap
from nsysoffload.overlap.waits import proven_waits
from nsysoffload.timeline.intervals import intervals, spans_of, union
from nsysoffload.timeline.phase import PHASES
from nsysoffload.timeline.steps import Steps
from nsysoffload.timeline.streams import stream_codes
from nsysoffload.timeline.timeline import DIRECTIONS, Timeline
from nsysoffload.trace.tables import UNSET

__all__ = ["Examined", "examine"]

_Ints = NDArray[np.int64]
_LIMITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


@dataclass(frozen=True)
class Examined:
    """What is known of one device beyond overlap.

    Attributes
    ----------
    overlap : DeviceOverlap
        Its rows and their cover.
    steps : Steps
        Its steps.
    kernel_step, transfer_step : int64 array
        Step of each row, a position among the chosen steps, -1 for none.
    kernel_thunk, transfer_thunk : int64 array
        XLA's operation of each row: a row of the timeline's ``names.thunks``, -1 for none.
    values : StepValues
        Figures of each step.
    measurements : Measurements
        What the rules looked at.
    diagnosis : Diagnosis
        What they said.
    """

    overlap: DeviceOverlap
    steps: Steps
    kernel_step: _Ints
    transfer_step: _Ints
    kernel_thunk: _Ints
    transfer_thunk: _Ints
    values: StepValues
    measurements: Measurements
    diagnosis: Diagnosis


def examine(
    timeline: Timeline, overlap: DeviceOverlap, steps: Steps, link: HostLink | None
) -> Examined:
    """Find the stalls of a device's steps, and why they are there.

    Parameters
    ----------
    timeline : Timeline
        The trace.
    overlap : DeviceOverlap
        One of its devices.
    steps : Steps
        The steps of that device.
    link : HostLink or None
        Its host link, if known.
    """
    kernels, transfers = overlap.kernels, overlap.transfers
    kernel_step, transfer_step = steps.of(kernels), steps.of(transfers)
    names = timeline.names
    kernel_thunk, transfer_thunk = (
        names.thunk[rows["call"].to_numpy()] for rows in (kernels, transfers)
    )
    spans = intervals(steps.start_ns, steps.end_ns)
    waits = proven_waits(timeline, kernels, transfers, overlap.device.rest)
    stalls = find_stalls(kernels, transfers, spans, waits, overlap.graphs, overlap.other)
    phase = _phases(names.thunks, kernel_thunk) if (kernel_thunk >= 0).any() else None
    values = step_values(overlap, spans, kernel_step, transfer_step, phase, stalls)
    kernel_stream, transfer_stream = stream_codes([kernels, transfers])
    ops, transfer_op = _ops(names.thunks, transfers, transfer_thunk)
    moving = union(spans_of(transfers))
    working = union(overlap.compute, overlap.collective)
    beside = union(working, overlap.other, overlap.graphs)
    timed = (transfers["end_ns"] > transfers["start_ns"]).to_numpy()
    measurements = Measurements(
        kernels=kernels,
        transfers=transfers,
        kernel_calls=_calls(timeline, kernels),
        transfer_calls=_calls(timeline, transfers),
        kernel_stream=kernel_stream,
        transfer_stream=transfer_stream,
        transfer_op=transfer_op,
        transfer_thunk=transfer_thunk,
        ops=ops,
        has_xla=len(names.thunks) > 0 or len(names.executions) > 0,
        calls=_calls_of(timeline, kernels, transfers),
        steps=spans,
        kernel_chosen=kernel_step >= 0,
        transfer_chosen=transfer_step >= 0,
        hideable_ns={w: int(v.hideable_ns.sum()) for w, v in values.directions.items()},
        exposed_ns={w: int(v.exposed_ns.sum()) for w, v in values.directions.items()},
        compute=overlap.compute,
        collective=overlap.collective,
        other=overlap.other,
        graphs=overlap.graphs,
        stalls=stalls,
        waits=waits,
        stretched=stretched_kernels(kernels, kernel_step >= 0, moving),
        slow=slow_transfers(transfers, transfer_step >= 0, working, beside),
        lone=lone(spans_of(transfers), spans_of(transfers[timed]), beside),
        link=link,
        thunks=names.thunks,
        kernel_thunk=kernel_thunk,
    )
    return Examined(
        overlap,
        steps,
        kernel_step,
        transfer_step,
        kernel_thunk,
        transfer_thunk,
        values,
        measurements,
        diagnose(measurements),
    )


def _phases(thunks: pd.DataFrame, thunk: _Ints) -> _Ints:
    """Position in `PHASES` of each row; what has no operation is ``other``."""
    of_thunk = [PHASES.index(phase) for phase in thunks["phase"]]
    return np.array([*of_thunk, PHASES.index("other")], dtype=np.int64)[thunk]


def _ops(
    thunks: pd.DataFrame, transfers: pd.DataFrame, thunk: _Ints
) -> tuple[tuple[str, ...], _Ints]:
    """Label the operation of each transfer; without XLA's by direction, size class and stream."""
    size = transfers["size_bytes"].to_numpy()
    upto = np.searchsorted(SIZE_CLASSES, size)
    frame = pd.DataFrame(
        {
            "thunk": thunk,
            "way": np.where(thunk < 0, transfers["direction"].cat.codes.to_numpy(), 0),
            "upto": np.where(thunk < 0, np.where(size == UNSET, -1, upto), 0),
            "stream": np.where(thunk < 0, transfers["stream"].to_numpy(), 0),
        }
    )
    groups = frame.groupby(list(frame), sort=True)
    code = groups.ngroup().to_numpy().astype(np.int64)
    labels = []
    for number, way, upto_class, stream in sorted(set(frame.itertuples(index=False, name=None))):
        if number >= 0:
            labels.append(thunks["hlo_op"].iloc[number] or thunks["op_name"].iloc[number] or "?")
        else:
            labels.append(f"{DIRECTIONS[way].upper()} {_class(upto_class)}, stream {stream}")
    return tuple(labels), code


def _class(upto: int) -> str:
    if upto < 0:
        return "of unknown size"
    if upto == len(SIZE_CLASSES):
        return "> 1 GiB"
    unit, factor = next(limit for limit in _LIMITS if SIZE_CLASSES[upto] >= limit[1])
    return f"≤ {SIZE_CLASSES[upto] // factor} {unit}"


def _calls(timeline: Timeline, rows: pd.DataFrame) -> Calls:
    first = timeline.index.first
    call = rows["call"].to_numpy()
    start, end = (
        np.append(timeline.trace.calls[name].to_numpy()[first], -1)[call]
        for name in ("start_ns", "end_ns")
    )
    return Calls(start, end)


def _calls_of(timeline: Timeline, kernels: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of the processes that use the device."""
    mine = np.unique(
        np.concatenate([pd.unique(kernels["process"]), pd.unique(transfers["process"])])
    )
    calls = timeline.trace.calls
    process = calls["process"].to_numpy()
    if len(mine) == 1 and (process == mine[0]).all():
        return calls
    return calls[np.isin(process, mine)]
