"""A large export as XLA would leave it: training steps that offload activations and reload them.

    python -m benchmarks.generate FILE --kernels N

The host launches one operation after another, each under an NVTX range of its thunk; the GPU runs
it on its stream once that is free. Everything is computed as whole columns.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.trace.schema import CopyKind, MemKind, NvtxKind
from nsysoffload.trace.shapes import SHAPE_BITS, shape_of
from nsysoffload.trace.tables import GPUS, TABLES, UNSET, Source, Trace
from nsysoffload.trace.writer import write

__all__ = ["trace"]

Ints = NDArray[np.int64]

OPS = 2_000  # kernels of a step, each with a name of its own
KERNELS_PER_COPY = 12.5
EVENTS_PER_COPY = 2  # recorded before it and behind it, and each waited for
PITCH_NS = 8_500  # from one launch to the next, a little more than the mean kernel
LEAD_NS = 150_000  # from a launch to the earliest start on the GPU
CALL_NS, THUNK_NS = 2_500, 4_000
STEP_PAUSE_NS = 400_000  # the host prepares the next batch
COPY_SIZES = np.array([64 << 10, 1 << 20, 4 << 20, 16 << 20])
H2D_GBPS, D2H_GBPS = 380, 280  # GH200
COPY_LATENCY_NS = 3_000
VM = 1 << 24
COMPUTE, SIDE, COLLECTIVE, OFFLOAD, RELOAD = 13, 14, 19, 25, 31


def trace(kernels: int, devices: int = 1) -> Trace:
    """Make a trace in which each kernel and copy has its API call, and each call its NVTX range.

    Parameters
    ----------
    kernels : int
        Kernels of all devices; to 100 of them there are 8 copies, 16 events, 16 waits for them,
        and 140 calls and ranges.
    devices : int
        GPUs of the one process; each has a host thread of its own.
    """
    parts = [_device(number, kernels // devices) for number in range(devices)]
    frames: dict[str, Any] = {
        name: TABLES[name].conform(_joined([part[name] for part in parts])) for name in parts[0]
    }
    source = Source(Path("bench.sqlite"), nsys_version="2026.2.1.210", export_schema="3.25.0")
    return Trace(source, _gpus(devices), **frames)


def _gpus(devices: int) -> pd.DataFrame:
    uuids = [f"00000000-0000-0000-0000-{number:012x}" for number in range(1, devices + 1)]
    gpus = {"id": uuids, "ordinal": range(devices), "pid": 1, "name": "NVIDIA GH200 120GB"}
    return GPUS.conform(pd.DataFrame({**gpus, "uuid": uuids, "copy_engines": 3}))


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all devices by start, as exports have them."""
    rows = pd.concat(parts).sort_values("start_ns", kind="stable", ignore_index=True)
    return rows.assign(row_id=np.arange(1, len(rows) + 1))


# --- One device ---


