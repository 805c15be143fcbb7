from dataclasses import replace

import pytest

from nsysoffload.study.cases import Statement
from nsysoffload.study.model import Gain, Need, Row, Throughput
from nsysoffload.study.published import judged, verdict

KEY = ("m", 1, "v")
ROW = Row(
    *("m", 1, "v", "a run", "offload", "default", "m/b1/v", None, None),
    need=Need(90, 100, True, 40, 50, True, (), ()),
    tflops=Throughput(500.0, 600.0, 700.0),
    gain=Gain("cannot_tell", -0.1, 0.02, 0.05),
)


def said(kind, value=None, fits=None):
    return Statement("m", "v", 1, kind, "it", value, fits)


@pytest.mark.parametrize(
    ("kind", "value", "agrees"),
    [
        pytest.param("tflops", 500.0, True, id="low-end"),
        pytest.param("tflops", 578.3, True, id="inside"),
        pytest.param("tflops", 700.1, False, id="above"),
        pytest.param("gain", -0.11, False, id="below"),
        pytest.param("gain", 0.029, True, id="gain"),
    ],
)
def test_a_figure_agrees_where_it_lies_in_the_range(kind, value, agrees):
    found = judged(said(kind, value), {KEY: ROW})
    assert found.agrees is agrees
    span = ROW.tflops if kind == "tflops" else ROW.gain
    assert (found.low, found.expected, found.high) == (span.low, span.expected, span.high)
    assert found.remark is None


@pytest.mark.parametrize(
    ("device", "host", "remark"),
    [
        (True, True, None),
        (False, True, "the memory of the device is too small for the run"),
        (True, False, "the memory of the host is too small for the run"),
        (False, False, "the memory of the device and the host is too small for the run"),
    ],
)
def test_what_runs_fits_on_device_and_host(device, host, remark):
    row = replace(ROW, need=replace(ROW.need, fits_device=device, fits_host=host))
    runs, fails = (judged(said("fits", fits=fits), {KEY: row}) for fits in (True, False))
    assert runs.predicted_fits is fails.predicted_fits is (device and host)
    assert (runs.agrees, fails.agrees) == (device and host, not (device and host))
    assert runs.remark == remark


@pytest.mark.parametrize("kind", ["tflops", "gain", "fits"])
def test_without_the_run_it_cannot_be_told(kind):
    asked = said(kind, None if kind == "fits" else 1.0, True if kind == "fits" else None)
    missing = judged(asked, {})
    assert (missing.agrees, missing.expected, missing.remark) == (None, None, "it was not run")
    broken = replace(ROW, need=None, tflops=None, gain=None, failed="It failed.")
    assert judged(asked, {KEY: broken}).agrees is None
    assert judged(asked, {KEY: broken}).remark == "It failed."


def test_a_run_that_is_to_offload_and_moves_nothing_to_the_host_is_remarked_on():
    row = replace(ROW, need=replace(ROW.need, host_bytes=0))
    remark = "the run moves nothing to the host"
    assert judged(said("tflops", 600.0), {KEY: row}).remark == remark
    base = Statement("m", "remat", 1, "tflops", "it", 600.0)
    assert judged(base, {("m", 1, "remat"): replace(row, variant="remat")}).remark is None


def test_a_gain_without_a_base_cannot_be_told():
    found = judged(said("gain", 0.5), {KEY: replace(ROW, gain=None)})
    assert (found.agrees, found.remark) == (None, "there is no run to tell the gain against")


@pytest.mark.parametrize(
    ("values", "outcome", "text"),
    [
        ([600.0], "agrees", "1 of 1 published figure agrees with what is predicted."),
        ([600.0, 1.0], "partly", "1 of 2 published figures agrees with what is predicted."),
        ([1.0, 2.0], "differs", "0 of 2 published figures agree with what is predicted."),
    ],
)
def test_the_verdict_counts_what_agrees(values, outcome, text):
    found = [judged(said("tflops", value), {KEY: ROW}) for value in values]
    answer = verdict(found, None)
    assert (answer.outcome, answer.text) == (outcome, text)
    assert answer.judged == len(values)


def test_what_cannot_be_told_counts_for_nothing_and_is_said():
    found = [judged(said("tflops", 600.0), rows) for rows in ({KEY: ROW}, {})]
    assert verdict(found, None).text == (
        "1 of 1 published figure agrees with what is predicted; 1 cannot be told."
    )
    assert verdict(found[1:], None).outcome == "cannot_tell"


def test_models_that_are_cut_are_held_against_nothing():
    assert verdict([], 4).text == (
        "No published figure is held against a predicted one: the models were cut to 4 layers."
    )
