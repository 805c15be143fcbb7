"""The comment on a pull request, against a server that speaks GitHub's calls."""

import pytest

from tests.action.github import BOT, TOKEN, github
from tests.action.scripts import script

MARK = "<!-- nsysoffload: t -->"


@pytest.fixture
def hub():
    with github() as server:
        yield server


@pytest.fixture
def comment(hub, monkeypatch, tmp_path):
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
    with script("comment") as module:
        yield module


@pytest.fixture
def waits(comment, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


# --- One comment ---


def test_the_comment_is_made_once_and_then_updated(comment, hub, tmp_path):
    comment.main()
    (tmp_path / "report.md").write_text("Another")
    comment.main()
    (said,) = hub.comments
    assert said["body"] == f"{MARK}\nAnother\n\n<sub>t</sub>"
    assert (tmp_path / "output").read_text().count("https://github.test/7#1") == 2


def test_the_comment_is_found_on_a_later_page(comment, hub):
    for number in range(250):
        hub.say(f"comment {number}", "somebody")
    hub.say(f"{MARK}\nold")
    hub.say("more", "somebody")
    comment.main()
    assert len(hub.comments) == 252
    assert hub.comments[250]["body"].startswith(f"{MARK}\nReport")
    assert [call.split()[0] for call in hub.calls] == ["GET", "GET", "GET", "PATCH"]


def test_a_full_last_page_is_followed_by_an_empty_one(comment, hub):
    for number in range(100):
        hub.say(f"comment {number}", "somebody")
    comment.main()
    assert len(hub.comments) == 101
    assert [call.split()[0] for call in hub.calls] == ["GET", "GET", "POST"]


def test_comments_of_others_are_left_alone(comment, hub):
    others = [
        hub.say(f"{MARK}\nmine now", "mallory"),
        hub.say(f"> {MARK}\n> quoted"),
        hub.say("<!-- nsysoffload: other -->\nanother title"),
        hub.say("", "ghost") | {"body": None, "user": None},
    ]
    hub.comments[3] = others[3]
    before = [said["body"] for said in others]
    comment.main()
    assert [said["body"] for said in hub.comments[:4]] == before
    assert len(hub.comments) == 5


def test_titles_have_a_comment_each(comment, hub, monkeypatch):
    for title in ("8B", "70B", "8B"):
        monkeypatch.setenv("TITLE", title)
        comment.main()
    marks = [said["body"].splitlines()[0] for said in hub.comments]
    assert marks == ["<!-- nsysoffload: 8B -->", "<!-- nsysoffload: 70B -->"]


def test_titles_cannot_end_the_mark(comment, monkeypatch):
    monkeypatch.setenv("TITLE", "x --> <b>\n@y")
    assert comment.mark() == "<!-- nsysoffload: x -- by -->"


def test_the_last_line_says_which_report_it_is(comment, hub, monkeypatch):
    monkeypatch.setenv("RUN_URL", 'https://github.test/run?a=1&b="')
    monkeypatch.setenv("ARTIFACT_URL", "https://github.test/artifact")
    monkeypatch.setenv("HEAD_SHA", "0123456789abcdef")
    comment.main()
    assert hub.comments[0]["body"].splitlines()[-1] == (
        '<sub>t · <a href="https://github.test/run?a=1&amp;b=&quot;">Run</a>'
        ' · <a href="https://github.test/artifact">Report</a> · <code>0123456</code></sub>'
    )


def test_another_account_is_told_to_name_itself(comment, hub, monkeypatch, capsys):
    hub.writer = "my-bot"
    comment.main()
    assert "set 'comment-author' to that" in capsys.readouterr().out
    monkeypatch.setenv("AUTHOR", "my-bot")
    comment.main()
    assert "comment-author" not in capsys.readouterr().out
    assert len(hub.comments) == 1


def test_what_is_no_number_is_not_asked_for(comment, hub, monkeypatch, capsys):
    monkeypatch.setenv("PULL_REQUEST", "7/../8")
    with pytest.raises(SystemExit):
        comment.main()
    assert "is not the number of a pull request" in capsys.readouterr().out
    assert not hub.calls


# --- When it does not work ---


@pytest.mark.parametrize(
    ("status", "said", "headers", "waited"),
    [
        pytest.param(500, "", {}, 1, id="server"),
        pytest.param(429, "", {"Retry_After": "7"}, 7, id="rate"),
        pytest.param(403, "", {"X_RateLimit_Remaining": "0"}, 1, id="limit"),
        pytest.param(403, "You have exceeded a secondary rate limit", {}, 1, id="secondary"),
        pytest.param(403, "", {"Retry_After": "3600"}, 60, id="long"),
        pytest.param(503, "", {"Retry_After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 1, id="date"),
    ],
)
def test_what_passes_is_waited_for(comment, hub, waits, status, said, headers, waited):
    hub.refuse(status, said, **headers)
    comment.main()
    assert waits == [waited]
    assert len(hub.comments) == 1


def test_a_comment_that_was_made_although_the_answer_was_lost_is_not_made_again(
    comment, hub, waits
):
    hub.lost = 1
    comment.main()
    assert len(hub.comments) == 1
    assert [call.split()[0] for call in hub.calls] == ["GET", "POST", "GET", "PATCH"]
    assert waits == [1]


@pytest.mark.parametrize("status", [403, 404])
def test_a_token_without_the_right_is_a_warning(comment, hub, capsys, status):
    hub.refuse(status, '{"message": "Resource not accessible by integration"}')
    comment.main()
    said = capsys.readouterr().out
    assert said.startswith(f"::warning title=nsysoffload::GitHub answers {status} to GET issues/7")
    assert "pull requests from forks" in said
    assert not hub.comments


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        pytest.param(422, "{}", "GitHub answers 422 to GET issues/7/comments.", id="unprocessable"),
        pytest.param(302, "", "GitHub answers 302 to GET issues/7/comments.", id="redirect"),
        pytest.param(200, "<html>", "answer to GET issues/7/comments cannot be read", id="no-json"),
        pytest.param(200, '{"a": 1}', "something else than comments", id="no-list"),
        pytest.param(200, "[1]", "something else than comments", id="no-comments"),
    ],
)
def test_other_answers_are_an_error_of_one_sentence(comment, hub, capsys, status, said, words):
    hub.refuse(status, said, Location=f"{hub.url}/elsewhere")
    with pytest.raises(SystemExit) as ended:
        comment.main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().out
    assert len(hub.calls) == 1


def test_a_wrong_token_is_an_error_that_does_not_tell_it(comment, monkeypatch, capsys):
    monkeypatch.setenv("TOKEN", "ghs_wrong")
    with pytest.raises(SystemExit):
        comment.main()
    said = capsys.readouterr().out
    assert "The token is not valid; mend 'github-token'." in said
    assert "ghs_wrong" not in said


def test_a_server_that_stays_down_is_an_error(comment, hub, waits, capsys):
    for _ in range(4):
        hub.refuse(503)
    with pytest.raises(SystemExit):
        comment.main()
    assert waits == [1, 4, 15]
    assert "::error title=nsysoffload::GitHub answers 503 to GET" in capsys.readouterr().out


@pytest.mark.usefixtures("waits")
def test_an_unreachable_server_is_an_error(comment, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(SystemExit):
        comment.main()
    assert "GitHub cannot be reached" in capsys.readouterr().out
