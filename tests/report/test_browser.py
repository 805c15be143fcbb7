"""The page in a real browser. `NSYSOFFLOAD_REQUIRE_BROWSER=1` turns a skip into a failure."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nsysoffload.report import format as fmt
from nsysoffload.report import json as json_report
from nsysoffload.report.cards import cards
from nsysoffload.report.figures import THEMES
from nsysoffload.report.html import render
from tests.report.examples import EXAMPLES, crowded, eight_devices, hostile, one_device, stepped

FIGURES = ["timeline", "time_split", "bandwidth", "size_classes"]
TIMELINE = '[data-figure="timeline"]'
Open = Callable[..., Any]


def unavailable(reason: str) -> None:
    if os.environ.get("NSYSOFFLOAD_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("Playwright for Python isn't installed: pip install 'nsysoffload[dev]'")
    chromium = shutil.which("chromium")
    if chromium is None:
        unavailable("there is no chromium on PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers lack; the pages are our own.
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        running = playwright.chromium.launch(executable_path=chromium, args=options)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a report from a file, wait until it's drawn, and check that it ran without a fault."""
    contexts, faults = [], []

    def opened(report: Any, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(render(report), encoding="utf-8")
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


def until(page: Any, expression: str) -> None:
    """Wait for an expression to hold; asked from outside, as the page itself forbids `eval`."""
    for _ in range(250):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"{expression} didn't become true in 5 s")


def shapes(page: Any, figure: str) -> int:
    """How many marks a figure has drawn: outlines with a length, bars or points."""
    return page.evaluate(
        """(name) => [...document.querySelectorAll(
            `[data-figure="${name}"] :is(.fills, .bars, .points, .lines) path`
        )].filter((path) => path.getAttribute("d").length > 10).length""",
        figure,
    )


def state(page: Any, expression: str) -> Any:
    """A value of the timeline's Plotly figure, e.g. ``layout.xaxis.range``."""
    return page.evaluate(f"document.querySelector('{TIMELINE}').{expression}")


def point_at(page: Any, lane: int, time_ms: float) -> None:
    """Move the mouse over a time of a lane of the timeline."""
    layout = state(page, "layout")
    box = page.locator(TIMELINE).bounding_box()
    margin, (start, end) = layout["margin"], layout["xaxis"]["range"]
    width = box["width"] - margin["l"] - margin["r"]
    height = layout["height"] - margin["t"] - margin["b"]
    x = box["x"] + margin["l"] + (time_ms - start) / (end - start) * width
    centre = layout["yaxis"]["tickvals"][lane]
    page.mouse.move(x, box["y"] + margin["t"] + centre / layout["yaxis"]["range"][0] * height)


def label(page: Any) -> list[str]:
    """Lines of the label at the mark under the pointer; none if there is no label."""
    element = page.locator("#mark-label")
    return element.inner_text().split("\n") if element.is_visible() else []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_opens_from_a_file_without_an_error_or_a_request(open_page, name):
    page = open_page(EXAMPLES[name]())
    drawn = page.locator("[data-figure]").evaluate_all("all => all.map(e => e.dataset.figure)")
    assert drawn[0] == "timeline"
    assert "time_split" in drawn
    assert all(shapes(page, figure) for figure in drawn)


def test_hostile_names_stay_text(open_page):
    page = open_page(hostile())
    assert page.evaluate("document.scripts.length") == 5
    assert page.locator("main img, main a[href^=http], main svg a").count() == 0
    assert "<script>alert(1)" in page.locator("#kernels tbody th").first.inner_text()


def test_every_figure_of_the_page_is_drawn_with_marks(open_page):
    page = open_page(crowded(20_000, 9_000))
    assert [figure for figure in FIGURES if shapes(page, figure)] == FIGURES
    assert shapes(page, "timeline") == 4  # compute, collectives, exposed, hidden


