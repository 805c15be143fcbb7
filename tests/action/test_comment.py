"""The comment on a pull request, against a server that speaks GitHub's calls."""

import importlib
import sys

import pytest

from tests.action.github import BOT, TOKEN, github
from tests.action.workflow_runner import ROOT

MARK = "<!-- nsysoffload: t -->"


@pytest.fixture
def hub():
    with github() as server:
        yield server


@pytest.fixture
def comment(hub, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "action"))
    module = importlib.import_module("comment")
    monkeypatch.setattr(module.time, "sleep", lambda seconds: waits.append(seconds))
    waits: list[float] = []
    message = tmp_path / "report.md"
    message.write_text("Report")
    for name, value in {
        "GITHUB_API_URL": hub.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "TOKEN": TOKEN,
        "AUTHOR": BOT,
        "TITLE": "t",
        "PULL_REQUEST": "7",
        "MESSAGE": str(message),
    }.items():
        monkeypatch.setenv(name, value)
    module.waits = waits
    yield module
    for name in ("comment", "workflow"):
        sys.modules.pop(name, None)


def test_the_comment_is_found_on_a_later_page(comment, hub):
    for number in range(250):
        hub.say(f"comment {number}", "somebody")
    hub.say(f"{MARK}\nold")
    hub.say("more", "somebody")
    comment.main()
    assert len(hub.comments) == 252
    assert hub.comments[250]["body"].startswith(f"{MARK}\nReport")
    assert [call.split()[0] for call in hub.calls] == ["GET", "GET", "GET", "PATCH"]


def test_comments_of_others_are_left_alone(comment, hub):
    hub.say(f"{MARK}\nmine now", "mallory")
    hub.say(f"> {MARK}\n> quoted")
    hub.say("<!-- nsysoffload: other -->\nanother title")
    comment.main()
    assert len(hub.comments) == 4
    assert [c["body"].splitlines()[-1] for c in hub.comments[:3]] == [
        "mine now",
        "> quoted",
        "another title",
    ]


@pytest.mark.parametrize(
    ("refusals", "waits"),
    [
        pytest.param([(500, {}), (502, {})], [1, 2], id="server"),
        pytest.param([(429, {"Retry-After": "7"})], [7], id="rate"),
        pytest.param([(403, {"X-RateLimit-Remaining": "0"})], [1], id="limit"),
        pytest.param([(403, {"Retry-After": "3600"})], [30], id="long"),
    ],
)
def test_what_passes_is_waited_for(comment, hub, refusals, waits):
    hub.refusals = refusals
    comment.main()
    assert comment.waits == waits
    assert len(hub.comments) == 1


def test_a_server_that_stays_down_is_an_error(comment, hub, capsys):
    hub.refusals = [(503, {})] * 4
    with pytest.raises(SystemExit):
        comment.main()
    assert "::error title=nsysoffload::GitHub answers 503 to GET issues/7/comments." in (
        capsys.readouterr().out
    )


def test_a_wrong_token_is_a_warning_that_does_not_tell_it(comment, hub, monkeypatch, capsys):
    monkeypatch.setenv("TOKEN", "ghs_wrong")
    comment.main()
    said = capsys.readouterr().out
    assert "GitHub answers 401" in said
    assert "ghs_wrong" not in said


def test_an_unreachable_server_is_an_error(comment, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(SystemExit):
        comment.main()
    assert "GitHub cannot be reached" in capsys.readouterr().out


def test_a_long_report_is_cut_at_a_line_and_what_is_open_is_closed(comment, hub, tmp_path):
    lines = [
        "<details><summary>All</summary>",
        "",
        "```",
        *["🚀 row"] * 20_000,
        "```",
        "</details>",
    ]
    (tmp_path / "report.md").write_text("\n".join(lines))
    comment.main()
    body = hub.comments[0]["body"]
    assert len(body.encode("utf-16-le")) // 2 <= 65_536
    assert body.count("```") == 2
    assert body.count("<details>") == body.count("</details>") == 1
    assert "*The rest is in the artifact.*" in body


def test_a_short_report_is_not_cut(comment):
    assert comment.cut("a\nb\n", 10) == "a\nb"


def test_titles_cannot_end_the_mark(comment, monkeypatch):
    monkeypatch.setenv("TITLE", "x --> <b>\n@y")
    assert comment.mark() == "<!-- nsysoffload: x -- by -->"
