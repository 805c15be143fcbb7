"""Each cause by a small trace that shows it and one that just does not, and what holds for all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.diagnosis.diagnose import OWNERS
from nsysoffload.timeline.steps import STEP_RANGE
from nsysoffload.trace.builder import TraceBuilder
from tests.examined import examined, report_of

NCCL = "ncclDevKernel_AllGather_RING_LL"
US = 1_000
KIB, MIB = 1 << 10, 1 << 20


def step(end=2_000) -> TraceBuilder:
    """A step that is issued by 10 us and whose work is under a range, in us."""
    return TraceBuilder("NVIDIA GB200", unit="us").nvtx(STEP_RANGE, (1, end))


def kernels(trace: TraceBuilder, *times, call=5) -> TraceBuilder:
    for when in times:
        trace.kernel(when, "gemm", call=(call, call + 1))
    return trace


def owned(trace: TraceBuilder) -> dict[str, int]:
    """Microseconds that each cause owns."""
    found = examined(trace).diagnosis.by_cause()
    return {cause: int((s[:, 1] - s[:, 0]).sum()) / US for cause, s in found.items()}


def excess(trace: TraceBuilder) -> dict[str, int]:
    """Excess time of each cause, in microseconds."""
    found: dict[str, int] = {}
    for item in examined(trace).diagnosis.owned:
        cause = item.claim.cause
        found[cause] = found.get(cause, 0) + item.claim.excess_ns
    return {cause: ns / US for cause, ns in found.items() if ns}


def around(*, begin=100, end=200, call=5, stream=20, direction="h2d", before=True, **fields):
    """Kernels with a copy between them, and all else hidden::

    gemm  [10  100)             [200  300)         [500        900)
    copy           [begin   end)                      h2d, d2h [600 800)
    """
    trace = kernels(step(), (200, 300), (500, 900), (300, 500))
    if before:
        kernels(trace, (10, 100))
    trace.copy(direction, (begin, end), stream=stream, call=(call, call + 1), **fields)
    for way, other in (("h2d", 31), ("d2h", 32)):
        trace.copy(way, (600, 800), stream=other, call=(6, 7))
    return trace


def test_every_rule_is_silent_where_all_copies_are_hidden():
    #  gemm  [10   100)[100   200)[200   300) ...   copies hidden, both ways, pinned
    trace = kernels(step(), *((n, n + 100) for n in range(100, 900, 100)))
    for n in range(150, 850, 100):
        trace.copy("h2d", (n, n + 40), stream=20, size_bytes=MIB, call=(5, 6))
        trace.copy("d2h", (n + 50, n + 90), stream=21, size_bytes=MIB, call=(5, 6))
    assert examined(trace).diagnosis.owned == ()
    assert report_of(trace.build()).findings == ()


# --- Causes of lost time ---


def test_collective_only():
    #  gemm  [10 100)         [150 250)
    #  nccl       [60    150)               lost 100..150
    trace = kernels(step(), (10, 100), (150, 250)).kernel((60, 150), NCCL, stream=9, call=(5, 6))
    assert owned(trace) == {"collective_only": 50}
    hidden = kernels(step(), (10, 150), (150, 250)).kernel((60, 150), NCCL, stream=9, call=(5, 6))
    assert owned(hidden) == {}


@pytest.mark.parametrize(
    ("call_end", "host", "cause"),
    [
        pytest.param(205, "pageable", "pageable_memory", id="the-call-blocks"),
        pytest.param(130, "pageable", "issued_too_late", id="the-call-returns"),
        pytest.param(205, "pinned", "issued_too_late", id="pinned"),
    ],
)
def test_pageable_memory(call_end, host, cause):
    #  gemm  [10 100)            [200
    #  h2d           [100   200)           its call lasts from 95 on
    trace = kernels(step(), (10, 100), (200, 300), (300, 900))
    trace.copy("h2d", (100, 200), stream=20, host=host, call=(95, call_end))
    trace.copy("h2d", (400, 800), stream=21, call=(6, 7))
    assert owned(trace) == {cause: 100}


def test_same_stream():
    assert owned(around(stream=7)) == {"same_stream": 100}
    assert owned(around(stream=20)) == {"issued_too_late": 100}


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("cudaHostAlloc", "pinned_allocation"),
        ("cuMemFreeHost", "pinned_allocation"),
        ("cudaHostGetDevicePointer", "unknown"),
    ],
)
def test_pinned_allocation(name, cause):
    #  gemm  [10 100)          [200 300)     nothing moves
    #  call     [90        200)
    trace = kernels(step(), (10, 100), (200, 300)).call(name, (90, 200))
    assert owned(trace) == {cause: 100}


@pytest.mark.parametrize(
    ("name", "at", "cause"),
    [
        ("cudaLaunchHostFunc", 7, "host_callback"),
        ("cuStreamAddCallback", 7, "host_callback"),
        ("cudaLaunchHostFunc", 2, "unknown"),
    ],
)
def test_host_callback(name, at, cause):
    #  gemm  [10 100)         [200 300)      launched at 5 and at 9, the function queued at 7
    trace = kernels(kernels(step(), (10, 100)), (200, 300), call=9).call(name, (at, at + 1))
    assert owned(trace) == {cause: 100}


def test_host_sync_and_host_gap():
    #  gemm  [10 100)                         [200 300)   launched at 180, when the GPU was idle
    #  sync     [20             160)
    trace = kernels(kernels(step(), (10, 100)), (200, 300), call=180)
    assert owned(trace) == {"host_gap": 100}
    trace.call("cudaStreamSynchronize", (20, 160))
    assert owned(trace) == {"host_sync": 60, "host_gap": 40}
    early = kernels(kernels(step(), (10, 100)), (200, 300), call=60)
    assert owned(early) == {"unknown": 100}
    assert owned(early.call("cudaStreamSynchronize", (20, 160))) == {"unknown": 100}


@pytest.mark.parametrize(
    ("direction", "stream", "cause"),
    [
        pytest.param("h2d", 21, "queued_behind_copy", id="same-direction-another-stream"),
        pytest.param("d2h", 20, "shared_copy_stream", id="other-direction-same-stream"),
        pytest.param("d2h", 21, "issued_too_late", id="other-direction-another-stream"),
    ],
)
def test_a_copy_that_waits_for_other_copies(direction, stream, cause):
    #  gemm   [10     100)                   [200 300)
    #  other     [20       100)
    #  h2d                     [100      200)            issued at 5
    trace = kernels(step(), (10, 100), (200, 300), (300, 900))
    trace.copy(direction, (20, 100), stream=stream, call=(4, 5))
    trace.copy("h2d", (100, 200), stream=20, call=(5, 6))
    trace.copy("h2d", (400, 800), stream=31, call=(6, 7))
    assert owned(trace)[cause] == 100
    assert len(owned(trace)) == 1


def many(size_bytes, length, pause, count=5):
    """A run of copies in a gap, the last of which ends where the next kernel begins."""
    trace = kernels(step(), (10, 100))
    begin = 100
    for _ in range(count):
        trace.copy("h2d", (begin, begin + length), stream=20, size_bytes=size_bytes, call=(5, 6))
        begin += length + pause
    trace = kernels(trace, (begin - pause, begin + 900))
    return trace.copy("h2d", (begin + 100, begin + 800), stream=31, call=(6, 7))


def test_small_copies():
    #  gemm  [10 100)                             [120   5 copies of 2 us with pauses of 10
    #  h2d           [)  [)  [)  [)  [)
    assert owned(many(4 * KIB, 2, 10)) == {"small_copies": 50}
    assert "small_copies" not in owned(many(64 * KIB, 2, 10))
    assert "small_copies" not in owned(many(4 * KIB, 10, 2))


def test_staging_gaps():
    #  equal copies of 64 MiB at 200 GB/s, 336 us each, with pauses of 500 us
    big = 64 * MIB
    assert owned(many(big, 336, 500))["staging_gaps"] == 4 * 500
    assert "staging_gaps" not in owned(many(big, 336, 300))
    # A tenth of what another copy shows the link to do.
    slow = many(big, 3_360, 5_000).copy("h2d", (90_000, 90_336), stream=20, size_bytes=big)
    assert "staging_gaps" not in owned(slow)
    assert "staging_gaps" not in owned(many(big, 336, 500, count=3))


def test_transfer_bound():
    #  gemm [100 104)                    4 us, all under a copy: nothing to hide behind
    #  h2d  [100             400)[..
    trace = kernels(step(), (100, 104), (400, 410))
    trace.copy("h2d", (100, 400), stream=20, call=(5, 6))
    assert owned(trace) == {"transfer_bound": 296}
    roomy = kernels(step(), (10, 100), (100, 104), (400, 410))
    roomy.copy("h2d", (100, 400), stream=20, call=(5, 6))
    assert owned(roomy) == {"issued_too_late": 296}


def test_exposed_time_that_holds_nothing_up_does_not_make_a_small_stall_transfer_bound():
    #  gemm [1 50)                          [590 900)     far more compute than stall
    #  h2d        [60     500)    [570  590)               only the second is waited for
    trace = kernels(step(), (1, 50), (590, 900))
    trace.copy("h2d", (60, 500), stream=20, call=(5, 6))
    trace.copy("h2d", (570, 590), stream=20, call=(6, 7))
    found = owned(trace)
    assert found["issued_too_late"] == 20
    assert "transfer_bound" not in found


def test_step_boundary():
    #  gemm              [200 900)               before the first, and after the last kernel
    #  h2d  [100    200)
    #  d2h                        [850    950)
    trace = kernels(step(), (200, 900))
    trace.copy("h2d", (100, 200), stream=20, call=(5, 6))
    assert owned(trace) == {"step_boundary": 100}
    trace.copy("d2h", (850, 950), stream=21, call=(5, 6))
    assert owned(trace) == {"step_boundary": 150}
    assert "step_boundary" not in owned(around())


def test_issued_too_late():
    assert owned(around(begin=100)) == {"issued_too_late": 100}
    # Issued in time, begun long after the kernel before and long before the gap: just too long.
    begun = kernels(step(), (10, 100), (200, 900))
    begun.copy("h2d", (50, 200), stream=20, call=(5, 6))
    begun.copy("h2d", (400, 800), stream=31, call=(6, 7))
    assert "issued_too_late" not in owned(begun)


def test_unknown():
    #  gemm  [10 100)   [150 250)     launched in time, nothing moves, no call
    assert owned(kernels(step(), (10, 100), (150, 250))) == {"unknown": 50}


# --- Causes of excess time ---


def lone(trace, count, size_bytes, length, *, begin=3_000, direction="h2d"):
    for n in range(count):
        when = (begin + n * 1_000, begin + n * 1_000 + length)
        trace.copy(direction, when, stream=20, size_bytes=size_bytes, call=(5, 6))
    return trace


def test_starved_and_bidirectional_contention():
    #  three lone copies of 100 us, and one of 300 us under a kernel, or against the other direction
    trace = lone(kernels(step(), (1_000, 1_300)), 3, 16 * MIB, 100)
    trace.copy("h2d", (1_000, 1_300), stream=20, size_bytes=16 * MIB, call=(5, 6))
    assert excess(trace)["starved"] == 200
    assert "bidirectional_contention" not in excess(trace)
    trace.copy("d2h", (1_100, 1_300), stream=21, size_bytes=MIB, call=(5, 6))
    assert excess(trace)["bidirectional_contention"] == 200
    assert "starved" not in excess(trace)


def test_compute_contention():
    trace = kernels(step(), *((n, n + 10) for n in (100, 120, 140)))
    kernels(trace, *((n, n + 15) for n in (200, 220, 240)))
    trace.copy("h2d", (190, 260), stream=20, call=(5, 6))
    assert excess(trace)["compute_contention"] == 15
    fewer = kernels(step(), (100, 110), (120, 130), (200, 215), (220, 235), (240, 255))
    fewer.copy("h2d", (190, 260), stream=20, call=(5, 6))
    assert "compute_contention" not in excess(fewer)


@pytest.mark.parametrize(("fast", "told"), [(False, True), (True, False)])
def test_remote_numa(fast, told):
    #  lone pinned copies of 64 MiB at a fourth of the low end; none is told if one of them is fast
    trace = lone(kernels(step(), (100, 200)), 3, 64 * MIB, 1_000, begin=3_000)
    if fast:
        lone(trace, 1, 64 * MIB, 340, begin=9_000)
    assert ("remote_numa" in excess(trace)) is told


def test_remote_numa_needs_large_copies():
    assert "remote_numa" not in excess(lone(kernels(step(), (100, 200)), 3, 15 * MIB, 1_000))


# --- For all ---


@st.composite
def traces(draw):
    """A step with kernels, collectives, copies of both kinds of memory, and calls of the host."""
    trace = step(end=5_000)
    issued = 2
    for stream, kinds in ((7, ("gemm", "copy")), (9, (NCCL,)), (20, ("copy",)), (21, ("copy",))):
        time = draw(st.integers(1, 30))
        for _ in range(draw(st.integers(0, 5))):
            time += draw(st.integers(0, 50))
            end = time + draw(st.integers(0, 60))
            call = (issued, issued + draw(st.integers(1, 40)))
            issued += draw(st.integers(1, 20))
            kind = draw(st.sampled_from(kinds))
            if kind == "copy":
                way = draw(st.sampled_from(["h2d", "d2h"]))
                host = draw(st.sampled_from(["pinned", "pageable"]))
                size = draw(st.sampled_from([4 * KIB, MIB, 64 * MIB]))
                trace.copy(way, (time, end), stream=stream, host=host, size_bytes=size, call=call)
            else:
                trace.kernel((time, end), kind, stream=stream, call=call)
            time = end
    trace.kernel((time + 5, time + 10), "gemm", call=(issued, issued + 1))
    for name in ("cudaHostAlloc", "cudaLaunchHostFunc", "cudaDeviceSynchronize"):
        if draw(st.booleans()):
            begin = draw(st.integers(2, 200))
            trace.call(name, (begin, begin + draw(st.integers(0, 60))))
    return trace


@given(traces())
@settings(max_examples=40)
def test_each_nanosecond_outside_compute_has_one_owner(trace):
    device = examined(trace)
    count: dict[int, int] = {}
    for item in device.diagnosis.owned:
        assert item.claim.cause in OWNERS or not len(item.spans)
        for start, end in item.spans.tolist():
            for t in range(start, end, US):
                count[t] = count.get(t, 0) + 1
    compute = {
        t
        for row in device.overlap.kernels.itertuples()
        if row.kind == "compute"
        for t in range(row.start_ns, row.end_ns, US)
    }
    steps = zip(device.steps.start_ns, device.steps.end_ns, strict=True)
    inside = {t for start, end in steps for t in range(start, end, US)}
    assert count == dict.fromkeys(inside - compute, 1)
    total = sum(s[:, 1].sum() - s[:, 0].sum() for s in device.diagnosis.by_cause().values())
    assert total == device.values.lost_ns.sum()
