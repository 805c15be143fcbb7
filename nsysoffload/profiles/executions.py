"""Trace -> how long each instruction of a module took, execution by execution.

A GPU row belongs to the innermost of XLA's ranges around its API call. Where the module does not
list that range's operation, as an operation within an asynchronous one, the range around it counts.
What an operation launches in one go, several kernels or one, is one execution of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.errors import TraceError, UsageError
from nsysoffload.profiles.instructions import Instructions
from nsysoffload.timeline.ranges import innermost, occurrences
from nsysoffload.timeline.steps import StepRule, find_steps
from nsysoffload.timeline.timeline import DeviceTimeline, Timeline, build
from nsysoffload.timeline.xla import THUNK, fields
from nsysoffload.trace.tables import NO_TIME, UNSET, Trace

__all__ = ["Executions", "executions"]

_Ints = NDArray[np.int64]
_COLUMNS = ["start_ns", "end_ns", "call"]
_THREAD_BITS = 24


@dataclass(frozen=True)
class Executions:
    """Executions of a module's instructions in the chosen steps of a trace.

    Attributes
    ----------
    frame : DataFrame
        ``name`` (of the instruction, as the profile has it), ``device`` (number over all traces),
        ``step`` (counted over all found steps), ``occurrence`` (of the instruction in its step) and
        ``duration_ns``.
    total_ns, named_ns, known_ns : int
        Time of the GPU rows in those steps that are of the module, or of none by name; of those
        that XLA names an operation for; of those whose operation the module has.
    graph_ns : int
        Time of CUDA graphs: of the rows from them, and of those traced as a whole.
    unknown : mapping of str to int
        Time by operation that the module does not have.
    modules : frozenset of str
        Modules that the trace names in those steps.
    devices : int
        GPUs of all traces.
    """

    frame: pd.DataFrame
    total_ns: int
    named_ns: int
    known_ns: int
    graph_ns: int
    unknown: Mapping[str, int]
    modules: frozenset[str]
    devices: int


@dataclass(frozen=True)
class _Ranges:
    """XLA's ranges of operations: times, packed thread, and text by code."""

    start_ns: _Ints
    end_ns: _Ints
    thread: _Ints
    ops: list[str]
    code: _Ints

    def around(self, at_ns: _Ints, thread: _Ints) -> _Ints:
        """Return the position of the innermost range around each moment, -1 for none."""
        found: _Ints = innermost(self.start_ns, self.end_ns, self.thread, at_ns, thread)
        return found


def executions(
    traces: Iterable[Trace], module: Instructions, rule: StepRule | None = None
) -> Executions:
    """Find the executions of a module's instructions.

    Parameters
    ----------
    traces : iterable of Trace
        One, or one per rank.
    module : Instructions
        Whose executions.
    rule : StepRule, optional
        What a step is; by default as in a report.

    Raises
    ------
    TraceError
        If no GPU row can be believed.
    UsageError
        If no range or kernel matches a pattern of the rule, or it leaves no step.
    """
    timelines = [build(trace) for trace in traces]
    devices = [(timeline, device) for timeline in timelines for device in timeline.devices]
    if not devices:
        raise TraceError("The traces hold no GPU row that can be believed; record again.")
    parts = [_of_device(*device, module, rule or StepRule()) for device in devices]
    if not any(map(len, parts)):
        raise UsageError(
            "No step of the trace is left to take times from; record whole steps, or skip fewer"
            " with --skip-steps."
        )
    rows = pd.concat([part.assign(device=number) for number, part in enumerate(parts)])
    modules = frozenset(rows["module"]) - {""}
    rows = rows[rows["module"].isin(("", module.module))]
    time = rows["duration_ns"]
    named, known = rows["op"] != "", rows["name"] != ""
    whole = [device.graphs for _, device in devices]
    return Executions(
        frame=_grouped(rows[known]),
        total_ns=int(time.sum()),
        named_ns=int(time[named].sum()),
        known_ns=int(time[known].sum()),
        graph_ns=int(time[rows["in_graph"]].sum())
        + sum(int((graphs[:, 1] - graphs[:, 0]).sum()) for graphs in whole),
        unknown=_by_op(rows[named & ~known]),
        modules=modules,
        devices=len(devices),
    )


