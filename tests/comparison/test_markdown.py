import re

import pytest

from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.markdown import render
from nsysoffload.comparison.wording import headlines
from tests.comparison.examples import (
    EXAMPLES,
    large,
    offload,
    pair,
    predicted,
    remat,
    renamed,
    several,
)
from tests.report.examples import HOSTILE
from tests.report.test_markdown import (
    GITHUB,
    GITHUBS_LIMIT,
    raw_columns,
    table_of,
    tables,
    visible,
)


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_fits_a_comment_and_its_tables_are_whole(name):
    text = render(EXAMPLES[name]())
    assert utf16(text) < GITHUBS_LIMIT
    assert text.replace("\n", "").isprintable()
    for columns, rows in zip(raw_columns(text), tables(text), strict=True):
        assert {*columns} == {len(row) for row in rows} == {len(rows[0])}
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_markup_or_links_to_anybody(name):
    text = render(EXAMPLES[name]())
    kinds = {token.type for token in visible(text)}
    assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "em_open", "em_close",
                     "softbreak", "html_inline"}  # fmt: skip
    shown = "".join(t.content for t in visible(text) if t.type == "text")
    assert not re.search(r"@octocat|#123|https://", shown)
    assert "<script" not in "".join(t.content for t in visible(text) if t.type == "html_inline")


@pytest.mark.parametrize("shape", [(40, 300), (1, 3000), (300, 2)])
def test_a_large_comparison_fits_a_comment(shape):
    text = render(large(*shape))
    assert utf16(text) < GITHUBS_LIMIT
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") == 2
    assert "left out here" in text


def test_the_headlines_are_those_of_all_outputs():
    comparison = pair()
    shown = table_of(render(comparison), ["", "remat", "offload", "Change"])
    rows = headlines(comparison, 0)
    assert [row[1:3] for row in shown[: len(rows)]] == [[row.base, row.new] for row in rows]
    assert all(row.change in cells[3] for row, cells in zip(rows, shown[: len(rows)], strict=True))


def test_the_first_screen_is_verdict_limits_figures_and_why():
    lines = render(pair()).splitlines()
    assert lines[0] == "## `offload` against `remat`"
    assert lines[2].startswith("> ✓ **Offloading wins: offload takes 90.0 ms per step")
    assert "- overlap 60.6 % is not under 50 %" in lines
    assert r"- **stall\_ms 13 ms is over 5 ms**" in lines
    assert next(line for line in lines if line.startswith("| Step time")) == (
        "| Step time | 100 ms | 90.0 ms | 🟢 −10.0 ms (−10.0 %) | −10.7 ms to −9.30 ms |"
    )
    why = table_of(render(pair()), ["Part of the step"])
    assert why == [
        ["rest of compute", "100 ms", "77.0 ms", "−23.0 ms"],
        ["waiting for transfers", "0 ns", "13.0 ms", "+13.0 ms"],
        ["step", "100 ms", "90.0 ms", "−10.0 ms"],
    ]


def test_of_several_runs_all_stand_in_a_table_the_best_in_bold():
    rows = table_of(render(several()), ["Run", "Against the base"])
    assert [row[:3] for row in rows] == [
        ["remat", "base", "100 ms"],
        ["offload", "Better", "90.0 ms"],
        ["none (best)", "Better", "80.0 ms"],
        ["slow", "Worse", "120 ms"],
        ["other", "Not comparable", "–"],
    ]


@pytest.mark.parametrize("word", ["@", "`", "|", "🚀", "www.", "- ", "1. ", HOSTILE])
@pytest.mark.parametrize("name", ["pair", "several", "without_steps"])
def test_whatever_the_text_it_fits_and_its_headlines_stay(name, word):
    comparison = renamed(EXAMPLES[name](), (word * 3_000)[:3_000])
    text = render(comparison)
    assert utf16(text) < GITHUBS_LIMIT
    written = [columns for columns in raw_columns(text) if len(columns) > 1]  # no sentence "| ..."
    for columns, rows in zip(written, tables(text), strict=True):
        assert {*columns} == {len(row) for row in rows} == {len(rows[0])}
    best = next((n for n, run in enumerate(comparison.new) if run.best), 0)
    first = next(rows for rows in tables(text) if rows[0][0] == "" and rows[0][-1] == "Between")
    assert [row[0] for row in first[1:]] == [r.label for r in headlines(comparison, best)]


def test_of_many_runs_those_without_figures_are_counted():
    text = render(large(12, 2))
    shown = text.count("| Step time |") // 2  # among the headlines, and among all metrics
    assert 0 < shown < 12
    assert f"Runs whose figures are not shown: {12 - shown}." in text


def test_a_name_does_not_begin_a_list():
    named = compare({"- a": remat(), "1. b": offload(), "+ c": remat()})
    kinds = {token.type for token in GITHUB.parse(render(named))}
    assert "ordered_list_open" not in kinds
    plainly = compare({"a": remat(), "b": offload(), "c": remat()})
    items = [
        sum(token.type == "list_item_open" for token in GITHUB.parse(render(comparison)))
        for comparison in (named, plainly)
    ]
    assert items[0] == items[1]


def test_a_prediction_says_that_it_is_one_and_when_its_changes_count():
    assert "Predicted, not measured" in render(predicted())
    assert "choices of the model's constants" in render(predicted())
    assert "bootstrap" not in render(predicted())
    assert "bootstrap" in render(pair())
