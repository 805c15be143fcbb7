import json
from dataclasses import replace

import pytest

from nsysoffload.comparison import markdown, terminal
from nsysoffload.comparison.json import render as to_json
from nsysoffload.comparison.model import OUTCOMES, Account, Difference, Moved, Part
from nsysoffload.comparison.wording import (
    HEADLINES,
    amount,
    change,
    command,
    finding,
    headlines,
    label,
    moved,
    parts,
    row,
    rule,
    step_text,
)
from nsysoffload.comparison.wording import OUTCOMES as WORDS
from nsysoffload.report.metrics import METRICS
from tests.comparison.examples import EXAMPLES, pair, predicted, several
from tests.report.test_markdown import table_of

SLOWER = Difference(0, "step_ms", "ms", 100.0, 104.0, 4.0, 0.04, (3.0, 5.0), True, False)


# --- Figures ---


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        pytest.param("ms", -0.0005, "−500 ns", id="time"),
        pytest.param("%", -12.34, "−12.3 points", id="percentages-change-by-points"),
        pytest.param("GB/s", 3.0, "+3.00 GB/s", id="bandwidth"),
        pytest.param("B", -3e9, "−3.00 GB", id="bytes"),
        pytest.param("", 1234.0, "+1,234", id="count"),
        pytest.param("ms", 0.0, "0 ns", id="no-change-has-no-sign"),
    ],
)
def test_a_change_has_its_sign_and_its_unit(unit, value, text):
    assert change(unit, value) == text


def test_what_cannot_be_told_is_a_dash():
    assert {amount(unit, None) for unit in ("ms", "%", "GB/s", "B", "")} == {"–"}
    assert moved(None) == "–"


def test_every_metric_has_a_name_of_its_own():
    names = [label(metric) for metric in METRICS]
    assert len(set(names)) == len(names)
    assert {*HEADLINES} <= {*METRICS}


def test_every_outcome_has_a_mark_and_words():
    assert tuple(WORDS) == OUTCOMES


# --- Differences ---


def test_a_row_has_the_change_its_share_and_what_it_lies_between():
    shown = row(SLOWER)
    assert (shown.label, shown.base, shown.new) == ("Step time", "100 ms", "104 ms")
    assert (shown.change, shown.between) == ("+4.00 ms (+4.0 %)", "+3.00 ms to +5.00 ms")
    assert (shown.remark, shown.tone) == ("", "bad")


@pytest.mark.parametrize(
    ("changed", "remark", "tone"),
    [
        pytest.param(
            {"noise": (-1.0, 9.0), "beyond_noise": False}, "within noise", "neutral", id="noise"
        ),
        pytest.param(
            {"change": 0.3, "relative": 0.003, "noise": (0.2, 0.4), "beyond_noise": False},
            "under 0.5 %",
            "neutral",
            id="certain-but-small",
        ),
        pytest.param({"beyond_noise": False}, "under 5 %", "neutral", id="small-for-few-steps"),
        pytest.param(
            {"noise": None, "beyond_noise": None}, "too few steps", "neutral", id="one-step"
        ),
        pytest.param(
            {"metric": "lost_ms.host_gap", "noise": None, "beyond_noise": None},
            "",
            "neutral",
            id="of-which-there-is-no-spread",
        ),
        pytest.param(
            {"change": 0.0, "relative": 0.0, "beyond_noise": False, "better": None},
            "",
            "neutral",
            id="no-change",
        ),
        pytest.param(
            {"new": None, "change": None, "noise": None, "null_reason": "new: no step"},
            "new: no step",
            "unknown",
            id="unknown",
        ),
        pytest.param({"better": True}, "", "good", id="better"),
        pytest.param({"better": None}, "", "neutral", id="neither-better-nor-worse"),
    ],
)
def test_a_row_says_why_a_change_is_none(changed, remark, tone):
    shown = row(replace(SLOWER, **changed))
    assert (shown.remark, shown.tone) == (remark, tone)


def test_what_neither_run_has_is_no_headline_and_the_step_comes_first():
    shown = headlines(pair(), 0)
    assert shown[0].metric == "step_ms"
    assert "collective_ms" not in [r.metric for r in shown]
    assert [HEADLINES.index(r.metric) for r in shown] == (
        sorted(HEADLINES.index(r.metric) for r in shown)
    )


