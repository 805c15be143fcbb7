"""Comparisons of predicted runs, whose truth is known: the compiler's schedule, timed by us."""

import json
from dataclasses import replace

import pytest

import nsysoffload
from nsysoffload.comparison.compare import compare
from nsysoffload.recorders.predict.demo import VARIANTS, runs
from nsysoffload.trace.prediction import Corner


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = runs(tmp_path_factory.mktemp("demo"), compiling=False, progress=print, fallen_back=print)
    return {run.variant: run.folder for run in made}


@pytest.fixture(scope="module")
def reports(folders):
    return {variant: nsysoffload.analyze(folders[variant]) for variant in reversed(VARIANTS)}


@pytest.fixture(scope="module")
def comparison(reports):
    return compare(reports)


def manifest(folders, variant):
    return json.loads((folders[variant] / "manifest.json").read_text())


def parts(comparison):
    return {part.name: part for part in comparison.pairs[0].account.parts}


def test_the_parts_add_up_to_the_difference_of_the_steps(comparison):
    account = comparison.pairs[0].account
    assert sum(part.base_ns for part in account.parts) == account.base_ns
    assert sum(part.new_ns for part in account.parts) == account.new_ns
    assert sum(part.change_ns for part in account.parts) == account.new_ns - account.base_ns
    step = comparison.pairs[0].step
    assert (account.base_ns, account.new_ns) == (step.base_ns, step.new_ns)


def test_recompute_is_what_the_schedule_recomputes(comparison, folders):
    recompute = parts(comparison)["recompute"]
    truth = [manifest(folders, v)["phase_ns"]["recompute"] for v in ("remat", "offload")]
    assert [recompute.base_ns, recompute.new_ns] == truth
    assert recompute.change_ns < 0


def test_the_stall_is_that_of_the_run_that_moves_anything(comparison, reports):
    stall = parts(comparison)["stall"]
    assert stall.base_ns == 0
    (device,) = reports["offload"].devices
    median = next(step for step in device.steps if step.index == device.median_step)
    by_row = [s for s in reports["offload"].stalls if s.step == device.median_step]
    assert stall.new_ns == median.stall_ns == sum(s.end_ns - s.start_ns for s in by_row)


def test_the_verdict_names_the_parts_and_the_range_of_the_model(comparison):
    assert comparison.verdict.outcome == "worse"
    text = comparison.verdict.text
    assert text.startswith(
        "Predicted: Offloading loses: offload takes 60.6 ms per step, 48.9 % more"
    )
    assert "(+23.5 % to +84.1 % in the model's range)" in text
    assert "waiting for transfers costs 22.1 ms, recomputing less saves 4.82 ms" in text


def test_the_range_is_of_choices_that_both_runs_share(comparison, folders):
    steps = [
        {corner["name"]: corner["step_ns"] for corner in manifest(folders, variant)["corners"]}
        for variant in ("remat", "offload")
    ]
    changes = [steps[1][name] / steps[0][name] - 1 for name in steps[0]]
    step = comparison.pairs[0].step
    assert (step.low, step.high) == (min(changes), max(changes))
    differing = [(steps[1][name] - steps[0][name]) / 1e6 for name in steps[0]]
    (told,) = [d for d in comparison.differences if d.metric == "step_ms"]
    assert told.noise == pytest.approx((min(differing), max(differing)))


def edited(report, factors, **memory):
    """The report as if its steps took so many times as long, corner by corner."""
    made = report.prediction
    corners = tuple(
        Corner(c.name, round(c.step_ns * factor), c.h2d_exposed_ns, c.d2h_exposed_ns)
        for c, factor in zip(made.corners, factors, strict=True)
    )
    needs = replace(report.memory, **memory)
    return replace(report, prediction=replace(made, corners=corners), memory=needs)


def test_a_ranking_that_turns_around_within_the_range_cannot_be_told(reports):
    remat = reports["remat"]
    factors = [1.02] * len(remat.prediction.corners)
    factors[-1] = 0.97
    found = compare({"remat": remat, "other": edited(remat, factors)}).verdict
    assert found.outcome == "cannot_tell"
    assert "which turns" not in found.text
    assert found.text.endswith("the model's range turns the ranking around.")


def test_equal_predictions_of_different_policies_are_no_difference(reports):
    remat = reports["remat"]
    other = replace(remat, prediction=replace(remat.prediction, variant="dots"))
    assert compare({"remat": remat, "dots": other}).verdict.outcome == "no_difference"
    assert compare({"remat": remat, "again": remat}).verdict.outcome == "identical_input"


def test_a_small_change_of_the_model_counts_where_every_choice_has_it(reports):
    remat = reports["remat"]
    (device,) = remat.devices
    quick = replace(device.per_step, duration_ns=round(0.98 * device.per_step.duration_ns))
    faster = edited(remat, [0.98] * len(remat.prediction.corners))
    faster = replace(faster, devices=(replace(device, per_step=quick),))
    found = compare({"remat": remat, "new": faster}).differences
    assert [(d.beyond_noise, d.better) for d in found if d.metric == "step_ms"] == [(True, True)]


def test_a_run_that_does_not_fit_never_wins(reports):
    remat = reports["remat"]
    quick = [0.5] * len(remat.prediction.corners)
    too_large = remat.memory.device_limit_bytes + 1
    none = edited(remat, quick, device_bytes=too_large)
    none = replace(none, prediction=replace(none.prediction, variant="none"))
    found = compare({"remat": remat, "none": none})
    assert found.verdict.outcome == "worse"
    assert "'none' does not fit (198 GB of 198 GB), remat does." in found.verdict.text
    assert [run.best for run in found.runs] == [True, False]
    assert compare({"none": none, "remat": remat}).verdict.outcome == "better"


def test_runs_predicted_with_other_constants_or_for_other_targets_are_no_pair(reports):
    remat = reports["remat"]
    made = remat.prediction
    slower = replace(made.constants[0], expected=made.constants[0].low)
    for other, code in (
        (replace(made, constants=(slower, *made.constants[1:])), "other_constants"),
        (replace(made, target="gh200"), "other_device"),
        (replace(made, workload=replace(made.workload, seq=8192)), "other_model"),
    ):
        runs = {"a": remat, "b": replace(remat, prediction=other)}
        found = compare(runs).verdict
        assert (found.outcome, [r.code for r in found.reasons]) == ("not_comparable", [code])
        assert compare(runs, anyway=True).pairs[0].step


def test_ranges_of_other_constants_are_not_held_against_each_other(reports):
    remat = reports["remat"]
    made = remat.prediction
    slower = replace(made.constants[0], expected=made.constants[0].low)
    other = replace(made, constants=(slower, *made.constants[1:]))
    found = compare({"a": remat, "b": replace(remat, prediction=other)}, anyway=True)
    assert found.verdict.outcome == "cannot_tell"
    assert found.pairs[0].step.low is None
    assert "no choice in common" in found.verdict.text


def test_other_flags_of_the_compiler_are_said(reports):
    remat, offload = reports["remat"], reports["offload"]
    assert "other_flags" not in {n.code for n in compare(reports).pairs[0].notes}
    flags = (*offload.prediction.flags, "--xla_gpu_x=true")
    other = replace(offload, prediction=replace(offload.prediction, flags=flags))
    (note,) = [
        n
        for n in compare({"remat": remat, "offload": other}).pairs[0].notes
        if n.code == "other_flags"
    ]
    assert "remat has none of its own; offload has --xla_gpu_x=true." in note.text
