import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.trace.builder import TraceBuilder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Analyse a trace of one step, in which 10 of 20 ms of a copy are exposed.

    ::

        compute   [1         100)
        H2D              [90     110)
    """
    monkeypatch.chdir(tmp_path)
    trace = TraceBuilder().kernel((1, 100), "gemm", call=(0.5, 0.6)).nvtx("loss", (0, 100))
    trace.copy("h2d", (90, 110), stream=20).write(tmp_path / "a.sqlite")

    def invoke(*words: str):
        return CliRunner().invoke(main, ["analyze", "a.sqlite", *words])

    return invoke


def gates(file: str = "reports/a/report.json") -> list[tuple[str, float, bool]]:
    found = json.loads(Path(file).read_text())["gates"]
    return [(gate["name"], gate["value"], gate["passed"]) for gate in found]


def test_limits_that_hold_end_well_and_stand_in_the_report(run):
    result = run("--fail-under", "overlap=50,gbps.h2d=0", "--fail-over", "exposed_ms=10ms")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [(name, passed) for name, _, passed in gates()] == [
        ("overlap", True),
        ("gbps.h2d", True),
        ("exposed_ms", True),
    ]


def test_a_limit_that_is_broken_ends_with_1_after_the_report_is_written(run):
    words = (
        "--fail-under",
        "overlap=80",
        "--fail-over",
        "exposed_ms=9.5",
        "--fail-over",
        "step_ms=1s",
    )
    result = run(*words)
    assert result.exit_code == 1
    assert result.stderr == (
        "Gate failed: overlap 50 % is under 80 %\nGate failed: exposed_ms 10 ms is over 9.5 ms\n"
    )
    assert result.stdout.splitlines()[-1] == "reports/a/report.json"
    assert gates() == [("overlap", 50, False), ("exposed_ms", 10, False), ("step_ms", 109, True)]


def test_a_gate_that_fails_leaves_stdout_to_the_report(run, tmp_path):
    result = run("--format", "json", "-o", "-", "--fail-under", "overlap=80")
    assert result.exit_code == 1
    assert result.stderr == "Gate failed: overlap 50 % is under 80 %\n"
    assert json.loads(result.stdout)["gates"][0]["passed"] is False
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite"]


def test_what_the_trace_cannot_tell_fails_with_the_reason(run):
    result = run("--fail-under", "overlap.d2h=80")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Gate failed: overlap.d2h is unknown, and must not be under 80 %: no transfer"
    )
    assert gates() == [("overlap.d2h", None, False)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fail-under", "overlp=80"], "Metric 'overlp' is not known; did you mean 'overlap'?"),
        (["--fail-over", "stall_ms"], "is not of the form NAME=NUMBER; write it like stall_ms=5."),
        (["--fail-under", "overlap=0.8"], "overlap is in percent"),
        (["--step-range", "("], "is no regular expression"),
        (["--step-kernel", "*"], "is no regular expression"),
        (["--step-kernel", "absent"], "No kernel's name has 'absent' in it"),
        (["--step-range", "absent"], "No NVTX range is named 'absent'"),
        (["--skip-steps", "-1"], "-1"),
    ],
)
def test_an_option_that_cannot_be_used_ends_with_a_sentence(run, tmp_path, words, sentence):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "reports").exists()


def test_limits_stand_in_the_command_that_makes_the_report_again(run):
    run("--fail-under", "overlap=20", "--skip-steps", "0", "--fail-over", "stall_ms=1s")
    options = json.loads(Path("reports/a/report.json").read_text())["tool"]["options"]
    assert options == {"skip_steps": 0, "fail_under": ["overlap=20"], "fail_over": ["stall_ms=1s"]}


def test_the_rank_in_detail_is_held_to_the_limit(run, tmp_path):
    slower = TraceBuilder().kernel((1, 200), "gemm", call=(0.5, 0.6))
    slower.copy("h2d", (150, 190), stream=20).write(tmp_path / "b.sqlite")
    result = run("b.sqlite", "-o", "out", "--fail-under", "overlap=100")
    assert (result.exit_code, gates("out/report.json")) == (0, [("overlap", 100, True)])