# --- Parts, findings, transfers ---


def test_the_parts_end_with_the_step_that_they_add_up_to():
    account = Account(
        base_step=3,
        new_step=4,
        base_ns=12_000_000,
        new_ns=9_500_000,
        parts=(
            Part("recompute", 4_000_000, 0, -4_000_000),
            Part("compute", 8_000_000, 8_000_000, 0),
            Part("stall", 0, 1_500_000, 1_500_000),
            Part("other", 0, 0, 0),
        ),
    )
    assert [(part.label, part.base, part.new, part.change) for part in parts(account)] == [
        ("recompute", "4.00 ms", "0 ns", "−4.00 ms"),
        ("rest of compute", "8.00 ms", "8.00 ms", "0 ns"),
        ("waiting for transfers", "0 ns", "1.50 ms", "+1.50 ms"),
        ("step", "12.0 ms", "9.50 ms", "−2.50 ms"),
    ]


def test_a_finding_costs_nothing_where_it_is_not():
    (found,) = pair().pairs[0].findings
    assert finding(found) == (
        "More bytes than compute can hide, D2H",
        "gained",
        "–",
        "13.0 ms",
        "+13.0 ms",
    )
    gone = replace(found, state="lost", base_ns=13_000_000, new_ns=0, change_ns=-13_000_000)
    assert finding(gone)[1:] == ("lost", "13.0 ms", "–", "−13.0 ms")


def test_what_an_operation_moves_says_what_waits_for_it_if_anything_does():
    side = Moved(2, 10**9, 20_000_000, 15_000_000, 5_000_000)
    assert moved(side) == "1.00 GB in 20.0 ms, 75.0 % hidden, stall 5.00 ms"
    assert moved(replace(side, bytes=None, stall_ns=0)) == "– in 20.0 ms, 75.0 % hidden"
    assert moved(Moved(1, 8, 0, 0, 0)) == "8 B in 0 ns, – hidden"


# --- How it was compared ---


def test_it_is_said_which_steps_were_compared():
    assert step_text(pair(), pair().pairs[0]) == (
        "remat: 5 steps; offload: 5 steps. The parts are of their median steps, 2 and 2, and add up"
        " to the nanosecond."
    )
    other = several().pairs[3]
    assert step_text(several(), other) == "remat: 5 steps; other: no whole step."


def test_a_long_name_leaves_room_for_the_figures():
    named = replace(pair(), base=replace(pair().base, name="x" * 300))
    start = f"{'x' * 30}…{'x' * 29}: 5 steps; offload: 5 steps. The parts are of their median"
    assert step_text(named, named.pairs[0]).startswith(start)


def test_the_rule_is_that_of_the_model_where_times_are_modelled():
    assert "bootstrap" in rule(pair())
    assert "the model's constants" in rule(predicted())


def test_the_command_names_the_runs_and_the_options():
    assert command(pair()) == (
        "nsysoffload compare remat offload --max-regression step_ms=3% --max-regression stall_ms=5"
        " --max-regression recompute_ms=1"
    )


# --- In all outputs ---


@pytest.mark.parametrize("name", ["pair", "predicted", "several", "without_steps"])
def test_all_outputs_have_the_same_figures(name):
    comparison = EXAMPLES[name]()
    best = next((n for n, run in enumerate(comparison.new) if run.best), 0)
    shown = headlines(comparison, best)
    lines = [" ".join(line.split()) for line in terminal.render(comparison).splitlines()]
    heads = ["", comparison.base.name, comparison.new[best].name, "Change"]
    cells = table_of(markdown.render(comparison), heads)
    assert [row[:3] for row in cells] == [[r.label, r.base, r.new] for r in shown]
    found = {
        d["metric"]: d for d in json.loads(to_json(comparison))["differences"] if d["run"] == best
    }
    for r in shown:
        words = f"{r.label} {r.base} {r.new} {r.change}"
        assert any(line.startswith(words) for line in lines), words
        loaded = found[r.metric]
        assert amount(loaded["unit"], loaded["base"]) == r.base
        assert amount(loaded["unit"], loaded["new"]) == r.new
