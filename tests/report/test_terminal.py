import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from nsysoffload.report import format as fmt
from nsysoffload.report.cards import cards
from nsysoffload.report.json import to_dict
from nsysoffload.report.model import Report
from nsysoffload.report.terminal import render
from tests.report.examples import (
    EXAMPLES,
    direction,
    eight_devices,
    hostile,
    one_device,
    ranks,
    stepped,
)

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def terminal(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system="standard")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """No setting of the machine that runs the tests decides on width or colour."""
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def figures(part: dict[str, Any]) -> list[list[str]]:
    """Words that must be shown for a device or for all: H2D, D2H, both."""
    rows = []
    for key, name in (("h2d", "H2D"), ("d2h", "D2H"), ("both", "both")):
        way = part[key]
        amount = [fmt.count(way["copies"]), fmt.size(way["bytes"])] if key != "both" else []
        times = [fmt.duration(way[n]) for n in ("busy_ns", "hidden_ns", "exposed_ns")]
        gbps = [way["gbps"], way["burst_gbps"]] if key != "both" else []
        speeds = [fmt.bandwidth(speed).removesuffix(" GB/s") for speed in gbps]
        cells = [name, *amount, *times, fmt.share(way["overlap"]), *speeds]
        rows.append(" ".join(cells).split())
    return rows


def transfer_rows(text: str) -> list[list[str]]:
    """Words of the rows of the table of transfers, from the direction on."""
    rows = re.findall(r"^.{0,14}?\b((?:H2D|D2H|both) +[\d–].*)$", text, re.MULTILINE)
    return [row.split() for row in rows]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_transfers_are_those_of_the_json(name):
    report = EXAMPLES[name]()
    parts = [device["trace"] for device in to_dict(report)["devices"]]
    parts += [to_dict(report)["total"]] if len(parts) > 1 else []
    expected = [row for part in parts for row in figures(part)]
    shown = transfer_rows(render(report))
    assert [row[: len(want)] for row, want in zip(shown, expected, strict=True)] == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_80_columns_or_ends_in_a_space(name):
    for line in render(EXAMPLES[name]()).splitlines():
        assert cell_len(line) <= 80
        assert line == line.rstrip()


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_a_terminal_it_is_plain_text_that_can_be_encoded(name):
    text = render(EXAMPLES[name]())
    assert text.replace("\n", "").isprintable()
    assert text.encode().endswith(b"\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_colours_do_not_change_the_text(name):
    report = EXAMPLES[name]()
    coloured = render(report, terminal())
    assert "\x1b[1" in coloured
    assert [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()] == (
        render(report).splitlines()
    )


def test_no_color_is_respected(monkeypatch):
    assert "\x1b[1;33m" in render(one_device(), terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    text = render(one_device(), terminal())
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text)


def test_the_summary_of_one_device_reads_well():
    assert (
        render(one_device())
        == """\
82.3 % of the transfer time is hidden behind compute.
step.sqlite, window (recorded): 1.000000 s to 1.100000 s

Window          100 ms             no step marker was found
Overlap         82.3 %             36.2 ms of 44.0 ms hidden
Stall           7.81 ms            compute waits for transfers
Exposed         7.81 ms            1.23 ms of it behind collectives
H2D bandwidth   364 GB/s           NVLink-C2C: 370–420 GB/s measured elsewhere
D2H bandwidth   262 GB/s           NVLink-C2C: 270–300 GB/s measured elsewhere
Bytes           9.88 GB / 6.44 GB  H2D and D2H, in 96 and 64 copies
Transfers busy  44.0 ms            both directions at once for 3.00 ms

No training step was found: the whole window counts as one.
GPU Steps Duration Compute    Lost   Stall Hideable Exposed    Best
0       1   100 ms 75.0 ms 25.0 ms 7.81 ms  5.85 ms 7.81 ms 94.1 ms

GPU Name        Link       Kernels Window Compute   Coll.    Idle
0   GH200 480GB NVLink-C2C   1,234 100 ms 75.0 ms 5.00 ms 9.88 ms

GPU      Copies   Bytes    Busy  Hidden Exposed Overlap GB/s burst    link
0   H2D      96 9.88 GB 24.7 ms 20.6 ms 4.10 ms  83.4 %  364   350 370–420
    D2H      64 6.44 GB 22.3 ms 18.6 ms 3.71 ms  83.4 %  262   252 270–300
    both                44.0 ms 36.2 ms 7.81 ms  82.3 %
Unified memory on GPU 0, counted apart: H2D 7 migrations (459 kB), D2H none.
"""
    )


def test_the_summary_of_steps_leads_to_what_to_change():
    lines = render(stepped()).splitlines()
    assert lines[4:7] == [
        "Failed: overlap 61.1 % is under 80 %.",
        "Passed: stall_ms 18.9 ms is not over 20 ms.",
        "Failed: gbps.d2h is unknown, and must not be under 100 GB/s: the trace has no",
    ]
    first = lines.index("What to change first")
    assert lines[first + 1 : first + 4] == [
        "1. Copies are issued too late: 17.2 ms lost per step, 8.7 % of the step",
        "   GPU 0, H2D, copy-start.3 (issued_too_late)",
        "   Prefetch one layer earlier.",
    ]
    assert "Further findings in the report: 1." in lines


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_cards_are_those_of_all_outputs(name):
    report = EXAMPLES[name]()
    text = render(report)
    for card in cards(report):
        value = "".join(map(str, card.value))
        assert re.search(rf"^ *{re.escape(card.title)} +{re.escape(value)}", text, re.MULTILINE)


def test_ranks_are_listed_in_the_order_of_the_report():
    lines = render(ranks()).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("Trace"))
    assert [line.split()[0] for line in lines[start + 1 :]] == [f"rank{i}.sqlite" for i in range(4)]
    assert lines[-1].split() == ["rank3.sqlite", "97.0", "ms", "–", "–"] + (
        ["75.0", "ms", "44.0", "ms", "7.81", "ms", "–"]
    )


