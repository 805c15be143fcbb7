"""Advice on copies that are issued too late, by what the run had switched on."""

from dataclasses import replace
from pathlib import Path

import pytest

from nsysoffload.report.compose import compose
from nsysoffload.trace.run_folder import RunFolder
from nsysoffload.trace.tables import Source
from tests.examined import everything
from tests.report.examples import PREDICTION, RECORDING
from tests.report.test_findings import steps

PIPELINED = "--xla_gpu_enable_pipelined_host_offloading=true"
LATENCY_HIDING = "--xla_gpu_enable_latency_hiding_scheduler=true"
TWICE = "--xla_gpu_enable_while_loop_double_buffering=true"
PROFILED = "--xla_gpu_pgle_profile_file_or_directory_path=PATH"


def advice(preset, flags, *, xla=True, predicted=False):
    """Return the advice to a run with these flags whose H2D copies stall it."""
    trace = steps(300, 300, xla=xla).build()
    run = RunFolder(recording=replace(RECORDING, xla_preset=preset, xla_flags=flags))
    if predicted:
        said = replace(PREDICTION, preset=preset, flags=flags)
        source = Source(Path("trace.sqlite"), "predicted", "predict", prediction=said)
        trace, run = replace(trace, source=source), RunFolder()
    (finding,) = compose(*everything(trace), None, {}, run).findings
    assert finding.cause == "issued_too_late"
    return finding.advice


@pytest.mark.parametrize("predicted", [False, True])
@pytest.mark.parametrize(
    ("preset", "flags"),
    [
        pytest.param("pipelined", (), id="by its preset"),
        pytest.param("default", (PIPELINED,), id="by its flags"),
    ],
)
def test_where_copies_are_pipelined_a_profile_is_advised(preset, flags, predicted):
    said = advice(preset, flags, predicted=predicted)
    assert said.startswith("Pipelined offloading is on already")
    assert "double_buffering=true (preset" in said
    assert "nsysoffload profile" in said


@pytest.mark.parametrize(
    ("preset", "flags", "xla"),
    [
        pytest.param("default", (), True, id="not pipelined"),
        pytest.param("pipelined", (PIPELINED,), False, id="without XLA's names"),
        pytest.param("pipelined", (PIPELINED, PROFILED), True, id="with a profile already"),
    ],
)
def test_elsewhere_no_profile_is_advised(preset, flags, xla):
    assert "nsysoffload profile" not in advice(preset, flags, xla=xla)


@pytest.mark.parametrize(
    ("preset", "flags"),
    [("pipelined+double-buffering", ()), ("default", (PIPELINED, TWICE))],
)
def test_double_buffering_that_is_on_is_not_advised(preset, flags):
    said = advice(preset, flags)
    assert said.startswith("Pipelined offloading and double buffering are on already")
    assert "nsysoffload profile" in said


@pytest.mark.parametrize(
    ("preset", "flags", "is_on"),
    [
        pytest.param("default", (), False, id="off"),
        pytest.param(None, (), False, id="nothing known"),
        pytest.param("lhs", (), True, id="by its preset"),
        pytest.param("default", (LATENCY_HIDING,), True, id="by its flags"),
    ],
)
def test_a_scheduler_that_is_on_is_not_advised(preset, flags, is_on):
    trace = steps(300, 300, xla=True)
    for number in range(2):
        at, call = 11_000 + 20_000 * number, (100 * number + 3, 100 * number + 4)
        trace.kernel((at, at + 900), "ncclDevKernel_AllReduce", stream=30, call=call)
    run = RunFolder(recording=replace(RECORDING, xla_preset=preset, xla_flags=flags))
    found = compose(*everything(trace.build()), None, {}, run).findings
    said = [finding.advice for finding in found if finding.cause == "collective_only"]
    assert [f"{LATENCY_HIDING} move" in advice for advice in said] == [not is_on]
    assert [advice.startswith("The latency hiding") for advice in said] == [is_on]
