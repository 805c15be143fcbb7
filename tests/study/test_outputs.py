"""What holds for the outputs of a study: the same figures in all, text as text, and their sizes."""

import json
import re
from dataclasses import replace

import plotly.graph_objects
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from nsysoffload.errors import UsageError
from nsysoffload.report import format as fmt
from nsysoffload.report.page import MAX_BYTES
from nsysoffload.study import html, markdown, terminal, wording
from nsysoffload.study import json as json_report
from nsysoffload.study.study import FORMATS, render, write
from tests.comparison.test_html import agrees, figures_of, texts, value_at
from tests.report.examples import HOSTILE
from tests.report.test_html import Page, without_plotly
from tests.study.examples import EXAMPLES, STUDY, usual


@pytest.fixture(params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]()


def terminal_text(report, width=100):
    return terminal.render(report, Console(width=width, no_color=True))


def cells(page):
    return ["".join(text) for tag, _, text in page.elements if tag in ("td", "th", "data", "abbr")]


# --- The same in all ---


def test_speed_and_memory_of_every_run_stand_in_markdown_and_on_the_page(example):
    text, shown = markdown.render(example), cells(Page(html.render(example)))
    for row in example.rows:
        if row.failed:
            continue
        told = wording.speed(row)
        assert f"| {' | '.join(told)} |" in text
        assert set(told) - {""} <= set(shown)


def test_the_terminal_has_the_expected_step_memory_and_gain_of_every_run(example):
    lines = {" ".join(line.split()) for line in terminal_text(example, width=200).splitlines()}
    for row in example.rows:
        name = f"{row.title} (best)" if row.variant == example.groups[0].best else row.title
        device, host, fits, step, _, _, rate, low, high, gain, _, _ = wording.speed(row)
        told = f"{name} {device} {host} {fits} {step} {rate} {low} to {high} {gain}"
        assert (f"{name} failed" if row.failed else told.removesuffix(" base")) in lines


def test_published_figures_stand_in_every_output(example):
    text, page = markdown.render(example), html.render(example)
    shown = " ".join(terminal_text(example).split())
    for one in example.published:
        for output in (text, page, shown):
            assert wording.published(one) in output
        assert wording.predicted(one) in text
        assert wording.agreement(one) in text
        assert wording.agreement(one) in page
    for output in (text, page):
        assert ("Published and predicted" in output) == bool(example.published)


def test_every_figure_on_the_page_is_the_value_of_the_json_at_its_path(example):
    page = Page(html.render(example))
    data = page.data("study")
    assert data == json.loads(json_report.render(example))
    for given, text in figures_of(page):
        value = value_at(data, given["data-path"])
        if value is None:
            assert (text, given.get("value")) == ("–", None)
            assert given["title"]
        else:
            assert given["value"] == str(value)
            assert agrees(text.removesuffix(" TFLOP/s"), value), (given, text)


def test_where_the_time_goes_is_in_markdown_and_on_the_page():
    report = usual()
    text, shown = markdown.render(report), cells(Page(html.render(report)))
    (row,) = [row for row in report.rows if row.variant == "offload"]
    told = wording.figures(row)
    assert " | ".join(told[:8]) in text
    assert set(told[:8]) <= set(shown)
    (first, _, _), *_ = wording.lost(row.figures)
    assert told[8].startswith(f"{first} {fmt.duration(max(row.figures.lost.values()))};")
    assert told[8] in text
    assert first in " ".join(texts(Page(html.render(report)), "li"))


# --- The page ---


def test_links_lead_to_sections_or_to_the_reports_of_the_runs(example):
    elements = Page(html.render(example)).elements
    ids = [given["id"] for _, given, _ in elements if "id" in given]
    assert len(ids) == len(set(ids))
    links = [given["href"] for tag, given, _ in elements if tag == "a"]
    inside = {link[1:] for link in links if link.startswith("#")}
    outside = {link for link in links if not link.startswith("#")}
    labels = {given[key] for _, given, _ in elements for key in given if key == "aria-labelledby"}
    assert inside | labels <= set(ids)
    assert outside == {row.report for row in example.rows if row.report}


def test_the_page_loads_nothing(example):
    page = html.render(example)
    for _, given, _ in Page(page).elements:
        assert not {"src", "srcset", "data", "poster", "action"} & given.keys()
        assert not [name for name in given if name.startswith("on")]
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert "url(" not in Page(page).text("style")


