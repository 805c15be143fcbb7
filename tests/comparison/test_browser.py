"""The page in a real browser. `NSYSOFFLOAD_REQUIRE_BROWSER=1` turns a skip into a failure."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.html import render
from nsysoffload.report.figures import THEMES
from tests.comparison.examples import EXAMPLES, large, offload, pair, remat
from tests.report import test_browser as of_report
from tests.report.test_browser import label, paper, point_at, shapes, state, until

Open = Callable[..., Any]

browser = of_report.browser  # one for each module


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a comparison from a file, wait until it's drawn, and check that it ran without fault."""
    contexts, faults = [], []

    def opened(comparison: Any, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(render(comparison), encoding="utf-8")
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                request.url == file.as_uri() or faults.append(f"request: {request.url}")
            ),
        )
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_opens_draws_its_figures_and_fits_a_phone(open_page, name):
    page = open_page(EXAMPLES[name]())
    drawn = page.locator("[data-figure]:not(details *)").evaluate_all(
        "all => all.map((plot) => plot.dataset.figure)"
    )
    assert all(shapes(page, figure) for figure in drawn)
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "[...document.querySelectorAll('.main-svg')].every((e) => e.clientWidth <= 390)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_pair_has_all_its_figures(open_page):
    page = open_page(pair())
    figures = ["waterfall_0", "timeline", "memory", "tradeoff"]
    assert [figure for figure in figures if shapes(page, figure)] == figures
    texts = page.locator('[data-figure="waterfall_0"] .bartext').all_text_contents()
    assert texts == ["100 ms", "90.0 ms", "−23.0 ms", "+13.0 ms"]


def test_both_runs_start_at_0_and_pointing_at_a_mark_says_whose_it_is(open_page):
    page = open_page(pair())
    page.locator('[data-figure="timeline"]').scroll_into_view_if_needed()
    point_at(page, lane=0, time_ms=50)
    assert label(page)[-1] == "remat, Compute, from 0.000000 ms"
    point_at(page, lane=3, time_ms=50)
    assert label(page)[-1] == "offload, Compute, from 0.000000 ms"
    point_at(page, lane=6, time_ms=80)
    assert label(page)[0].startswith("More bytes than compute can hide")
    assert label(page)[-1] == "offload, Stalls, from 76.00000 ms"


def test_both_timelines_zoom_together(open_page):
    page = open_page(pair())
    page.get_by_role("button", name="Zoom in").click()
    assert state(page, "layout.xaxis.range") == [25, 75]
    page.get_by_role("button", name="Whole step").click()
    assert state(page, "layout.xaxis.range") == [0, 100]


def test_a_page_without_timelines_draws_the_other_figures(open_page):
    untraced = {"remat": replace(remat(), lanes=()), "offload": replace(offload(), lanes=())}
    page = open_page(compare(untraced))
    assert page.locator('[data-figure="timeline"]').count() == 0
    assert shapes(page, "waterfall_0")
    page.emulate_media(media="print")
    until(page, "document.querySelector('.js-plotly-plot .main-svg').clientWidth <= 1032")


def test_figures_of_a_folded_run_are_drawn_when_it_is_opened(open_page):
    page = open_page(EXAMPLES["several"]())
    fold = page.locator("details.pair").first
    plot = fold.locator("[data-figure]")
    assert plot.locator(".main-svg").count() == 0
    fold.locator("summary").click()
    until(page, "document.querySelector('details.pair[open] .bars path') !== null")
    width = plot.locator(".main-svg").first.evaluate("svg => svg.clientWidth")
    assert 1000 < width <= 1280


@pytest.mark.parametrize("scheme", THEMES)
def test_page_and_figures_follow_the_colour_scheme(open_page, scheme):
    page = open_page(pair(), color_scheme=scheme)
    assert set(paper(page)) == {THEMES[scheme]["paper"]}


def test_print_is_light_with_all_runs_unfolded_and_no_controls(open_page):
    page = open_page(EXAMPLES["several"](), color_scheme="dark")
    page.emulate_media(media="print")
    until(page, "[...document.querySelectorAll('[data-figure]')].every((f) => f.querySelector"
                "('.main-svg'))")  # fmt: skip
    assert set(paper(page)) == {THEMES["light"]["paper"]}
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("button:visible, nav:visible").count() == 0
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_column_of_a_table_is_cut_at_1200_pixels(open_page, name):
    page = open_page(EXAMPLES[name]())
    page.set_viewport_size({"width": 1200, "height": 900})
    cut = page.evaluate(
        """[...document.querySelectorAll(".scroll")]
            .filter((box) => box.scrollWidth > box.clientWidth)
            .map((box) => box.getAttribute("aria-label"))"""
    )
    assert cut == []


def test_the_first_screen_has_the_verdict_and_all_cards(open_page):
    page = open_page(pair())
    last = page.locator(".card").last.bounding_box()
    assert last["y"] + last["height"] <= 900


def test_many_runs_open_quickly_and_fit_a_phone(open_page):
    page = open_page(large(40, 50))
    assert page.evaluate("performance.now()") < 10_000  # a slow machine has others to serve
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "[...document.querySelectorAll('.main-svg')].every((e) => e.clientWidth <= 390)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_page_can_be_read_without_scripts(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(render(pair()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator(".card .value").first.inner_text() == "100 ms → 90.0 ms"
    assert page.locator("noscript").is_visible()
    context.close()
