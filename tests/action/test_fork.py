"""The comment with a report of a fork: whose pull request it is, and what of an archive is read."""

import json
import re
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.action.github import TOKEN, github
from tests.action.workflow_runner import ROOT, environ, run_action

ACTION = ROOT / "action" / "comment" / "action.yml"
EVENT = {
    "token": TOKEN,
    "event": {
        "workflow_run": {
            "id": "43",
            "head_repository": {"owner": {"login": "fork"}},
            "head_branch": "topic&x=$(id)",
            "head_sha": "abc",
            "html_url": "https://github.test/o/r/actions/runs/43",
        }
    },
}
LABEL = "fork:topic&x=$(id)"
NONE = "**No report was made.**"


@pytest.fixture
def hub():
    with github() as server:
        server.pulls = [
            {"number": 6, "head": {"label": LABEL, "sha": "old"}},
            {"number": 7, "head": {"label": LABEL, "sha": "abc"}},
            {"number": 8, "head": {"label": "other:topic", "sha": "abc"}},
        ]
        yield server


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "artifact"
    made.mkdir()
    return made


@pytest.fixture
def act(tmp_path, hub, folder):
    def run(downloaded=str(folder), **inputs):
        return run_action(
            ACTION,
            inputs,
            github=EVENT,
            workplace=tmp_path,
            environment={"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "o/r", **environ()},
            given={"artifact": {"download-path": downloaded}},
        )

    return run


def archive(folder, **files):
    with ZipFile(folder / "nsysoffload-report.zip", "w", ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name.replace("_", "."), text)


def test_the_report_goes_to_the_pull_request_of_its_branch_and_commit(act, hub, folder):
    archive(folder, report_md="## Fine @octocat", report_json="{", evil_sh="exit 1")
    done = act()
    assert not done.failed, done.log
    (comment,) = hub.comments
    assert comment["body"].split("\n")[1:6] == [
        "> [!NOTE]",
        "> The code of this pull request made this report, and answers for it.",
        "",
        "## Fine @\u200boctocat",
        "",
    ]
    assert 'href="https://github.test/o/r/actions/runs/43"' in comment["body"]
    assert done.used["Download the report"]["run-id"] == "43"
    assert done.used["Download the report"]["skip-decompress"] == "True"
    assert [path.name for path in folder.iterdir()] == ["nsysoffload-report.zip"]


def test_a_head_that_has_moved_on_is_not_commented_on(act, hub, folder):
    archive(folder, report_md="## Fine")
    hub.pulls.pop(1)
    done = act()
    assert not done.failed
    assert "No open pull request has this head" in done.log
    assert not hub.comments


@pytest.mark.parametrize(
    ("status", "said"), [(403, "{}"), (200, '{"message": ""}'), (200, "[1]"), (200, "<html>")]
)
def test_pull_requests_that_cannot_be_listed_are_an_error(act, hub, status, said):
    hub.refuse(status, said)
    done = act()
    assert done.failed
    assert re.search("^::error title=nsysoffload::GitHub", done.log)
    assert "Traceback" not in done.log


def test_a_run_without_a_report_says_so_in_place_of_an_old_one(act, hub):
    hub.say("<!-- nsysoffload: nsysoffload -->\nof before")
    done = act(downloaded="")
    assert not done.failed
    (comment,) = hub.comments
    assert NONE in comment["body"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda f: (f / "a").write_bytes(b"no archive"), id="no-archive"),
        pytest.param(lambda f: archive(f, other_md="x"), id="another-file"),
        pytest.param(lambda f: archive(f, report_md="x" * 1_000_001), id="too-large"),
        pytest.param(lambda f: (archive(f, report_md="x"), (f / "b").touch()), id="two"),
        pytest.param(
            lambda f: (
                archive(f, report_md="x" * 500),
                (f / "nsysoffload-report.zip").write_bytes(
                    (f / "nsysoffload-report.zip").read_bytes().replace(b"\x08\x00", b"\x63\x00")
                ),
            ),
            id="unknown-method",
        ),
    ],
)
def test_an_archive_without_a_readable_report_is_none(act, hub, folder, spoil):
    spoil(folder)
    done = act()
    assert not done.failed, done.log
    assert NONE in hub.comments[0]["body"]


def test_what_the_archive_holds_cannot_command_the_workflow(act, folder, hub):
    archive(folder, report_md="::error::x\n::set-output name=url::y\nurl<<EOF")
    done = act()
    assert done.log == ""
    assert done.outputs["comment"]["outputs"] == {"url": "https://github.test/7#1"}
    assert json.dumps(hub.comments[0]["body"]).count("::error::x") == 1
