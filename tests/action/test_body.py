"""The text of a comment: what of a stranger's Markdown is left, and where a long one is cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nsysoffload.report import markdown
from tests.action.scripts import script
from tests.report.examples import EXAMPLES, hostile

with script("body") as body:
    pass

GITHUB = MarkdownIt("commonmark", {"html": True}).enable("table")


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def shown(text: str) -> str:
    """What a browser is given, without the spaces that have no width."""
    return GITHUB.render(text)


# --- What a stranger has written ---


@pytest.mark.parametrize(
    ("text", "live"),
    [
        pytest.param("@octocat", "@octocat", id="mention"),
        pytest.param("&#64;octocat &#x40;octocat &commat;octocat", "@octocat", id="entity"),
        pytest.param("\\@octocat", "@octocat", id="mention-escaped"),
        pytest.param("#12 &#35;12 #&#49;2", "#12", id="reference"),
        pytest.param("GH-12 gh-12", "gh-12", id="reference-by-name"),
        pytest.param("o/r#12", "#12", id="reference-elsewhere"),
        pytest.param("[x](//e.test)", "href", id="link"),
        pytest.param("[x]\n\n[x]: //e.test", "href", id="link-defined"),
        pytest.param("[x][y]\n\n[y]: //e.test", "href", id="link-by-reference"),
        pytest.param("<https://e.test>", "href", id="link-in-brackets"),
        pytest.param("https://e.test", "://", id="address"),
        pytest.param("www.e.test", "www.", id="address-without-scheme"),
        pytest.param("![x](//e.test/x.png)", "<img", id="image"),
        pytest.param("<img src=x>", "<img", id="image-as-html"),
        pytest.param("<DETAILS open>", "<DETAILS", id="html-of-its-own"),
        pytest.param("x <details><summary>y</summary>", "<details", id="folded-within-a-line"),
        pytest.param("<!-- nsysoffload: t -->", "<!--", id="mark"),
        pytest.param("```mermaid\ngraph\n```", "language-mermaid", id="diagram"),
        pytest.param("> ~~~ mermaid\n> graph", "language-mermaid", id="diagram-quoted"),
        pytest.param("$$\\unicode{x}$$ $`x`$", "$", id="formula"),
        pytest.param("a\n /lgtm", "/lgtm", id="command-of-a-bot"),
        pytest.param("a\r/lgtm \x1b[31m \u202e \u2028", "\r", id="return"),
    ],
)
def test_a_strangers_text_calls_nobody_links_nowhere_and_loads_nothing(text, live):
    assert live.lower() in (text + GITHUB.render(text)).lower()
    assert live.lower() not in shown(body.inert(text)).lower()


@pytest.mark.parametrize("report", [*EXAMPLES.values(), hostile])
def test_a_report_looks_the_same_when_inert(report):
    text = markdown.render(report())
    visible = body.inert(text).replace("\u200b", "").replace("\uff04", "$")
    assert visible == text.replace("\u200b", "")
    before, after = (re.findall(r"<[a-z]+", shown(t)) for t in (text, body.inert(text)))
    assert before == after


def test_a_sentence_keeps_its_markup_as_text():
    assert shown(body.prose("a*b*_c_ `d` |\n**e**")) == "<p>a*b*_c_ `d` | **e**</p>\n"


# --- What fits ---


def test_a_short_text_stands_between_its_first_and_last_line():
    assert body.composed("first", "a\nb\n", "last") == "first\na\nb\n\nlast"


def test_a_long_text_is_cut_at_a_line_and_what_is_open_is_closed():
    head = ["<details><summary>All</summary>", "", "```sh"]
    text = body.composed("m", "\n".join([*head, *["🚀 row"] * 20_000, "```", "</details>"]), "f")
    assert body.LIMIT - 10 < units(text) <= body.LIMIT
    end = "🚀 row\n```\n\n</details>\n\n*The rest is in the artifact.*\n\nf"
    assert text.endswith(end)


def test_a_table_is_not_cut_within_its_head():
    filling = "x" * (body.LIMIT - 46)
    rows = "\n".join(["| " + "y" * 200 + " |"] * 3)
    text = body.composed("m", f"{filling}\n\n| a |\n|:--|\n{rows}", "f")
    assert "| a |" not in text
    assert "*The rest" in text


def test_one_endless_line_is_left_out():
    assert body.composed("m", "x" * 70_000, "f") == "m\n\n\n*The rest is in the artifact.*\n\nf"


PARTS = ["<details><summary>s</summary>\n", "\n</details>\n", "```", "````", "~~~", "| a |", "|--|"]


@given(st.lists(st.sampled_from([*PARTS, "x" * 9_000, "🚀" * 4_000, ""]), max_size=40))
def test_any_text_fits_and_leaves_nothing_open(parts):
    text = body.composed("m", "\n".join(parts), "*f*")
    assert units(text) <= body.LIMIT
    assert GITHUB.render(text).endswith("<p><em>f</em></p>\n")
