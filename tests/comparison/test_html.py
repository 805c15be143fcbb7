import json
import re
from dataclasses import replace
from typing import Any

import plotly.graph_objects
import pytest

from nsysoffload.comparison import json as json_report
from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.html import render
from nsysoffload.comparison.model import Comparison
from nsysoffload.comparison.wording import OUTCOMES, command, rule
from nsysoffload.report import format as fmt
from nsysoffload.report.page import MAX_BYTES
from tests.comparison.examples import EXAMPLES, STEADY, large, offload, pair, predicted, remat
from tests.report.examples import RUN_MEMORY, crowded, stepped
from tests.report.test_html import Page, without_plotly

UNITS = ("ms", "%", "GB/s", "B", "points", "s", "ns", "µs", "kB", "MB", "GB", "TB")


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Comparison:
    return EXAMPLES[request.param]()


def value_at(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


def figures_of(page: Page) -> list[tuple[dict[str, Any], str]]:
    return [(given, "".join(text)) for _, given, text in page.elements if "data-path" in given]


def texts(page: Page, tag: str, **given: str) -> list[str]:
    return [
        "".join(text)
        for name, attributes, text in page.elements
        if name == tag and given.items() <= attributes.items()
    ]


# --- What is true of every page ---


def test_the_json_block_is_the_json_report(example):
    assert Page(render(example)).data("comparison") == json.loads(json_report.render(example))


def test_every_figure_on_the_page_is_the_value_of_the_json_at_its_path(example):
    page = Page(render(example))
    data = page.data("comparison")
    shown = figures_of(page)
    assert len(shown) > 30
    for given, text in shown:
        value = value_at(data, given["data-path"])
        if value is None:
            assert (text, given.get("value")) == ("–", None)
            assert given["title"]
        else:
            assert given["value"] == str(value)
            assert agrees(text, value), (given, text)


def agrees(text: str, value: float) -> bool:
    """Whether a text is that number, in whichever unit, within the digits that it has."""
    number = re.fullmatch(r"([−+<>]*)([\d,.]+)(?: (.+))?", text)
    assert number, text
    assert (number[3] or "s") in UNITS
    shown = float(number[2].replace(",", "")) * (-1 if "−" in number[1] else 1)
    if {"<", ">"} & set(number[1]):
        return (value < 0.1) == ("<" in number[1])
    digits = len(number[2].partition(".")[2])
    units = (10.0**power for power in range(-15, 13))
    return any(abs(shown * unit - value) <= 0.501 * 10**-digits * unit for unit in units)


def test_the_page_names_no_address_and_loads_nothing(example):
    html = render(example)
    for _, given, _ in Page(html).elements:
        assert not {"src", "srcset", "data", "poster", "action"} & given.keys()
        assert not [name for name in given if name.startswith("on")]
        assert (given.get("href") or "#").startswith("#")
    style = Page(html).text("style")
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html.replace("&#39;", "'")


def test_figures_are_valid_for_plotly_and_each_has_a_place(example):
    page = Page(render(example))
    found = page.data("figures")["figures"]
    for figure in found.values():
        plotly.graph_objects.Figure(figure)
    places = [given["data-figure"] for _, given, _ in page.elements if "data-figure" in given]
    assert sorted(places) == sorted(found)


def test_every_colour_of_a_figure_has_a_partner_in_the_dark(example):
    found = Page(render(example)).data("figures")
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(found["figures"])))
    assert used <= set(found["themes"]["light"].values())


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
    hanging = 0  # cells of the row before that reach into this one
    for tag, given, _ in Page(render(example)).elements:
        if tag == "table":
            widths.append([])
        elif tag == "tr":
            widths[-1].append(hanging)
            hanging = 0
        elif tag in ("td", "th"):
            widths[-1][-1] += int(given.get("colspan") or 1)
            hanging += "rowspan" in given
    assert all(len(set(table)) == 1 for table in widths)


