"""What the texts of causes say is what the rules do, and what they name is there."""

import os
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from nsysoffload.diagnosis import (
    diagnose,
    pageable_memory,
    queueing,
    remote_numa,
    same_stream,
    small_copies,
    staging_gaps,
    transfer_bound,
)
from nsysoffload.diagnosis.explanations import EXPLANATIONS, explained
from nsysoffload.errors import UsageError
from nsysoffload.overlap import contention, stalls
from nsysoffload.report import findings

DOCS = Path(__file__).parents[2] / "docs"
ADVICE = " ".join(explanation.advice_xla for explanation in EXPLANATIONS.values())

each_cause = pytest.mark.parametrize("cause", EXPLANATIONS)


def thresholds(cause: str) -> str:
    return "; ".join(f"{what}: {value}" for what, value in EXPLANATIONS[cause].thresholds)


def test_the_owners_come_first_and_in_the_order_in_which_they_claim():
    owners = [cause for cause, explanation in EXPLANATIONS.items() if explanation.owns]
    assert owners == list(diagnose.OWNERS)
    assert list(EXPLANATIONS)[: len(owners)] == owners


@each_cause
def test_a_text_is_whole_sentences(cause):
    told = EXPLANATIONS[cause]
    assert told.cause == cause
    for text in (told.meaning, told.detection, told.advice_xla, told.advice_cuda):
        assert text == " ".join(text.split())
        assert text.endswith(".")
    for short in (told.title, *(part for pair in told.thresholds for part in pair)):
        assert short
        assert not short.endswith(".")
    assert {type(getattr(told, field.name)) for field in fields(told)} <= {str, tuple, type(None)}


def test_a_cause_costs_lost_time_or_excess_time_and_not_both():
    costs = {c.cause: (bool(c.owns), bool(c.excess)) for c in EXPLANATIONS.values()}
    assert (True, True) not in costs.values()
    assert [cause for cause, cost in costs.items() if not any(cost)] == ["kernel_copy"]


@pytest.mark.parametrize(
    ("cause", "part"),
    [
        ("pageable_memory", f"{pageable_memory.MIN_BLOCKED_SHARE:.0%} of the copy"),
        ("same_stream", f"{stalls.PAUSE_NS / 1000:.0f} µs at most"),
        ("small_copies", f"under {small_copies.SMALL_BYTES // 1024} KiB"),
        ("unknown", f"{findings.UNKNOWN_SHARE:.0%} of the step or more"),
        ("staging_gaps", f"{staging_gaps.LINK_SPEED:.0%} of the best"),
        ("staging_gaps", f"of {small_copies.SMALL_BYTES // 1024} KiB or more"),
        ("transfer_bound", f"under {transfer_bound.HIDEABLE_SHARE:.0%} of the exposed"),
        ("issued_too_late", f"start: {stalls.PAUSE_NS / 1000:.0f} µs at most"),
        ("starved", f"under {contention.SLOW:.0%} of"),
        ("starved", f"lone copies: {contention.MIN_TWINS} or more"),
        ("bidirectional_contention", f"under {contention.SLOW:.0%} of"),
        ("bidirectional_contention", f"lone copies: {contention.MIN_TWINS} or more"),
        ("compute_contention", f"{contention.COVERED:.0%} of the kernel's time or more"),
        ("compute_contention", f"without: {contention.LONE:.0%} or less"),
        ("compute_contention", f"{contention.MIN_TWINS} or more"),
        ("compute_contention", f"more than {contention.STRETCHED - 1:.0%}"),
        ("remote_numa", f"{remote_numa.MIN_BYTES >> 20} MiB or more"),
        ("remote_numa", f"under {remote_numa.BELOW:.0%} of the low end"),
    ],
)
def test_a_threshold_in_words_is_that_of_the_rule(cause, part):
    assert re.sub(r"(\d)%", r"\1 %", part) in thresholds(cause)


@pytest.mark.parametrize(
    ("cause", "value"),
    [
        ("same_stream", same_stream.MOSTLY),
        ("queued_behind_copy", queueing.MOSTLY),
        ("shared_copy_stream", queueing.MOSTLY),
        ("starved", contention.MOSTLY),
        ("bidirectional_contention", contention.MOSTLY),
    ],
)
def test_half_in_words_is_half_in_the_rule(cause, value):
    assert ("half or more" in thresholds(cause), value) == (True, 0.5)


def test_all_stands_for_every_cause_and_a_cause_that_is_named_twice_comes_once():
    assert explained(["all"]) == tuple(EXPLANATIONS.values())
    twice = explained(["starved", "unknown", "starved"])
    assert [told.cause for told in twice] == ["starved", "unknown"]


@pytest.mark.parametrize("names", [["isued_to_late"], ["all", "isued_to_late"]])
def test_an_unknown_cause_is_an_error_that_names_the_one_that_was_meant(names):
    with pytest.raises(UsageError, match="'isued_to_late' is not known; did you mean 'issued_too_"):
        explained(names)


def test_no_cause_at_all_is_an_error_that_lists_them():
    with pytest.raises(UsageError, match="Cause '' is not known; choose from: collective_only, "):
        explained([])


def test_the_page_of_causes_says_from_which_share_of_the_step_on_a_cost_is_a_finding():
    share = f"{100 * findings.MIN_SHARE:g} %"
    assert f"at least {share} of the step" in (DOCS / "causes.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("compiler")
def test_every_flag_in_an_advice_is_known_to_xla():
    names = sorted(set(re.findall(r"--xla_\w+", ADVICE)))
    assert len(names) >= 5
    flags = [f"{name}{'=' if 'command_buffer' in name else '=1'}" for name in names]
    environment = os.environ | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("compiler")
def test_every_call_in_an_advice_is_there_in_jax():
    import jax
    from jax.experimental import io_callback

    assert io_callback.__name__ in ADVICE
    names = sorted(set(re.findall(r"\bjax((?:\.[a-z_]+)+)", ADVICE)))
    assert len(names) >= 5
    for name in names:
        found = jax
        for part in name.strip(".").split("."):
            found = getattr(found, part)


@pytest.mark.parametrize("page", ["causes.md", "metrics.md"])
def test_a_page_of_the_documentation_is_up_to_date(page):
    made = runpy.run_path(str(DOCS / "pages.py"))["PAGES"][page]()
    kept = (DOCS / page).read_text(encoding="utf-8")
    assert made == kept, "write it anew with 'make golden' and review the diff"
