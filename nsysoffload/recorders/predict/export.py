"""`Record` -> `Trace`: the rows that Nsight Systems would have recorded on such a run.

Names are XLA's and CUDA's, so that every later stage reads a prediction like a measurement. On
purpose one thing differs: matrix products and attention have ``predicted_`` before their names, as
nobody knows which kernel a library would have chosen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.recorders.predict.lowering import COMPUTE, NOT_IN_A_GRAPH
from nsysoffload.recorders.predict.program import Kind, Op
from nsysoffload.recorders.predict.record import Record, Work, work_of
from nsysoffload.trace.prediction import Prediction
from nsysoffload.trace.schema import CopyKind, MemKind, NvtxKind
from nsysoffload.trace.tables import GPUS, TABLES, UNSET, Source, Trace

__all__ = ["ORIGIN_NS", "STEP_RANGE", "TSL_DOMAIN", "kernel_name", "trace"]

ORIGIN_NS = 1_000_000_000
"""Where the record's 0 stands on the clock of the trace; a row at 0 would not be believed."""

STEP_RANGE = "train_step"
"""NVTX range, in the default domain, around what the host does for a step."""

TSL_DOMAIN = 1
"""NVTX domain of XLA's own ranges."""

PID = 1
PROCESS = 1 << 24 | PID  # on the first virtual machine, as in real exports
COMPUTE_STREAM = 13  # the first that a program makes, in real exports; the others follow

_COPIES = {
    Kind.H2D: (CopyKind.HOST_TO_DEVICE, MemKind.PINNED, MemKind.DEVICE),
    Kind.D2H: (CopyKind.DEVICE_TO_HOST, MemKind.DEVICE, MemKind.PINNED),
    Kind.COPY: (CopyKind.DEVICE_TO_DEVICE, MemKind.DEVICE, MemKind.DEVICE),
}
_NO_COPY = (UNSET, UNSET, UNSET)
_NCCL = {
    "all-gather": "AllGather_RING_LL",
    "reduce-scatter": "ReduceScatter_Sum_{dtype}_RING_LL",
    "all-reduce": "AllReduce_Sum_{dtype}_RING_LL",
    "collective-broadcast": "Broadcast_RING_LL",
}
_SEND_RECV = "SendRecv"  # what NCCL builds all other collectives from

_KERNELS = (Work.COMPUTE, Work.COLLECTIVE)
_RECORD, _WAIT, _BLOCK = "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize"


def trace(record: Record, *, gpu: str, prediction: Prediction | None = None) -> Trace:
    """Return the trace of a record.

    Parameters
    ----------
    record : Record
        What ran, on one device.
    gpu : str
        Product name of the GPU, by which its link is known.
    prediction : Prediction, optional
        How the times were made.
    """
    stream_of = _streams(record)
    calls = _api_calls(record, stream_of)
    tasks = _tasks(record, stream_of, calls)
    works = np.array([work_of(op) for op in record.issue.ops], dtype=object)[tasks["op"]]
    is_kernel = np.isin(works, _KERNELS)
    is_copy = ~is_kernel & (tasks["copy_kind"] != UNSET).to_numpy()
    copies = tasks[is_copy]
    frames = {
        "kernels": tasks[is_kernel],
        "copies": copies.assign(row_id=np.arange(1, len(copies) + 1)),
        "memsets": tasks[~is_kernel & ~is_copy],
        "calls": calls,
        "nvtx_ranges": _nvtx_ranges(record, calls),
        "syncs": calls[calls["name"].isin((_WAIT, _BLOCK))],
        "events": calls[calls["name"] == _RECORD],
    }
    rows: dict[str, Any] = {
        name: _rows(name, frame) for name, frame in frames.items() if len(frame)
    }
    made = Source(Path("predicted.sqlite"), "predicted", "predict", prediction=prediction)
    return Trace(made, _gpus(gpu), **rows, absent=frozenset(TABLES) - rows.keys())


def _payload_bytes(op: Op) -> int:
    """Bytes of a copy as a trace has them: a copy within the device reads and writes each once."""
    return op.size_bytes // 2 if op.kind is Kind.COPY else op.size_bytes


def kernel_name(op: Op) -> str:
    """Return the name of an operation's kernel.

    Examples
    --------
    >>> kernel_name(Op("loop_add_fusion.3", Kind.FUSION))
    'loop_add_fusion_3'
    >>> kernel_name(Op("all-gather-start", Kind.COLLECTIVE, collective="all-gather"))
    'ncclDevKernel_AllGather_RING_LL'
    """
    if op.kind is Kind.COLLECTIVE:
        name = _NCCL.get(op.collective, _SEND_RECV)
        return f"ncclDevKernel_{name.format(dtype=op.dtype or 'bf16')}"
    name = op.name.replace(".", "_").replace("-", "_")
    return f"predicted_{op.kind}_{name}" if op.kind in (Kind.GEMM, Kind.ATTENTION) else name


