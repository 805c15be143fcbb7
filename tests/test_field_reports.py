"""Inputs of reports from practice, with the right answers; a test is named after the behaviour."""

import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import nsysoffload
from nsysoffload.cli import main
from nsysoffload.errors import TraceError, UsageError
from nsysoffload.report.model import Device, Report
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import Trace
from nsysoffload.trace.writer import write

MS = 10**6
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def analyzed(tmp_path):
    """Write a trace, analyse it."""

    def run(builder: TraceBuilder, **options) -> Report:
        return nsysoffload.analyze(builder.write(tmp_path / "trace.sqlite"), **options)

    return run


def only(report: Report) -> Device:
    assert len(report.devices) == 1
    return report.devices[0]


def times(figures) -> tuple[int, int, int]:
    """Busy, hidden and exposed milliseconds."""
    return tuple(getattr(figures, f"{name}_ns") / MS for name in ("busy", "hidden", "exposed"))


def codes(report: Report) -> list[str]:
    return [warning.code for warning in report.trace.warnings]


# --- Links ---


def test_a_lone_copy_at_170_gbps_is_within_what_a_gh200_reaches(analyzed):
    trace = TraceBuilder(gpu="NVIDIA GH200 120GB")
    trace.copy("d2h", (0.001, 6.317), size_bytes=GIB, stream=20)
    device = only(analyzed(trace))
    assert round(device.trace.d2h.gbps, 1) == 170.0
    assert round(device.trace.d2h.lone_gbps, 1) == 170.0
    assert device.link.d2h_verdict == "within"
    assert device.link.h2d_verdict is None


@pytest.mark.parametrize(
    ("end", "gbps", "verdict"), [(9.338, 115.0, "below"), (3.255, 330.0, "within")]
)
def test_lone_pinned_copies_are_judged_by_the_measured_range(analyzed, end, gbps, verdict):
    trace = TraceBuilder(gpu="NVIDIA GB200").copy("d2h", (0.001, end), size_bytes=GIB, stream=20)
    device = only(analyzed(trace))
    assert round(device.trace.d2h.gbps, 1) == gbps
    assert device.link.d2h_verdict == verdict


@pytest.mark.parametrize("gpu", ["Some Accelerator X", None])
def test_an_unknown_platform_has_figures_and_no_verdict(analyzed, gpu):
    trace = TraceBuilder(gpu=gpu).copy("d2h", (1, 11), size_bytes=GIB, stream=20)
    device = only(analyzed(trace))
    assert device.link is None
    assert round(device.trace.d2h.gbps, 1) == 107.4


@pytest.mark.parametrize("host", ["pinned", "pageable"])
def test_only_pinned_copies_say_anything_about_the_link(analyzed, host):
    trace = TraceBuilder(gpu="NVIDIA GB200")
    trace.copy("d2h", (1, 11), size_bytes=GIB, stream=20, host=host)
    device = only(analyzed(trace))
    assert (device.link.d2h_verdict, device.trace.d2h.lone_gbps is None) == (
        ("below", False) if host == "pinned" else (None, True)
    )


def test_a_copy_beside_a_kernel_or_another_copy_is_not_lone(analyzed):
    trace = TraceBuilder(gpu="NVIDIA GB200")
    trace.copy("d2h", (1, 11), size_bytes=GIB, stream=20).kernel((10, 12), "gemm")
    trace.copy("h2d", (20, 30), size_bytes=GIB, stream=21)
    trace.copy("d2h", (29, 35), size_bytes=GIB, stream=20)
    trace.memset((34, 36), stream=8)
    device = only(analyzed(trace))
    assert (device.trace.d2h.lone_gbps, device.trace.h2d.lone_gbps) == (None, None)


def test_chunks_at_link_speed_with_pauses_have_a_fast_row_and_a_slow_burst(analyzed):
    trace = TraceBuilder()
    for i in range(8):
        trace.copy("d2h", (50 * i, 50 * i + 5.2), size_bytes=134_217_728, stream=20)
    d2h = only(analyzed(trace)).trace.d2h
    assert (round(d2h.gbps, 2), round(d2h.burst_gbps, 2)) == (25.81, 3.02)
    assert (d2h.busy_ns, d2h.hidden_ns, d2h.overlap) == (41_600_000, 0, None)


def test_many_small_copies_are_listed_by_size(analyzed):
    trace = TraceBuilder(unit="us")
    for i in range(1000):
        trace.copy("h2d", (6 * i, 6 * i + 1.5), size_bytes=8192, stream=20)
    h2d = only(analyzed(trace)).trace.h2d
    assert (h2d.bytes, h2d.busy_ns) == (8_192_000, 1_500_000)
    assert (round(h2d.gbps, 2), round(h2d.burst_gbps, 2)) == (5.46, 1.37)
    assert [(s.upto_bytes, s.copies, s.busy_ns) for s in h2d.sizes] == [(16384, 1000, 1_500_000)]


# --- Nothing recorded is not nothing done ---


def test_kernels_that_read_page_locked_memory_leave_no_copies_and_no_share(analyzed):
    trace = TraceBuilder().kernel((0.5, 10), "attention").kernel((11, 20), "mlp")
    trace.call("cuMemHostAlloc", (0.1, 0.2)).call("cuMemHostAlloc", (0.2, 0.3))
    report = analyzed(trace)
    h2d = only(report).trace.h2d
    assert (h2d.copies, h2d.overlap, h2d.overlap_null_reason) == (
        0,
        None,
        "no transfer time was recorded",
    )
    (message,) = [w.message for w in report.trace.warnings if w.code == "no_transfers"]
    assert "2 calls page-locked host memory" in message
    assert "--gpu-metrics-devices" in message
    assert report.verdict.outcome == "no_transfers"


def test_time_inside_a_graph_traced_as_a_whole_is_undetermined(analyzed):
    trace = TraceBuilder().graph((0.5, 100), stream=7).kernel((100, 100.1), "gemm")
    trace.copy("h2d", (10, 30), size_bytes=GIB, stream=20)
    report = analyzed(trace)
    h2d = only(report).trace.h2d
    assert h2d.undetermined_ns == 20 * MS
    assert (h2d.overlap, h2d.overlap_null_reason) == (
        None,
        "20,000,000 ns of it lie under CUDA graphs traced as a whole",
    )
    assert "graphs_traced_whole" in codes(report)
    assert report.verdict.outcome == "cannot_tell"


