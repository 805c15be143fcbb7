"""Every measure against counting nanoseconds, and what must hold for all traces."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsysoffload
from nsysoffload.errors import TraceError
from nsysoffload.overlap.transfers import measure
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder

FEWER = settings(max_examples=40)  # each example measures several traces
NAMES = ("gemm", "softmax", "ncclDevKernel_AllGather_RING_LL", "CUDA memcpy HtoD")


@st.composite
def rows(draw, streams=3):
    """Rows of one device as (kind, start, end, stream); streams may overlap, rows of one do not."""
    made = []
    for stream in range(1, streams + 1):
        time = draw(st.integers(1, 10))
        for _ in range(draw(st.integers(0, 5))):
            time += draw(st.integers(0, 8))
            end = time + draw(st.integers(0, 15))
            kind = draw(st.sampled_from([*NAMES, "h2d", "d2h", "d2d", "memset", "um"]))
            made.append((kind, time, end, stream))
            time = end
    return made


def trace_of(made) -> TraceBuilder:
    trace = TraceBuilder(unit="ns")
    for kind, start, end, stream in made:
        if kind in ("h2d", "d2h", "d2d"):
            size = 7 * (end - start) + stream
            trace.copy(kind, (start, end), stream=stream, size_bytes=size)
        elif kind == "memset":
            trace.memset((start, end), stream=stream)
        elif kind == "um":
            trace.migration("h2d", (start, end))
        else:
            trace.kernel((start, end), kind, stream=stream)
    return trace


def measured(trace: TraceBuilder, window=None):
    devices = build(trace.build()).devices
    return measure(devices[0], window) if devices else None


def ticks(made, window=None) -> dict[str, set[int]]:
    covered = defaultdict(set)
    for kind, start, end, _ in made:
        covered[kind] |= {t for t in range(start, end) if not window or window[0] <= t < window[1]}
    return covered


@given(rows(), st.none() | st.tuples(st.integers(0, 40), st.integers(1, 60)))
def test_measures_agree_with_counting_nanoseconds(made, window):
    if window:
        window = (window[0], window[0] + window[1])
    overlap = measured(trace_of(made), window)
    if overlap is None:
        return
    at = ticks(made, window)
    compute = at["gemm"] | at["softmax"]
    collective = at["ncclDevKernel_AllGather_RING_LL"]
    other = at["CUDA memcpy HtoD"] | at["memset"] | at["d2d"]
    assert overlap.compute_busy_ns == len(compute)
    assert overlap.collective_busy_ns == len(collective)
    assert overlap.other_busy_ns == len(other)
    everything = compute | collective | other | at["h2d"] | at["d2h"]
    start, end = overlap.window
    assert overlap.idle_ns == end - start - len(everything)
    assert overlap.concurrent_ns == len(at["h2d"] & at["d2h"])
    sets = {"h2d": at["h2d"], "d2h": at["d2h"], "both": at["h2d"] | at["d2h"]}
    for name, moving in sets.items():
        cover = overlap.both if name == "both" else overlap.directions[name].cover
        assert cover.busy_ns == len(moving)
        assert cover.hidden_ns == len(moving & compute)
        assert cover.exposed_ns == len(moving - compute)
        assert cover.hidden_by_collectives_ns == len((moving - compute) & collective)
        assert cover.hidden_ns + cover.exposed_ns == cover.busy_ns
        assert cover.overlap is None or 0 <= cover.overlap <= 1
        assert (cover.overlap is None) == (cover.overlap_null_reason is not None)


@FEWER
@given(rows(), st.randoms())
def test_the_order_of_rows_never_changes_a_figure(made, random):
    one, other = measured(trace_of(made)), measured(trace_of(random.sample(made, len(made))))
    if one is not None:
        assert other is not None
        assert one.directions == other.directions
        assert (one.both, one.idle_ns) == (other.both, other.idle_ns)


@FEWER
@given(rows(), st.integers(1, 60))
def test_windows_that_adjoin_add_up(made, cut):
    whole = measured(trace_of(made))
    if whole is None:
        return
    start, end = whole.window
    edge = min(max(cut, start), end)
    halves = [measured(trace_of(made), w) for w in ((start, edge), (edge, end + 1))]
    for name in ("h2d", "d2h"):
        parts = [half.directions[name] for half in halves]
        total = whole.directions[name]
        assert sum(part.cover.busy_ns for part in parts) == total.cover.busy_ns
        assert sum(part.cover.hidden_ns for part in parts) == total.cover.hidden_ns
        assert sum(part.bytes for part in parts) == total.bytes


@FEWER
@given(rows())
def test_a_second_stream_that_repeats_the_kernels_changes_nothing(made):
    twice = made + [(kind, s, e, stream + 50) for kind, s, e, stream in made if kind in NAMES]
    one, other = measured(trace_of(made)), measured(trace_of(twice))
    if one is not None:
        assert [d.cover for d in one.directions.values()] == [
            d.cover for d in other.directions.values()
        ]
        assert one.compute_busy_ns == other.compute_busy_ns


@FEWER
@given(rows())
def test_totals_by_kernel_name_agree_with_counting_nanoseconds(made):
    overlap = measured(trace_of(made))
    if overlap is None or overlap.kernels.empty:
        return
    at = ticks(made)
    names = overlap.kernels["name"].cat.categories
    got = dict(zip(names, overlap.kernel_names["busy_ns"], strict=True))
    assert got == {name: len(at[name]) for name in names}
    assert overlap.kernel_names["count"].sum() == len(overlap.kernels)


def test_a_run_of_copies_ends_where_a_kernel_starts():
    #  copies   [0 2)[3 5)        [10 12)
    #  kernel          [5    9)
    trace = TraceBuilder(unit="ns").kernel((5, 9), "gemm")
    for start in (1, 4, 11):
        trace.copy("h2d", (start, start + 2), size_bytes=10, stream=20)
    assert measured(trace).directions["h2d"].burst_gbps == 30 / (5 + 2)


@pytest.mark.parametrize("start", [2, 6])
def test_a_kernel_that_starts_with_a_copy_is_not_between_copies(start):
    trace = TraceBuilder(unit="ns").kernel((start, 9), "gemm")
    for begin in (2, 6):
        trace.copy("h2d", (begin, begin + 2), size_bytes=10, stream=20)
    assert measured(trace).directions["h2d"].burst_gbps == 20 / 6


def test_real_exports_give_exactly_the_figures_of_an_independent_sweep(real_trace: Path):
    file = real_trace.with_name("expected.json")
    expected = json.loads(file.read_text())[real_trace.name]["devices"]
    if not expected:
        with pytest.raises(TraceError, match="holds no GPU activity"):
            nsysoffload.analyze(real_trace)
        return
    report = nsysoffload.analyze(real_trace)
    found = {}
    for device in report.devices:
        trace = device.trace
        figures = {
            name: getattr(trace, name)
            for name in ("kernels", "compute_busy_ns", "collective_busy_ns")
        }
        for name in ("h2d", "d2h"):
            keys = expected[str(device.ordinal)][name]
            figures[name] = {key: getattr(getattr(trace, name), key) for key in keys}
        for name in ("um_h2d", "um_d2h"):
            moved = getattr(trace, name)
            if moved.copies:
                figures[name] = {"copies": moved.copies, "bytes": moved.bytes}
        found[str(device.ordinal)] = figures
    assert found == expected
