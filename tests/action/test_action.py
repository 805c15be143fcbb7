"""The composite action, its steps run in order with the real scripts."""

import sys
from pathlib import Path

import pytest

from tests.action.github import BOT, TOKEN, github
from tests.action.scripts import script
from tests.action.workflow_runner import ROOT, environ, run_action
from tests.comparison.traces import trace

ACTION = ROOT / "action.yml"
STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)
REPORTS = ["report.html", "report.json", "report.md"]
EVENT = {
    "token": TOKEN,
    "server_url": "https://github.test",
    "repository": "o/r",
    "run_id": "42",
    "event": {"pull_request": {"number": "7", "head": {"sha": "0123456789abcdef"}}},
}


@pytest.fixture
def hub():
    with github() as server:
        yield server


@pytest.fixture
def act(tmp_path, hub):
    (tmp_path / "nsysoffload.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "json.py").write_text("raise SystemExit('nor this')")

    def run(event=EVENT, python=sys.executable, **inputs):
        return run_action(
            ACTION,
            {name.replace("_", "-"): value for name, value in inputs.items()},
            github=event,
            workplace=tmp_path,
            environment={"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "o/r", **environ()},
            given={
                "install": {"python": python},
                "artifact": {"artifact-url": "https://github.test/artifact"},
            },
        )

    return run


# --- A report ---


def test_a_trace_is_analysed_summed_up_attached_and_commented_on(act, hub, tmp_path):
    trace(STEADY, 20).write(tmp_path / "new.sqlite")
    hub.say("<!-- nsysoffload: nsysoffload -->\nof before")
    done = act(traces="new.sqlite", fail_under="overlap=10", output="made/here")
    report = done.outputs["report"]["outputs"]
    assert not done.failed, done.log
    assert (report["passed"], report["exit-code"], report["errors"]) == ("true", "0", "")
    assert report["outcome"] == "partly_hidden"
    assert report["verdict"].startswith("Transfers hide only partly behind compute: 33.3 %")
    written = (tmp_path / "made" / "here" / "report.md").read_text(encoding="utf-8")
    assert done.summary.strip() == written.strip()
    assert sorted(done.used["Upload the report"]["path"].split()) == [
        f"made/here/{name}" for name in REPORTS
    ]
    (comment,) = hub.comments
    assert comment["body"].startswith("<!-- nsysoffload: nsysoffload -->\n## Host transfers")
    assert written.strip() in comment["body"]
    foot = comment["body"].splitlines()[-1]
    assert 'href="https://github.test/o/r/actions/runs/42"' in foot
    assert 'href="https://github.test/artifact"' in foot
    assert "0123456<" in foot
    assert done.outputs["comment"]["outputs"]["url"] == "https://github.test/7#1"
    assert TOKEN not in done.log


def test_a_comparison_fails_by_its_gates_after_all_is_told(act, hub, tmp_path):
    trace(STEADY, 20).write(tmp_path / "base.sqlite")
    trace([step + 5 for step in STEADY], 25).write(tmp_path / "new.sqlite")
    done = act(traces="new.sqlite", base="base.sqlite", max_regression="step_ms=3%\noverlap=50")
    report = done.outputs["report"]["outputs"]
    assert (report["outcome"], report["passed"], report["exit-code"]) == ("worse", "false", "1")
    assert "against `base`" in done.summary
    assert "against `base`" in hub.comments[0]["body"]
    assert done.codes["Comment on the pull request"] == 0
    assert done.codes["Judge"] == 1
    (error,) = [line for line in done.log.splitlines() if line.startswith("::error")]
    assert error.startswith("::error title=nsysoffload::Gate failed: step_ms gets worse by 5 %25")


def test_names_in_a_trace_cannot_command_the_workflow(act, tmp_path):
    made = trace(STEADY, 20)
    for number in range(60):
        made.kernel((700 + number, 700.5 + number), f"k{number}\n::error::x\n##[error]y<<EOF")
    made.write(tmp_path / "evil.sqlite")
    done = act(traces="evil.sqlite", args="--step-range '$(touch hacked)|train_step'")
    assert not done.failed, done.log
    assert [line for line in obeyed(done.log) if line.startswith(("::", "##["))] == []
    assert set(done.outputs["report"]["outputs"]) == {
        "outcome", "verdict", "passed", "exit-code", "report", "message", "errors",
    }  # fmt: skip
    assert not (tmp_path / "hacked").exists()


def obeyed(log: str) -> list[str]:
    """Lines in which GitHub looks for commands: none between a stop and its random word."""
    lines, word = [], ""
    for line in log.splitlines():
        if word:
            word = "" if line == f"::{word}::" else word
        elif line.startswith("::stop-commands::"):
            word = line.removeprefix("::stop-commands::")
            assert len(word) == 32
        else:
            lines.append(line)
    assert not word
    return lines


# --- No report ---


def test_a_trace_that_cannot_be_used_is_said_in_place_of_an_old_report(act, hub, tmp_path):
    hub.say("<!-- nsysoffload: nsysoffload -->\nof before", BOT)
    (tmp_path / "bad_@octocat.sqlite").write_text("no trace")
    done = act(traces=str(tmp_path / "*.sqlite"))
    said = "bad_@octocat.sqlite is not an Nsight Systems SQLite export; make one with"
    assert done.failed
    assert done.skipped == ["Upload the report"]
    assert done.outputs["report"]["outputs"]["exit-code"] == "2"
    assert done.codes["Judge"] == 2
    assert f"::error title=nsysoffload::{said}" in done.log
    (comment,) = hub.comments
    assert "**No report was made.** bad\\_@\u200boctocat.sqlite is not an Nsight" in comment["body"]
    assert "**No report was made.**" in done.summary


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({"traces": " \n"}, "names no file", id="no-traces"),
        pytest.param({"traces": "x", "args": "'"}, "No closing quotation", id="quotes"),
        pytest.param({"traces": "x", "max_regression": "a=1"}, "needs a 'base'", id="no-base"),
        pytest.param({"traces": "-x", "args": "--colour"}, "No such option", id="option"),
    ],
)
def test_bad_options_are_an_error_of_one_sentence(act, inputs, words):
    done = act(**inputs)
    (error,) = [line for line in done.log.splitlines() if line.startswith("::error")]
    assert words in error
    assert done.codes["Judge"] == 2


