import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.trace.builder import TraceBuilder


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """Return what is found of four steps, of which the first is slow, with some options.

    ::

        ranges  [it 0                     ) [it 1  ) [it 2  ) [it 3  )
        opener   [)                          [)       [)       [)
        gemm       [                   )       [   )    [   )    [   )
    """
    monkeypatch.chdir(tmp_path)
    trace = TraceBuilder()
    for number, (start, end) in enumerate([(0, 400), (400, 500), (500, 600), (600, 700)]):
        trace.nvtx(f"it {number}", (start, end))
        trace.kernel((start + 1, start + 2), "opener", call=(start + 0.5, start + 0.6))
        trace.kernel((start + 3, end - 10), "gemm", call=(start + 0.7, start + 0.8))
    trace.write(tmp_path / "a.sqlite")

    def found(*words: str) -> tuple[str, list[int], int]:
        result = CliRunner().invoke(main, ["analyze", "a.sqlite", "--format", "json", *words])
        assert result.exit_code == 0, result.stderr
        report = json.loads(Path("reports/a/report.json").read_text())
        (device,) = report["devices"]
        window = report["window"]
        indices = [step["index"] for step in device["steps"]]
        return window["steps_found_by"], indices, window["skipped_steps"]

    return found


def test_without_a_mark_the_window_is_one_step(steps):
    assert steps() == ("window", [0], 0)


def test_ranges_of_a_name_are_steps_and_a_slow_first_one_is_left_out(steps):
    assert steps("--step-range", r"it \d") == ("step_range", [1, 2, 3], 1)


def test_a_range_matches_by_its_whole_name(steps):
    assert steps("--step-range", "it [12]") == ("step_range", [0, 1], 0)


def test_a_kernel_can_begin_the_steps(steps):
    assert steps("--step-kernel", "open") == ("step_kernel", [1, 2, 3], 1)


@pytest.mark.parametrize(("number", "left"), [(0, [0, 1, 2, 3]), (2, [2, 3])])
def test_so_many_steps_are_skipped_as_is_said(steps, number, left):
    assert steps("--step-range", r"it \d", "--skip-steps", str(number)) == (
        "step_range",
        left,
        number,
    )