def _by_op(rows: pd.DataFrame) -> dict[str, int]:
    return {str(op): int(time) for op, time in rows.groupby("op")["duration_ns"].sum().items()}


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    """Add up the rows of each execution, and count these within each step."""
    keys = ["name", "device", "step", "range"]
    frame: pd.DataFrame = rows.groupby(keys)["duration_ns"].sum().reset_index()
    group = frame.groupby(keys[:3]).ngroup().to_numpy().astype(np.int64)
    return frame.assign(occurrence=occurrences(group)).drop(columns="range")


def _of_device(
    timeline: Timeline, device: DeviceTimeline, module: Instructions, rule: StepRule
) -> pd.DataFrame:
    """Rows of a device in its chosen steps, with operation, instruction and execution of each."""
    steps = find_steps(timeline, device, device.recorded, rule)
    rows = _rows(device)
    at = steps.of(rows)
    rows = rows[at >= 0].assign(step=np.append(steps.index, UNSET)[at[at >= 0]])
    ranges = _ranges(timeline.trace)
    inner = ranges.around(*_calls(timeline, rows))
    outer = _parents(ranges, inner)
    ops = np.array([*ranges.ops, ""], dtype=object)
    names = np.array([_known(module, op) for op in ops], dtype=object)
    codes = np.append(ranges.code, -1)
    chosen = np.where(names[codes[inner]] != "", inner, outer)
    return rows.assign(
        op=ops[codes[inner]],
        name=names[codes[chosen]],
        range=chosen,
        module=_modules(timeline, rows),
        duration_ns=rows["end_ns"] - rows["start_ns"],
    )


def _known(module: Instructions, op: str) -> str:
    costed = module.by_name.get(op)
    return costed.name if costed else ""


def _rows(device: DeviceTimeline) -> pd.DataFrame:
    """All that ran on a device for a program: kernels, host copies and what is neither."""
    kernels, transfers = device.kernels, device.transfers
    graphs = [frame["graph_node"] != UNSET for frame in (kernels, transfers)]
    return pd.concat(
        [
            kernels[_COLUMNS].assign(in_graph=graphs[0]),
            transfers[_COLUMNS].assign(in_graph=graphs[1]),
            device.rest[_COLUMNS].assign(in_graph=False),
        ],
        ignore_index=True,
    ).sort_values("start_ns", kind="stable", ignore_index=True)


def _ranges(trace: Trace) -> _Ranges:
    ranges = trace.nvtx_ranges
    texts = [str(text) for text in ranges["text"].cat.categories]
    is_thunk = np.array([*(text.startswith(THUNK) for text in texts), False])
    codes = ranges["text"].cat.codes.to_numpy().astype(np.int64)
    wanted = is_thunk[codes] & (ranges["start_ns"] != NO_TIME).to_numpy()
    rows = ranges[wanted]
    return _Ranges(
        rows["start_ns"].to_numpy(),
        rows["end_ns"].to_numpy(),
        _threads(rows),
        [fields(text).get("hlo_op", "") for text in texts],
        codes[wanted],
    )


def _calls(timeline: Timeline, rows: pd.DataFrame) -> tuple[_Ints, _Ints]:
    """Return when each row's API call began, and its thread; a row without one is at no time."""
    call = rows["call"].to_numpy()
    first = timeline.index.first
    start = np.append(timeline.trace.calls["start_ns"].to_numpy()[first], NO_TIME)
    thread = np.append(_threads(timeline.trace.calls)[first], UNSET)
    return start[call], thread[call]


def _threads(rows: pd.DataFrame) -> _Ints:
    packed: _Ints = rows["process"].to_numpy() << _THREAD_BITS | rows["thread"].to_numpy()
    return packed


def _parents(ranges: _Ranges, inner: _Ints) -> _Ints:
    """Return the range around each range, -1 for none, and for none."""
    used = np.unique(inner[inner >= 0])
    found = ranges.around(ranges.start_ns[used] - 1, ranges.thread[used])
    parent = np.full(len(ranges.start_ns) + 1, -1, dtype=np.int64)
    encloses = (found >= 0) & (np.append(ranges.end_ns, 0)[found] >= ranges.end_ns[used])
    parent[used] = np.where(encloses, found, -1)
    return parent[inner]


def _modules(timeline: Timeline, rows: pd.DataFrame) -> NDArray[np.object_]:
    """Return the module whose execution launched each row, empty for none."""
    names = timeline.names
    modules = np.array([*names.executions["module"], ""], dtype=object)
    found: NDArray[np.object_] = modules[names.execution[rows["call"].to_numpy()]]
    return found