def test_verdict_reasons_limits_notes_and_warnings_are_on_the_page(example):
    page = Page(render(example))
    found = ["".join(text) for *_, text in page.elements]
    assert fmt.shorten(fmt.plain(example.verdict.text), 600) in found
    assert OUTCOMES[example.verdict.outcome][1] in texts(page, "span", **{"class": "outcome"})
    codes = {given["data-code"] for _, given, _ in page.elements if "data-code" in given}
    assert {warning.code for run in example.runs for warning in run.warnings} <= codes
    assert {note.code for pair in example.pairs for note in pair.notes} <= codes
    assert len(texts(page, "li", **{"class": "kept"})) == sum(g.passed for g in example.gates)
    assert len(texts(page, "li", **{"class": "missed"})) == sum(not g.passed for g in example.gates)
    for reason in example.verdict.reasons:
        assert reason.code in codes or reason.text in example.verdict.text
    assert rule(example) in found


# --- Particular comparisons ---


def test_cards_tell_both_figures_and_the_change():
    page = Page(render(pair()))
    cards = dict(zip(texts(page, "dt"), texts(page, "dd", **{"class": "note good"}), strict=False))
    assert "Step time" in cards
    shown = {given["data-path"]: text for given, text in figures_of(page)}
    assert shown["pairs.0.step.base_ns"] == "100 ms"
    assert shown["pairs.0.step.new_ns"] == "90.0 ms"
    assert shown["pairs.0.step.relative"] == "−10.0 %"
    assert shown["pairs.0.account.parts.2.change_ns"] == "+13.0 ms"


def test_two_runs_are_compared_alone_and_several_have_a_table_and_folds():
    page = Page(render(pair()))
    assert not {"runs", "others"} & {given.get("id") for _, given, _ in page.elements}
    several = EXAMPLES["several"]()
    page = Page(render(several))
    assert {"runs", "others"} <= {given.get("id") for _, given, _ in page.elements}
    folds = [given for tag, given, _ in page.elements if given.get("class") == "pair"
             and tag == "details"]  # fmt: skip
    assert len(folds) == len(several.new) - 1
    assert not any("open" in given for given in folds)
    tags = texts(page, "span", **{"class": "tag within"})
    assert tags == ["best"]


def test_the_best_run_is_the_one_that_is_shown_in_full():
    several = EXAMPLES["several"]()
    (best,) = [run.name for run in several.new if run.best]
    titles = texts(Page(render(several)), "h2", id="why-title")
    assert titles == [f"From the step of remat to that of {best}"]


def test_both_timelines_start_at_0_on_one_axis_the_base_above():
    page = Page(render(pair()))
    lanes = page.data("lanes")["lanes"]
    assert [lane["title"] for lane in lanes] == [
        "remat, Compute",
        "remat, H2D",
        "remat, D2H",
        "offload, Compute",
        "offload, H2D",
        "offload, D2H",
        "offload, Stalls",
    ]
    assert [lane["device"] for lane in lanes] == [0] * 3 + [1] * 4
    compute = [lane for lane in lanes if lane["kind"] == "compute"]
    assert [lane["fine"]["gap"][0] for lane in compute] == [0, 0]
    layout = page.data("figures")["figures"]["timeline"]["layout"]
    assert layout["xaxis"]["range"] == [0, 100]  # the longer of the two


def test_of_several_devices_only_the_one_that_speaks_for_the_run_is_drawn():
    slower = stepped()
    other = replace(slower, kernels=slower.kernels[:1])
    page = Page(render(compare({"a": slower, "b": other})))
    lanes = page.data("lanes")["lanes"]
    assert {lane["title"].partition(",")[0] for lane in lanes} == {"a", "b"}
    assert len([lane for lane in lanes if lane["kind"] == "compute"]) == 2


def test_a_run_that_comes_from_its_report_has_no_timeline_and_says_why():
    read = replace(remat(), lanes=())
    html = render(compare({"remat": read, "offload": offload()}))
    assert "remat: the timeline needs the trace; give it instead of its report." in html
    lanes = Page(html).data("lanes")["lanes"]
    assert {lane["title"].partition(",")[0] for lane in lanes} == {"offload"}
    bare = Page(render(compare({"remat": read, "offload": replace(offload(), lanes=())})))
    assert "timeline" not in bare.data("figures")["figures"]
    assert not [given for _, given, _ in bare.elements if "data-zoom" in given]


