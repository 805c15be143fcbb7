import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import plotly.graph_objects
import pytest
from plotly.offline import get_plotlyjs_version

from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report import figures, lane_figure
from nsysoffload.report import format as fmt
from nsysoffload.report import json as json_report
from nsysoffload.report.html import render
from nsysoffload.report.lanes import Marks
from nsysoffload.report.model import Layer, Report
from nsysoffload.report.wording import PARTS
from tests.report.examples import (
    EXAMPLES,
    GH200,
    cannot_tell,
    crowded,
    device,
    direction,
    eight_devices,
    hostile,
    one_device,
    ranks,
    report,
    stepped,
)

VOID = {"meta", "link", "input", "br", "img", "hr"}
TEMPLATES = resources.files("nsysoffload.report") / "templates"
MAX_BYTES = 3_000_000
LAYERS = tuple(Layer(n, 2, 1_600_000, 850_000, 700_000) for n in range(512))


class Page(HTMLParser):
    """A page as a list of elements: tag, attributes and the text directly inside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[int] = []
        self.feed(html)
        self.close()
        assert not self._open, "an element isn't closed"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        assert self.elements[self._open.pop()][0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self._open:
            self.elements[self._open[-1]][2].append(data)

    def text(self, tag: str | None = None, **attributes: str) -> str:
        """Text of the one element with that tag and these attributes."""
        (found,) = [
            "".join(text)
            for name, given, text in self.elements
            if tag in (None, name) and attributes.items() <= given.items()
        ]
        return found

    def data(self, id_: str) -> Any:
        """Content of a JSON block."""
        return json.loads(self.text("script", id=id_))


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Report:
    return EXAMPLES[request.param]()


def without_plotly(html: str) -> str:
    return html.replace((TEMPLATES / "plotly-basic.min.js").read_text(encoding="utf-8"), "")


# --- What is true of every page ---


def test_the_json_block_is_the_json_report(example):
    assert Page(render(example)).data("report") == json.loads(json_report.render(example))


def test_every_figure_on_the_page_is_the_value_of_the_json_at_its_path(example):
    page = Page(render(example))
    report = page.data("report")
    shown = [(given, text) for _, given, text in page.elements if "data-path" in given]
    assert len(shown) > 30
    for given, text in shown:
        value: Any = report
        for key in given["data-path"].split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        if value is None:
            assert ("".join(text), given.get("value")) == ("–", None)
            assert given["title"]
        else:
            assert given["value"] == str(value)
            assert "".join(text) in as_shown(value)


def as_shown(value: float) -> set[str]:
    """All texts that the one formatting module has for a number."""
    if isinstance(value, float):
        milliseconds = fmt.duration(round(value * 1e6))
        return {fmt.share(value), fmt.bandwidth(value), milliseconds}
    texts = (fmt.duration, fmt.size, fmt.count, fmt.moment, fmt.share, str)
    return {text(value) for text in texts}


def test_the_page_names_no_address_and_loads_nothing(example):
    html = render(example)
    for _, given, _ in Page(html).elements:
        assert not {"src", "srcset", "data", "poster", "action"} & given.keys()
        assert (given.get("href") or "#").startswith("#")
    style = Page(html).text("style")
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html.replace("&#39;", "'")


def test_figures_are_valid_for_plotly(example):
    found = Page(render(example)).data("figures")["figures"]
    assert {"timeline", "time_split"} <= found.keys()
    for figure in found.values():
        plotly.graph_objects.Figure(figure)


def test_every_colour_of_a_figure_has_a_partner_in_the_dark(example):
    found = Page(render(example)).data("figures")
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(found["figures"])))
    assert used <= set(found["themes"]["light"].values())
    assert found["themes"]["light"].keys() == found["themes"]["dark"].keys()


def test_anchors_lead_to_sections_and_ids_are_unique(example):
    elements = Page(render(example)).elements
    ids = [given["id"] for _, given, _ in elements if "id" in given]
    assert len(ids) == len(set(ids))
    links = {given["href"][1:] for tag, given, _ in elements if tag == "a"}
    labels = {given[key] for _, given, _ in elements for key in given if key == "aria-labelledby"}
    assert links | labels <= set(ids)


def test_every_table_has_a_caption_and_every_heading_cell_a_scope(example):
    elements = Page(render(example)).elements
    tags = [tag for tag, _, _ in elements]
    assert tags.count("table") == tags.count("caption")
    assert all(given.get("scope") for tag, given, _ in elements if tag == "th")


def test_every_row_of_a_table_is_as_wide_as_its_head(example):
    widths: list[list[int]] = []
    for tag, given, _ in Page(render(example)).elements:
        if tag == "table":
            widths.append([])
        elif tag == "tr":
            widths[-1].append(0)
        elif tag in ("td", "th"):
            widths[-1][-1] += int(given.get("colspan") or 1)
    assert all(len(set(table)) == 1 for table in widths)


def test_the_verdict_and_each_warning_are_on_the_page(example):
    html = render(example)
    assert fmt.shorten(fmt.plain(example.verdict.text), 600) in [
        "".join(text) for *_, text in Page(html).elements
    ]
    codes = [given["data-code"] for _, given, _ in Page(html).elements if "data-code" in given]
    assert codes == [warning.code for warning in example.trace.warnings]


# --- Particular reports ---


def test_an_unknown_overlap_is_a_dash_with_its_reason_and_never_a_number():
    page = Page(render(cannot_tell()))
    reasons = {
        given["title"]
        for _, given, text in page.elements
        if (given.get("data-path") or "").endswith("both.overlap")
    }
    assert reasons == {
        device.trace.both.overlap_null_reason for device in cannot_tell().devices
    } | {cannot_tell().total.both.overlap_null_reason}
    assert "Exposed, or cannot tell" in render(cannot_tell())


def test_transfers_whose_overlap_is_unknown_are_drawn_as_unknown():
    known = [lane["known"] for lane in Page(render(cannot_tell())).data("lanes")["lanes"]]
    assert known == [True, False, True, False]


def test_hostile_text_is_shown_as_text_and_cut():
    html = render(hostile())
    page = Page(html)
    scripts = [given for tag, given, _ in page.elements if tag == "script"]
    assert len(scripts) == 5
    assert not [tag for tag, _, _ in page.elements if tag == "img"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert len(without_plotly(html)) < 1_200_000
    html.encode("utf-8")
    title = page.data("figures")["figures"]["timeline"]["layout"]["annotations"][0]["text"]
    assert "<script" not in title
    assert len(title) < 500


def test_a_table_of_ranks_keeps_their_order_and_says_which_is_detailed():
    page = Page(render(ranks()))
    rows = [
        "".join(text)
        for tag, given, text in page.elements
        if tag == "th" and "".join(text).startswith("rank")
    ]
    assert rows == [rank.file for rank in ranks().ranks or ()]
    assert "The slowest comes first" in render(ranks())


def test_several_devices_have_a_total_and_one_has_none():
    assert "All GPUs" in render(eight_devices())
    assert "All GPUs" not in render(one_device())


def test_sections_without_data_are_left_out():
    html = render(EXAMPLES["no_transfers"]())
    ids = {given.get("id") for _, given, _ in Page(html).elements}
    assert not ids & {"ranks", "copies", "bandwidth", "unified"}


def test_a_predicted_trace_says_so_before_the_verdict():
    first = one_device()
    html = render(replace(first, trace=replace(first.trace, kind="predicted")))
    assert html.index("Predicted, not measured") < html.index('class="verdict')
    assert "Predicted, not measured" not in render(first)


def test_the_command_to_repeat_it_is_on_the_page():
    assert fmt.command(one_device()) in render(one_device())


def test_a_page_on_a_million_kernels_stays_below_3_megabytes():
    html = render(crowded(1_000_000, 80_000))
    assert len(html.encode()) <= MAX_BYTES
    assert "its long lists cut" not in html
    shown = html.count('class="name code"')
    assert shown == 300
    assert "700 names with less time are in the JSON report" in html


@pytest.mark.parametrize("devices", [1, 3, 5, 6, 16])
@pytest.mark.parametrize("hours", [0.01, 10])
def test_a_page_stays_below_3_megabytes_for_any_number_of_devices_and_any_window(devices, hours):
    window_ns = int(hours * 3_600 * 10**9)
    html = render(crowded(50_000, 20_000, devices=devices, window_ns=window_ns))
    assert len(html.encode()) <= MAX_BYTES


@pytest.mark.parametrize("devices", [1, 8])
def test_a_page_stays_below_3_megabytes_for_any_number_of_steps_layers_and_stalls(devices):
    full, step = stepped(), stepped().devices[0].steps[0]
    gpus = tuple(
        replace(
            full.devices[0],
            id=str(n),
            ordinal=n,
            steps=tuple(replace(step, index=i) for i in range(1_000)),
        )
        for n in range(devices)
    )
    path = "jit(train_step)/" + "x" * 180
    groups = tuple(
        replace(full.transfers[0], device="0", op=f"copy.{n}", op_name=path, layers=LAYERS)
        for n in range(500)
    )
    stalls = tuple(
        replace(full.stalls[0], device=str(n), op=f"copy.{i}", kernel=f"{'k' * 190}{i}")
        for n in range(devices)
        for i in range(400)
    )
    html = render(replace(full, devices=gpus, transfers=groups, stalls=stalls, findings=()))
    assert len(html.encode()) <= MAX_BYTES
    assert "its long lists cut" in html
    page = Page(html)
    assert len(page.data("report")["devices"]) == devices
    assert "The first 100 of 1,000; the JSON report has all." in html


def test_flags_and_functions_in_advice_are_code():
    shown = stepped()
    advice = "Set --xla_gpu_a=true, then --no-b. See jax.lax.scan; not <b>jaxlib</b>."
    findings = (replace(shown.findings[0], advice=advice),)
    page = Page(render(replace(shown, findings=findings)))
    codes = ["".join(text) for tag, _, text in page.elements if tag == "code"]
    assert [codes.count(code) for code in ("--xla_gpu_a=true", "--no-b", "jax.lax.scan")] == [2] * 3
    assert "jaxlib" not in codes


def test_a_place_that_the_timeline_does_not_draw_has_no_button():
    names = [
        given["aria-label"]
        for tag, given, _ in Page(render(stepped())).elements
        if tag == "button" and (given.get("aria-label") or "").startswith("Show")
    ]
    late = "Show Copies are issued too late"
    assert names[:3] == [
        f"{late} in the timeline",
        f"{late}, place 1, in the timeline",
        f"{late}, place 2, in the timeline",
    ]
    drawn = [name for name in names if name.startswith("Show copy")]
    assert drawn == [f"Show copy {n} in the timeline" for n in (2, 3, 5, 6)]


def test_the_parts_of_each_step_in_the_chart_add_up_to_its_duration():
    gpu = stepped().devices[0]
    figure = figures.step_split(gpu) or {}
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert [trace["name"] for trace in bars] == list(PARTS)
    for position, step in enumerate(gpu.steps):
        height = sum(trace["y"][position] for trace in bars)
        assert height == pytest.approx(step.duration_ns / 1e6)
    (far,) = [trace for trace in figure["data"] if trace["type"] == "scatter"]
    assert far["x"] == ["6"]


def test_one_step_needs_no_chart():
    assert figures.step_split(one_device().devices[0]) is None


def test_marks_of_a_step_count_from_its_start():
    shown = stepped()
    lanes = lane_figure.marks(shown)["lanes"]
    assert [lane["kind"] for lane in lanes[:5]] == (
        ["compute", "collectives", "h2d", "d2h", "stalls"]
    )
    assert [lane["device"] for lane in lanes] == [0] * 5 + [1] * 5
    assert lanes[0]["fine"]["gap"][0] == 0
    first = lanes[4]["stalls"][0]
    assert first[:6] == [12_000_000, 13_500_000, 12_100_000, 13_495_000, "issued_too_late", "h2d"]
    layout = lane_figure.timeline(shown)["layout"]
    assert "ms since the start of the step" in layout["xaxis"]["title"]["text"]
    assert layout["xaxis"]["range"] == [0, 198]
    assert "GPU 0, step 5" in layout["annotations"][0]["text"]


def test_each_cause_has_a_style_of_its_own():
    causes = {name: 1_000 + n for n, name in enumerate(EXPLANATIONS)}
    gpu = one_device().devices[0]
    many = replace(gpu, per_step=replace(gpu.per_step, lost=causes))
    styles = lane_figure.cause_styles(replace(one_device(), devices=(many,)))
    assert set(styles) == set(causes)
    assert len({style for style in list(styles.values())[:18]}) == 18


def test_of_too_many_stalls_the_longest_are_drawn():
    stall = stepped().stalls[0]
    many = tuple(
        replace(stall, start_ns=stall.start_ns + n * 1_000, end_ns=stall.start_ns + n * 1_001 + 5)
        for n in range(lane_figure.MAX_STALLS + 7)
    )
    shown = replace(stepped(), stalls=many)
    lane = lane_figure.marks(shown)["lanes"][4]
    assert len(lane["stalls"]) == lane_figure.MAX_STALLS
    assert lane["stalls"][0][0] == many[7].start_ns - lane_figure.drawn(shown, shown.devices[0])[0]
    assert lane_figure.hidden_stalls(shown) == 7
    assert "The 7 shortest stalls are left out." in render(shown)


def test_marks_on_the_page_can_be_put_together_again():
    crowd = crowded(20_000, 9_000)
    page = Page(render(crowd)).data("lanes")
    for lane, drawn in zip(crowd.lanes, page["lanes"], strict=True):
        assert_same(drawn["fine"], lane.fine, crowd.window.start_ns)
        assert (drawn["coarse"] is None) == (len(lane.fine) <= lane_figure.MAX_DRAWN)
        if drawn["coarse"]:
            assert_same(drawn["coarse"], lane.coarse, crowd.window.start_ns)


def assert_same(columns: dict[str, Any], marks: Marks, start_ns: int) -> None:
    at = start_ns
    for i, (start, end, busy) in enumerate(
        zip(marks.start_ns.tolist(), marks.end_ns.tolist(), marks.busy_ns.tolist(), strict=True)
    ):
        at += columns["gap"][i]
        assert (start, end) == (at, at + columns["length"][i])
        at = end
        assert busy == columns["length"][i] - (columns["pause"][i] if columns["pause"] else 0)
    assert columns["rows"] in (None, marks.rows.tolist())
    assert columns["bytes"] in (None, marks.size_bytes.tolist())
    assert columns["hidden"] in (None, marks.hidden_ns.tolist())


# --- Figures ---


@pytest.mark.parametrize("make", [one_device, cannot_tell, EXAMPLES["no_transfers"]])
def test_the_parts_of_a_devices_window_add_up_to_all_of_it(make):
    figure = figures.time_split(make())
    for position in range(len(make().devices)):
        assert sum(trace["x"][position] for trace in figure["data"]) == pytest.approx(100)


def test_the_link_is_drawn_only_where_all_devices_share_it():
    names = [trace["name"] for trace in (figures.bandwidth(one_device()) or {})["data"]]
    assert "NVLink-C2C peak, 450 GB/s" in names
    busy = direction(4, 4_000_000, 1_000_000, 500_000)
    other = replace(GH200, name="PCIe 5 x16", peak_gbps=64.0)
    mixed = report(
        device(busy, busy),
        device(busy, busy, ordinal=1, link=other),
        verdict=one_device().verdict,
    )
    names = [trace["name"] for trace in (figures.bandwidth(mixed) or {})["data"]]
    assert not [name for name in names if "peak" in name]


def test_bandwidth_is_drawn_at_the_mean_size_of_a_class():
    figure = figures.bandwidth(one_device()) or {}
    (trace,) = [trace for trace in figure["data"] if trace["name"] == "D2H, all copies"]
    classes = one_device().total.d2h.sizes
    assert trace["x"] == [c.bytes / c.copies for c in classes]
    assert trace["y"] == [c.gbps for c in classes]


def test_size_classes_show_the_copies_and_bytes_of_the_model():
    figure = figures.size_classes(one_device()) or {}
    copies, gigabytes = (trace["y"] for trace in figure["data"][:2])
    classes = one_device().total.h2d.sizes
    assert copies == [c.copies for c in classes]
    assert gigabytes == [c.bytes / 10**9 for c in classes]


def test_timeline_has_a_tick_for_each_lane_in_the_order_of_the_marks():
    layout = lane_figure.timeline(eight_devices())["layout"]
    ticks = layout["yaxis"]["tickvals"]
    assert len(ticks) == len(lane_figure.marks(eight_devices())["lanes"]) == 16
    assert ticks == sorted(ticks)
    assert layout["xaxis"]["range"] == [0, 100]
    assert "ms since the start" in layout["xaxis"]["title"]["text"]


def test_names_of_marks_are_bounded_whatever_the_trace_calls_its_kernels():
    crowd = crowded(4_000, 10, names=4_000)
    renamed = tuple(
        replace(lane, names=tuple(f"{name}{'x' * 5_000}" for name in lane.names))
        for lane in crowd.lanes
    )
    names = lane_figure.marks(replace(crowd, lanes=renamed))["names"]
    assert len(names) == 2_000
    assert max(map(len, names)) <= 90


# --- Files of the page ---


def test_plotly_js_is_the_version_that_the_python_package_pins():
    script = (TEMPLATES / "plotly-basic.min.js").read_text(encoding="utf-8")
    assert f"plotly.js (basic - minified) v{get_plotlyjs_version()}" in script[:200]
    assert "MIT License" in (TEMPLATES / "plotly-basic.LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["plotly-basic.min.js", "report.js", "style.css"])
def test_an_inlined_file_cannot_end_or_comment_out_its_element(file):
    text = (TEMPLATES / file).read_text(encoding="utf-8").lower()
    assert not re.search(r"</(script|style)|<!--|<script", text)


@pytest.mark.parametrize("theme", figures.THEMES)
@pytest.mark.parametrize("role", ["ink", "muted", "accent", "hidden", "exposed", "unknown", "good"])
def test_text_has_the_contrast_that_wcag_aa_asks_for(theme, role):
    colours = figures.THEMES[theme]
    assert contrast(colours[role], colours["paper"]) >= 4.5
    if role in ("ink", "muted", "accent"):
        assert contrast(colours[role], colours["panel"]) >= 4.5


@pytest.mark.parametrize("theme", figures.THEMES)
@pytest.mark.parametrize(
    "role", ["compute", "collective", "h2d", "d2h", *(f"cause_{n}" for n in range(1, 7))]
)
def test_marks_have_the_contrast_that_wcag_asks_of_graphics(theme, role):
    assert contrast(figures.THEMES[theme][role], figures.THEMES[theme]["paper"]) >= 3


def contrast(a: str, b: str) -> float:
    """Contrast ratio of WCAG 2."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
