import re

import pytest

from nsysoffload.comparison.markdown import render
from nsysoffload.comparison.wording import headlines
from tests.comparison.examples import EXAMPLES, large, pair, several
from tests.report.test_markdown import GITHUBS_LIMIT, raw_columns, table_of, tables, visible


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