def test_a_predicted_pair_says_so_before_the_verdict_and_one_run_of_two_by_its_name():
    html = render(predicted())
    assert html.index("Predicted, not measured") < html.index('class="verdict')
    assert "Predicted, not measured" not in render(pair())
    assert "<p>b: Predicted, not measured" in render(EXAMPLES["not_comparable"]())


def test_what_the_step_lies_between_is_named_after_where_it_comes_from():
    made = pair()
    assert "at 95 %" in render(made)
    modelled = replace(made.pairs[0], step=replace(made.pairs[0].step, noise_from="model"))
    assert "in the model&#39;s range" in render(replace(made, pairs=(modelled,)))


def test_an_unknown_figure_is_a_dash_with_its_reason():
    (reason,) = {
        given["title"]
        for given, text in figures_of(Page(render(pair())))
        if given["data-path"].startswith("differences.") and text == "–"
        and pair().differences[int(given["data-path"].split(".")[1])].metric == "overlap"
    }  # fmt: skip
    assert reason == "base: no transfer time was recorded"


def test_hostile_text_is_shown_as_text_and_cut():
    html = render(EXAMPLES["hostile"]())
    page = Page(html)
    assert len([tag for tag, _, _ in page.elements if tag == "script"]) == 5
    assert not [tag for tag, _, _ in page.elements if tag == "img"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert len(without_plotly(html)) < 1_200_000
    assert "<script" not in json.dumps(page.data("figures")["figures"])
    html.encode("utf-8", "strict")


def test_the_command_to_repeat_it_is_on_the_page():
    (shown,) = [
        text for text in texts(Page(render(pair())), "code") if text.startswith("nsysoffload")
    ]
    assert shown == command(pair())


def test_many_limits_are_folded_the_broken_ones_first():
    made = pair()
    limits = tuple(replace(made.gates[0], passed=n != 15) for n in range(20))
    page = Page(render(replace(made, gates=limits)))
    assert "12 more limits" in texts(page, "summary")
    classes = [given["class"] for tag, given, _ in page.elements if tag == "li" and
               given.get("class") in ("kept", "missed")]  # fmt: skip
    assert classes == ["missed"] + ["kept"] * 19


@pytest.mark.parametrize(("runs", "operations"), [(1, 20_000), (40, 400), (150, 100)])
def test_a_page_stays_below_3_megabytes_for_any_number_of_runs_and_transfers(runs, operations):
    made = large(runs, operations)
    html = render(made)
    assert len(html.encode()) <= MAX_BYTES
    page = Page(html)
    data = json.loads(json_report.render(made))
    for given, text in figures_of(page):
        assert (value_at(data, given["data-path"]) is None) == (text == "–")
    assert "its long lists cut" in html
    assert "more are in the JSON report" in html


def test_a_page_stays_below_3_megabytes_whatever_the_traces_hold():
    first, second = (
        replace(made, window=replace(made.window, steps_found_by="train_step"))
        for made in (crowded(100_000, 40_000), crowded(120_000, 30_000))
    )
    html = render(compare({"a": first, "b": replace(second, memory=RUN_MEMORY)}))
    assert len(html.encode()) <= MAX_BYTES
    lanes = Page(html).data("lanes")["lanes"]
    assert [lane["device"] for lane in lanes] == [0] * 4 + [1] * 4
    assert "zooming in splits them" in html


def test_steps_of_different_sizes_have_no_account_and_say_so():
    made = pair()
    apart = replace(made.pairs[0], account=None, step=replace(made.pairs[0].step, per_token=True))
    html = render(replace(made, pairs=(apart,)))
    assert "The steps are not of one size" in html
    assert "per token" in html
    assert len(STEADY) == made.base.steps
