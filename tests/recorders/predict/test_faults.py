"""Planted faults: what their rows show, that they are true to causality, and what they cost."""

from bisect import bisect
from collections import Counter
from functools import cache

import pytest

from nsysoffload.recorders.predict.export import ORIGIN_NS
from nsysoffload.recorders.predict.faults import PLANTS, Planted, Setting, matrix
from nsysoffload.trace.reader import read
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import UNSET
from nsysoffload.trace.writer import write

STEPS = 5
GAP, WAIT, LAUNCH = 200, 1_000, 2_000  # between kernels, behind an event, of a call
COPY = 335_545  # 64 MiB at 200 GB/s, rounded up
GATE = 200_000  # the kernel beside some faults

MATRIX = {str(setting): setting for setting in matrix()}


@cache
def planted(name: str) -> Planted:
    return MATRIX[name].plant()


each = pytest.mark.parametrize("name", MATRIX)


def gpu_rows(trace):
    for rows in (trace.kernels, trace.copies, trace.memsets):
        yield from rows[["stream", "correlation", "start_ns", "end_ns"]].itertuples(index=False)


def call_times(trace):
    """Start and end of each call by its correlation id."""
    calls = trace.calls[["correlation", "start_ns", "end_ns"]]
    return {row[0]: (row[1], row[2]) for row in calls.itertuples(index=False)}


# --- For all ---


def test_there_are_settings_of_every_fault_and_no_two_are_the_same():
    count = Counter(setting.cause for setting in matrix())
    assert set(count) == set(PLANTS)
    assert min(count.values()) >= 3
    assert len(MATRIX) == len(matrix()) >= 45


@each
def test_nothing_runs_before_its_call_and_streams_run_one_thing_at_a_time(name):
    trace = planted(name).trace
    called = {number: start for number, (start, _) in call_times(trace).items()}
    assert len(called) == len(trace.calls)
    streams: dict[int, list[tuple[int, int]]] = {}
    for stream, correlation, start, end in gpu_rows(trace):
        assert called[correlation] <= start < end
        streams.setdefault(stream, []).append((called[correlation], start, end))
    for rows in streams.values():
        rows.sort(key=lambda row: row[1])
        assert rows == sorted(rows)  # in the order of the calls
        assert all(end <= start for (_, _, end), (_, start, _) in zip(rows, rows[1:], strict=False))


@each
def test_the_host_makes_one_call_after_the_other(name):
    calls = planted(name).trace.calls
    assert (calls["start_ns"] < calls["end_ns"]).all()
    assert (calls["end_ns"].to_numpy()[:-1] <= calls["start_ns"].to_numpy()[1:]).all()


@each
def test_waits_and_records_are_those_of_calls(name):
    trace = planted(name).trace
    times = call_times(trace)
    for sync in trace.syncs.itertuples():
        assert times[sync.correlation] == (sync.start_ns, sync.end_ns)
    assert times.keys() >= set(trace.events["correlation"])


@each
def test_a_kernel_that_waits_for_an_event_starts_after_what_the_event_marks(name):
    trace = planted(name).trace
    order = {number: place for place, number in enumerate(trace.calls["correlation"])}
    placed: dict[int, list[tuple[int, int, int]]] = {}
    for stream, correlation, start, end in sorted(gpu_rows(trace), key=lambda row: order[row[1]]):
        placed.setdefault(stream, []).append((order[correlation], start, end))
    marks = {mark.event_sync: mark for mark in trace.events.itertuples()}
    for wait in trace.syncs[trace.syncs["event"] != UNSET].itertuples():
        mark = marks[wait.event_sync]
        marked, held = placed.get(mark.stream, []), placed[wait.stream]
        last = bisect(marked, (order[mark.correlation],)) - 1
        first = bisect(held, (order[wait.correlation],))
        if last >= 0 and first < len(held):  # a stream runs in order, so these two decide
            assert marked[last][2] <= held[first][1]


@each
def test_no_other_time_is_lost(name):
    fault = planted(name)
    for step in range(STEPS):
        lost_ns = sum(fault.record.lost_ns(step).values())
        own_ns = fault.cost_ns_per_step if fault.kind == "lost" else 0
        assert 0 <= lost_ns - own_ns < 0.05 * fault.cost_ns_per_step


@each
def test_all_steps_are_alike(name):
    times = [step.duration_ns for step in planted(name).record.steps()]
    assert len(times) == STEPS
    assert max(times) - min(times) < 0.01 * planted(name).cost_ns_per_step


