"""What a report says of how its run was recorded."""

from dataclasses import replace

import pytest

from nsysoffload.report import html, markdown, terminal
from nsysoffload.report.gates import checked, parse_gates, sentence
from nsysoffload.report.json import to_dict
from nsysoffload.report.model import Numerics, Recording, Report, Warning_
from nsysoffload.report.ranks import ranked
from nsysoffload.report.recorded import numerics_differ, run_warnings, summary
from nsysoffload.report.verdict import unusable
from nsysoffload.trace.run_folder import RunFolder
from nsysoffload.trace.tables import TraceWarning
from tests.report.examples import RECORDING, one_device, recorded, stepped

QUIET = replace(
    RECORDING, left_out=(), rank=None, ranks=None, overhead=0.05, numerics=None, notes=()
)


def lines(**of_recording: object) -> list[str]:
    return summary(replace(one_device(), recording=replace(QUIET, **of_recording)))


def warned(recording: Recording) -> list[Warning_]:
    return list(run_warnings(RunFolder(recording)))


# --- The head ---


def test_the_head_says_which_run_it_is_and_how_much_the_profiler_slowed_it_down():
    assert summary(replace(one_device(), recording=RECORDING)) == [
        "Recorded: variant offload, rank 0 of 8; profiling overhead 30 %: step 100 ms bare, 130 ms"
        " profiled.",
        "Left out, for its nsys does not know them: --discard-environment.",
        "Numerics agree over 3 steps (against remat).",
    ]


@pytest.mark.parametrize(
    ("overhead", "text"),
    [
        (0.3, "30 %"),
        (0.1234, "12.3 %"),
        (-0.004, "-0.4 %"),
        (-0.0001, "0 %"),
        (12.5, "1,250 %"),
    ],
)
def test_an_overhead_is_told_in_percent(overhead, text):
    line = lines(overhead=overhead)[0]
    assert line.startswith(f"Recorded: variant offload; profiling overhead {text}: step 100 ms")


def test_an_overhead_that_is_not_known_says_why():
    reason = "the step was not timed without the profiler"
    assert lines(overhead=None, overhead_null_reason=reason) == [
        f"Recorded: variant offload; profiling overhead unknown: {reason}."
    ]
    assert lines(overhead=None) == ["Recorded: variant offload."]
    assert lines(overhead=None, variant=None) == []
    assert lines(bare_step_ms=None) == ["Recorded: variant offload; profiling overhead 5 %."]


def test_the_memory_of_a_run_is_the_compilers_count_and_its_peak():
    assert summary(recorded())[-1] == (
        "Memory per GPU: 12.0 GB on the device (14.0 GB in use at most), 3.00 GB pinned on the"
        " host."
    )
    memory = replace(recorded().memory, device_peak_bytes=None)
    without = summary(replace(recorded(), memory=memory))[-1]
    assert without == "Memory per GPU: 12.0 GB on the device, 3.00 GB pinned on the host."


def test_without_a_run_folder_nothing_is_said():
    assert summary(stepped()) == []
    assert to_dict(stepped())["recording"] is None


@pytest.mark.parametrize("render", [html.render, markdown.render, terminal.render])
def test_every_output_says_it_above_the_figures(render):
    text = " ".join(render(recorded()).split())
    # Pages begin with their styles, so the last place of a word is looked for.
    head = text.index("profiling overhead 30 %: step 100 ms bare, 130 ms profiled")
    assert text.index("Not to be used: numerics differ from step 1 of 3") < head
    assert head < text.index("Exposed")
    assert "14.0 GB in use at most" in text


def test_the_json_has_the_recording_and_the_memory():
    found = to_dict(recorded())
    assert found["recording"]["overhead"] == 0.3
    assert found["recording"]["numerics"]["against"] == "remat"
    assert found["memory"]["device_peak_bytes"] == 14_000_000_000


# --- Warnings ---