def test_a_program_that_does_not_start_leaves_no_old_report_for_a_new_one(act, hub, tmp_path):
    for name in REPORTS:
        (tmp_path / "nsysoffload-report").mkdir(exist_ok=True)
        (tmp_path / "nsysoffload-report" / name).write_text('{"verdict": {}}')
    bare = Path(sys.base_prefix) / "bin" / "python3"
    done = act(traces="x", python=str(bare))
    assert "No module named nsysoffload" in done.log
    assert done.codes["Judge"] == 2
    assert "Upload the report" in done.skipped
    assert "left no report that can be read" in hub.comments[0]["body"]
    assert "Traceback" not in hub.comments[0]["body"]


# --- Who is told ---


def test_without_a_pull_request_nothing_is_commented(act, hub):
    done = act(traces="", event=EVENT | {"event": {}})
    assert "Comment on the pull request" in done.skipped
    done = act(traces="", comment="false")
    assert "Comment on the pull request" in done.skipped
    assert not hub.calls
    act(traces="", event=EVENT | {"event": {}}, pull_request="7")
    assert len(hub.comments) == 1


def test_the_job_ends_as_the_analysis_did_also_where_the_comment_fails(act, hub):
    hub.refuse(403)
    done = act(traces="")
    assert "::warning title=nsysoffload::GitHub answers 403" in done.log
    assert (done.codes["Comment on the pull request"], done.codes["Judge"]) == (0, 2)
    hub.refuse(422)
    done = act(traces="")
    assert (done.codes["Comment on the pull request"], done.codes["Judge"]) == (2, 2)


# --- Parts ---


def test_pip_installs_the_action_itself_beside_the_packages_of_the_job(tmp_path):
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho "$@" >> "$HOME/calls"\n'
        '[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; }\n'
    )
    python.chmod(0o755)
    run_action(
        ACTION,
        {"traces": "x"},
        github=EVENT,
        workplace=tmp_path,
        environment={"HOME": str(tmp_path)},
        given={"python": {"python-path": str(python)}},
    )
    made, installed, analysed = (tmp_path / "calls").read_text().splitlines()[:3]
    assert made == f"-m venv {tmp_path}/runner-temp/nsysoffload"
    assert installed == f"-m pip install --quiet --disable-pip-version-check -- {ROOT}"
    assert analysed == f"{ROOT}/action/report.py"


def test_patterns_and_words_become_a_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.sqlite", "a.sqlite", "[0].sqlite"):
        (tmp_path / name).write_text("")
    for name, value in {
        "TRACES": "[a-b].sqlite\n\n  [0].sqlite\nrun*/gone\n",
        "BASE": "-base.sqlite ",
        "MAX_REGRESSION": "step_ms=3%\noverlap=2",
        "FAIL_UNDER": "overlap=80,overlap.d2h=70",
        "FAIL_OVER": "",
        "ARGUMENTS": "--step-range 'a b' -o elsewhere",
    }.items():
        monkeypatch.setenv(name, value)
    with script("report") as report:
        words = report.command(Path("made"))
    assert words[4:] == [
        "compare", "--step-range", "a b", "-o", "elsewhere",
        "--max-regression", "step_ms=3%", "--max-regression", "overlap=2",
        "--fail-under", "overlap=80,overlap.d2h=70",
        "-o", "made", "--format", "html,md,json",
        "--", "-base.sqlite", "a.sqlite", "b.sqlite", "[0].sqlite", "run*/gone",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"verdict": 1}', '{"verdict": {"text": "", "outcome": ""}}']
)
def test_json_that_is_no_report_is_none(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with script("report") as report:
        assert report._read(tmp_path / "report.json") is None


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        ("Error: a/b.sqlite is gone.", "a/b.sqlite is gone."),
        ("Warning: x\nError: '/home/me/x y/b.sqlite' is gone.", "'x y/b.sqlite' is gone."),
        ("Error: ~/runs/b.sqlite is gone; see 3/4.", "b.sqlite is gone; see 3/4."),
        ('Traceback\n  File "/home/me/x.py"\nKeyError: 1', "nsysoffload left no report that can"),
    ],
)
def test_an_error_is_told_without_folders(printed, sentence):
    with script("report") as report:
        assert report._sentence(printed).startswith(sentence)
