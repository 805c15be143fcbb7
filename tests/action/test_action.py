"""The composite actions, their steps run in order with the real scripts."""

import json
import re

import pytest
import yaml

from tests.action.github import TOKEN, github
from tests.action.workflow_runner import ROOT, environ, run_action
from tests.comparison.traces import trace

STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)
ACTIONS = [ROOT / "action.yml", ROOT / "action" / "comment" / "action.yml"]
EVENT = {
    "token": TOKEN,
    "server_url": "https://github.test",
    "repository": "o/r",
    "run_id": "42",
    "event": {"pull_request": {"number": "7"}},
}


@pytest.fixture
def hub():
    with github() as server:
        yield server


@pytest.fixture
def act(tmp_path, hub):
    trace(STEADY, 20).write(tmp_path / "base.sqlite")
    trace([step + 5 for step in STEADY], 25).write(tmp_path / "new.sqlite")

    def run(action=ACTIONS[0], event=EVENT, **inputs):
        calling = {"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "o/r", **environ()}
        return run_action(
            action,
            {name.replace("_", "-"): value for name, value in inputs.items()},
            github=event,
            workplace=tmp_path,
            environment=calling,
        )

    return run


# --- Analyse and compare ---


def test_a_trace_is_analysed_summed_up_and_commented_on(act, hub, tmp_path):
    done = act(traces="new.sqlite", fail_under="overlap=10")
    report = done.outputs["report"]["outputs"]
    assert not done.failed
    assert (report["passed"], report["exit-code"]) == ("true", "0")
    assert report["outcome"] == "partly_hidden"
    written = (tmp_path / report["report"] / "report.md").read_text(encoding="utf-8")
    assert done.summary.strip() == written.strip()
    (comment,) = hub.comments
    assert written.strip() in comment["body"]
    assert comment["body"].startswith("<!-- nsysoffload: nsysoffload -->\n## Host transfers")
    assert 'href="https://github.test/o/r/actions/runs/42"' in comment["body"]
    assert done.outputs["comment"]["outputs"]["url"] == "https://github.test/7#1"


def test_a_comparison_fails_by_its_gates_after_all_is_told(act, hub):
    done = act(traces="new.sqlite", base="base.sqlite", max_regression="step_ms=3%\noverlap=50")
    report = done.outputs["report"]["outputs"]
    assert done.failed
    assert (report["outcome"], report["passed"], report["exit-code"]) == ("worse", "false", "1")
    assert "Gate failed: step_ms gets worse by 5 % of the base" in done.log
    assert "against `base`" in done.summary
    assert len(hub.comments) == 1


def test_a_second_run_updates_the_comment(act, hub):
    act(traces="base.sqlite")
    first = hub.comments[0]["body"]
    act(traces="new.sqlite")
    assert len(hub.comments) == 1
    assert hub.comments[0]["body"] != first


def test_titles_have_a_comment_each(act, hub):
    act(traces="base.sqlite", title="8B")
    act(traces="new.sqlite", title="70B")
    assert [c["body"].splitlines()[0] for c in hub.comments] == [
        "<!-- nsysoffload: 8B -->",
        "<!-- nsysoffload: 70B -->",
    ]


def test_a_trace_that_cannot_be_used_is_said_in_place_of_an_old_report(act, hub, tmp_path):
    act(traces="base.sqlite")
    (tmp_path / "bad.sqlite").write_text("no trace")
    done = act(traces="bad.sqlite", output="another")
    assert done.failed
    assert done.outputs["report"]["outputs"]["exit-code"] == "2"
    assert "::error title=nsysoffload::bad.sqlite is not an Nsight Systems" in done.log
    (comment,) = hub.comments
    assert "**No report was made.** bad.sqlite is not an Nsight" in comment["body"]
    assert str(tmp_path) not in comment["body"]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({"traces": " \n"}, "names no file", id="no-traces"),
        pytest.param({"traces": "x", "args": "'"}, "No closing quotation", id="quotes"),
        pytest.param({"traces": "x", "max_regression": "a=1"}, "needs a 'base'", id="no-base"),
        pytest.param({"traces": "gone.sqlite"}, "gone.sqlite does not exist", id="no-file"),
        pytest.param({"traces": "new.sqlite", "args": "--colour"}, "No such option", id="option"),
    ],
)
def test_bad_options_are_an_error_of_one_sentence(act, inputs, words):
    done = act(**inputs)
    assert done.failed
    assert words in done.log
    assert done.outputs["report"]["outputs"]["exit-code"] == "2"


def test_patterns_name_several_traces_and_words_are_never_run(act, tmp_path):
    (tmp_path / "runs").mkdir()
    for rank in range(2):
        trace(STEADY, 10 + rank).write(tmp_path / "runs" / f"rank{rank}.sqlite")
    done = act(traces="runs/*.sqlite", args="--step-range '$(touch hacked)|train_step'")
    assert not done.failed, done.log
    report = json.loads((tmp_path / "nsysoffload-report" / "report.json").read_text())
    assert len(report["ranks"]) == 2
    assert not (tmp_path / "hacked").exists()