def test_charts_are_valid_for_plotly_have_a_place_and_colours_for_the_dark(example):
    page = Page(html.render(example))
    found = page.data("figures")
    for chart in found["figures"].values():
        plotly.graph_objects.Figure(chart)
    places = [given["data-figure"] for _, given, _ in page.elements if "data-figure" in given]
    assert sorted(places) == sorted(found["figures"])
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(found["figures"])))
    assert used <= set(found["themes"]["light"].values())


def test_tables_have_captions_scopes_and_rows_as_wide_as_their_heads(example):
    elements = Page(html.render(example)).elements
    tags = [tag for tag, _, _ in elements]
    assert tags.count("table") == tags.count("caption")
    assert all(given.get("scope") for tag, given, _ in elements if tag == "th")
    widths: list[list[int]] = []
    hanging = 0  # cells of the row before that reach into this one
    for tag, given, _ in elements:
        if tag == "table":
            widths.append([])
        elif tag == "tr":
            widths[-1].append(hanging)
            hanging = 0
        elif tag in ("td", "th"):
            widths[-1][-1] += int(given.get("colspan") or 1)
            hanging += "rowspan" in given
    assert all(len(set(table)) == 1 for table in widths)


def test_the_chart_of_throughput_has_the_runs_their_ranges_and_what_was_published():
    report = usual()
    data = Page(html.render(report)).data("figures")["figures"]["throughput_0"]["data"]
    drawn = {
        x: (x - low, x + high)
        for bars in data[:-1]
        for x, low, high in zip(
            bars["x"], bars["error_x"]["arrayminus"], bars["error_x"]["array"], strict=True
        )
    }
    rates = [row.tflops for row in report.rows if row.tflops]
    assert set(drawn) == {rate.expected for rate in rates}
    for rate in rates:
        assert drawn[rate.expected] == pytest.approx((rate.low, rate.high))
    assert data[-1]["x"] == [700.0, 5000.0]


def test_the_parts_of_a_step_add_up_to_it():
    report = usual()
    chart = Page(html.render(report)).data("figures")["figures"]["parts_0"]
    there = [row for row in report.rows if row.figures]
    for at, row in enumerate(there):
        whole_ns = row.figures.compute_ns + sum(row.figures.lost.values())
        drawn = sum(part["x"][at] for part in chart["data"])
        assert drawn * 1e6 == pytest.approx(whole_ns, abs=1)
        assert whole_ns == pytest.approx(row.step.expected_ns, rel=0.02)


# --- Sizes, hostile text, files ---


def test_outputs_stay_small_and_hostile_text_stays_text():
    report = EXAMPLES["failed"]()
    page = html.render(report)
    assert len([tag for tag, _, _ in Page(page).elements if tag == "script"]) == 5
    assert not [tag for tag, _, _ in Page(page).elements if tag == "img"]
    assert HOSTILE not in without_plotly(page)
    rendered = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(
        markdown.render(report)
    )
    assert "<script" not in rendered
    assert len(page.encode()) < MAX_BYTES


def test_a_study_of_many_runs_fits_page_and_comment():
    report = usual()
    many = replace(report, rows=report.rows * 60, published=report.published * 20)
    assert len(html.render(many).encode()) < MAX_BYTES
    assert len(markdown.render(many)) < 65_536
    assert "more are left out here" in markdown.render(many)


@pytest.mark.parametrize("width", [80, 100])
def test_the_terminal_keeps_its_width(example, width):
    assert max(map(len, terminal_text(example, width).splitlines())) <= width


def test_files_are_written_together_into_the_folder_of_the_study(tmp_path):
    report = usual()
    paths = write(report, tmp_path / "study")
    assert [path.name for path in paths] == ["report.html", "report.md", "report.json"]
    for path, suffix in zip(paths, FORMATS, strict=True):
        assert path.read_text(encoding="utf-8") == render(report, suffix)


def test_an_unknown_format_is_refused():
    with pytest.raises(UsageError, match="^Format 'pdf' is not known; choose from html, md, json"):
        render(usual(), "pdf")


def test_the_command_to_repeat_it_is_told():
    assert wording.command(usual()) == f"nsysoffload study {STUDY.name} --batch 8"
    assert wording.command(usual()) in markdown.render(usual())
