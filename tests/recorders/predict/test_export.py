import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nsysoffload
from nsysoffload.recorders.predict.export import ORIGIN_NS, TSL_DOMAIN, kernel_name, trace
from nsysoffload.recorders.predict.lowering import lower
from nsysoffload.recorders.predict.program import Done, Kind, Loop, Op, Program
from nsysoffload.recorders.predict.record import Work, run
from nsysoffload.recorders.predict.simulator import Contention
from nsysoffload.timeline.kernels import kinds
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import TABLES, UNSET
from nsysoffload.trace.writer import write
from tests.recorders.predict.small_programs import compute, copy, duration_ns, programs

GPU = "NVIDIA GB200"


def recorded(*items, launch_ns=0, command_buffers=False, **options):
    issue = lower(
        Program("jit_train_step", items),
        duration_ns,
        launch_ns=launch_ns,
        command_buffers=command_buffers,
        **options,
    )
    return run(issue)


def exported(*items, **options):
    return trace(recorded(*items, **options), gpu=GPU)


def rows(frame, *columns):
    """Rows of some columns, times counted from the record's 0."""
    times = {name: frame[name] - ORIGIN_NS for name in ("start_ns", "end_ns") if name in frame}
    return list(frame.assign(**times)[[*columns]].itertuples(index=False, name=None))


COPY = (compute("a", 9), copy("copy-start.1", 5, size_bytes=64), compute("b", 2), Done(1))


# --- GPU rows ---


def test_kernels_carry_the_names_that_xla_gives_them():
    kernels = exported(
        compute("loop-add.3", 2), compute("cublas-gemm.1", 3, kind=Kind.GEMM)
    ).kernels
    assert rows(kernels, "name", "start_ns", "end_ns", "stream", "graph_node") == [
        ("loop_add_3", 0, 2, 13, UNSET),
        ("predicted_gemm_cublas_gemm_1", 2, 5, 13, UNSET),
    ]