def _device(number: int, kernels: int) -> dict[str, pd.DataFrame]:
    random = np.random.default_rng(number)
    copies = int(kernels / KERNELS_PER_COPY)
    events = EVENTS_PER_COPY * copies
    counts = (kernels, copies, events, events)
    groups = np.repeat(np.arange(4), counts)
    place = np.concatenate([np.arange(n) / max(n, 1) for n in counts])
    order = np.argsort(place, kind="stable")
    group = groups[order]
    op = np.cumsum(group == 0) - 1  # the kernel that a call launches, or comes after
    called = 10**9 + PITCH_NS * np.arange(len(order)) + STEP_PAUSE_NS * (op // OPS)
    # Some ids go to calls that were not recorded.
    correlation = (number << 24) + 1 + np.arange(len(order)) * 4 // 3
    where = {"process": VM | 1, "ordinal": number, "device": number, "context": number + 1}

    def launched(of: int) -> dict[str, Any]:
        return {**where, "correlation": correlation[group == of], "graph_node": UNSET}

    def signalled(of: int, stream: Ints | int) -> pd.DataFrame:
        number, start = np.arange(events), called[group == of]
        when = {"start_ns": start, "end_ns": start + CALL_NS, "stream": stream}
        return pd.DataFrame({**launched(of), **when, "event": number % 64, "event_sync": number})

    return {
        "kernels": _kernels(launched(0), called[group == 0] + LEAD_NS, random),
        "copies": _copies(launched(1), called[group == 1] + LEAD_NS, op[group == 1], random),
        "calls": _calls(number, called, group, correlation),
        "nvtx_ranges": _ranges(number, called, group, op % OPS),
        "syncs": signalled(3, COMPUTE),
        "events": signalled(2, np.where(op[group == 2] % OPS < OPS // 2, OFFLOAD, RELOAD)),
    }


def _kernels(where: dict[str, Any], ready: Ints, random: np.random.Generator) -> pd.DataFrame:
    op = np.arange(len(ready)) % OPS
    usual_ns = 1_500 + random.gamma(2.0, 2_500, OPS)
    usual_ns[_collective(np.arange(OPS))] = 120_000
    duration = (usual_ns[op] * random.uniform(0.95, 1.05, len(op))).astype(np.int64)
    stream = np.where(_collective(op), COLLECTIVE, np.where(op % 16 == 5, SIDE, COMPUTE))
    start = np.empty_like(ready)
    for number in (COMPUTE, SIDE, COLLECTIVE):
        mine = stream == number
        start[mine] = _starts(ready[mine], duration[mine])
    name = pd.Categorical.from_codes(op, categories=pd.Index(_kernel_names(), dtype=object))
    when = {"start_ns": start, "end_ns": start + duration}
    shape = shape_of((1, 1, 1)) + (op % 7 << SHAPE_BITS["gridX"])
    return pd.DataFrame({**where, "stream": stream, **when, "name": name, "shape": shape})


def _collective(op: Ints) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = op % 40 == 39
    return chosen


def _copies(
    where: dict[str, Any], ready: Ints, op: Ints, random: np.random.Generator
) -> pd.DataFrame:
    """Offloads in the first half of each step, reloads in the second."""
    offload = op % OPS < OPS // 2
    size = random.choice(COPY_SIZES, len(op))
    duration = COPY_LATENCY_NS + size // np.where(offload, D2H_GBPS, H2D_GBPS)
    start = np.empty_like(ready)
    for direction in (offload, ~offload):
        start[direction] = _starts(ready[direction], duration[direction])
    kinds = {
        "copy_kind": np.where(offload, CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE),
        "source_kind": np.where(offload, MemKind.DEVICE, MemKind.PINNED),
        "target_kind": np.where(offload, MemKind.PINNED, MemKind.DEVICE),
    }
    stream = np.where(offload, OFFLOAD, RELOAD)
    when = {"start_ns": start, "end_ns": start + duration}
    return pd.DataFrame({**where, "stream": stream, **when, "size_bytes": size, **kinds})


def _starts(ready: Ints, duration: Ints) -> Ints:
    """When each row of a stream starts: once it is ready and the row before has ended.

    ::

        ready     0      1            9
        row       [0  3) [3     7)    [9 ...
    """
    before = np.cumsum(duration) - duration
    starts: Ints = np.maximum.accumulate(ready - before) + before
    return starts


def _calls(number: int, called: Ints, group: Ints, correlation: Ints) -> pd.DataFrame:
    names = ["cuLaunchKernelEx", "cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent"]
    return pd.DataFrame(
        {
            "process": VM | 1,
            "thread": number + 1,
            "correlation": correlation,
            "start_ns": called,
            "end_ns": called + CALL_NS,
            "name": pd.Categorical.from_codes(group, categories=pd.Index(names, dtype=object)),
            "return_value": 0,
        }
    )


def _ranges(number: int, called: Ints, group: Ints, op: Ints) -> pd.DataFrame:
    """One thunk per call, one module per step around them, and the step's own range around that."""
    texts = _thunk_texts()
    module = "XlaModule:#prefix=jit(train_step)/jit(main),hlo_module=jit_train_step,program_id=12#"
    opens = np.flatnonzero(np.r_[True, np.diff(op) < 0])
    closes = np.r_[opens[1:], len(op)] - 1
    start = np.r_[called - 500, called[opens] - 2_000, called[opens] - 3_000]
    end_ns = called[closes] + 2 * THUNK_NS
    end = np.r_[called - 500 + THUNK_NS, end_ns, end_ns + 1_000]
    text = np.r_[group * OPS + op, np.repeat([len(texts), len(texts) + 1], len(opens))]
    return pd.DataFrame(
        {
            "process": VM | 1,
            "thread": number + 1,
            "start_ns": start,
            "end_ns": end,
            "event_type": NvtxKind.PUSH_POP,
            "domain": np.repeat([2, 0], [len(called) + len(opens), len(opens)]),
            "text": pd.Categorical.from_codes(
                text, categories=pd.Index([*texts, module, "train_step"], dtype=object)
            ),
        }
    )


# --- Names ---


def _kernel_names() -> list[str]:
    usual = (
        "loop_multiply_fusion_{}",
        "input_reduce_fusion_{}",
        "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_{}",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_{}>(Params)",
        "loop_dynamic_update_slice_fusion_{}",
    )
    names = [usual[op % len(usual)].format(op) for op in range(OPS)]
    for op in np.flatnonzero(_collective(np.arange(OPS))):
        names[op] = f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs) {op}"
    return names


def _thunk_texts() -> list[str]:
    """Texts of thunks of kernels, copies, records and waits, one per operation of a step."""
    half = OPS // 2
    scopes = [
        f"jvp(layer_{op // 40})" if op < half else f"transpose(jvp(layer_{(OPS - 1 - op) // 40}))"
        for op in range(OPS)
    ]
    forms = (
        "Thunk:#name={}/mlp/dot_general,hlo_op=fusion.{}#",
        "Thunk:#name={}/checkpoint/offload,hlo_op=copy-start.{}#",
        "Thunk:#name={}/checkpoint/offload,hlo_op=async-start.{}#",
        "Thunk:#name={}/checkpoint/wait,hlo_op=copy-done.{}#",
    )
    return [form.format(scope, op) for form in forms for op, scope in enumerate(scopes)]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kernels", default=1_000_000, show_default=True, help="Kernels of all devices.")
@click.option("--devices", default=1, show_default=True, help="GPUs of the one process.")
def main(file: Path, kernels: int, devices: int) -> None:
    """Write a generated export to FILE."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write(trace(kernels, devices), file)


if __name__ == "__main__":
    main()