def test_figures_on_the_page_are_those_of_the_json_block(open_page):
    page = open_page(eight_devices())
    report = json.loads(page.locator("script#report").text_content())
    assert report == json.loads(json_report.render(eight_devices()))
    total = report["total"]
    shown = page.locator(".card .value").all_inner_texts()
    assert shown == ["".join(map(str, card.value)) for card in cards(eight_devices())]
    assert shown[1] == fmt.share(total["both"]["overlap"])
    assert shown[4:6] == [fmt.bandwidth(total[way]["gbps"]) for way in ("h2d", "d2h")]
    row = page.locator("#overlap tbody").nth(3).locator("tr").nth(1).locator("td")
    d2h = report["devices"][3]["trace"]["d2h"]
    assert row.all_inner_texts()[:6] == [
        "D2H",
        fmt.count(d2h["copies"]),
        fmt.size(d2h["bytes"]),
        fmt.duration(d2h["busy_ns"]),
        fmt.duration(d2h["hidden_ns"]),
        fmt.duration(d2h["exposed_ns"]),
    ]


def test_pointing_at_a_mark_of_the_timeline_says_what_it_is(open_page):
    page = open_page(one_device())
    page.locator(TIMELINE).scroll_into_view_if_needed()
    point_at(page, lane=1, time_ms=42.5)
    assert label(page) == [
        "copy-start.9, layer 2",
        fmt.duration(5_000_000),
        f"{fmt.size(129_218_750)}, {fmt.bandwidth(129_218_750 / 5_000_000)}",
        f"{fmt.share(0.5)} hidden behind compute",
        "GPU 0, D2H, from 40.00000 ms",
    ]
    point_at(page, lane=0, time_ms=2.5)
    assert label(page)[0] == "gemm"
    point_at(page, lane=0, time_ms=20)
    assert label(page) == []


def test_pointing_at_a_merged_mark_says_how_many_rows_it_stands_for(open_page):
    crowd = crowded(20_000, 9_000)
    page = open_page(crowd)
    page.locator(TIMELINE).scroll_into_view_if_needed()
    point_at(page, lane=0, time_ms=50.05)
    lane = crowd.lanes[0]
    at = lane.coarse.start_ns.searchsorted(crowd.window.start_ns + 50_050_000) - 1
    rows, busy_ns = (column[at].item() for column in (lane.coarse.rows, lane.coarse.busy_ns))
    assert label(page)[:2] == [f"{rows} rows merged", f"{fmt.duration(busy_ns)} busy"]


def test_what_cannot_be_told_is_not_shown_as_hidden_or_exposed(open_page):
    page = open_page(EXAMPLES["cannot_tell"]())
    page.locator(TIMELINE).scroll_into_view_if_needed()
    point_at(page, lane=1, time_ms=42.5)
    assert label(page)[3] == "cannot tell what is hidden"


def test_dragging_zooms_the_time_axis_keeps_the_lanes_and_shows_finer_marks(open_page):
    page = open_page(crowded(20_000, 9_000))
    page.locator(TIMELINE).scroll_into_view_if_needed()
    lanes = state(page, "layout.yaxis.range")
    points = len(state(page, "data[0].x"))
    point_at(page, 0, 20)
    page.mouse.down()
    point_at(page, 0, 25)
    point_at(page, 0, 30)
    page.mouse.up()
    until(page, f"document.querySelector('{TIMELINE}').layout.xaxis.range[0] > 1")
    start, end = state(page, "layout.xaxis.range")
    assert (start, end) == (pytest.approx(20, abs=0.2), pytest.approx(30, abs=0.2))
    assert state(page, "layout.yaxis.range") == lanes
    seen = [x for x in state(page, "data[0].x") if x is not None]
    assert min(seen) > 19
    assert max(seen) < 31
    assert len(seen) / (end - start) > 2 * points / 100
    assert shapes(page, "timeline") == 4
    page.get_by_role("button", name="Whole window").click()
    assert state(page, "layout.xaxis.range") == [0, 100]
    assert len(state(page, "data[0].x")) == points


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Zoom in", [25, 75]), ("Zoom out", [0, 100]), ("Later", [0, 100]), ("Earlier", [0, 100])],
)
def test_buttons_zoom_within_the_window(open_page, name, expected):
    page = open_page(one_device())
    page.get_by_role("button", name=name).click()
    assert state(page, "layout.xaxis.range") == expected


