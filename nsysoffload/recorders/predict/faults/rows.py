"""`Performance` -> `Trace`: the rows of the export, and those that only a fault leaves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysoffload.recorders.predict.export import ORIGIN_NS, trace
from nsysoffload.recorders.predict.faults.host import Pause, Performance
from nsysoffload.recorders.predict.record import Record
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import TABLES, UNSET, Trace

__all__ = ["GPU", "Traits", "traced"]

GPU = "NVIDIA GB200"

_STEP_NS = 500  # of what a call does before and after the copy that it blocks for
_EVENTS = ("cuEventRecord", "cuStreamWaitEvent")


@dataclass(frozen=True)
class Traits:
    """What a trace shows beside the record.

    Attributes
    ----------
    gpu : str
        Product name.
    pageable : tuple of str
        Copies from or to pageable memory, in whose calls the host waits.
    has_events : bool
        Whether the recorder kept event records and waits.
    """

    gpu: str = GPU
    pageable: tuple[str, ...] = ()
    has_events: bool = True


def traced(performance: Performance, traits: Traits) -> Trace:
    """Return the trace of what ran."""
    tasks = performance.tasks(*traits.pageable)
    record = _blocked(performance, tasks)
    made = trace(record, gpu=traits.gpu)
    made = _with_pageable(made, record, tasks)
    made = _with_pauses(made, performance)
    made = _with_host_functions(made)
    made = _without_ranges_between_steps(made, record)
    return made if traits.has_events else _without_events(made)


# --- Pageable memory ---


def _blocked(performance: Performance, tasks: Sequence[int]) -> Record:
    """Let the calls of copies last until the host goes on."""
    record = performance.record
    call_end_ns = record.call_end_ns.copy()
    calls = {int(record.issue.call_of[task]) for task in tasks}
    for pause, call, task in performance.paused:
        if call in calls:
            call_end_ns[call] = record.end_ns[task] + pause.delay_ns
    return replace(record, call_end_ns=call_end_ns)


def _with_pageable(made: Trace, record: Record, tasks: Sequence[int]) -> Trace:
    """Move the host side to pageable memory, and the calls around a copy close to it.

    ::

        call    [event)[wait)[copy            )[event)
        d2h                         [copy    )
    """
    if not tasks:
        return made
    copies, calls = made.copies.copy(), made.calls.set_index("correlation", drop=False)
    rows = _copy_rows(record)
    for task in tasks:
        row = rows[task]
        is_h2d = copies.loc[row, "copy_kind"] == CopyKind.HOST_TO_DEVICE
        copies.loc[row, "source_kind" if is_h2d else "target_kind"] = MemKind.PAGEABLE
        call = record.issue.call_of[task]
        first, last = record.call_start_ns[call] + ORIGIN_NS, record.call_end_ns[call] + ORIGIN_NS
        cuts = [first, first + _STEP_NS, first + 2 * _STEP_NS, last - _STEP_NS, last]
        around = int(copies["correlation"].iloc[row]) + np.arange(-2, 2)
        calls.loc[around, "start_ns"] = cuts[:-1]
        calls.loc[around, "end_ns"] = cuts[1:]
    calls = calls.reset_index(drop=True)
    return replace(made, copies=copies, calls=calls, syncs=_timed(made.syncs, calls))


def _timed(rows: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Give rows the times of their calls."""
    times = calls.set_index("correlation")[["start_ns", "end_ns"]].loc[rows["correlation"]]
    return rows.assign(start_ns=times["start_ns"].array, end_ns=times["end_ns"].array)


def _copy_rows(record: Record) -> dict[int, int]:
    """Place of each copy by the driver among the copies of the trace, which are by time."""
    ops, op_of = record.issue.ops, record.issue.op_of.tolist()
    order = np.argsort(record.start_ns, kind="stable").tolist()
    copies = [task for task in order if not ops[op_of[task]].is_kernel]
    return {task: row for row, task in enumerate(copies)}


# --- The host ---


def _with_pauses(made: Trace, performance: Performance) -> Trace:
    """Add the calls that the host paused in."""
    seen = [paused for paused in performance.paused if paused[0].call]
    if not seen:
        return made
    record = performance.record
    first = int(made.calls["correlation"].max()) + 1
    calls = pd.DataFrame(
        {
            "start_ns": record.call_end_ns[[call for _, call, _ in seen]] + ORIGIN_NS,
            "end_ns": [record.end_ns[task] + pause.delay_ns + ORIGIN_NS for pause, _, task in seen],
            "name": [pause.call for pause, _, _ in seen],
            "correlation": np.arange(first, first + len(seen)),
        }
    )
    rows = _copy_rows(record)
    awaited = {
        first + n: int(made.copies["stream"].iloc[rows[task]])
        for n, (pause, _, task) in enumerate(seen)
        if _synchronises(pause)
    }
    syncs = calls[calls["correlation"].isin(awaited)].assign(
        stream=list(awaited.values()), event=UNSET, event_sync=UNSET
    )
    return replace(
        made,
        calls=_joined("calls", made.calls, calls),
        syncs=_joined("syncs", made.syncs, syncs) if awaited else made.syncs,
    )


def _synchronises(pause: Pause) -> bool:
    return "StreamSynchronize" in pause.call


def _joined(name: str, rows: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Add rows; what they do not say is as in the rows that are there."""
    table = TABLES[name]
    usual = {column: rows[column].iloc[0] for column in table.names if column not in more}
    both = [
        frame.astype(
            {column.name: object for column in table.columns if column.dtype == "category"}
        )
        for frame in (rows, more.assign(**usual))
    ]
    joined = pd.concat(both, ignore_index=True)
    return table.conform(joined.sort_values("start_ns", kind="stable", ignore_index=True))


def _with_host_functions(made: Trace) -> Trace:
    """Turn the copies that stand for host functions into calls without a row on the GPU."""
    is_function = made.copies["copy_kind"] == CopyKind.DEVICE_TO_DEVICE
    if not is_function.any():
        return made
    calls = made.calls.astype({"name": object})
    of_function = calls["correlation"].isin(made.copies["correlation"][is_function])
    calls.loc[of_function, "name"] = "cuLaunchHostFunc"
    copies = made.copies[~is_function].reset_index(drop=True)
    return replace(made, calls=TABLES["calls"].conform(calls), copies=copies)


# --- What the recorder saw ---


def _without_ranges_between_steps(made: Trace, record: Record) -> Trace:
    """Drop the ranges around what belongs to no step."""
    ranges = made.nvtx_ranges
    numbers = np.array([call.step for call in record.issue.calls], dtype=np.int64)
    kept = np.ones(len(ranges), dtype=bool)
    for number in np.unique(numbers[numbers < 0]):
        first = record.call_start_ns[numbers == number].min() + ORIGIN_NS
        last = record.call_end_ns[numbers == number].max() + ORIGIN_NS
        kept &= ~((ranges["start_ns"] >= first) & (ranges["end_ns"] <= last)).to_numpy()
    return replace(made, nvtx_ranges=ranges[kept].reset_index(drop=True))


def _without_events(made: Trace) -> Trace:
    calls = made.calls[~made.calls["name"].isin(_EVENTS)].astype({"name": object})
    return replace(
        made,
        calls=TABLES["calls"].conform(calls.reset_index(drop=True)),
        syncs=TABLES["syncs"].empty(),
        events=TABLES["events"].empty(),
        absent=made.absent | {"syncs", "events"},
    )
