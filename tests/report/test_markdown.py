import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from nsysoffload.report import format as fmt
from nsysoffload.report.cards import cards
from nsysoffload.report.gfm import code, prose, table
from nsysoffload.report.json import to_dict
from nsysoffload.report.markdown import LIMIT, render
from nsysoffload.report.model import Copy, Kernel, Rank, Report, Warning_
from tests.report.examples import (
    EXAMPLES,
    HOSTILE,
    eight_devices,
    hostile,
    one_device,
    ranks,
    stepped,
)

GITHUB = MarkdownIt("commonmark", {"html": True}).enable("table")
GITHUBS_LIMIT = 65_536

awkward = st.text("|`\\*_[]<>@#&$~ \n\r\x1b\u202e🚀aw.:/1-", max_size=200)


def inline_text(token: Token) -> str:
    """What a reader sees of an inline token."""
    return "".join(t.content for t in token.children or () if t.type in ("text", "code_inline"))


def tables(text: str) -> list[list[list[str]]]:
    """Cells of all tables as a reader sees them, heads included."""
    found: list[list[list[str]]] = []
    tokens = GITHUB.parse(text)
    for token, inner in itertools.pairwise(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            found[-1][-1].append(inline_text(inner))
    return found


def raw_columns(text: str) -> list[list[int]]:
    """Number of cells of each row of each table, as they are written: renderers pad and cut."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in block.splitlines()] for block in blocks
    ]


def table_of(text: str, first_head: list[str]) -> list[list[str]]:
    (found,) = [rows for rows in tables(text) if rows[0][: len(first_head)] == first_head]
    return found[1:]


def visible(text: str) -> list[Token]:
    """All inline children of the document, those of code spans included."""
    return [child for token in GITHUB.parse(text) for child in token.children or ()]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_row_has_as_many_cells_as_its_head(name):
    text = render(EXAMPLES[name]())
    assert len(tables(text)) == len(raw_columns(text)) >= 3
    for columns, rows in zip(raw_columns(text), tables(text), strict=True):
        assert len(rows) >= 2
        assert {*columns} == {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_can_be_encoded_is_short_and_has_no_control_characters(name):
    text = render(EXAMPLES[name]())
    assert len(text.encode().decode()) <= LIMIT < GITHUBS_LIMIT
    assert text.replace("\n", "").isprintable()
    assert text.endswith("\n") and not text.endswith("\n\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_transfers_are_those_of_the_json(name):
    report = EXAMPLES[name]()
    parts = [device["trace"] for device in to_dict(report)["devices"]]
    parts += [to_dict(report)["total"]] if len(parts) > 1 else []
    shown = table_of(render(report), ["GPU", "Direction"] + ["Copies"])
    assert len(shown) == 3 * len(parts)
    for part, rows in zip(parts, zip(*[iter(shown)] * 3, strict=True), strict=True):
        assert [row[1] for row in rows] == ["H2D", "D2H", "both"]
        for key, row in zip(("h2d", "d2h", "both"), rows, strict=True):
            assert row[2:4] == cells_of_amount(part[key])
            assert row[4:9] == cells_of_time(part[key])
            assert row[9:12] == cells_of_speed(part[key])


def test_the_transfers_of_a_step_are_those_of_the_json():
    devices = to_dict(stepped())["devices"]
    rows = table_of(render(stepped()), ["GPU", "Per step"])
    for device, shown in zip(devices, zip(*[iter(rows)] * 3, strict=True), strict=True):
        step = device["per_step"]
        for key, row in zip(("h2d", "d2h"), shown[:2], strict=True):
            way = step[key]
            speed = fmt.bandwidth(way["gbps"])
            held = [fmt.duration(way[name]) for name in ("stall_ns", "hideable_ns")]
            assert row[2:] == [*cells_of_amount(way), *cells_of_time(way)[:4], speed, *held]
        held = [fmt.duration(step[name]) for name in ("stall_ns", "hideable_ns")]
        assert shown[2][4:] == [*cells_of_time(step["both"])[:4], "", *held]


def cells_of_amount(way: dict[str, Any]) -> list[str]:
    return [fmt.count(way["copies"]), fmt.size(way["bytes"])] if "copies" in way else ["", ""]


def cells_of_time(way: dict[str, Any]) -> list[str]:
    names = ("busy_ns", "hidden_ns", "exposed_ns")
    collectives = fmt.duration(way["hidden_by_collectives_ns"])
    return [*(fmt.duration(way[n]) for n in names), fmt.share(way["overlap"]), collectives]


def cells_of_speed(way: dict[str, Any]) -> list[str]:
    names = ("gbps", "burst_gbps", "lone_gbps")
    return [fmt.bandwidth(way[n]) for n in names] if "gbps" in way else ["", "", ""]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_cards_are_those_of_all_outputs(name):
    report = EXAMPLES[name]()
    found = cards(report)
    values, notes = table_of(render(report), [card.title for card in found])
    assert values == ["".join(map(str, card.value)) for card in found]
    assert notes == ["".join(map(str, card.note)) for card in found] or name == "hostile"


def test_the_first_screen_is_verdict_limits_cards_and_what_to_change():
    assert render(stepped()).splitlines()[:20] == [
        "## Host transfers in `step.sqlite`",
        "",
        "> **Transfers hide only partly behind compute: 61.1 % of 48.1 ms of transfer time per step"
        " is hidden on GPU 0, the slowest of 2; compute waits 18.9 ms for them, 9.5 % of the"
        " 198 ms step. First: copies are issued too late, 17.2 ms per step"
        r" (issued\_too\_late, H2D).**",
        "",
        "- **Failed: overlap 61.1 % is under 80 %.**",
        r"- Passed: stall\_ms 18.9 ms is not over 20 ms.",
        "- **Failed: gbps.d2h is unknown, and must not be under 100 GB/s:"
        " the trace has no sizes.**",
        "",
        "| Step time | Overlap | Stall per step | Exposed per step | H2D bandwidth"
        " | D2H bandwidth | Bytes per step | Best step |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
        "| **198 ms** | **61.1 %** | **18.9 ms** | **18.7 ms** | **151 GB/s** | **181 GB/s**"
        " | **4.80 GB / 4.80 GB** | **184 ms** |",
        "| GPU 0, the slowest of 2; median of 5 steps, 1 of them far off"
        " | 29.4 ms of 48.1 ms hidden | compute waits for transfers: 9.5 % of the step"
        " | 500 µs of it behind collectives | NVLink-C2C: 370–420 GB/s measured elsewhere"
        " | NVLink-C2C: 270–300 GB/s measured elsewhere | H2D and D2H, in 48 and 48 copies"
        " | 14.2 ms of stall could be hidden |",
        "",
        "### What to change first",
        "",
        "1. **Copies are issued too late** (`issued_too_late`): 17.2 ms lost per step, 8.7 % of the"
        " step. GPU 0, H2D, copy-start.3. Prefetch one layer earlier.",
        "2. **Copies starve under kernels** (`starved`): 2.40 ms longer than alone per step."
        " GPU 0, D2H, copy-start.9. Move the copy under a matrix product.",
        "3. **Copies queue behind another copy** (`queued_behind_copy`): 1.70 ms lost per step,"
        " 0.9 % of the step; 300 µs longer than alone per step. GPU 0. Issue small copies first.",
        "",
        "> [!WARNING]",
    ]


def test_lost_time_by_cause_adds_up_to_the_median_step():
    rows = table_of(render(stepped()), ["Lost time of GPU 0 by cause"])
    assert [row[:2] for row in rows] == [
        ["Copies are issued too late issued_too_late", "17.2 ms"],
        ["Only collectives run collective_only", "5.00 ms"],
        ["The host launches too late host_gap", "2.00 ms"],
        ["Copies queue behind another copy queued_behind_copy", "1.70 ms"],
        ["Not explained unknown", "300 µs"],
        ["Adds up to lost time", "26.2 ms"],
        ["and compute", "172 ms"],
        ["is the whole step", "198 ms"],
    ]


def test_steps_savings_operations_and_slowed_kernels_have_their_tables():
    text = render(stepped())
    steps = table_of(text, ["Step", "Start"])
    assert [row[0] for row in steps] == ["3", "4", "5, median", "6, far off", "7"]
    assert steps[4][3] == "–"
    assert table_of(text, ["What if"])[3] == (
        ["pinned host memory", "All host memory is pinned already.", "–"]
    )
    assert table_of(text, ["Operation"])[0] == (
        ["copy-start.3", "0", "H2D", "backward", "16", "32", "3.20 GB"]
        + ["25.6 ms", "13.6 ms", "8.80 ms"]
    )
    assert table_of(text, ["Kernel", "GPU"])[0] == (
        ["gemm_0", "0", "1.00 ms", "12", "1.20 ms", "34", "6.80 ms"]
    )
    assert "Steps were found as runs of the XLA module with the most GPU time; 2 were" in text


def test_the_window_is_not_called_a_step():
    text = render(replace(one_device(), findings=stepped().findings))
    assert "per step" not in text
    assert "17.2 ms lost in the window" in text
    assert "No training step was found: the whole window counts as one." in text


def test_rows_that_stand_for_themselves_are_shown_as_they_are():
    text = render(one_device())
    assert table_of(text, ["GPU", "Direction", "Host memory"])[1] == (
        ["0", "D2H", "pinned", "2", "14", "1.006000 s", "12.0 ms", "51.7 MB", "1.00 ms", "1.00 ms"]
        + ["25.8 GB/s"]
    )
    assert table_of(text, ["Kernel"])[2] == (
        ["dynamic_update_slice_fusion", "compute, copy-like", "34", "5.00 ms"]
    )
    assert table_of(text, ["Direction", "Up to"])[0] == (
        ["H2D", "64 KiB", "48", "98.8 MB", "2.47 ms", "2.50 GB/s", "3.25 GB/s"]
    )
    assert table_of(text, ["GPU", "Name"])[0] == (
        ["0", "NVIDIA GH200 480GB", "NVLink-C2C", "3", "100 ms", "1,234", "75.0 ms", "5.00 ms"]
        + ["123 µs", "9.88 ms", "3.00 ms"]
    )


def test_ranks_are_listed_in_the_order_of_the_report():
    rows = table_of(render(ranks()), ["Trace"])
    assert [row[0] for row in rows] == [f"rank{i}.sqlite" for i in range(4)]
    assert rows[3][1:] == [
        "97.0 ms",
        "–",
        "–",
        "1",
        "1,234",
        "75.0 ms",
        "44.0 ms",
        "7.81 ms",
        "–",
        "3",
    ]


def test_an_unknown_overlap_is_a_dash_and_its_reason_stands_below():
    text = render(EXAMPLES["cannot_tell"]())
    assert table_of(text, ["GPU", "Direction", "Copies"])[0][7] == "–"
    assert "- Overlap unknown for GPU 0 H2D: the trace has no kernel table." in text
    assert "GPU 1 D2H (1.25 ms undetermined): CUDA graphs were traced as a whole." in text


def test_unified_memory_is_counted_apart():
    assert "counted apart: H2D 7 migrations (459 kB), D2H none." in render(one_device())


def test_only_a_prediction_says_that_it_is_one():
    measured = one_device()
    predicted = replace(measured, trace=replace(measured.trace, kind="predicted"))
    assert "Predicted, not measured" in render(predicted)
    assert "Predicted, not measured" not in render(measured)


def test_fifteen_kernels_are_shown_and_the_others_counted():
    kernels = tuple(Kernel(f"k{i}", "compute", 1, 100 - i, copy_like=False) for i in range(20))
    text = render(replace(one_device(), kernels=kernels))
    assert [row[0] for row in table_of(text, ["Kernel"])] == [f"k{i}" for i in range(15)]
    assert "*Names with less time, not shown: 5.*" in text


def test_a_hostile_name_leaves_no_mark_on_the_page():
    tokens = GITHUB.parse(render(hostile()))
    children = [child for token in tokens for child in token.children or ()]
    html = {t.content for t in [*tokens, *children] if t.type.startswith("html")}
    folds = {"<details>", "</details>", "<summary>", "</summary>"}
    assert {tag for text in html for tag in re.findall(r"<.*?>", text)} == {"<br>", *folds}
    assert {t.type for t in children} <= (
        {"text", "softbreak", "code_inline", "html_inline", "text_special"}
        | {"strong_open", "strong_close", "em_open", "em_close"}
    )
    headings = [text for kind, text in itertools.pairwise(tokens) if kind.type == "heading_open"]
    assert [inline_text(text) for text in headings][1:] == (
        ["What to change first", "Where the time goes", "Transfers in the whole window", "GPUs"]
        + ["Ranks", "How it was predicted", "How it was measured"]
    )


def test_outside_of_code_nobody_is_mentioned_and_nothing_is_referred_to():
    texts = [t.content for t in visible(render(hostile())) if t.type == "text"]
    assert any("@" in text for text in texts)
    for pattern in (r"@\w", r"#\d", r"GH-\d", r"://", r"www\."):
        assert not [text for text in texts if re.search(pattern, text, re.IGNORECASE)]


@given(awkward)
def test_a_name_is_one_code_span_that_reads_as_the_name(text):
    (paragraph,) = [t for t in GITHUB.parse(f"a {code(text, 300)} b") if t.type == "inline"]
    spans = [t for t in paragraph.children or () if t.type == "code_inline"]
    assert [t.content for t in spans] == ([fmt.plain(text)] if fmt.plain(text) else [])


@given(st.lists(st.lists(awkward, min_size=2, max_size=2), min_size=1, max_size=3))
def test_a_name_in_a_table_stays_in_its_cell(names):
    rows = [[code(a, 300), prose(b)] for a, b in names]
    text = table("", ["a", "b"], [], rows).text(3)
    shown = [[cell.replace("\u200b", "") for cell in row] for row in tables(text)[0][1:]]
    assert shown == [[fmt.plain(a) or "–", fmt.plain(b)] for a, b in names]


@given(awkward)
def test_a_sentence_reads_as_it_is(text):
    tokens = [t for t in GITHUB.parse(f"> x {prose(text)} x") if t.type == "inline"]
    seen = inline_text(tokens[0]).replace("\u200b", "")
    assert " ".join(seen.split()) == " ".join(f"x {fmt.plain(text)} x".split())


def huge(devices: int, ranks: int, warnings: int, copies: int, kernels: int, text: str) -> Report:
    """A report with lists of these lengths, all of whose names are the text."""
    small = eight_devices()
    gpus = tuple(
        replace(
            small.devices[i % 8],
            id=str(i),
            ordinal=i,
            name=text,
            link=replace(one_device().devices[0].link, name=f"{i}{text}", source=text),
        )
        for i in range(devices)
    )
    copy: Copy = replace(small.worst_copies[0], device="0")
    rank = Rank(text, 1, 1, 1, 1, 1, 1, None, text, 0)
    return replace(
        hostile(len(text)),
        verdict=replace(small.verdict, text=text),
        devices=gpus,
        total=small.total,
        worst_copies=(copy,) * copies,
        kernels=(replace(small.kernels[0], name=text),) * kernels,
        ranks=(rank,) * ranks,
        trace=replace(small.trace, file=text, warnings=(Warning_("code", text),) * warnings),
        window=replace(small.window, source=text),
        tool=replace(small.tool, options={text: [text] * 20}),
    )


@settings(max_examples=15)
@given(
    st.integers(1, 300),
    st.integers(0, 500),
    st.integers(0, 300),
    st.integers(0, 500),
    st.integers(0, 100),
    st.sampled_from(["@", "`", "\\", "|", "🚀", "a", HOSTILE]),
)
def test_no_report_is_longer_than_a_comment_on_github(
    devices, ranks, warnings, copies, kernels, text
):
    report = huge(devices, ranks, warnings, copies, kernels, (text * 5_000)[:5_000])
    assert len(render(report)) <= LIMIT


def test_a_long_report_loses_rows_of_its_longest_lists_and_says_how_many():
    report = huge(2, 3000, 1, 1000, 4, "name")
    text = render(report)
    shown = {key[0]: len(table_of(text, key)) for key in (["Trace"], ["Kernel", "Taken for"])}
    copies = len(table_of(text, ["GPU", "Direction", "Host memory"]))
    assert LIMIT - 500 < len(text) <= LIMIT
    assert shown["Trace"] == copies and 200 < copies < 1000
    assert (shown["Kernel"], len(table_of(text, ["GPU", "Name"]))) == (4, 2)
    assert f"{3000 - copies:,} more are left out here." in text
    assert f"{1000 - copies:,} more are left out here." in text
    assert text.count("left out here") == 2


def test_the_sums_over_devices_stay_however_many_devices_there_are():
    rows = table_of(render(huge(2000, 0, 0, 0, 0, "x" * 80)), ["GPU", "Direction", "Copies"])
    assert [row[:2] for row in rows[-3:]] == [["all", "H2D"], ["all", "D2H"], ["all", "both"]]
