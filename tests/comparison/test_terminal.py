from dataclasses import replace

import pytest
from rich.cells import cell_len

from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.terminal import render
from nsysoffload.comparison.wording import headlines
from tests.comparison.examples import EXAMPLES, offload, pair, remat, several


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_80_columns_and_all_is_plain_text(name):
    text = render(EXAMPLES[name]())
    assert text.replace("\n", "").isprintable()
    for line in text.splitlines():
        assert cell_len(line) <= 80
        assert line == line.rstrip()


def test_the_verdict_comes_first_then_limits_then_the_figures():
    lines = render(pair()).splitlines()
    assert lines[0].startswith("Offloading wins: offload takes 90.0 ms per step")
    text = "\n".join(lines)
    for row in headlines(pair(), 0):
        assert row.base in text
        assert row.new in text
        assert row.change in text
    assert text.index("step_ms does not get worse") < text.index("Step time")
    assert "waiting for transfers   0 ns 13.0 ms +13.0 ms" in text


def test_of_several_runs_all_are_listed_and_the_best_is_told():
    text = render(several())
    assert text.startswith("Of 5 runs 'none' is fastest.")
    assert "none (best)" in text
    assert "not comparable" in text


def test_long_names_and_large_changes_leave_the_labels_whole():
    base, new = remat(), offload()
    found = compare({"a" * 60: base, "b" * 60: new})
    wide = replace(
        found,
        differences=tuple(
            replace(d, change=1e7, relative=1e4, noise=(1e6, 2e7)) for d in found.differences
        ),
    )
    lines = render(wide).splitlines()
    assert any(line.startswith("Step time ") for line in lines)
    assert max(map(cell_len, lines)) <= 80


def test_wide_characters_in_names_leave_the_figures_whole():
    found = compare({"漢" * 30: remat(), "🚀" * 30: offload()})
    text = render(found)
    for row in headlines(found, 0):
        assert f"\n{row.label} " in text
        assert row.change in text
