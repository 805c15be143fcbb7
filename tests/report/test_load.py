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
        pytest.param("[]", "is no report, not nsysoffload/1", id="a-list"),
        pytest.param('{"schema": "other/9"}', "is of schema 'other/9'", id="another-schema"),
        pytest.param('{"schema": "nsysoffload/1"}', "is damaged .tool is missing.", id="keys"),
        pytest.param(
            spoiled(lambda d: d["devices"][0].update(ordinal="x")),
            "'x' is no",
            id="text-for-number",
        ),
        pytest.param(
            spoiled(lambda d: d["devices"][0]["steps"][0].update(lost={"a": None})),
            "None is no",
            id="null-in-a-mapping",
        ),
        pytest.param(
            spoiled(lambda d: d["findings"].append("x")), "'x' is no object", id="no-object"
        ),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(tmp_path, text, message):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=message):
        load(path)


def test_a_report_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path / "report.json")