def test_the_timeline_can_be_read_and_zoomed_with_the_keyboard_alone(open_page):
    page = open_page(one_device())
    page.locator(TIMELINE).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert label(page)[-1] == "GPU 0, Compute, from 40.00000 ms"
    page.keyboard.press("ArrowDown")
    assert label(page)[-1] == "GPU 0, D2H, from 40.00000 ms"
    page.keyboard.press("Escape")
    assert label(page) == []
    page.keyboard.press("+")
    assert state(page, "layout.xaxis.range") == [25, 75]
    page.keyboard.press("0")
    assert state(page, "layout.xaxis.range") == [0, 100]


def test_a_worst_copy_can_be_shown_in_the_timeline(open_page):
    crowd = crowded(200, 100)
    page = open_page(crowd)
    copy = crowd.worst_copies[0]
    page.get_by_role("button", name="Show copy 1 in the timeline").click()
    start_ms = (copy.start_ns - crowd.window.start_ns) / 10**6
    until(page, f"document.querySelector('{TIMELINE}').layout.xaxis.range[1] < 99")
    start, end = state(page, "layout.xaxis.range")
    assert start <= start_ms < start_ms + 2 <= end


def test_pointing_at_a_stall_says_who_waits_for_what_and_draws_the_wait(open_page):
    page = open_page(stepped())
    page.locator(TIMELINE).scroll_into_view_if_needed()
    assert page.locator("#wait-line").is_hidden()
    point_at(page, lane=4, time_ms=12.5)  # the first stall, from 12 to 13.5 ms
    assert label(page) == [
        "Copies are issued too late",
        "1.50 ms lost",
        "H2D, 1 copy",
        "gemm_bf16_128x128 waits, inferred from the times",
        "GPU 0, Stalls, from 12.00000 ms",
    ]
    assert dash(page) == "dashed"
    point_at(page, lane=4, time_ms=27.5)
    assert dash(page) == "solid"
    assert label(page)[2:4] == [
        "H2D, copy-start.3, 2 copies",
        "gemm_bf16_128x128 waits, proven by an event",
    ]
    point_at(page, lane=4, time_ms=178)  # the last one ends with the step: no kernel waits
    assert label(page)[3] == "The end of the step waits, proven by an event"
    assert page.locator("#wait-line").is_hidden()


def dash(page: Any) -> str:
    """How the line of the wait that is pointed at is drawn."""
    line = page.locator("#wait-line")
    assert line.is_visible()
    return line.evaluate("line => getComputedStyle(line).borderTopStyle")


def test_pointing_at_a_copy_that_a_kernel_waits_for_says_so(open_page):
    page = open_page(stepped())
    page.locator(TIMELINE).scroll_into_view_if_needed()
    point_at(page, lane=2, time_ms=27.8)
    lines = label(page)
    assert lines[0] == "copy-start.3, layer 4"
    assert lines[-2] == (
        "gemm_bf16_128x128 waits, proven by an event: Copies are issued too late, 1.51 ms lost"
    )


def test_waits_of_the_longest_stalls_are_drawn_and_others_when_they_are_in_view(open_page):
    page = open_page(stepped())
    drawn = {
        trace["meta"]: sum(x is not None for x in trace["x"]) // 2
        for trace in state(page, "data.map(({meta, x}) => ({meta, x}))")
        if trace["meta"].startswith("wait")
    }
    assert drawn == {"wait proven": 2 * 7, "wait inferred": 2 * 4}  # two devices