def _rows(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table, on the clock of the trace."""
    said = {
        "process": PROCESS,
        "thread": PID,
        "ordinal": 0,
        "device": 0,
        "context": 1,
        "return_value": 0,
    }
    table = TABLES[name]
    missing = {column: said[column] for column in table.names if column not in frame}
    times = {
        column: frame[column] + ORIGIN_NS
        for column in ("start_ns", "end_ns")
        if column in table.names
    }
    return table.conform(frame.assign(**missing, **times).reset_index(drop=True))


def _gpus(name: str) -> pd.DataFrame:
    gpu = {"id": f"{PID}:0", "ordinal": 0, "pid": PID, "name": name, "uuid": None}
    return GPUS.conform(pd.DataFrame([{**gpu, "copy_engines": UNSET}]))


# --- What ran on the GPU ---


def _streams(record: Record) -> NDArray[np.int64]:
    """Stream id of each task."""
    names = [COMPUTE, *(task.stream for task in record.issue.tasks)]
    codes, _ = pd.factorize(np.array(names, dtype=object))
    streams: NDArray[np.int64] = COMPUTE_STREAM + codes[1:].astype(np.int64)
    return streams


def _tasks(record: Record, stream_of: NDArray[np.int64], calls: pd.DataFrame) -> pd.DataFrame:
    """Tasks in order of time, with the columns of every table that they may belong to."""
    issue = record.issue
    size = np.array([_payload_bytes(op) for op in issue.ops], dtype=np.int64)
    copy = np.array([_COPIES.get(op.kind, _NO_COPY) for op in issue.ops], dtype=np.int64)
    kind, source, target = copy.reshape(-1, 3)[issue.op_of].T
    issuing = calls[calls["issues"]]  # in the order of the record's calls
    frame = pd.DataFrame(
        {
            "op": issue.op_of,
            "start_ns": record.start_ns,
            "end_ns": record.end_ns,
            "stream": stream_of,
            "correlation": issuing["correlation"].to_numpy()[issue.call_of],
            "name": _texts([kernel_name(op) for op in issue.ops], issue.op_of),
            "size_bytes": size[issue.op_of],
            "copy_kind": kind,
            "source_kind": source,
            "target_kind": target,
            "shape": UNSET,
            "graph_node": np.where(issue.node_of == NOT_IN_A_GRAPH, UNSET, issue.node_of),
        }
    )
    return frame.sort_values("start_ns", kind="stable")


def _texts(texts: Sequence[str], codes: NDArray[np.int64]) -> pd.Categorical:
    """Text column whose rows are positions in a list of texts, which may repeat."""
    categories = sorted(set(texts))
    place = {text: code for code, text in enumerate(categories)}
    of_text = np.array([place[text] for text in texts], dtype=np.int64)
    return pd.Categorical.from_codes(of_text[codes], categories=pd.Index(categories, dtype=object))


# --- What the host did ---


def _api_calls(record: Record, stream_of: NDArray[np.int64]) -> pd.DataFrame:
    """Return the API calls in order, with what they say of streams and events.

    A call of the record that starts an operation on another stream is four API calls, which share
    its time: an event is recorded on the compute stream, the other stream waits for it, the
    operation is issued, the event is recorded behind it for the compute stream to wait for::

        record        [         start copy        )  ...  [done)
        API           [event)[wait  )[copy)[event )       [wait)
        event_sync     2      2             3              3

    ``issues`` marks the one API call of each call of the record that stands for it.
    """
    issue = record.issue
    started = np.flatnonzero(issue.started)
    call = issue.call_of[started]
    start, end = record.call_start_ns.copy(), record.call_end_ns.copy()
    cuts = [start[call] + (end - start)[call] * part // 4 for part in range(5)]
    start[call], end[call] = cuts[2], cuts[3]
    event = np.arange(1, len(started) + 1)
    stream = stream_of[started]
    blocking = np.array(issue.blocking, dtype=np.int64)
    blocked = issue.call_of[blocking]
    every = np.arange(len(start))
    parts = [
        (2, every, _names(record), start, end, *_awaited(record, event)),
        (0, call, _RECORD, cuts[0], cuts[1], COMPUTE_STREAM, event, 2 * event),
        (1, call, _WAIT, cuts[1], cuts[2], stream, event, 2 * event),
        (3, call, _RECORD, cuts[3], cuts[4], stream, event, 2 * event + 1),
        (3, blocked, _BLOCK, end[blocked], record.end_ns[blocking], COMPUTE_STREAM, UNSET, UNSET),
    ]
    columns = ("part", "call", "name", "start_ns", "end_ns", "stream", "event", "event_sync")
    frames = [pd.DataFrame(dict(zip(columns, part, strict=True))) for part in parts]
    calls = pd.concat(frames, ignore_index=True)
    calls = calls.take(np.argsort(4 * calls["call"] + calls["part"], kind="stable"))
    return calls.assign(issues=calls["part"] == 2, correlation=np.arange(1, len(calls) + 1))


def _names(record: Record) -> NDArray[np.object_]:
    """Return the API function of each call of the record; all but waits issue a task or more."""
    issue = record.issue
    names = np.full(len(issue.calls), _WAIT, dtype=object)
    functions = np.array([_function(op) for op in issue.ops], dtype=object)
    in_graph = issue.node_of != NOT_IN_A_GRAPH
    names[issue.call_of] = np.where(in_graph, "cuGraphLaunch", functions[issue.op_of])
    return names


def _function(op: Op) -> str:
    if work_of(op) in _KERNELS:
        return "cuLaunchKernelEx"
    # XLA copies between device and pinned host memory by their addresses, as if within the device.
    return "cuMemcpyDtoDAsync" if op.kind in _COPIES else "cuMemsetD32Async"


def _awaited(record: Record, events: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Stream, event and record of the event that each call of the record refers to, if any."""
    issue = record.issue
    event_of = np.full(len(issue.tasks), UNSET, dtype=np.int64)
    event_of[issue.started] = events
    waiting, awaited = np.array(issue.waits, dtype=np.int64).reshape(-1, 2).T
    stream, event, event_sync = np.full((3, len(issue.calls)), UNSET, dtype=np.int64)
    stream[waiting] = COMPUTE_STREAM
    event[waiting] = event_of[awaited]
    event_sync[waiting] = 2 * event_of[awaited] + 1
    return stream, event, event_sync


# --- NVTX ---


def _nvtx_ranges(record: Record, calls: pd.DataFrame) -> pd.DataFrame:
    """Ranges of the steps, of XLA's executions in them, and of its thunks around the calls."""
    module = record.issue.module
    prefix = f"jit({module.removeprefix('jit_')})"
    execution = f"XlaModule:#prefix={prefix},hlo_module={module},program_id=1#"
    step_of = np.array([call.step for call in record.issue.calls], dtype=np.int64)
    steps = calls.groupby(step_of[calls["call"]]).agg({"start_ns": "min", "end_ns": "max"})
    thunks = pd.DataFrame({"start_ns": record.call_start_ns, "end_ns": record.call_end_ns})
    ranges = pd.concat([steps, steps, thunks], ignore_index=True)
    texts = [STEP_RANGE, execution, *_thunk_names(record)]
    codes = np.repeat([0, 1], len(steps))
    ranges = ranges.assign(
        event_type=NvtxKind.PUSH_POP,
        domain=np.repeat([0, TSL_DOMAIN], [len(steps), len(steps) + len(thunks)]),
        text=_texts(texts, np.concatenate([codes, 2 + _thunks(record)])),
    )
    return ranges.sort_values("start_ns", kind="stable")


def _thunk_names(record: Record) -> list[str]:
    """Range of each operation, then the range in which it is waited for, then that of a graph."""
    ops = record.issue.ops
    done = [op.name.replace("-start", "-done") for op in ops]
    return [
        *(_thunk(op.op_name, op.name, number) for number, op in enumerate(ops)),
        *(
            _thunk(op.op_name, name, len(ops) + number)
            for number, (op, name) in enumerate(zip(ops, done, strict=True))
        ),
        _thunk("command_buffer", "command_buffer", 2 * len(ops)),
    ]


def _thunk(op_name: str, hlo_op: str, number: int) -> str:
    return f"Thunk:#name={op_name},hlo_op={hlo_op},unique_hlo_op_id={number}#"


def _thunks(record: Record) -> NDArray[np.int64]:
    """Position in the thunk names of each call of the record."""
    issue = record.issue
    ops = len(issue.ops)
    names = np.empty(len(issue.calls), dtype=np.int64)
    in_graph = issue.node_of != NOT_IN_A_GRAPH
    names[issue.call_of] = np.where(in_graph, 2 * ops, issue.op_of)
    waiting, awaited = np.array(issue.waits, dtype=np.int64).reshape(-1, 2).T
    names[waiting] = ops + issue.op_of[awaited]
    return names