def test_a_graph_elsewhere_leaves_the_overlap_known(analyzed):
    trace = TraceBuilder().graph((50, 100), stream=7).kernel((10, 20), "gemm")
    trace.copy("h2d", (10, 30), size_bytes=GIB, stream=20)
    assert only(analyzed(trace)).trace.h2d.overlap == 0.5


def test_a_graph_that_starts_on_the_host_covers_every_device_of_its_process(analyzed):
    trace = TraceBuilder().graph((0.5, 100), device=2_147_483_647)
    for device in (0, 1):
        trace.kernel((100, 101), "gemm", device=device)
        trace.copy("h2d", (10, 30), stream=20, device=device)
    trace.kernel((100, 101), "gemm", pid=2, device=2)
    trace.copy("h2d", (10, 30), stream=20, pid=2, device=2)
    undetermined = [device.trace.h2d.undetermined_ns for device in analyzed(trace).devices]
    assert undetermined == [20 * MS, 20 * MS, 0]


def test_copies_without_any_kernel_have_no_share(analyzed):
    report = analyzed(TraceBuilder().copy("h2d", (10, 30), stream=20))
    h2d = only(report).trace.h2d
    assert times(h2d) == (20, 0, 20)
    assert (h2d.overlap, h2d.overlap_null_reason) == (None, "no kernel was recorded on this device")
    assert "no_kernels" in codes(report)


def test_a_process_whose_launches_have_no_gpu_rows_is_named(analyzed):
    trace = TraceBuilder()
    for i in range(100):
        trace.kernel((i + 0.5, i + 1), "gemm", call=(i + 0.1, i + 0.2), call_name="cuLaunchKernel")
        trace.call("cuLaunchKernel", (i + 0.1, i + 0.2), pid=2)
    report = analyzed(trace)
    (message,) = [w.message for w in report.trace.warnings if w.code == "process_without_gpu_rows"]
    assert message.startswith("pid 2: 0 of 100 kernel launches have GPU rows")
    assert "pid 1:" not in message
    assert [(device.pid, device.trace.kernels) for device in report.devices] == [(1, 100)]


def test_a_process_with_few_gpu_rows_is_named_with_its_coverage(analyzed):
    trace = TraceBuilder()
    for i in range(10):
        trace.call("cudaLaunchKernel", (i + 0.1, i + 0.2), correlation=i + 1)
    for i in range(6):
        trace.kernel((i + 0.5, i + 1), "gemm", correlation=i + 1)
    report = analyzed(trace)
    (message,) = [w.message for w in report.trace.warnings if w.code == "launches_without_gpu_rows"]
    assert message.startswith("pid 1: 6 of 10 kernel launches have GPU rows")


# --- Arithmetic ---


def test_two_streams_never_hide_a_transfer_twice(analyzed):
    #  stream 7   [0        100)
    #  stream 13       [50        150)
    #  copy              [60   120)
    trace = TraceBuilder().kernel((0, 100), "a", stream=7).kernel((50, 150), "b", stream=13)
    trace.copy("d2h", (60, 120), stream=20)
    device = only(analyzed(trace))
    assert device.trace.compute_busy_ns == 150 * MS
    assert times(device.trace.d2h) == (60, 60, 0)
    assert device.trace.d2h.overlap == 1.0


