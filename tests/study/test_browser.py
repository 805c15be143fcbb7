"""The page in a real browser. `NSYSOFFLOAD_REQUIRE_BROWSER=1` turns a skip into a failure."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nsysoffload.report.figures import THEMES
from nsysoffload.study.html import render
from tests.report import test_browser as of_report
from tests.report.test_browser import paper, shapes, until
from tests.study.examples import EXAMPLES, usual

Open = Callable[..., Any]

browser = of_report.browser  # one for each module


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a study from a file, wait until it's drawn, and check that it ran without fault."""
    contexts, faults = [], []

    def opened(report: Any, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(render(report), encoding="utf-8")
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_opens_draws_its_figures_cuts_no_table_and_fits_a_phone(open_page, name):
    page = open_page(EXAMPLES[name]())
    drawn = page.locator("[data-figure]").evaluate_all("all => all.map((p) => p.dataset.figure)")
    assert all(shapes(page, figure) for figure in drawn)
    cut = page.evaluate(
        """[...document.querySelectorAll(".scroll")]
            .filter((box) => box.scrollWidth > box.clientWidth)
            .map((box) => box.getAttribute("aria-label"))"""
    )
    assert cut == []
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "[...document.querySelectorAll('.main-svg')].every((e) => e.clientWidth <= 390)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", THEMES)
def test_page_and_figures_follow_the_colour_scheme(open_page, scheme):
    assert set(paper(open_page(usual(), color_scheme=scheme))) == {THEMES[scheme]["paper"]}


def test_print_is_light_with_everything_unfolded(open_page):
    page = open_page(usual(), color_scheme="dark")
    page.emulate_media(media="print")
    until(page, "document.querySelectorAll('details:not([open])').length === 0")
    assert set(paper(page)) == {THEMES["light"]["paper"]}
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_the_name_of_a_run_leads_to_its_own_report(open_page, tmp_path):
    page = open_page(usual())
    (row,) = [row for row in usual().rows if row.variant == "offload"]
    (tmp_path / row.folder).mkdir(parents=True)
    (tmp_path / row.report).write_text("<title>its own</title>")
    page.get_by_role("link", name="offload all").first.click()
    until(page, "document.title === 'its own'")