@each
def test_the_ranges_of_the_steps_hold_the_calls_of_the_steps(name):
    fault = planted(name)
    ranges = fault.trace.nvtx_ranges[fault.trace.nvtx_ranges["text"] == "train_step"]
    spans = [*zip(ranges["start_ns"], ranges["end_ns"], strict=True)]
    windows = fault.record.steps()
    times = call_times(fault.trace)
    assert len(spans) == STEPS
    inside = Counter()
    for _, correlation, start, end in gpu_rows(fault.trace):
        first, last = times[correlation]
        step = [n for n, (begins, ends) in enumerate(spans) if begins <= first and last <= ends]
        for window in (windows[n] for n in step):
            assert window.start_ns <= start - ORIGIN_NS < end - ORIGIN_NS <= window.end_ns
        inside[len(step)] += 1
    assert bool(inside[0]) == (
        fault.cause in ("remote_numa", "starved", "bidirectional_contention")
    )


@pytest.mark.parametrize("cause", PLANTS)
def test_a_planted_trace_is_read_as_it_was_written(cause, tmp_path):
    trace = planted(next(name for name, s in MATRIX.items() if s.cause == cause)).trace
    path = tmp_path / "trace.sqlite"
    write(trace, path)
    again = read(path)
    for table in ("kernels", "copies", "calls", "nvtx_ranges", "syncs", "events"):
        assert len(getattr(again, table)) == len(getattr(trace, table))
    assert again.copies["source_kind"].tolist() == trace.copies["source_kind"].tolist()


# --- What they cost, by hand, in one layer ---


@pytest.mark.parametrize(
    ("cause", "parameters", "cost_ns"),
    [
        # at 40 GB/s; then the call returns, the wait is issued, the next kernel is launched
        pytest.param("pageable_memory", {"size_mib": 64}, 1_677_722 + 3 * LAUNCH, id="pageable"),
        pytest.param("same_stream", {}, COPY + GAP, id="same-stream"),
        # gate [0.2 200.2)  ahead [1 1343.178)  copy [1343.378 1678.923)  kernel at 1679.923
        pytest.param("shared_copy_stream", {}, 1_679_923 - 200_200, id="shared-stream"),
        # gate [0.2 200.2)  burst of 8 [1 1344.584)  small [1345.584 1345.605)  kernel at 1346.605
        pytest.param("queued_behind_copy", {}, 1_346_605 - 200_200, id="queued"),
        # 200 copies, one every 6 us; 6 us after the last its wait is issued, then the kernel
        pytest.param("small_copies", {}, 199 * 6_000 + 12_000, id="small"),
        pytest.param("staging_gaps", {}, 7 * (15_000_000 + LAUNCH), id="staging"),
        # kernel [0.2 400.2)  copy [1 1343.178)  kernel at 1344.178
        pytest.param("transfer_bound", {}, 1_344_178 - 400_200, id="transfer-bound"),
        pytest.param("step_boundary", {}, 1_342_178 + WAIT, id="before-step"),
        pytest.param("step_boundary", {"where": "after"}, 1_342_178, id="after-step"),
        pytest.param("issued_too_late", {}, COPY + WAIT, id="late"),
        pytest.param("collective_only", {}, 500_000, id="collective"),
        pytest.param("pinned_allocation", {}, 800_000, id="allocation"),
        pytest.param("host_callback", {}, 500_000 + 2 * GAP, id="callback"),
        # copy [1 84.887), awake at 884.887; the gate ran [0.2 200.2)
        pytest.param("host_sync", {}, 884_887 - 200_200, id="sync"),
        # late by 500 us, then the wait for the copy before and the launch
        pytest.param("host_gap", {}, 500_000 + 2 * LAUNCH, id="host-gap"),
        # 64 MiB at 100 instead of 155 GB/s, two in each direction between five steps
        pytest.param("remote_numa", {}, (671_089 - 432_960) * 4 * 4 / 5, id="numa"),
        pytest.param("starved", {}, 1_677_722 - COPY, id="starved"),
        pytest.param("compute_contention", {}, 4 * 200_000, id="kernels"),
    ],
)
def test_the_cost_is_what_can_be_counted_by_hand(cause, parameters, cost_ns):
    fault = PLANTS[cause](**{"layers": 1, **parameters})
    assert fault.cause == cause
    assert fault.cost_ns_per_step == pytest.approx(cost_ns, abs=1)


def test_copies_of_both_directions_take_as_much_longer_as_they_are_slowed():
    # Both from 1 us after the kernel on, 671.089 us alone, at half their speed all the time.
    fault = PLANTS["bidirectional_contention"](size_mib=128, both_ways=0.5, layers=1)
    assert fault.cost_ns_per_step == 2 * 671_089


# --- What their rows show ---


def calls_of(trace, copies):
    return trace.calls.set_index("correlation").loc[copies["correlation"]]


