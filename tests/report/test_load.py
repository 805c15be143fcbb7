import json

import pytest

from nsysoffload.errors import TraceError
from nsysoffload.report.json import render, to_dict
from nsysoffload.report.load import load
from tests.report.examples import EXAMPLES, stepped


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_comes_back_from_its_json(tmp_path, name):
    path = tmp_path / "report.json"
    report = EXAMPLES[name]()
    path.write_text(render(report), encoding="utf-8")
    loaded = load(path)
    assert to_dict(loaded) == to_dict(report)
    assert not loaded.lanes


def spoiled(change) -> str:
    data = to_dict(stepped())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "report.json is no JSON", id="empty"),
        pytest.param("[" * 100_000, "report.json is no JSON", id="deep"),
        pytest.param(
            "[]", "report.json is no report, not one of schema nsysoffload/1", id="a-list"
        ),
        pytest.param(
            '{"schema": "other/9"}', "is a file of schema 'other/9', not", id="another-schema"
        ),
        pytest.param('{"schema": "nsysoffload/1"}', "is damaged .tool is missing.", id="keys"),
        pytest.param(
            spoiled(lambda d: d["devices"][0].update(ordinal="x")),
            r"devices\[0\].ordinal is \"x\", not a whole number",
            id="text-for-number",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["steps"][0].update(lost={"a": None})),
            r"devices\[0\].steps\[0\].lost.a is null, not a whole number",
            id="null-in-a-mapping",
        ),
        pytest.param(
            spoiled(lambda d: d["findings"].append("x")), 'is "x", not an object', id="no-object"
        ),
        pytest.param(
            spoiled(lambda d: d["window"].update(end_ns=2**63)),
            "window.end_ns is 9223372036854775808, no number of 64 bits",
            id="too-large",
        ),
        pytest.param(
            spoiled(lambda d: d["trace"].update(kind="banana")),
            "trace.kind: 'banana'",
            id="no-kind",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["steps"][0].update(duration_ns=-5)),
            r"devices\[0\].steps\[0\].duration_ns: -5 is less",
            id="negative-time",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["steps"][0].update(lost={"x": 1})),
            r"steps\[0\].lost: 'x' is not one of",
            id="no-cause",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["trace"]["h2d"].update(overlap=7.5)),
            "h2d.overlap: 7.5 is greater than the maximum of 1",
            id="more-than-all",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0].update(median_step=99)),
            "has no step 99",
            id="no-such-step",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["trace"]["d2h"].update(hidden_ns=1)),
            "hidden and exposed time of device GPU-0.* do not add up",
            id="no-sum",
        ),
        pytest.param(
            spoiled(lambda d: d.update(range={"low_ns": 3, "expected_ns": 2, "high_ns": 4})),
            "the range of the step is out of order",
            id="no-range",
        ),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(tmp_path, text, message):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=message):
        load(path)


def test_a_report_of_another_release_may_have_other_keys(tmp_path):
    path = tmp_path / "report.json"
    data = to_dict(stepped())
    data["devices"][0]["trace"]["new"] = data.pop("stalls")
    path.write_text(json.dumps(data), encoding="utf-8")
    assert load(path).stalls == ()


def test_a_report_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path / "report.json")
