"""Stalls by hand, and against a search that goes through gaps, rows and pauses one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.overlap.stalls import PAUSE_NS
from nsysoffload.trace.builder import TraceBuilder
from tests.examined import examined

US = 1_000
COPIES = ("h2d", "d2h", "d2d")
NCCL = "ncclDevKernel_AllGather_RING_LL"


def stalls_of(trace: TraceBuilder) -> list[tuple[int, int]]:
    stalls = examined(trace).measurements.stalls.stalls
    return list(zip(stalls["start_ns"].tolist(), stalls["end_ns"].tolist(), strict=True))


def kernels(*times: tuple[int, int]) -> TraceBuilder:
    trace = TraceBuilder(unit="us")
    for when in times:
        trace.kernel(when, "gemm")
    return trace


def in_ns(*spans: tuple[int, int]) -> list[tuple[int, int]]:
    return [(start * US, end * US) for start, end in spans]


# --- By hand ---


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        #  kernels   [10  100)                      [300  400)
        pytest.param([(150, 290)], [(150, 300)], id="ends-shortly-before"),
        pytest.param([(150, 280)], [(150, 300)], id="ends-20-us-before"),
        pytest.param([(150, 279)], [], id="ends-long-before"),
        pytest.param([(50, 290)], [(100, 300)], id="begins-under-the-kernel-before"),
        pytest.param([(150, 200), (220, 290)], [(150, 300)], id="a-pause-of-20-us"),
        pytest.param([(150, 200), (221, 290)], [(221, 300)], id="a-pause-that-ends-the-chain"),
        pytest.param([(50, 90), (110, 290)], [(110, 300)], id="a-chain-from-before-the-gap"),
        pytest.param([(150, 350)], [], id="runs-on-under-the-next-kernel"),
        pytest.param([(20, 90)], [], id="hidden"),
        pytest.param([(20, 100)], [], id="hidden-to-the-last"),
        pytest.param([(300, 390)], [], id="hidden-by-the-kernel-after"),
        pytest.param([(390, 500)], [(400, 500)], id="reaches-the-step-s-end"),
        pytest.param([(1, 5)], [(1, 10)], id="before-the-first-kernel"),
    ],
)
def test_the_chain_that_ends_before_a_kernel_owns_the_gap_from_its_start(copies, expected):
    trace = kernels((10, 100), (300, 400))
    for when in copies:
        trace.copy("h2d", when, stream=20)
    assert stalls_of(trace) == in_ns(*expected)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        #  kernels   [10  100)     transfer [50   190)     [300  400)
        pytest.param([(195, 295)], [(100, 195)], id="a-copy-that-waits"),
        pytest.param([(195, 230), (250, 285)], [(100, 195)], id="two-in-a-row"),
        pytest.param([(195, 229), (250, 285)], [], id="two-apart"),
        pytest.param([(211, 295)], [], id="too-long-behind-the-transfer"),
        pytest.param([(195, 279)], [], id="long-before-the-kernel"),
        pytest.param([(195, 350)], [(100, 195)], id="on-beside-the-kernel"),
        pytest.param([(60, 295)], [], id="beside-the-transfer"),
    ],
)
def test_a_copy_within_the_device_ahead_of_the_kernel_may_be_what_waits(own, expected):
    trace = kernels((10, 100), (300, 400))
    trace.copy("d2h", (50, 190), stream=20)
    for when in own:
        trace.copy("d2d", when, stream=7)
    assert stalls_of(trace) == in_ns(*expected)


@pytest.mark.parametrize(("event", "expected"), [(5, [(150, 300)]), (6, [])])
def test_a_wait_proves_what_ended_long_before_the_kernel(event, expected):
    #  kernel stream  [10 100)        (wait 5)          [300 400)
    #  copy stream             [150 200)(record 5)         100 us before it
    trace = kernels((10, 100))
    trace.copy("h2d", (150, 200), stream=20, call=(20, 21))
    trace.event(5, event_sync=50, stream=20, call=(22, 23))
    trace.sync((24, 25), event=event, event_sync=event * 10, stream=7, call=(24, 25))
    trace.kernel((300, 400), "gemm", call=(26, 27))
    assert stalls_of(trace) == in_ns(*expected)
    assert examined(trace).values.stall_proven_ns.tolist() == [150 * US if expected else 0]


@pytest.mark.parametrize(("launched", "expected"), [(190, [(150, 300)]), (240, [])])
def test_a_kernel_on_the_copy_s_own_stream_waits_for_it_if_it_was_launched_in_time(
    launched, expected
):
    #  stream 7   [10 100)   [150 200)            [300 400)
    #  host                         launched at 190, or at 240: then the host was late
    trace = TraceBuilder(unit="us")
    trace.kernel((10, 100), "gemm", call=(2, 3))
    trace.copy("h2d", (150, 200), call=(110, 111))
    trace.kernel((300, 400), "gemm", call=(launched, launched + 1))
    assert stalls_of(trace) == in_ns(*expected)


def test_a_collective_ends_a_gap_and_is_no_gap():
    #  compute     [10 100)                                  [500 600)
    #  collective                       [300  400)
    #  copies                [150  290)            [410 490)
    trace = kernels((10, 100), (500, 600)).kernel((300, 400), NCCL, stream=9)
    trace.copy("h2d", (150, 290), stream=20).copy("d2h", (410, 490), stream=21)
    assert stalls_of(trace) == in_ns((150, 300), (410, 500))


def test_nothing_is_a_stall_under_a_graph_that_was_traced_whole():
    trace = kernels((10, 100), (300, 400)).copy("h2d", (150, 290), stream=20)
    assert stalls_of(trace.graph((160, 170))) == []


# --- For all ---


@st.composite
def rows(draw):
    """Rows of one device in multiples of 5 us, as (kind, start, end); each stream one by one."""
    made = []
    streams = {7: ("gemm",), 9: (NCCL,), 20: ("h2d", "d2h"), 21: ("h2d", "d2h"), 30: ("d2d",)}
    for stream, kinds in streams.items():
        time = draw(st.integers(1, 12))
        for _ in range(draw(st.integers(0, 4))):
            time += draw(st.integers(0, 14))
            end = time + draw(st.integers(1, 12))
            made.append((draw(st.sampled_from(kinds)), 5 * US * time, 5 * US * end, stream))
            time = end
    return made


def trace_of(made) -> TraceBuilder:
    trace = TraceBuilder(unit="ns")
    for kind, start, end, stream in made:
        if kind in COPIES:
            trace.copy(kind, (start, end), stream=stream)
        else:
            trace.kernel((start, end), kind, stream=stream)
    return trace


def gaps(made) -> list[tuple[int, int, bool]]:
    """Start and end of each gap between kernels, and whether a kernel ends it."""
    busy = [(start, end) for kind, start, end, _ in made if kind not in COPIES]
    first, last = min(row[1] for row in made), max(row[2] for row in made)
    found, reach = [], first
    for start, end in sorted(busy):
        if start > reach:
            found.append((reach, start, True))
        reach = max(reach, end)
    return [*found, *([(reach, last, False)] if last > reach else [])]


def chains(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= PAUSE_NS:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def owners_of(moving, start, end, kernel) -> list[tuple[int, int]]:
    inside = [s for s in moving if s[0] < end and start < s[1]]
    if kernel:  # what runs on under the next kernel did not hold it up
        inside = [s for s in inside if s[1] <= end]
    slack = PAUSE_NS if kernel else 0
    return [c for c in chains(inside) if end - c[1] <= slack]


@given(rows())
@settings(max_examples=40)
def test_stalls_agree_with_a_search_through_gaps_and_chains(made):
    if not made:
        return
    moving = [(start, end) for kind, start, end, _ in made if kind in ("h2d", "d2h")]
    expected = []
    own = [(start, end) for kind, start, end, _ in made if kind == "d2d"]
    for start, end, kernel in gaps(made):
        owners = owners_of(moving, start, end, kernel)
        before = chains([span for span in own if span[0] < end])
        if not owners and kernel and before and end - before[-1][1] <= PAUSE_NS:
            end = max(start, before[-1][0])
            owners = owners_of(moving, start, end, kernel)
        if owners:
            expected.append((max(start, owners[0][0]), end))
    known = examined(trace_of(made)).measurements
    stalls = known.stalls.stalls
    found = list(zip(stalls["start_ns"].tolist(), stalls["end_ns"].tolist(), strict=True))
    assert found == expected
    lost = {t for s, e in known.stalls.lost for t in range(s, e, 5 * US)}
    compute = {t for kind, s, e, _ in made if kind == "gemm" for t in range(s, e, 5 * US)}
    every = range(min(r[1] for r in made), max(r[2] for r in made), 5 * US)
    assert lost == set(every) - compute
    assert np.isin(known.stalls.stalls["blocker"], np.arange(len(known.transfers))).all()
