"""Findings, gates and the parts of a step in words."""

from dataclasses import replace

import pytest

from nsysoffload.report.model import Gate
from nsysoffload.report.wording import PARTS, drawn, firsts, gate, parts_ns, told
from tests.report.examples import EXAMPLES, FINDINGS, no_whole_step, one_device, stepped


def test_a_finding_is_told_with_its_place_cost_and_evidence():
    first, second, third, *_, note = told(stepped())
    assert (first.title, first.where) == ("Copies are issued too late", "GPU 0, H2D, copy-start.3")
    assert "".join(map(str, first.cost)) == "17.2 ms lost per step, 8.7 % of the step"
    assert [(name, "".join(map(str, value))) for name, value in first.numbers] == [
        ("copies", "32"),
        ("median wait", "540 µs"),
        ("bandwidth", "371 GB/s"),
        ("hidden share", "12.5 %"),
    ]
    ((name, rows),) = first.rows
    assert name == "row ids"
    assert rows.startswith("100, 101, ")
    assert rows.endswith(", 139 and 20 more")
    assert first.spans[0] == (1_436_000_000, 1_440_000_000)
    assert "".join(map(str, second.cost)) == "2.40 ms longer than alone per step"
    assert "".join(map(str, third.cost)) == (
        "1.70 ms lost per step, 0.9 % of the step; 300 µs longer than alone per step"
    )
    assert "".join(map(str, note.cost)) == "costs nothing"
    assert [finding.is_note for finding in told(stepped())] == [False] * 4 + [True]


def test_advice_is_given_once_among_the_first():
    shown = stepped()
    again = replace(FINDINGS[0], device=shown.devices[0].id, direction="d2h")
    found, more = firsts(replace(shown, findings=(shown.findings[0], again, *shown.findings[1:])))
    assert [f.advice for f in found] == (
        ["Prefetch one layer earlier.", "The same change as for 1."]
        + ["Move the copy under a matrix product."]
    )
    assert more == 2


def test_a_finding_of_the_window_is_not_told_per_step():
    shown = one_device()
    finding = replace(FINDINGS[0], device=shown.devices[0].id)
    (said,) = told(replace(shown, findings=(finding,)))
    assert "".join(map(str, said.cost)) == "17.2 ms lost in the window, 17.2 % of the window"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_parts_of_a_step_add_up_to_its_duration(name):
    for device in EXAMPLES[name]().devices:
        for step in device.steps:
            parts = parts_ns(step)
            assert len(parts) == len(PARTS)
            assert min(parts) >= 0
            assert sum(parts) == step.duration_ns


def test_the_timeline_shows_the_median_step_or_without_one_the_window():
    assert drawn(stepped(), stepped().devices[0]) == (1_407_700_000, 1_605_700_000)
    shown = no_whole_step()
    assert drawn(shown, shown.devices[0]) == (shown.window.start_ns, shown.window.end_ns)


def test_a_limit_says_whether_it_is_kept():
    kept = Gate("stall_ms", "over", 20.0, 18.9, passed=True)
    assert gate(kept) == "Passed: stall_ms 18.9 ms is not over 20 ms."
    broken = Gate("overlap", "under", 80.0, None, passed=False, reason="no\nkernels.")
    assert gate(broken) == "Failed: overlap is unknown, and must not be under 80 %: no kernels."