@pytest.mark.parametrize(
    ("collective", "dtype", "name"),
    [
        ("all-gather", "bf16", "ncclDevKernel_AllGather_RING_LL"),
        ("reduce-scatter", "", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"),
        ("all-reduce", "f32", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("all-to-all", "", "ncclDevKernel_SendRecv"),
        ("collective-permute", "", "ncclDevKernel_SendRecv"),
    ],
)
def test_collectives_carry_the_names_of_nccl(collective, dtype, name):
    op = Op("start", Kind.COLLECTIVE, dtype=dtype, collective=collective)
    assert kernel_name(op) == name
    assert kinds([name]).tolist() == [1]


def test_copies_say_which_way_they_go_and_in_which_memory():
    copies = exported(
        copy("k", 5, size_bytes=10),
        copy("l", 4, "h2d", size_bytes=20),
        compute("m", 1, kind=Kind.COPY, is_kernel=False, size_bytes=30),  # reads 15, writes 15
    ).copies
    assert rows(copies, "copy_kind", "source_kind", "target_kind", "size_bytes", "stream") == [
        (CopyKind.DEVICE_TO_HOST, MemKind.DEVICE, MemKind.PINNED, 10, 14),
        (CopyKind.HOST_TO_DEVICE, MemKind.PINNED, MemKind.DEVICE, 20, 15),
        (CopyKind.DEVICE_TO_DEVICE, MemKind.DEVICE, MemKind.DEVICE, 15, 13),
    ]
    assert copies["row_id"].tolist() == [1, 2, 3]


def test_what_is_no_kernel_and_no_copy_is_a_memset():
    made = exported(compute("m", 3, kind=Kind.UNKNOWN, is_kernel=False, size_bytes=8))
    assert rows(made.memsets, "start_ns", "end_ns", "size_bytes") == [(0, 3, 8)]
    assert made.calls["name"].tolist() == ["cuMemsetD32Async"]
    assert made.kernels.empty
    assert made.copies.empty


def test_a_copy_by_a_kernel_is_a_kernel_row_on_the_copy_stream():
    made = exported(copy("wrapped-slice.7", 5, is_kernel=True))
    assert rows(made.kernels, "name", "stream") == [("wrapped_slice_7", 14)]
    assert made.copies.empty


# --- What the host did ---


def test_starting_a_copy_is_four_calls_and_waiting_for_it_one():
    #  host  a [0 8)  copy [8 16) in four parts  b [16 24)  done [24 32)
    calls = exported(*COPY, launch_ns=8).calls
    assert rows(calls, "name", "start_ns", "end_ns", "correlation") == [
        ("cuLaunchKernelEx", 0, 8, 1),
        ("cuEventRecord", 8, 10, 2),
        ("cuStreamWaitEvent", 10, 12, 3),
        ("cuMemcpyDtoDAsync", 12, 14, 4),
        ("cuEventRecord", 14, 16, 5),
        ("cuLaunchKernelEx", 16, 24, 6),
        ("cuStreamWaitEvent", 24, 32, 7),
    ]


def test_each_gpu_row_is_joined_to_the_call_that_made_it():
    made = exported(*COPY, launch_ns=8)
    gpu = pd.concat([made.kernels, made.copies])
    joined = gpu.merge(made.calls, on=["process", "correlation"], suffixes=("", "_call"))
    assert len(joined) == len(gpu)
    assert (joined["start_ns"] >= joined["end_ns_call"]).all()


def test_events_prove_what_the_copy_and_what_the_compute_stream_waits_for():
    made = exported(*COPY)
    joined = made.events.merge(made.syncs, on="event_sync", suffixes=("_of", "_waiting"))
    pairs = joined[["stream_of", "stream_waiting"]].itertuples(index=False, name=None)
    assert list(pairs) == [(13, 14), (14, 13)]
    assert (joined["event_of"] == joined["event_waiting"]).all()


def test_a_host_that_waits_for_a_loop_s_condition_synchronises_with_the_compute_stream():
    made = exported(compute("a", 9), Loop("while", (compute("b", 1),), None), launch_ns=2)
    waits = made.calls[(made.calls["name"] == "cuStreamSynchronize").to_numpy()]
    assert rows(waits, "start_ns", "end_ns") == [(4, 11), (15, 15)]
    assert rows(made.syncs, "stream", "event", "event_sync") == [(13, UNSET, UNSET)] * 2
    assert made.copies["size_bytes"].tolist() == [1, 1]


def test_xla_s_ranges_stand_around_steps_and_calls():
    (a, start, b, done) = COPY
    start = copy("copy-start.1", 5, op_name="jit(f)/jvp()/x")
    ranges = exported(a, start, b, done, launch_ns=8, steps=2).nvtx_ranges
    module = "XlaModule:#prefix=jit(train_step),hlo_module=jit_train_step,program_id=1#"
    assert rows(ranges, "text", "start_ns", "end_ns", "domain")[:6] == [
        ("train_step", 0, 32, 0),
        (module, 0, 32, TSL_DOMAIN),
        ("Thunk:#name=,hlo_op=a,unique_hlo_op_id=0#", 0, 8, TSL_DOMAIN),
        ("Thunk:#name=jit(f)/jvp()/x,hlo_op=copy-start.1,unique_hlo_op_id=1#", 8, 16, TSL_DOMAIN),
        ("Thunk:#name=,hlo_op=b,unique_hlo_op_id=2#", 16, 24, TSL_DOMAIN),
        ("Thunk:#name=jit(f)/jvp()/x,hlo_op=copy-done.1,unique_hlo_op_id=4#", 24, 32, TSL_DOMAIN),
    ]
    assert rows(ranges, "text", "start_ns", "end_ns", "domain")[6] == ("train_step", 32, 64, 0)


def test_a_graph_is_one_launch_of_nodes():
    body = (compute("a", 2), copy("k", 3), Done(1))
    made = exported(Loop("while", body, 2), launch_ns=4, command_buffers=True)
    assert rows(made.calls, "name", "start_ns", "end_ns", "correlation") == [
        ("cuGraphLaunch", 0, 4, 1),
        ("cuGraphLaunch", 4, 8, 2),
    ]
    assert rows(made.kernels, "correlation", "graph_node") == [(1, 1), (2, 1)]
    assert rows(made.copies, "correlation", "graph_node") == [(1, 2), (2, 2)]
    assert rows(made.nvtx_ranges, "text", "start_ns", "end_ns")[-1] == (
        "Thunk:#name=command_buffer,hlo_op=command_buffer,unique_hlo_op_id=4#",
        4,
        8,
    )
    assert made.absent == {"memsets", "graph_spans", "syncs", "events"}


# --- The file ---


def test_a_written_trace_reads_back_as_it_was_made(tmp_path):
    loop = Loop("while", (compute("c", 1),), None)
    made = exported(*COPY, compute("m", 1, kind=Kind.UNKNOWN, is_kernel=False), loop, launch_ns=8)
    write(made, tmp_path / "run.sqlite")
    back = nsysoffload.load(tmp_path / "run.sqlite")
    assert (back.source.kind, back.source.recorder) == ("predicted", "predict")
    assert back.absent == made.absent == {"graph_spans"}
    pd.testing.assert_frame_equal(back.gpus, made.gpus)
    for name in TABLES:
        as_text = [
            frame.astype({"text": str} if "text" in frame else {})
            for frame in (getattr(back, name), getattr(made, name))
        ]
        pd.testing.assert_frame_equal(*as_text, check_categorical=False)


@given(
    programs(),
    st.booleans(),
    st.sampled_from([None, Contention(0.6, 5.0)]),
    st.integers(1, 2),
)
@settings(max_examples=25)
def test_the_analysis_of_the_trace_gives_the_record_to_the_nanosecond(
    program, command_buffers, contention, steps
):
    issue = lower(program, duration_ns, steps=steps, launch_ns=2, command_buffers=command_buffers)
    record = run(issue, gap_ns=1, wait_ns=1, contention=contention)
    assume(len(issue.tasks))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        write(trace(record, gpu=GPU), path)
        report = nsysoffload.analyze(path)
    warned = {warning.code for warning in report.trace.warnings}
    assert warned <= {"prediction_unknown", "no_transfers", "no_kernels", "no_compute"}
    (device,) = report.devices
    for direction in ("h2d", "d2h", "both"):
        seen, own = getattr(device.trace, direction), record.transfers(direction)
        fields = ["busy_ns", "hidden_ns", "exposed_ns", "hidden_by_collectives_ns"]
        fields += ["copies", "bytes"] * (direction != "both")
        assert [getattr(seen, f) for f in fields] == [getattr(own, f) for f in fields]
    assert device.trace.compute_busy_ns == record.compute_busy_ns
    assert device.trace.collective_busy_ns == record.collective_busy_ns
    assert device.trace.other_busy_ns == record.busy_ns(Work.OTHER)
    assert device.trace.window_start_ns == ORIGIN_NS + record.start_ns.min()
    assert device.trace.window_end_ns == ORIGIN_NS + record.end_ns.max()