def test_each_note_is_a_warning_once():
    notes = ("it went on.", "It was ended", "It went on.")
    assert warned(replace(QUIET, notes=notes)) == [
        Warning_("capture_note", "It went on."),
        Warning_("capture_note", "It was ended."),
    ]


@pytest.mark.parametrize(("overhead", "codes"), [(0.1, []), (0.101, ["profiling_overhead"])])
def test_an_overhead_over_a_tenth_is_a_warning(overhead, codes):
    assert [w.code for w in warned(replace(QUIET, overhead=overhead))] == codes


def test_a_warning_of_the_run_folder_is_carried_along():
    run = RunFolder(warnings=(TraceWarning("manifest_ignored", "It cannot be read."),))
    assert list(run_warnings(run)) == [Warning_("manifest_ignored", "It cannot be read.")]


# --- Numerics ---

DIFFER = Numerics(False, "remat", "numerics differ from step 2 of 3 (index 1): loss 2.4")


def differing() -> Report:
    shown = one_device()
    warnings = tuple(warned(replace(QUIET, numerics=DIFFER)))
    return replace(shown, trace=replace(shown.trace, warnings=warnings))


def test_a_run_that_computes_something_else_is_not_to_be_used():
    why = numerics_differ(differing())
    assert why == "numerics differ from step 2 of 3 (index 1): loss 2.4 (against remat)"
    verdict = unusable(one_device().verdict, why)
    assert verdict.outcome == "not_usable"
    assert verdict.text == f"Not to be used: {why}. {one_device().verdict.text}"


@pytest.mark.parametrize("agree", [True, None])
def test_a_run_that_agrees_or_was_not_compared_is_fine(agree):
    assert warned(replace(QUIET, numerics=Numerics(agree, "remat", "nothing to compare"))) == []
    assert numerics_differ(one_device()) is None


def test_differing_numerics_fail_as_a_gate_whatever_is_asked():
    (gate,) = checked(differing(), ()).gates
    assert (gate.name, gate.kind, gate.passed) == ("numerics", "check", False)
    assert sentence(gate) == numerics_differ(differing())
    names = [gate.name for gate in checked(differing(), parse_gates([], ["stall_ms=1s"])).gates]
    assert names == ["numerics", "stall_ms"]


def test_ranks_are_not_to_be_used_if_one_of_them_is_not(tmp_path):
    #  rank0 is slower and says nothing; rank1 differs
    slow = stepped()
    paths = [tmp_path / name / "trace.sqlite" for name in ("rank0", "rank1")]
    shown = ranked(paths, [slow, differing()])
    assert shown.trace.file == "rank0/trace.sqlite"
    assert shown.verdict.outcome == "not_usable"
    assert shown.verdict.text.startswith("Not to be used: rank1/trace.sqlite: Numerics differ")
    assert [gate.passed for gate in checked(shown, ()).gates] == [False]


def test_ranks_that_ran_and_are_not_here_are_missed(tmp_path):
    shown = replace(one_device(), recording=replace(QUIET, rank=0, ranks=8))
    found = ranked([tmp_path / "a.sqlite", tmp_path / "b.sqlite"], [shown, shown])
    assert [w.message for w in found.trace.warnings if w.code == "ranks_missing"] == [
        "2 of 8 ranks are in this report; a slower one may be missing."
    ]
    alone = replace(shown, recording=replace(QUIET, rank=0, ranks=2))
    found = ranked([tmp_path / "a.sqlite", tmp_path / "b.sqlite"], [alone, alone])
    assert "ranks_missing" not in [w.code for w in found.trace.warnings]


def test_traces_of_different_policies_are_hardly_ranks_of_one_run(tmp_path):
    remat, offload = (
        replace(one_device(), recording=replace(QUIET, variant=variant))
        for variant in ("remat", "offload")
    )
    paths = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    found = {w.code: w.message for w in ranked(paths, [remat, offload]).trace.warnings}
    assert found["ranks_differ"].startswith("The traces are of offload, remat, and are taken for")
    assert "ranks_differ" not in {w.code for w in ranked(paths, [remat, remat]).trace.warnings}
