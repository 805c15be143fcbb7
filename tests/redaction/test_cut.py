"""A trace cut to some of its steps: these measure as they do in the whole."""

import json
import re
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.output import render
from nsysoffload.redaction.cut import Cut
from nsysoffload.redaction.redact import redact
from nsysoffload.timeline.steps import StepRule
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read
from tests.redaction.predicted import predicted

MS = 1_000_000


def dispatched_ahead(marks: str = "train_step", devices: int = 1, steps: int = 8) -> TraceBuilder:
    """Return steps of 10 ms that the host issues a step ahead; their copies reach into the next.

    ::

        host   [0      )[1      )[2      )
        GPU             [0 gemm ) [0 norm )[1 gemm )
        d2h                [0      )
        h2d                          [0       )
    """
    trace = TraceBuilder()
    for device in range(devices):
        where = {"pid": 1 + device, "device": device}
        for step in range(steps):
            host, gpu = 10 * step, 10 * (step + 1) + 0.3 * (step % 2) + 0.1 * device
            if "train_step" in marks:
                trace.nvtx("train_step", (host, host + 8), pid=1 + device)
            if "module" in marks:
                text = "XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=1#"
                trace.nvtx(text, (host + 0.5, host + 7), pid=1 + device)
            trace.nvtx(f"step {step}", (host, host + 8), pid=1 + device)
            trace.kernel((gpu, gpu + 4), "gemm", call=(host + 1, host + 1.1), **where)
            end = gpu + 5 + 0.05 * step
            trace.copy("d2h", (gpu + 1, end), stream=20, call=(host + 2, host + 2.1), **where)
            trace.event(
                step, event_sync=step + 1, stream=20, call=(host + 2.2, host + 2.3), **where
            )
            wait = (host + 2.4, host + 2.5)
            trace.sync(wait, event=step, event_sync=step + 1, stream=7, call=wait, **where)
            trace.kernel((gpu + 6, gpu + 9.5), "norm", call=(host + 3, host + 3.1), **where)
            end = gpu + 11 + 0.03 * step
            trace.copy("h2d", (gpu + 8, end), stream=21, call=(host + 4, host + 4.1), **where)
            trace.call("cudaStreamSynchronize", (host + 7, host + 7.5), pid=1 + device)
    return trace


def analysed(path: Path, **options) -> dict:
    return json.loads(render(nsysoffload.analyze(path, **options), "json"))


def steps(report: dict) -> dict[str, dict[int, dict]]:
    """Return the steps of each device by their start, without what a cut counts anew."""
    return {
        device["id"]: {
            step["start_ns"]: {k: v for k, v in step.items() if k not in ("index", "period_ns")}
            for step in device["steps"]
        }
        for device in report["devices"]
    }


def assert_cut(whole: Path, cut: Path, number: int, **options) -> dict:
    """Check that a cut has a number of steps on each device, which measure as in the whole."""
    before, after = steps(analysed(whole, **options)), steps(analysed(cut, **options))
    assert after.keys() == before.keys()
    for device, found in after.items():
        assert len(found) == number
        for start, step in found.items():
            assert step == before[device][start]
    return after


@pytest.fixture
def paths(tmp_path) -> tuple[Path, Path]:
    return tmp_path / "whole.sqlite", tmp_path / "cut.sqlite"


@pytest.mark.parametrize(
    ("marks", "devices", "number"),
    [("train_step", 1, 1), ("module", 1, 3), ("train_step module", 2, 1), ("module", 2, 1)],
)
def test_steps_issued_ahead_measure_as_in_the_whole(marks, devices, number, paths):
    whole, cut = paths
    dispatched_ahead(marks, devices).write(whole)
    found = redact(whole, cut, cut=Cut(number, since_ns=29 * MS))
    after = assert_cut(whole, cut, number)
    assert found.warnings == ()
    assert {step.index for step in found.steps} == set(range(2, 2 + number))
    assert [min(starts) for starts in after.values()] == [30 * MS, 30_100_000][:devices]
    assert cut.stat().st_size < whole.stat().st_size


@pytest.mark.parametrize(("variant", "number"), [("offload", 2), ("remat", 1)])
def test_predicted_steps_measure_as_in_the_whole(variant, number, paths, tmp_path):
    run = predicted(tmp_path / "runs", variant)
    redact(run, paths[1], cut=Cut(number))
    assert_cut(run, paths[1], number)