def test_names_in_a_trace_cannot_command_the_workflow(act, tmp_path):
    made = trace(STEADY, 20)
    for number in range(60):
        made.kernel((700 + number, 700.5 + number), f"k{number}\n::error::x\n##[error]y<<EOF")
    made.write(tmp_path / "evil.sqlite")
    done = act(traces="evil.sqlite")
    assert "::error::x" not in done.log
    assert "##[error]" not in done.log
    assert set(done.outputs["report"]["outputs"]) == {
        "outcome", "verdict", "passed", "exit-code", "report", "message",
    }  # fmt: skip


def test_without_a_pull_request_nothing_is_commented(act, hub):
    done = act(traces="new.sqlite", event=EVENT | {"event": {}})
    assert not done.failed
    assert "Comment on the pull request" in done.skipped
    assert act(traces="new.sqlite", comment="false").skipped == ["Comment on the pull request"]
    assert not hub.calls


def test_a_token_without_rights_is_a_warning_and_no_failure(act, hub):
    hub.refusals = [(403, {})]
    done = act(traces="new.sqlite")
    assert not done.failed
    assert "::warning title=nsysoffload::GitHub answers 403" in done.log
    assert TOKEN not in done.log


# --- Pull requests from forks ---

HEAD = {"owner": {"login": "fork"}}
FORK = {
    "token": TOKEN,
    "event": {
        "workflow_run": {
            "head_repository": HEAD,
            "head_branch": "topic",
            "head_sha": "abc",
            "html_url": "https://github.test/o/r/actions/runs/43",
        }
    },
}


def test_the_report_of_a_fork_goes_to_the_pull_request_of_its_commit(act, hub, tmp_path):
    (tmp_path / "report.md").write_text("## Fine\n\n<details><summary>More</summary>\n</details>")
    hub.pulls = [
        {"number": 6, "head": {"label": "fork:topic", "sha": "old"}},
        {"number": 7, "head": {"label": "fork:topic", "sha": "abc"}},
        {"number": 8, "head": {"label": "other:topic", "sha": "abc"}},
    ]
    done = act(ACTIONS[1], FORK, report="report.md")
    assert not done.failed, done.log
    assert "<details><summary>More</summary>" in hub.comments[0]["body"]
    hub.pulls = []
    done = act(ACTIONS[1], FORK, report="report.md")
    assert "No open pull request has this head" in done.log
    assert len(hub.comments) == 1


def test_text_of_a_fork_calls_nobody_links_nowhere_and_loads_nothing(act, hub, tmp_path):
    hub.pulls = [{"number": 7, "head": {"label": "fork:topic", "sha": "abc"}}]
    evil = (
        "@octocat ![x](https://e.test/x.png) [y](https://e.test) www.e.test #12 GH-1"
        " <img src=x onerror=y> <a href=//e.test>z</a> <!-- c --> [r][s] \x1b[31m"
    )
    (tmp_path / "report.md").write_text(evil)
    act(ACTIONS[1], FORK, report="report.md")
    said = hub.comments[0]["body"].splitlines()[1]
    for live in (
        "@octocat",
        "![",
        "](",
        "://",
        "www.",
        "#12",
        "GH-1",
        "<img",
        "<a ",
        "<!--",
        "\x1b",
    ):
        assert live not in said, live


@pytest.mark.parametrize("text", [None, "x" * 1_000_001])
def test_a_report_that_is_none_is_not_posted(act, hub, tmp_path, text):
    hub.pulls = [{"number": 7, "head": {"label": "fork:topic", "sha": "abc"}}]
    if text:
        (tmp_path / "report.md").write_text(text)
    done = act(ACTIONS[1], FORK, report="report.md")
    assert done.failed
    assert not hub.comments


# --- What the files say ---


@pytest.mark.parametrize("action", ACTIONS, ids=lambda path: path.parent.name)
def test_actions_are_pinned_and_scripts_hold_no_expression(action):
    described = yaml.safe_load(action.read_text(encoding="utf-8"))
    for step in described["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])
    for described_one in (*described["inputs"].values(), *described["outputs"].values()):
        assert described_one["description"].endswith(".")


def workflows() -> list[dict]:
    page = (ROOT / "docs" / "attach.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    return [w for w in map(yaml.safe_load, blocks) if "jobs" in w]


def test_the_workflows_of_the_page_have_the_least_rights():
    assert len(workflows()) >= 3
    for workflow in workflows():
        triggers = workflow[True]  # YAML 1.1 takes "on" for a truth
        assert "pull_request_target" not in triggers
        for job in workflow["jobs"].values():
            rights = job.get("permissions", workflow.get("permissions"))
            assert rights is not None
            writes = {name for name, right in rights.items() if right == "write"}
            assert writes <= {"pull-requests"}
            if "workflow_run" in triggers:
                assert not any("checkout" in step.get("uses", "") for step in job["steps"])
            for step in job["steps"]:
                assert "${{" not in step.get("run", "")
                uses = step.get("uses", "actions/x@" + "0" * 40)
                assert re.search(r"@[0-9a-f]{40}$", uses) or uses.startswith("YOUR-ORG/"), uses


def test_the_inputs_of_the_page_are_those_of_the_action():
    known = {
        path.parent.name: set(yaml.safe_load(path.read_text(encoding="utf-8"))["inputs"])
        for path in ACTIONS
    }
    seen = 0
    for workflow in workflows():
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                if "YOUR-ORG/nsysoffload" in step.get("uses", ""):
                    which = "comment" if "/action/comment@" in step["uses"] else ROOT.name
                    assert set(step["with"]) <= known[which]
                    seen += 1
    assert seen >= 3