def test_the_widest_figures_still_fit_on_a_line():
    def widest(report: Report) -> Report:
        way = replace(
            direction(1_234_567, 999_000_000, 999_000_000_000, 998_999_999_999),
            gbps=0.00012,
            burst_gbps=0.0123,
        )
        trace = replace(report.devices[0].trace, h2d=way, d2h=way, kernels=12_345_678)
        link = replace(report.devices[0].link, h2d_gbps=(12.5, 25.5), d2h_gbps=(12.5, 25.5))
        name = "NVIDIA GeForce RTX 5070 Ti Laptop GPU"
        gpu = replace(report.devices[0], name=name, link=link, trace=trace)
        twin = replace(gpu, id="twin", pid=1_234_567)
        return replace(report, devices=(gpu, twin))

    text = render(widest(one_device()))
    assert max(map(cell_len, text.splitlines())) <= 80
    row = "D2H 1,234,567 999 MB 999 s 999 s 1 ns >99.9 % <0.001 0.0123 12.5–25.5"
    assert [" ".join(words) for words in transfer_rows(text)].count(row) == 2


@pytest.mark.parametrize("width", [20, 80, 100, 300])
def test_standard_output_of_any_width_gets_lines_of_80_to_100_columns(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    report = replace(one_device(), verdict=replace(one_device().verdict, text="word " * 60))
    longest = max(len(line) for line in render(report).splitlines())
    assert 70 < longest <= min(max(width, 80), 100)


def test_only_a_prediction_says_that_it_is_one():
    assert "Predicted, not measured" in render(hostile())
    assert "Predicted, not measured" not in render(eight_devices())


def test_markup_in_names_is_shown_and_not_obeyed():
    text = render(hostile())
    assert "[red]rich[/red] [/]" in " ".join(text.split())
    assert render(hostile(), terminal()).count("\x1b[31m") == 0


def test_warnings_are_left_to_standard_error():
    report = one_device()
    without = replace(report, trace=replace(report.trace, warnings=()))
    assert report.trace.warnings
    assert render(report) == render(without)
