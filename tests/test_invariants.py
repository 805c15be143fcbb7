"""What holds for every report holds for any small trace, however odd."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsysoffload
from nsysoffload.output import render
from nsysoffload.report.json import schema
from nsysoffload.trace.builder import TraceBuilder
from tests.invariants import broken

MIB = 1 << 20
VALIDATOR = jsonschema.Draft202012Validator(schema())

times = st.integers(1, 400)
spans = st.tuples(times, st.integers(0, 80)).map(lambda pair: (pair[0], pair[0] + pair[1]))
kernels = st.tuples(spans, st.sampled_from([("gemm", 7), ("softmax", 13), ("ncclDevKernel", 9)]))
copies = st.tuples(
    spans,
    st.sampled_from(["h2d", "d2h"]),
    st.sampled_from([7, 20, 21]),
    st.sampled_from([0, 4096, 64 * MIB]),
    st.sampled_from(["pinned", "pageable"]),
)
leads = st.lists(st.none() | st.integers(0, 200), min_size=16, max_size=16)
markers = st.lists(st.tuples(spans, st.booleans(), st.integers(1, 2)), max_size=5)
host = st.sampled_from(["cudaStreamSynchronize", "cudaHostAlloc", "cudaLaunchHostFunc"])


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Kernels and collectives on three streams, copies, memsets, calls, events and steps."""
    trace = TraceBuilder(draw(st.sampled_from([None, "NVIDIA GB200"])), unit="us")
    lead = iter(draw(leads))

    def issued(start: int) -> dict:
        """Make the call that issued a row, some time before it, or none."""
        before = next(lead)
        return {} if before is None else {"call": (start - before, start - before + 2)}

    for when, (name, stream) in draw(st.lists(kernels, min_size=1, max_size=8)):
        trace.kernel(when, name, stream=stream, **issued(when[0]))
    for when, direction, stream, size, memory in draw(st.lists(copies, max_size=8)):
        where = {"stream": stream, **issued(when[0])}
        trace.copy(direction, when, size_bytes=size, host=memory, **where)
    for when in draw(st.lists(spans, max_size=2)):
        trace.memset(when, stream=8)
    for when, name in draw(st.lists(st.tuples(spans, host), max_size=3)):
        trace.call(name, when)
    for number, (record, wait) in enumerate(draw(st.lists(st.tuples(spans, spans), max_size=3))):
        trace.event(number, event_sync=number + 1, stream=20, call=record)
        trace.sync(wait, event=number, event_sync=number + 1, stream=7, call=wait)
    for (start, end), ends, thread in draw(markers):
        trace.nvtx("train_step", (start - 200, end if ends else None), thread=thread)
    return trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@settings(max_examples=40)
@given(traces(), st.sampled_from([{}, {}, {"skip_steps": 0}, {"window": "100us..300us"}]))
def test_every_report_adds_up(folder: Path, trace: TraceBuilder, options: dict):
    path = trace.write(folder / "trace.sqlite")
    try:
        report = nsysoffload.analyze(path, **options)
    except nsysoffload.OffloadError as error:
        assert "holds no GPU activity" in str(error)
        return
    plain = json.loads(render(report, "json"))
    assert list(VALIDATOR.iter_errors(plain)) == []
    assert list(broken(plain)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost_ns": 1},
        {"stall_ns": 10**9},
        {"best_ns": 0},
        {"lost": {"unknown": 10**9}},
        {"duration_ns": -1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_step_that_does_not_add_up_is_told(tmp_path: Path, wrong: dict):
    trace = TraceBuilder().kernel((0, 10), "a").kernel((14, 24), "b")
    trace.copy("h2d", (10, 14), stream=20)
    report = nsysoffload.analyze(trace.write(tmp_path / "trace.sqlite"))
    plain = json.loads(render(report, "json"))
    assert list(broken(plain)) == []
    plain["devices"][0]["steps"][0] |= wrong
    assert list(broken(plain))