def test_the_call_of_a_pageable_copy_lasts_as_long_as_the_copy():
    trace = PLANTS["pageable_memory"](layers=1, early_call=False).trace
    copies = trace.copies[trace.copies["target_kind"] == MemKind.PAGEABLE]
    calls = calls_of(trace, copies)
    assert len(copies) == STEPS
    assert (copies["start_ns"].array - calls["start_ns"].array).max() < 3_000
    assert (calls["end_ns"].array > copies["end_ns"].array).all()
    assert (trace.copies["source_kind"] != MemKind.PAGEABLE).all()


def test_an_early_call_of_a_pageable_copy_begins_while_a_kernel_runs():
    trace = PLANTS["pageable_memory"](layers=1, direction="h2d").trace
    copies = trace.copies[trace.copies["source_kind"] == MemKind.PAGEABLE]
    assert (copies["start_ns"].array - calls_of(trace, copies)["start_ns"].array).min() > 200_000


def test_copies_on_the_compute_stream_share_it_with_kernels():
    trace = PLANTS["same_stream"](layers=1).trace
    shared = trace.copies["stream"].isin(trace.kernels["stream"])
    assert shared.sum() == STEPS


def test_copies_of_both_directions_share_one_stream():
    trace = PLANTS["shared_copy_stream"](layers=1).trace
    kinds = trace.copies.groupby("stream")["copy_kind"].agg(set)
    assert {CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST} in kinds.tolist()


def test_a_queued_copy_was_issued_long_before_it_starts():
    trace = PLANTS["queued_behind_copy"](layers=1).trace
    small = trace.copies[trace.copies["size_bytes"] == 4096]
    burst = trace.copies[trace.copies["copy_kind"] == CopyKind.HOST_TO_DEVICE].drop(small.index)
    for copy in small.itertuples():
        ahead = burst[burst["end_ns"] <= copy.start_ns].iloc[-1]
        assert copy.start_ns - ahead["end_ns"] == WAIT
        assert copy.stream != ahead["stream"]
    issued = calls_of(trace, small)["end_ns"].array
    assert (small["start_ns"].array - issued).min() > 1_000_000


def test_a_pause_in_a_call_is_a_row_of_its_own():
    trace = PLANTS["pinned_allocation"](layers=2).trace
    allocations = trace.calls[trace.calls["name"] == "cuMemHostAlloc"]
    assert len(allocations) == 2 * STEPS
    assert (allocations["end_ns"] - allocations["start_ns"]).min() > 800_000


def test_a_synchronising_call_names_the_stream_of_the_copy():
    trace = PLANTS["host_sync"](layers=1).trace
    calls = trace.calls[trace.calls["name"] == "cuStreamSynchronize"]
    syncs = trace.syncs[trace.syncs["correlation"].isin(calls["correlation"])]
    d2h = trace.copies.loc[trace.copies["copy_kind"] == CopyKind.DEVICE_TO_HOST, "stream"]
    assert len(syncs) == STEPS
    assert set(syncs["stream"]) == set(d2h)
    assert set(syncs["event"]) == {UNSET}


def test_a_host_function_is_a_call_without_a_row_on_the_gpu():
    trace = PLANTS["host_callback"](layers=1).trace
    functions = trace.calls[trace.calls["name"] == "cuLaunchHostFunc"]
    assert len(functions) == STEPS
    assert not functions["correlation"].isin(row[1] for row in gpu_rows(trace)).any()
    assert set(trace.copies["copy_kind"]) == {CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST}


def test_without_events_nothing_tells_who_waits_for_whom():
    trace = PLANTS["issued_too_late"](layers=1, has_events=False).trace
    assert trace.absent >= {"syncs", "events"}
    assert set(trace.calls["name"]) == {"cuLaunchKernelEx", "cuMemcpyDtoDAsync"}


def test_copies_between_the_steps_are_alone_on_the_device():
    fault = PLANTS["remote_numa"]()
    steps = fault.record.steps()
    rows = [(start - ORIGIN_NS, end - ORIGIN_NS) for _, _, start, end in gpu_rows(fault.trace)]
    between = [
        (start, end)
        for start, end in rows
        if not any(step.start_ns <= start <= step.end_ns for step in steps)
    ]
    assert len(between) == 4 * (STEPS - 1)
    for start, end in between:
        assert sum(start < other_end and other < end for other, other_end in rows) == 1


def test_a_platform_without_a_range_cannot_have_a_slow_link():
    with pytest.raises(ValueError, match="NVIDIA Unheard has no range"):
        PLANTS["remote_numa"](gpu="NVIDIA Unheard")


def test_a_setting_tells_what_it_plants():
    assert str(Setting("same_stream", {"direction": "d2h", "size_mib": 64})) == "same_stream-d2h-64"
