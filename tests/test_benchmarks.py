"""The benchmark itself, at a thousandth of its size."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.baseline import COLUMNS
from benchmarks.generate import trace
from benchmarks.processes import Failure, run
from benchmarks.table import Figure, lines
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.writer import write

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_generated_trace_has_8_copies_and_140_calls_and_ranges_to_100_kernels(devices):
    made = trace(1000, devices)
    assert (len(made.kernels), len(made.copies), len(made.calls)) == (1000, 80, 1400)
    assert (len(made.events), len(made.syncs)) == (160, 160)
    assert len(made.nvtx_ranges) == 1400 + 2 * devices  # and the module of the step, and its own
    assert len(made.gpus) == devices


def test_a_generated_trace_gives_no_reason_to_doubt_it():
    timeline = build(trace(5000))
    assert timeline.warnings == ()
    assert timeline.devices[0].doubt is None


def test_each_row_of_a_generated_trace_lies_after_its_call_and_each_call_in_a_range():
    made = trace(5000)
    calls = made.calls.set_index("correlation")
    called_ns = calls["end_ns"].loc[made.kernels["correlation"]].to_numpy()
    assert (made.kernels["start_ns"].to_numpy() >= called_ns).all()
    thunks = made.nvtx_ranges[made.nvtx_ranges["text"].str.startswith("Thunk:")]
    at = np.searchsorted(thunks["start_ns"], made.calls["start_ns"], side="right") - 1
    assert (thunks["end_ns"].to_numpy()[at] >= made.calls["end_ns"].to_numpy()).all()


def test_every_call_of_a_generated_trace_is_in_a_thunk_an_execution_and_a_step():
    names = build(trace(5000)).names
    assert (names.thunk[:-1] >= 0).all()
    assert set(names.execution[:-1]) == set(range(len(names.executions))) == {0, 1, 2}
    assert (names.range_texts, set(names.range_[:-1])) == (["train_step"], {0})


def test_the_baseline_reads_every_row_of_the_tables(tmp_path):
    file = tmp_path / "trace.sqlite"
    write(trace(1000), file)
    with closing(sqlite3.connect(file)) as db:
        counts = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COLUMNS]
    assert counts == [1000, 80, 1400, 1402, 160, 160]
    read = run([sys.executable, str(ROOT / "benchmarks" / "baseline.py"), str(file)])
    assert int(read.output) == sum(counts)


def test_the_benchmark_prints_a_table_and_writes_the_same_figures_as_json(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--kernels", "1000", "--rounds", "1"]
    places = ["--folder", str(tmp_path), "--json", str(tmp_path / "bench.json")]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads((tmp_path / "bench.json").read_text())
    printed = done.stdout.splitlines()
    assert len(printed) == 1 + len(figures)
    for figure, line in zip(figures, printed[1:], strict=True):
        assert line.startswith(figure["name"])
        assert line.endswith(figure["verdict"] or figure["unit"])
    limited = [figure["name"].strip() for figure in figures if figure["limit"] is not None]
    assert {"ratio of time", "peak memory", "import nsysoffload"} <= set(limited)


@pytest.mark.parametrize(("value", "verdict"), [(0.6, "ok"), (0.61, "over")])
def test_a_figure_is_over_its_limit_only_beyond_it(value, verdict):
    assert list(lines([Figure("ratio", value, "", 0.6)]))[1].split()[-1] == verdict


def test_a_crash_is_reported_with_what_the_command_said():
    with pytest.raises(Failure, match=r"exit code 3\nno such trace"):
        run(
            [
                sys.executable,
                "-c",
                "import sys; print('no such trace', file=sys.stderr); sys.exit(3)",
            ]
        )