def test_the_place_of_a_finding_can_be_shown_in_the_timeline(open_page):
    page = open_page(stepped())
    page.locator("#findings").get_by_role("button", name="place 1,").click()
    until(page, f"document.querySelector('{TIMELINE}').layout.xaxis.range[0] > 1")
    start, end = state(page, "layout.xaxis.range")
    assert start <= 1436 - 1407.7 < 1440 - 1407.7 <= end
    assert label(page)[-1] == "GPU 0, Stalls, from 27.00000 ms"


def test_layers_of_an_operation_are_folded_until_they_are_asked_for(open_page):
    page = open_page(stepped())
    layers = page.locator('[data-of="0"]')
    assert layers.is_hidden()
    button = page.get_by_role("button", name="16 layers").first
    button.click()
    assert layers.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    assert layers.locator("tr").nth(1).locator("td").last.inner_text() == "680 µs"


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


def test_the_first_screen_has_the_verdict_the_limits_the_cards_and_what_to_change(open_page):
    page = open_page(stepped())
    page.set_viewport_size({"width": 1200, "height": 920})
    last = page.locator("ol.firsts > li").last.bounding_box()
    assert last["y"] + last["height"] <= 920


def test_kernels_are_found_by_a_part_of_their_name(open_page):
    page = open_page(crowded(2_000, 10))
    rest = page.locator("#kernels details")
    assert rest.get_attribute("open") is None
    page.get_by_label("Find kernels by name").fill("123N")
    found = page.locator("#kernels tbody tr:visible th").all_inner_texts()
    assert [text[:4] for text in found] == ["123n"]


@pytest.mark.parametrize("scheme", THEMES)
def test_page_and_figures_follow_the_colour_scheme(open_page, scheme):
    page = open_page(one_device(), color_scheme=scheme)
    assert paper(page) == [THEMES[scheme]["paper"]] * 5
    other = {"light": "dark", "dark": "light"}[scheme]
    page.emulate_media(color_scheme=other)
    until(
        page,
        f"document.querySelector('{TIMELINE}').layout.paper_bgcolor === '{THEMES[other]['paper']}'",
    )
    assert paper(page) == [THEMES[other]["paper"]] * 5
    fill = page.locator(f"{TIMELINE} .fills path").first.evaluate("p => getComputedStyle(p).fill")
    assert fill.startswith(("url", "rgb"))


def paper(page: Any) -> list[str]:
    """Background of the page and of each figure, as hex."""
    return page.evaluate(
        """() => {
            const hex = (rgb) => "#" + rgb.match(/[0-9]+/g).slice(0, 3)
                .map((part) => Number(part).toString(16).padStart(2, "0")).join("");
            const figures = [...document.querySelectorAll("[data-figure]")];
            const backgrounds = figures.map((f) => f.querySelector(".main-svg").style.background);
            return [getComputedStyle(document.body).backgroundColor, ...backgrounds].map(hex);
        }"""
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_phones_width_needs_no_sideways_scrolling(open_page, name):
    page = open_page(EXAMPLES[name]())
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "[...document.querySelectorAll('.main-svg')].every((e) => e.clientWidth <= 390)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert shapes(page, "timeline")


def test_print_is_light_with_figures_and_everything_open_and_no_controls(open_page):
    page = open_page(crowded(2_000, 100), color_scheme="dark")
    page.emulate_media(media="print")
    until(page, "document.querySelector('#kernels details').open")
    assert paper(page) == [THEMES["light"]["paper"]] * 5
    assert [figure for figure in FIGURES if shapes(page, figure)] == FIGURES
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("button:visible, input:visible, nav:visible").count() == 0
    widths = page.locator(".main-svg").evaluate_all("all => all.map(e => e.clientWidth)")
    assert max(widths) <= 1032  # A4 across, within its margins
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="screen")
    until(page, "!document.querySelector('#kernels details').open")
    assert paper(page) == [THEMES["dark"]["paper"]] * 5


def test_the_page_can_be_read_without_scripts(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(render(one_device()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator(".card .value").nth(1).inner_text() == "82.3 %"
    assert page.locator("noscript").is_visible()
    context.close()
