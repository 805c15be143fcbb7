import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from tests.comparison.traces import losses, run_folder, trace

STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace(STEADY, 10).write(tmp_path / "a.sqlite")
    trace([step - 10 for step in STEADY], 5).write(tmp_path / "b.sqlite")
    return lambda *words: CliRunner().invoke(main, ["compare", *words])


def test_the_summary_is_printed_and_three_files_are_written(run):
    result = run("a.sqlite", "b.sqlite")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("b is faster than a: b takes 90.0 ms per step")
    folder = Path("reports/compare/a-vs-b")
    assert result.stdout.splitlines()[-3:] == [
        str(folder / f"report.{suffix}") for suffix in ("html", "md", "json")
    ]
    assert json.loads((folder / "report.json").read_text())["verdict"]["outcome"] == "better"


def test_one_format_goes_to_standard_output_alone(run):
    result = run("a.sqlite", "b.sqlite", "--format", "md", "-o", "-")
    assert result.stdout.startswith("## `b` against `a`\n")
    assert not Path("reports").exists()
    assert run("a.sqlite", "b.sqlite", "-o", "-").exit_code == 2


def test_a_regression_beyond_its_limit_ends_with_1_after_the_report_is_written(run):
    result = run("b.sqlite", "a.sqlite", "--max-regression", "step_ms=3%", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr == (
        "Gate failed: step_ms gets worse by 11.1 % of the base, over 3 % of the base\n"
    )
    options = json.loads(Path("out/report.json").read_text())["tool"]["options"]
    assert options == {"max_regression": ["step_ms=3%"]}


def test_numerics_that_differ_end_with_1(run, tmp_path):
    run_folder(tmp_path / "runs" / "remat", trace(STEADY, 10), variant="remat")
    differing = {"losses": losses(2.31, 2.24, 2.19)}
    run_folder(tmp_path / "runs" / "offload", trace(STEADY, 9), recording=differing)
    result = run("runs")
    assert result.exit_code == 1
    assert result.stdout.startswith("Not comparable: numerics differ from step 2")
    assert "Gate failed: numerics differ from step 2 of 3" in result.stderr


def test_bytes_that_were_expected_and_did_not_move_end_with_1(run):
    result = run("a.sqlite", "b.sqlite", "--expect-offload", "16GiB")
    assert result.exit_code == 1
    assert "offload requested, 268 MB device-to-host" in result.stderr


def test_a_folder_of_runs_is_compared_whole_the_rematerialised_as_base(run, tmp_path):
    for name, shift in (("dots", 2), ("offload", -5), ("remat", 0)):
        run_folder(tmp_path / "runs" / name, trace([s + shift for s in STEADY], 5), variant=name)
    result = run("runs")
    assert result.exit_code == 0
    assert "Of 3 runs offload is fastest." in result.stdout
    folder = Path("reports/compare/runs/remat-vs-dots-and-1-more")
    found = json.loads((folder / "report.json").read_text())
    assert [r["name"] for r in (found["base"], *found["new"])] == ["remat", "dots", "offload"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["a.sqlite"], "two runs or more", id="one-run"),
        pytest.param([], "Missing argument", id="no-run"),
        pytest.param(["a.sqlite", "gone"], "gone does not exist", id="no-file"),
        pytest.param(["a.sqlite", "x.json"], "x.json is no JSON", id="no-report"),
        pytest.param(["a.sqlite", "b.sqlite", "--max-regression", "x=1"], "not known", id="metric"),
        pytest.param(["a.sqlite", "b.sqlite", "--fail-under", "x"], "not of the form", id="limit"),
        pytest.param(["a.sqlite", "b.sqlite", "--format", "pdf"], "list of formats", id="format"),
        pytest.param(["", "b.sqlite"], "a file's name is empty", id="empty-name"),
        pytest.param(["a.sqlite", "b.sqlite", "-o", "x.md"], "would be a folder", id="output"),
    ],
)
def test_bad_usage_is_one_sentence_and_writes_nothing(run, words, message):
    Path("x.json").write_text("{")
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not Path("reports").exists()


def test_an_old_report_stays_where_a_run_cannot_be_used(run):
    run("a.sqlite", "b.sqlite", "-o", "out")
    before = Path("out/report.md").read_bytes()
    Path("b.sqlite").write_bytes(b"SQLite format 3\0 damaged")
    assert run("a.sqlite", "b.sqlite", "-o", "out").exit_code == 2
    assert Path("out/report.md").read_bytes() == before
