import json
from dataclasses import replace

import pytest

from nsysoffload.errors import TraceError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.metadata import CAPTURE_PREDICTION
from nsysoffload.trace.prediction import from_json, to_json
from nsysoffload.trace.reader import read
from nsysoffload.trace.tables import Source
from nsysoffload.trace.writer import write
from tests.report.examples import PREDICTION


def edited(**changes: object) -> str:
    return json.dumps({**json.loads(to_json(PREDICTION)), **changes})


def exported(path, text=None, *, kind="predicted", prediction=None):
    source = Source(path, kind=kind, recorder="predict", prediction=prediction)
    trace = TraceBuilder(source=source).kernel((0, 1), "gemm").build()
    write(trace, path, {} if text is None else {CAPTURE_PREDICTION: text})
    return read(path)


def test_a_prediction_survives_json():
    assert from_json(to_json(PREDICTION)) == PREDICTION


def test_a_prediction_without_memory_survives_json():
    assert from_json(edited(memory=None)) == replace(PREDICTION, memory=None)


def test_a_prediction_travels_in_the_export(tmp_path):
    trace = exported(tmp_path / "trace.sqlite", prediction=PREDICTION)
    assert trace.source.prediction == PREDICTION
    assert not trace.warnings


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="no-json"),
        pytest.param("[]", id="no-object"),
        pytest.param("{}", id="nothing-in-it"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param(edited(devices="8"), id="text-for-a-number"),
        pytest.param(edited(devices=8.5), id="fraction-for-an-integer"),
        pytest.param(edited(devices=True), id="truth-for-an-integer"),
        pytest.param(edited(flags="abc"), id="text-for-a-list"),
        pytest.param(edited(step=None), id="null-where-there-has-to-be-a-value"),
        pytest.param(edited(constants=[{"name": "x"}]), id="keys-missing"),
        pytest.param(to_json(PREDICTION).replace("0.7", "NaN"), id="not-a-number"),
    ],
)
def test_what_is_no_prediction_is_refused_and_said_of_a_trace(tmp_path, text):
    with pytest.raises(TraceError, match="predict it again"):
        from_json(text)
    trace = exported(tmp_path / "trace.sqlite", text)
    assert trace.source.prediction is None
    assert [w.code for w in trace.warnings] == ["prediction_unknown"]


def test_a_measured_trace_has_no_prediction_whatever_it_claims(tmp_path):
    trace = exported(tmp_path / "trace.sqlite", to_json(PREDICTION), kind="measured")
    assert trace.source.prediction is None
    assert not trace.warnings