def test_rows_of_other_steps_stay_only_where_they_overlap(paths):
    whole, cut = paths
    dispatched_ahead().write(whole)
    redact(whole, cut, cut=Cut(1, since_ns=29 * MS))
    trace = read(cut)
    # Step 2 runs from 30 to 41.06; of step 1 a copy still runs, step 3 begins at 40.3.
    assert trace.kernels["start_ns"].tolist() == [30 * MS, 36 * MS, 40_300_000]
    assert trace.copies["end_ns"].tolist() == [31_330_000, 35_100_000, 41_060_000]
    ranges = trace.nvtx_ranges
    assert ranges["start_ns"][ranges["text"] == "train_step"].tolist() == [20 * MS]
    assert len(trace.syncs) == len(trace.events) > 0


def test_warm_up_is_left_out_as_the_analysis_does(paths):
    whole, cut = paths
    trace = TraceBuilder()
    for step, length in enumerate([900, 10, 10, 10]):
        start = 1000 * step
        trace.nvtx("train_step", (start, start + 2))
        trace.kernel((start + 3, start + 3 + length), "gemm", call=(start, start + 1))
    trace.write(whole)
    assert [step.index for step in redact(whole, cut, cut=Cut(2)).steps] == [1, 2]
    skipping = Cut(1, rule=StepRule(skip=2))
    assert [step.index for step in redact(whole, cut, cut=skipping).steps] == [2]


def test_steps_by_ranges_and_kernels_of_ones_own(paths):
    whole, cut = paths
    trace = TraceBuilder()
    for step in range(6):
        start = 10 * step
        trace.nvtx(f"iteration {step}", (start, start + 2))
        trace.kernel((start + 3, start + 5), "first", call=(start, start + 0.5))
        trace.kernel((start + 5, start + 9), "second", call=(start + 1, start + 1.5))
    trace.write(whole)
    redact(whole, cut, cut=Cut(2, 23 * MS, StepRule(step_range=re.compile(r"iteration \d"))))
    after = assert_cut(whole, cut, 2, step_range=r"iteration \d")
    assert list(next(iter(after.values()))) == [23 * MS, 33 * MS]
    redact(whole, cut, cut=Cut(2, 23 * MS, StepRule(step_kernel=re.compile("first"))))
    assert_cut(whole, cut, 2, step_kernel="first")


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (Cut(9), "whole.sqlite has 8 whole training steps there, not 9; ask for fewer,"),
        (
            Cut(2, 81 * MS),
            "whole.sqlite has no whole training steps there, not 2; ask for an earlier time.",
        ),
        (
            Cut(1, rule=StepRule(skip=9)),
            "whole.sqlite has no whole training steps there, not 1; skip fewer steps,",
        ),
        (Cut(1, rule=StepRule(step_range=re.compile("x"))), "No NVTX range is named 'x';"),
    ],
)
def test_steps_that_are_not_there_are_said(cut, message, paths):
    dispatched_ahead().write(paths[0])
    with pytest.raises(nsysoffload.UsageError, match=re.escape(message)):
        redact(*paths, cut=cut)
    assert not paths[1].exists()


def test_a_trace_without_marks_says_how_to_name_steps(paths):
    TraceBuilder().kernel((0, 10), "gemm").write(paths[0])
    with pytest.raises(nsysoffload.UsageError, match=r"^No training step is marked .*--step-range"):
        redact(*paths, cut=Cut(1))


def test_steps_that_are_others_in_the_copy_are_said(paths):
    whole, cut = paths
    trace = TraceBuilder()
    # Each longer than the next, but never by half: no warm-up in the whole, but from the third on.
    for step, length in enumerate([100, 90, 95, 40, 40, 42, 95, 95, 96]):
        start = 1000 * step
        trace.nvtx("train_step", (start, start + 2))
        trace.kernel((start + 3, start + 3 + length), "gemm", call=(start, start + 1))
    trace.write(whole)
    found = redact(whole, cut, cut=Cut(4, 2000 * MS))
    assert [step.index for step in found.steps] == [2, 3, 4, 5]
    assert [warning.code for warning in found.warnings] == ["steps_differ"]
    whole_steps = steps(analysed(whole))
    cut_steps = steps(analysed(cut, skip_steps=0))
    assert all(cut_steps[device].keys() <= whole_steps[device].keys() for device in cut_steps)
    assert [len(found) for found in cut_steps.values()] == [4]
