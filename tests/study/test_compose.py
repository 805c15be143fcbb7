"""What the report of a study says, recomputed from the predictions that it is made of."""

import pytest

from nsysoffload.comparison.tradeoff import points
from nsysoffload.hardware import TARGETS
from tests.study.examples import KEY, STUDY, alone, analysed, cut, failed, unlike, usual
from workloads.config import MODELS, parameters
from workloads.flops import published_flops

GB = 10**9


def row(report, variant):
    (found,) = [row for row in report.rows if row.variant == variant]
    return found


def test_throughput_is_the_published_operations_over_time_and_devices():
    found, step = row(usual(), "remat"), analysed("remat").prediction.step
    flops = published_flops(MODELS["llama3.2-1b"], 8, 4096).total
    for rate, time_ns in (
        (found.tflops.low, step.high_ns),
        (found.tflops.expected, step.expected_ns),
        (found.tflops.high, step.low_ns),
    ):
        assert rate == pytest.approx(flops / 8 / (time_ns / 1e9) / 1e12)
    assert found.step == step


def test_a_gain_is_told_with_the_same_constants_for_both():
    base, run = (analysed(v).prediction.corners for v in ("remat", "offload"))
    gains = [b.step_ns / r.step_ns - 1 for b, r in zip(base, run, strict=True)]
    found = row(usual(), "offload").gain
    assert [found.low, found.expected, found.high] == pytest.approx(
        [min(gains), gains[0], max(gains)]
    )
    assert found.order == "cannot_tell" if min(gains) < 0 < max(gains) else "slower"
    assert row(usual(), "remat").gain is None
    assert alone().rows[0].gain is None


def test_figures_are_those_of_the_run_s_own_report():
    report = analysed("offload")
    (device,) = report.devices
    step, found = device.per_step, row(usual(), "offload").figures
    assert (found.overlap, found.exposed_ns) == (step.both.overlap, step.both.exposed_ns)
    assert (found.stall_ns, found.lost) == (step.stall_ns, step.lost)
    assert found.collectives_alone_ns == step.lost["collective_only"]
    assert found.recompute_share == step.phases["recompute"] / step.compute_busy_ns
    assert (found.h2d_bytes, found.d2h_bytes) == (step.h2d.bytes, step.d2h.bytes)
    assert row(usual(), "offload").finding.message == report.findings[0].message


def test_memory_is_the_compiler_s_and_the_host_s_that_of_the_usual_machine():
    memory, need = analysed("offload").memory, row(usual(), "offload").need
    assert (need.device_bytes, need.host_bytes) == (memory.device_bytes, memory.host_bytes)
    assert need.host_limit_bytes == TARGETS["gb200"].host_memory_bytes
    assert need.fits_device
    assert need.fits_host
    assert (need.environment, need.flags) == ((), ())


@pytest.mark.parametrize(
    ("memory", "fits", "environment"),
    [
        ({"device_bytes": 160 * GB}, (True, True), ("XLA_PYTHON_CLIENT_MEM_FRACTION=0.81",)),
        ({"device_bytes": 200 * GB}, (False, True), ()),
        ({"host_bytes": 200 * GB}, (True, True), ("XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB=187",)),
        ({"host_bytes": 326 * GB}, (True, False), ("XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB=304",)),
    ],
)
def test_what_a_run_takes_beyond_jax_s_defaults_is_named(memory, fits, environment):
    need = row(unlike(**memory), "offload").need
    assert (need.fits_device, need.fits_host) == fits
    assert need.environment == environment


def test_the_best_run_of_a_group_is_the_fastest_that_fits_on_device_and_host():
    (group,) = usual().groups
    step = {v: analysed(v).prediction.step.expected_ns for v in ("remat", "offload")}
    assert group.best == min(step, key=step.__getitem__)
    (group,) = unlike(host_bytes=300 * GB).groups
    assert (group.best, group.policy, group.policy_note) == ("remat", "offload", "it does not tell")
    (group,) = failed().groups
    assert group.best is None


def test_a_group_counts_parameters_and_operations():
    (group,) = usual().groups
    counted = parameters(MODELS["llama3.2-1b"])
    assert (group.parameters, group.active_parameters) == (counted.total, counted.active)
    work = published_flops(MODELS["llama3.2-1b"], 8, 4096)
    assert (group.weight_flops, group.attention_flops) == (work.weights, work.attention)
    assert group.tokens == 8 * 4096
    (short,) = cut().groups
    assert short.parameters < group.parameters


def test_the_plot_of_time_against_memory_crosses_out_what_the_host_cannot_hold():
    kinds = {p.run.name: p.kind for p in points(unlike(host_bytes=300 * GB).comparisons[KEY])}
    assert kinds == {"rematerialise": "both", "offload all": "unfit", "best subset": "unfit"}
    assert alone().comparisons == {}


def test_a_run_that_failed_says_why_and_has_no_figures():
    found = row(usual(), "none")
    assert found.failed == "It was not compiled; compile it."
    assert (found.step, found.tflops, found.figures, found.fits) == (None, None, None, False)


def test_published_figures_are_held_against_runs_unless_the_models_are_cut():
    answers = {(one.kind, one.variant): one.agrees for one in usual().published}
    rate = row(usual(), "remat").tflops
    assert answers["tflops", "remat"] is (rate.low <= 700 <= rate.high)
    assert answers["tflops", "offload"] is False
    assert answers["fits", "offload"] is True
    assert answers["fits", "none"] is None
    assert len(usual().published) == len(STUDY.statements)
    assert cut().published == ()
    assert "cut to 2 layers" in cut().notes[0]