def test_synchronisation_and_memset_rows_hide_nothing(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm").sync((10, 30), stream=7)
    trace.memset((12, 14)).copy("d2h", (10, 30), stream=20)
    device = only(analyzed(trace))
    assert times(device.trace.d2h) == (20, 0, 20)
    assert device.trace.other_busy_ns == 2 * MS
    assert device.trace.idle_ns == 0


def test_opposite_directions_at_once_are_shown_apart_and_not_called_hidden(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm")
    trace.copy("h2d", (10, 20), stream=20).copy("d2h", (10, 20), stream=21)
    both = only(analyzed(trace)).trace.both
    assert times(both) == (10, 0, 10)
    assert both.concurrent_ns == 10 * MS


def test_collectives_hide_nothing_and_are_shown_apart(analyzed):
    #  compute    [0   4)
    #  nccl          [3      8)
    #  copy        [2          10)
    trace = TraceBuilder().kernel((0, 4), "gemm")
    trace.kernel((3, 8), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclArgs)", stream=9)
    trace.copy("d2h", (2, 10), stream=20)
    device = only(analyzed(trace)).trace
    assert times(device.d2h) == (8, 2, 6)
    assert device.d2h.hidden_by_collectives_ns == 4 * MS
    assert (device.compute_busy_ns, device.collective_busy_ns) == (4 * MS, 5 * MS)
    assert device.kernels == 2


def test_a_user_can_move_kernels_to_another_class(analyzed):
    trace = TraceBuilder().kernel((0, 10), "my_allgather").kernel((10, 20), "wrapped_copy")
    trace.kernel((20, 30), "gemm").copy("d2h", (0, 30), stream=20)
    report = analyzed(trace, collective="allgather$", not_compute="^wrapped_copy")
    device = only(report).trace
    assert times(device.d2h) == (30, 10, 20)
    assert device.d2h.hidden_by_collectives_ns == 10 * MS
    assert {kernel.name: kernel.class_ for kernel in report.kernels} == {
        "my_allgather": "collective",
        "wrapped_copy": "other",
        "gemm": "compute",
    }
    assert device.kernels == 2


def test_kernels_that_are_explicit_copies_by_name_hide_nothing(analyzed):
    trace = TraceBuilder().kernel((0, 10), "CUDA memcpy HtoD", stream=8).kernel((10, 20), "gemm")
    trace.kernel((20, 30), "__amd_rocclr_copyBuffer").copy("d2h", (0, 30), stream=20)
    device = only(analyzed(trace)).trace
    assert times(device.d2h) == (30, 10, 20)
    assert (device.kernels, device.other_busy_ns) == (1, 20 * MS)


def test_a_device_copy_with_one_host_side_is_a_transfer(analyzed):
    from nsysoffload.trace.schema import MemKind

    trace = TraceBuilder().kernel((0, 10), "gemm")
    trace.copy("d2d", (0, 4), stream=20, source_kind=MemKind.PINNED, size_bytes=100)
    trace.copy("d2d", (5, 7), stream=20, target_kind=MemKind.PAGEABLE, size_bytes=200)
    trace.copy("d2d", (8, 9), stream=20, size_bytes=400)
    trace.copy("p2p", (9, 10), stream=20, size_bytes=800)
    device = only(analyzed(trace)).trace
    assert (device.h2d.copies, device.h2d.bytes, device.h2d.busy_ns) == (1, 100, 4 * MS)
    assert (device.d2h.copies, device.d2h.bytes, device.d2h.busy_ns) == (1, 200, 2 * MS)
    assert device.other_busy_ns == 2 * MS


def test_unified_memory_is_counted_apart(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm").copy("h2d", (2, 4), stream=20)
    trace.migration("h2d", (5, 6), size_bytes=4096).migration("h2d", (6, 7), size_bytes=61440)
    trace.migration("d2h", (8, 9), size_bytes=65536)
    device = only(analyzed(trace)).trace
    assert (device.um_h2d.copies, device.um_h2d.bytes) == (2, 65536)
    assert (device.um_d2h.copies, device.um_d2h.bytes) == (1, 65536)
    assert (device.h2d.copies, device.d2h.copies) == (1, 0)


# --- Devices ---


def test_all_devices_are_shown_by_default_and_an_absent_one_is_an_error(tmp_path):
    trace = TraceBuilder()
    for device in (1, 2):
        trace.kernel((0, 10), "gemm", device=device).copy("h2d", (5, 15), stream=20, device=device)
    path = trace.write(tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(path)
    assert [device.ordinal for device in report.devices] == [1, 2]
    assert (report.total.devices, report.total.h2d.busy_ns) == (2, 20 * MS)
    assert [d.ordinal for d in nsysoffload.analyze(path, device=["2"]).devices] == [2]
    with pytest.raises(UsageError, match=r"^Device '0' is not in the trace; present: 1, 2\.$"):
        nsysoffload.analyze(path, device=["0"])
    result = CliRunner().invoke(main, ["analyze", str(path), "--device", "0"])
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: Device '0' is not in the trace; present: 1, 2.\n",
    )


def test_one_gpu_used_by_two_processes_is_one_device(analyzed):
    uuid = "1825e7cc-6d1b-a3ac-d9bf-66534f906620"
    trace = TraceBuilder()
    for pid in (1, 2):
        trace.gpu("NVIDIA H200", uuid, pid=pid, device=0)
    trace.kernel((0, 10), "a", pid=1).kernel((5, 15), "b", pid=2, stream=8)
    device = only(analyzed(trace))
    assert (device.id, device.uuid, device.pid) == (uuid, uuid, 1)
    assert device.trace.compute_busy_ns == 15 * MS


def test_device_zero_of_two_processes_may_be_two_gpus(analyzed):
    trace = TraceBuilder()
    trace.gpu("NVIDIA H200", "1825e7cc-6d1b-a3ac-d9bf-66534f906620", pid=1, device=0)
    trace.gpu("NVIDIA H200", "2825e7cc-6d1b-a3ac-d9bf-66534f906620", pid=2, device=0)
    trace.kernel((0, 10), "a", pid=1).kernel((5, 15), "b", pid=2)
    busy = [(d.ordinal, d.pid, d.trace.compute_busy_ns) for d in analyzed(trace).devices]
    assert busy == [(0, 1, 10 * MS), (0, 2, 10 * MS)]


def test_calls_of_two_processes_with_one_correlation_id_are_kept_apart(analyzed):
    # Pid 2's call comes 5 ms after pid 1's copy: were it taken for its call, the copy would be
    # disbelieved for starting before it.
    trace = TraceBuilder().kernel((1, 30), "gemm")
    trace.copy("h2d", (10, 12), stream=20, correlation=500)
    trace.call("cudaMemcpyAsync", (9, 9.1), correlation=500)
    trace.copy("d2h", (16, 18), stream=20, pid=2, device=1, correlation=500)
    trace.call("cudaMemcpyAsync", (15, 15.1), pid=2, correlation=500)
    report = analyzed(trace)
    assert [(d.trace.h2d.copies, d.trace.d2h.copies) for d in report.devices] == [(1, 0), (0, 1)]
    assert "rows_not_believed" not in codes(report)


def test_each_copy_has_the_queue_delay_and_the_blocking_time_of_its_own_call(analyzed):
    trace = TraceBuilder()
    trace.copy("h2d", (10, 12), size_bytes=10**6, stream=20, correlation=500)
    trace.copy("d2h", (11, 13), size_bytes=2 * 10**6, pid=2, device=1, correlation=500)
    trace.call("cudaMemcpyAsync", (9, 9.1), correlation=500)
    trace.call("cudaMemcpyAsync", (10.5, 12.9), pid=2, correlation=500)
    copies = {c.direction: (c.queue_ns / MS, c.call_ns / MS) for c in analyzed(trace).worst_copies}
    assert copies == {"h2d": (1.0, 0.1), "d2h": (0.5, 2.4)}


def test_a_copy_whose_call_was_not_recorded_has_no_queue_delay(analyzed):
    trace = TraceBuilder().copy("h2d", (10, 12), stream=20)
    (copy,) = analyzed(trace).worst_copies
    assert (copy.queue_ns, copy.call_ns) == (None, None)


# --- Windows ---


@pytest.fixture
def two_devices(tmp_path) -> Path:
    trace = TraceBuilder().kernel((0, 6000), "gemm")
    trace.copy("h2d", (5900, 6100), size_bytes=2000, stream=20)
    trace.kernel((0, 60000), "gemm", device=1)
    return trace.write(tmp_path / "trace.sqlite")


def test_a_window_is_cut_to_what_was_recorded_on_each_device(two_devices):
    inside = nsysoffload.analyze(two_devices, window="0ms..6000ms").devices[0].trace
    assert times(inside.h2d) == (100, 100, 0)
    assert (inside.h2d.bytes, inside.window_end_ns) == (1000, 6000 * MS)
    beyond = nsysoffload.analyze(two_devices, window="0ms..60000ms").devices[0].trace
    assert times(beyond.h2d) == (200, 100, 100)
    assert (beyond.h2d.bytes, beyond.window_end_ns) == (2000, 6100 * MS)


def test_bytes_of_adjoining_windows_add_up(two_devices):
    windows = ["5s..5.95s", "5.95s..5.9501s", "5.9501s..6.01s", "6.01s..7s"]
    sizes = [nsysoffload.analyze(two_devices, window=w).devices[0].trace.h2d.bytes for w in windows]
    assert sizes == [500, 1, 599, 900]


def test_a_window_without_activity_is_an_error_that_says_what_was_recorded(two_devices):
    with pytest.raises(UsageError, match=r"holds no GPU activity; the trace was recorded from 0"):
        nsysoffload.analyze(two_devices, window="100s..200s")


def test_a_window_in_a_pause_is_as_empty_as_one_outside(tmp_path):
    path = TraceBuilder().kernel((1, 2), "a").kernel((8, 9), "b").write(tmp_path / "pause.sqlite")
    with pytest.raises(UsageError, match="holds no GPU activity"):
        nsysoffload.analyze(path, window="3ms..7ms")
    assert only(nsysoffload.analyze(path, window="3ms..8.5ms")).trace.kernels == 1


# --- Exports ---


def test_a_trace_without_annotations_gives_the_same_figures(tmp_path):
    def trace() -> TraceBuilder:
        builder = TraceBuilder().kernel((0, 100), "a").kernel((50, 150), "b", stream=13)
        return builder.copy("d2h", (60, 120), stream=20)

    marked = nsysoffload.analyze(trace().nvtx("step", (0, 150)).write(tmp_path / "a.sqlite"))
    bare = nsysoffload.analyze(trace().write(tmp_path / "b.sqlite"))
    assert bare.devices == marked.devices
    assert "no_step_markers" in codes(bare)
    assert "no_step_markers" not in codes(marked)


def test_a_trace_of_the_host_alone_holds_no_gpu_activity(tmp_path):
    path = TraceBuilder().call("cudaMalloc", (0, 1)).write(tmp_path / "host.sqlite")
    with pytest.raises(
        TraceError, match=r"^host\.sqlite holds no GPU activity .* 1 CUDA API calls"
    ):
        nsysoffload.analyze(path)
    result = CliRunner().invoke(main, ["analyze", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: host.sqlite holds no GPU activity")


# --- Rows that cannot be true ---


def test_rows_with_impossible_times_are_dropped_and_counted(tmp_path):
    trace = TraceBuilder(unit="ns").kernel((0, 0), "lost").kernel((1000, 2000), "gemm")
    trace.copy("d2h", (1500, 2500), stream=20).copy("h2d", (2000, 2100), stream=21)
    path = trace.write(tmp_path / "trace.sqlite")
    with sqlite3.connect(path) as database:  # no builder makes a row that ends before it starts
        database.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 2100, end = 2000 WHERE streamId = 21"
        )
    database.close()
    report = nsysoffload.analyze(path)
    device = only(report).trace
    assert (device.d2h.hidden_ns, device.d2h.busy_ns, device.d2h.overlap) == (500, 1000, 0.5)
    assert (device.window_start_ns, device.h2d.copies) == (1000, 0)
    (message,) = [w.message for w in report.trace.warnings if w.code == "rows_not_believed"]
    assert message.startswith("2 GPU rows are not believed and left out: ")


@pytest.mark.parametrize(
    ("start", "dropped"), [(8.9, True), (9.0, False), (9.5, False), (12, False)]
)
def test_a_row_more_than_a_millisecond_before_its_call_is_of_another_clock(
    analyzed, start, dropped
):
    trace = TraceBuilder().kernel((1, 30), "gemm")
    trace.copy("h2d", (start, start + 1), stream=20, call=(10, 10.1))
    report = analyzed(trace)
    assert ("rows_not_believed" in codes(report)) == dropped
    assert only(report).trace.h2d.copies == (0 if dropped else 1)


def test_a_row_more_than_a_day_away_is_of_another_clock(analyzed):
    day = 24 * 3600 * 1000
    trace = TraceBuilder().kernel((1, 10), "a").kernel((10, 20), "b").kernel((20, 30), "c")
    trace.copy("h2d", (5, 15), stream=20).copy("d2h", (day + 100, day + 110), stream=21)
    report = analyzed(trace)
    assert only(report).trace.window_end_ns == 30 * MS
    assert "rows_not_believed" in codes(report)


def test_a_copy_without_length_counts_as_a_copy(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm").copy("h2d", (5, 5), size_bytes=64, stream=20)
    h2d = only(analyzed(trace)).trace.h2d
    assert (h2d.copies, h2d.bytes, h2d.busy_ns, h2d.gbps) == (1, 64, 0, None)
    assert h2d.overlap is None


# --- Clocks ---


def test_a_row_that_contains_two_others_of_its_stream_makes_the_overlap_unknown(analyzed):
    #  stream 7  [0                  1000)
    #                [10 11) [20 21)
    trace = TraceBuilder().kernel((0, 1000), "a")
    trace.kernel((10, 11), "b").kernel((20, 21), "c").copy("d2h", (500, 600), stream=20)
    report = analyzed(trace)
    d2h = only(report).trace.d2h
    assert times(d2h) == (100, 100, 0)
    assert d2h.overlap is None
    assert "contains two others" in d2h.overlap_null_reason
    assert "doubtful_clocks" in codes(report)


def test_a_little_overlap_of_dependent_launches_is_no_reason_to_doubt(analyzed):
    trace = TraceBuilder(unit="us")
    for i in range(100):
        trace.kernel((100 * i, 100 * i + 100.5), "gemm")
    trace.copy("d2h", (50, 150), stream=20)
    assert only(analyzed(trace)).trace.d2h.overlap == 1.0


def test_more_overlap_on_one_stream_makes_the_overlap_unknown(analyzed):
    trace = TraceBuilder(unit="us")
    for i in range(100):
        trace.kernel((100 * i, 100 * i + 102), "gemm")
    trace.copy("d2h", (50, 150), stream=20)
    d2h = only(analyzed(trace)).trace.d2h
    assert (d2h.busy_ns, d2h.hidden_ns, d2h.overlap) == (100_000, 100_000, None)


def test_branches_of_a_graph_may_share_a_stream(analyzed):
    trace = TraceBuilder().kernel((0, 10), "a", graph_node=1).kernel((0, 9), "b", graph_node=2)
    trace.kernel((1, 8), "c", graph_node=3).copy("d2h", (5, 15), stream=20)
    assert only(analyzed(trace)).trace.d2h.overlap == 0.5


# --- Reports ---


def test_nothing_private_of_the_export_gets_into_a_report(tmp_path):
    path = TraceBuilder().kernel((0, 10), "gemm").copy("h2d", (5, 15)).write(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as database:
        for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT"):
            database.execute(f"INSERT INTO {table} VALUES ('ENV', 'API_TOKEN=xyz123')")
            database.execute(f"INSERT INTO {table} VALUES ('EXPORT_HOST', 'node17')")
        database.execute("INSERT INTO StringIds VALUES (99999, 'API_TOKEN=xyz123')")
        database.execute(
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid, devStateName, name, nameEnum, value)"
        )
        database.execute(
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'x', 'Hostname', 1, 'node17')"
        )
    database.close()
    paths = nsysoffload.write(nsysoffload.analyze(path), tmp_path / "out")
    for text in (path.read_text(encoding="utf-8") for path in paths):
        assert "xyz123" not in text
        assert "node17" not in text
        assert str(tmp_path) not in text


# --- Several devices ---


def test_bandwidth_over_devices_is_their_bytes_over_their_time(analyzed):
    trace = TraceBuilder(unit="ns")
    trace.copy("h2d", (10, 20), size_bytes=100, stream=20)
    trace.copy("h2d", (30, 30), size_bytes=900, stream=20)
    trace.copy("h2d", (10, 20), size_bytes=500, stream=20, device=1)
    trace.copy("h2d", (50, 80), size_bytes=0, stream=20, device=1)
    report = analyzed(trace)
    assert [device.trace.h2d.gbps for device in report.devices] == [10.0, 12.5]
    assert report.total.h2d.gbps == 600 / 50
    assert [(s.copies, s.bytes, s.sum_ns, s.gbps) for s in report.total.h2d.sizes] == [
        (4, 1500, 50, 600 / 50)
    ]


def test_a_device_that_was_not_recorded_in_the_window_is_left_out(tmp_path):
    trace = TraceBuilder().kernel((1, 100), "a").kernel((200, 300), "b", device=1)
    path = trace.write(tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(path, window="0..100ms")
    assert [device.ordinal for device in report.devices] == [0]
    assert (report.window.start_ns, report.window.end_ns) == (1 * MS, 100 * MS)


def test_a_shared_gpu_is_found_by_each_number_that_processes_use_for_it(analyzed):
    uuid = "1825e7cc-6d1b-a3ac-d9bf-66534f906620"
    trace = TraceBuilder().gpu("NVIDIA H200", uuid, pid=100, device=2)
    trace.gpu("NVIDIA H200", uuid, pid=200, device=1)
    trace.kernel((0, 10), "a", pid=100, device=2).kernel((50, 60), "b", pid=200, device=1)
    for number in ("1", "2", uuid, f"GPU-{uuid}"):
        device = only(analyzed(trace, device=number))
        assert (device.ordinal, device.pid) == (2, 100)


def test_a_copy_without_length_does_not_keep_another_from_being_lone(analyzed):
    trace = TraceBuilder().copy("h2d", (10, 20), size_bytes=1 << 28, stream=20)
    trace.copy("h2d", (15, 15), size_bytes=0, stream=21)
    assert only(analyzed(trace)).trace.h2d.lone_gbps == (1 << 28) / 10**7


def test_graph_rows_that_are_not_believed_are_not_counted_as_graphs(tmp_path):
    path = TraceBuilder().kernel((1, 2), "a").graph((5, 6)).write(tmp_path / "graph.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET end = 1")
    database.close()
    assert "graphs_traced_whole" not in codes(nsysoffload.analyze(path))


# --- Corrections by the user ---


def test_a_pattern_that_matches_no_kernel_is_named(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm").copy("h2d", (5, 15), stream=20)
    report = analyzed(trace, collective="zzz", not_compute="gemm")
    assert codes(report).count("pattern_matches_nothing") == 1
    assert "no_compute" in codes(report)
    assert only(report).trace.h2d.overlap == 0.0


def test_options_may_be_given_as_python_values(analyzed):
    trace = TraceBuilder().kernel((0, 10), "gemm").copy("h2d", (5, 15), stream=20)
    report = analyzed(trace, device=0, window=(0, 10 * MS))
    assert only(report).trace.h2d.overlap == 1.0
    assert report.window.source == "requested"
    with pytest.raises(UsageError, match="Format 'pdf' is not known"):
        nsysoffload.write(report, "nowhere", "pdf")


# --- Causes, and what they cost ---

# Of a GPU that is not known, whose link no finding can blame.


def staged_in_chunks() -> TraceBuilder:
    trace = TraceBuilder(None)
    for i in range(8):
        trace.copy("d2h", (50 * i, 50 * i + 5.2), size_bytes=134_217_728, stream=20)
    return trace


def page_locked_in_the_step() -> TraceBuilder:
    #  kernel  [0   10)                 [16  26)
    #  call       [9.5      14)
    #  d2h                  [14   16)
    trace = TraceBuilder(None).kernel((0, 10), "a").call("cudaHostAlloc_v3020", (9.5, 14))
    return trace.copy("d2h", (14, 16), size_bytes=64 * MIB, stream=20).kernel((16, 26), "b")


def pageable_and_pinned() -> TraceBuilder:
    trace = TraceBuilder(None)
    pageable = {"host": "pageable", "call": (9.9, 20.05)}
    trace.copy("d2h", (10, 20), size_bytes=64 * MIB, stream=20, **pageable)
    return trace.copy("d2h", (30, 32), size_bytes=64 * MIB, stream=20, call=(29.99, 30))


def reloaded_between_kernels() -> TraceBuilder:
    #  kernel  [0  10)    [14  24)    [28  38)
    #  h2d         [10 14)    [24  28)
    trace = TraceBuilder(None).kernel((0, 10), "a").kernel((14, 24), "b").kernel((28, 38), "c")
    trace.copy("h2d", (10, 14), size_bytes=64 * MIB, stream=21)
    return trace.copy("h2d", (24, 28), size_bytes=64 * MIB, stream=21)


def slow_under_a_transpose() -> TraceBuilder:
    trace = TraceBuilder(None)
    for i in range(3):
        trace.copy("h2d", (1 + 5 * i, 2.3 + 5 * i), size_bytes=64 * MIB, stream=20)
    trace.copy("h2d", (100, 113), size_bytes=64 * MIB, stream=20)
    return trace.kernel((100, 113), "wrapped_transpose")


def small_behind_a_burst() -> TraceBuilder:
    #  kernel        [0 1)                               [9.01  12)
    #  h2d, 32 MiB        [1 2)[2 3) ... [8 9)
    #  h2d, 4 KiB     called 1.05        [9 9.002)
    trace = TraceBuilder(None).kernel((0, 1), "a")
    for i in range(8):
        trace.copy("h2d", (1 + i, 2 + i), size_bytes=32 * MIB, stream=20)
    trace.copy("h2d", (9, 9.002), size_bytes=4096, stream=7, call=(1.05, 1.06))
    return trace.kernel((9.01, 12), "b")


def waited_for_by_the_host() -> TraceBuilder:
    trace = TraceBuilder(None)
    for i in range(3):
        trace.copy("h2d", (10 * i, 10 * i + 10), size_bytes=64 * MIB, stream=20)
        trace.call("cudaStreamSynchronize", (10 * i + 1, 10 * i + 10))
    return trace.kernel((30, 40), "a")


def many_small() -> TraceBuilder:
    trace = TraceBuilder(None, unit="us")
    for i in range(1000):
        trace.copy("h2d", (6 * i, 6 * i + 1.5), size_bytes=8192, stream=20)
    return trace


def from_a_far_socket() -> TraceBuilder:
    return TraceBuilder("NVIDIA GB200").copy("d2h", (1, 10.337), size_bytes=GIB, stream=20)


def both_ways_at_once() -> TraceBuilder:
    trace = TraceBuilder(None).kernel((0, 10), "a").copy("h2d", (10, 20), stream=20)
    return trace.copy("d2h", (10, 20), stream=21)


EXAMPLES = {  # findings as (cause, direction, lost and excess in milliseconds)
    staged_in_chunks: [("staging_gaps", "d2h", 313.6, 0)],
    page_locked_in_the_step: [
        ("pinned_allocation", None, 4, 0),
        ("issued_too_late", "d2h", 2, 0),
    ],
    pageable_and_pinned: [("pageable_memory", "d2h", 10, 0)],
    reloaded_between_kernels: [("issued_too_late", "h2d", 8, 0)],
    slow_under_a_transpose: [("starved", "h2d", 0, 11.7)],
    small_behind_a_burst: [("queued_behind_copy", "h2d", 8.01, 0)],
    waited_for_by_the_host: [("step_boundary", "h2d", 30, 0)],
    many_small: [("small_copies", "h2d", 5.9955, 0)],
    from_a_far_socket: [("remote_numa", "d2h", 0, 2.409633)],
}

SCALED = (
    staged_in_chunks,
    page_locked_in_the_step,
    pageable_and_pinned,
    reloaded_between_kernels,
    slow_under_a_transpose,
    waited_for_by_the_host,
)


def faults(report: Report) -> list[tuple[str, str | None, float, float]]:
    return [
        (f.cause, f.direction, f.lost_ns_per_step / MS, f.excess_ns_per_step / MS)
        for f in report.findings
        if f.severity == "finding"
    ]


def changed(
    trace: Trace,
    *,
    scale: Fraction = Fraction(1),
    later_ns: int = 0,
    streams: int = 0,
    pid: int = 0,
    ordinal: int = 0,
    shuffled: bool = False,
    opposite: bool = False,
) -> Trace:
    """The same trace, times and bytes scaled, at another time, elsewhere, in another order."""
    frames = {}
    for name in ("kernels", "copies", "calls"):
        frame = getattr(trace, name).copy()
        for column in ("start_ns", "end_ns"):
            frame[column] = [int(time * scale) + later_ns for time in frame[column].tolist()]
        frame["process"] += pid
        if "stream" in frame:
            frame["stream"] += streams
            frame["ordinal"] += ordinal
        if "size_bytes" in frame:
            frame["size_bytes"] = [int(size * scale) for size in frame["size_bytes"].tolist()]
        if opposite and name == "copies":
            frame["copy_kind"] = 3 - frame["copy_kind"]
            ends = ["source_kind", "target_kind"]
            frame[ends] = frame[ends[::-1]].to_numpy()
        frames[name] = frame.sample(frac=1, random_state=1) if shuffled else frame
    gpus = trace.gpus.assign(ordinal=trace.gpus["ordinal"] + ordinal, pid=trace.gpus["pid"] + pid)
    return replace(trace, gpus=gpus, **frames)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_each_lost_millisecond_has_its_one_cause(analyzed, example):
    report = analyzed(example())
    assert faults(report) == EXAMPLES[example]
    (step,) = only(report).steps
    assert sum(step.lost.values()) == step.lost_ns == step.duration_ns - step.compute_busy_ns


@pytest.mark.parametrize(
    "change",
    [
        {"later_ns": 17 * 10**17},
        {"streams": 30, "pid": 4000, "ordinal": 5},
        {"shuffled": True},
    ],
    ids=["epoch", "elsewhere", "shuffled"],
)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_a_cause_depends_on_no_number_of_clock_stream_process_device_or_row(
    tmp_path, example, change
):
    write(changed(example().build(), **change), tmp_path / "trace.sqlite")
    assert faults(nsysoffload.analyze(tmp_path / "trace.sqlite")) == EXAMPLES[example]


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(1, 10)], ids=["longer", "shorter"])
@pytest.mark.parametrize("example", SCALED, ids=lambda example: example.__name__)
def test_a_step_of_another_scale_has_the_same_causes(tmp_path, example, scale):
    write(changed(example().build(), scale=scale), tmp_path / "trace.sqlite")
    found = faults(nsysoffload.analyze(tmp_path / "trace.sqlite"))
    assert found == [
        (cause, way, pytest.approx(float(lost * scale)), pytest.approx(float(excess * scale), 1e-4))
        for cause, way, lost, excess in [
            (cause, way, Fraction(str(lost)), Fraction(str(excess)))
            for cause, way, lost, excess in EXAMPLES[example]
        ]
    ]


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if e is not from_a_far_socket],  # H2D has a range of its own
    ids=lambda example: example.__name__,
)
def test_the_opposite_direction_has_the_same_causes(tmp_path, example):
    write(changed(example().build(), opposite=True), tmp_path / "trace.sqlite")
    turned = {"h2d": "d2h", "d2h": "h2d", None: None}
    assert faults(nsysoffload.analyze(tmp_path / "trace.sqlite")) == [
        (cause, turned[way], lost, excess) for cause, way, lost, excess in EXAMPLES[example]
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_advice_on_a_program_without_xla_speaks_of_cuda_alone(analyzed, example):
    for finding in analyzed(example()).findings:
        words = f"{finding.message} {finding.advice}".lower()
        assert "xla" not in words
        assert "jax" not in words


def test_advice_on_a_program_of_xla_names_its_flags_or_calls(analyzed):
    trace = TraceBuilder(None)
    trace.nvtx("XlaModule:#prefix=jit(step),hlo_module=jit_step,program_id=1#", (0, 1))
    for i, start in enumerate((2, 16, 30)):
        trace.kernel((start, start + 10), "gemm", call=(0.1 + 0.2 * i, 0.15 + 0.2 * i))
    for i, start in enumerate((12, 26)):
        call = (0.2 + 0.2 * i, 0.25 + 0.2 * i)
        trace.copy("h2d", (start, start + 4), size_bytes=64 * MIB, stream=21, call=call)
    report = analyzed(trace)
    assert report.window.steps_found_by == "xla_module"
    assert faults(report) == [("issued_too_late", "h2d", 8, 0)]
    advice = report.findings[0].advice
    assert "xla_" in advice or "jax" in advice


def test_pauses_between_staged_copies_do_not_blame_the_link(analyzed):
    report = analyzed(staged_in_chunks())
    (finding,) = [f for f in report.findings if f.severity == "finding"]
    assert finding.evidence["copies"] == 8
    assert round(finding.evidence["row_gbps"], 2) == 25.81


def test_page_locking_is_charged_with_the_idle_time_it_covers(analyzed):
    finding = analyzed(page_locked_in_the_step()).findings[0]
    assert finding.evidence["calls"] == 1
    assert finding.evidence["call_ns"] == 4.5 * MS
    assert finding.evidence["spans"] == [[10 * MS, 14 * MS]]


def test_only_the_pageable_copy_is_accused(analyzed):
    (finding,) = (f for f in analyzed(pageable_and_pinned()).findings if f.severity == "finding")
    assert (finding.evidence["copies"], finding.evidence["copy_row_ids"]) == (1, [1])
    assert finding.evidence["blocked_ns"] == 10.15 * MS


def test_what_waits_for_the_kernel_before_could_have_been_hidden(analyzed):
    report = analyzed(reloaded_between_kernels())
    step = only(report).per_step
    assert times(step.h2d) == (8, 0, 8)
    assert (step.stall_ns, step.hideable_ns, step.best_ns) == (8 * MS, 8 * MS, 30 * MS)
    assert [stall.cause for stall in report.stalls] == ["issued_too_late"] * 2


def test_hidden_by_time_is_not_praised_where_the_copy_starves(analyzed):
    report = analyzed(slow_under_a_transpose())
    (finding,) = (f for f in report.findings if f.cause == "starved")
    assert finding.evidence["copies"] == 1
    assert round(finding.evidence["gbps"], 2) == 5.16
    assert round(finding.evidence["lone_gbps"], 2) == 51.62
    assert finding.evidence["beside"] == ["wrapped_transpose"]
    assert report.verdict.outcome != "hidden"


def test_a_small_copy_that_queued_is_named_the_blocker_and_its_burst_is_the_cause(analyzed):
    report = analyzed(small_behind_a_burst())
    assert times(only(report).per_step.h2d) == (8.002, 0, 8.002)
    (stall,) = report.stalls
    assert (stall.start_ns, stall.end_ns) == (1 * MS, 9.01 * MS)
    assert (stall.blocker_row_id, stall.cause) == (9, "queued_behind_copy")
    queued_ns = report.findings[0].evidence["queue_ns"]
    assert abs(queued_ns - 7.95 * MS) <= 0.01 * MS  # from the call's start, or from its end


def test_waiting_for_copies_in_the_host_is_counted_once(analyzed):
    report = analyzed(waited_for_by_the_host())
    step = only(report).per_step
    assert (step.lost_ns, step.h2d.exposed_ns) == (30 * MS, 30 * MS)
    (sync,) = (f for f in report.findings if f.cause == "host_sync")
    assert (sync.severity, sync.lost_ns_per_step) == ("note", 0)
    parts = ("sync", "waiting_for_copies", "waiting_for_compute", "waiting_for_nothing_seen")
    assert [sync.evidence[f"{part}_ns"] / MS for part in parts] == [27, 27, 0, 0]


@pytest.mark.parametrize(
    ("gpu", "length"), [("NVIDIA GH200 120GB", 6.316), ("NVIDIA GB200", 3.254)]
)
def test_a_lone_copy_within_the_measured_range_is_no_finding(analyzed, gpu, length):
    trace = TraceBuilder(gpu).copy("d2h", (1, 1 + length), size_bytes=GIB, stream=20)
    assert faults(analyzed(trace)) == []


def test_a_trace_without_transfers_has_no_finding(analyzed):
    trace = TraceBuilder().kernel((0, 10), "a").kernel((12, 20), "b")
    report = analyzed(trace.call("cuMemHostAlloc", (0, 0.5)).call("cuMemHostAlloc", (0.5, 0.6)))
    step = only(report).per_step
    assert faults(report) == []
    assert (step.h2d.overlap, step.d2h.overlap, step.stall_ns) == (None, None, 0)


def test_a_copy_under_a_graph_traced_as_a_whole_is_no_stall(analyzed):
    trace = TraceBuilder().graph((0, 100)).kernel((100, 100.1), "a")
    report = analyzed(trace.copy("h2d", (10, 30), size_bytes=GIB, stream=20))
    step = only(report).per_step
    assert (step.h2d.undetermined_ns, step.h2d.overlap, step.stall_ns) == (20 * MS, None, 0)
    assert faults(report) == []


def test_neither_a_memset_nor_a_synchronisation_hides_a_stall(analyzed):
    trace = TraceBuilder().kernel((0, 10), "a").sync((10, 30), stream=7).memset((12, 14))
    report = analyzed(trace.copy("d2h", (10, 30), stream=20))
    assert only(report).per_step.lost == {"step_boundary": 20 * MS}


def test_directions_at_once_lose_their_time_once(analyzed):
    report = analyzed(both_ways_at_once())
    step = only(report).per_step
    assert (step.lost_ns, step.stall_ns) == (10 * MS, 10 * MS)
    assert (step.h2d.exposed_ns, step.d2h.exposed_ns, step.both.exposed_ns) == (10 * MS,) * 2 + (
        10 * MS,
    )


# --- Steps ---


def test_kernels_before_the_first_marker_make_no_step(analyzed):
    trace = TraceBuilder().kernel((1, 50), "compile")
    for i in range(3):
        trace.nvtx("train_step", (100 + 10 * i, 109 + 10 * i))
    report = analyzed(trace)
    device = only(report)
    assert (device.steps, device.per_step, device.median_step) == ((), None, None)
    (message,) = [w.message for w in report.trace.warnings if w.code == "no_whole_step"]
    assert "0 whole steps" in message
    assert report.findings == ()


def test_a_first_step_that_compiles_is_left_out_and_named(analyzed):
    #  train_step  [0  1000)[1000 1010)[1010 1020)[1020 1030)[1030 1040)
    trace = TraceBuilder()
    for i in range(5):
        start, length = (1000 + 10 * (i - 1), 9) if i else (0, 900)
        trace.nvtx("train_step", (start, start + 10 if i else 1000))
        trace.kernel((start + 1, start + length), "gemm")
    report = analyzed(trace)
    device = only(report)
    assert [step.index for step in device.steps] == [1, 2, 3, 4]
    assert (device.per_step.steps, device.per_step.duration_ns) == (4, 8 * MS)
    assert report.window.skipped_steps == 1
    assert "Step 0 was left out: warm-up." in [w.message for w in report.trace.warnings]


def stepping(faulty: set[int], jitter_us: int = 0) -> TraceBuilder:
    """Six steps of 100 ms on two GPUs, of which some wait 4 ms for a reload."""
    #  kernel  [0   40)    [44   84)      a GPU that waits
    #  h2d         [40   44)
    trace = TraceBuilder(None)
    for step in range(6):
        late = Fraction(jitter_us * (step * 7 % 5), 1000)
        start = 100 * step + late
        trace.nvtx("train_step", (100 * step - 1, 100 * step + 99))
        for device in range(2):
            on = {"device": device}
            copied = start + 40 if device in faulty else start + 30
            trace.kernel((start, start + 40), "a", **on)
            trace.copy("h2d", (copied, copied + 4), size_bytes=64 * MIB, stream=21, **on)
            begin = start + 44 if device in faulty else start + 40
            trace.kernel((begin, begin + 40 + late), "b", **on)
    return trace


@pytest.mark.parametrize("jitter_us", [0, 100], ids=["steady", "jittering"])
def test_costs_are_per_step_and_of_the_device_that_has_them(analyzed, jitter_us):
    report = analyzed(stepping({1}, jitter_us))
    assert faults(report) == [("issued_too_late", "h2d", 4, 0)]
    good, bad = report.devices
    assert report.findings[0].device == bad.id
    assert (good.per_step.steps, bad.per_step.steps) == (6, 6)
    assert (good.per_step.lost, bad.per_step.lost) == ({}, {"issued_too_late": 4 * MS})
    assert (good.per_step.h2d.overlap, bad.per_step.h2d.overlap) == (1.0, 0.0)
    assert report.findings[0].evidence["stalls"] == 6
    assert all(step.stall_ns == 4 * MS for step in bad.steps)


def test_a_step_that_the_window_cuts_is_left_out(tmp_path):
    path = stepping({1}).write(tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(path, window="50ms..450ms")
    assert [step.index for step in report.devices[1].steps] == [1, 2, 3]
    messages = [w.message for w in report.trace.warnings if w.code == "steps_left_out"]
    assert messages == ["Steps 0, 4, 5 were left out: not wholly in the window."]


def test_a_step_whose_first_row_comes_before_that_of_the_step_before_keeps_time_in_order(analyzed):
    #  train_step   [0     10)[10     20)[20     30)
    #  rows, of     1: [12 14), prefetched
    #               0:          [16    24)   2: [40  50)   by the calls that made them
    trace = TraceBuilder()
    for i in range(3):
        trace.nvtx("train_step", (10 * i, 10 * i + 10))
    trace.copy("h2d", (12, 14), stream=20, call=(11, 11.1))
    trace.kernel((16, 24), "a", call=(1, 1.1)).kernel((24, 32), "b", call=(12, 12.1))
    trace.kernel((40, 50), "c", call=(21, 21.1))
    steps = only(analyzed(trace, skip_steps=0)).steps
    starts = [(step.start_ns // MS, step.period_ns) for step in steps]
    assert starts == [(12, 4 * MS), (16, 24 * MS), (40, None)]
