import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from nsysoffload.comparison.model import Comparison
from nsysoffload.study import model
from nsysoffload.study.json import render, schema, to_dict
from tests.report.test_json import allowed, field_types
from tests.study.examples import EXAMPLES, usual

SCHEMA = schema()
MODELS = [
    value
    for value in vars(model).values()
    if dataclasses.is_dataclass(value) and value is not Comparison
]


def definition(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA if cls is model.StudyReport else SCHEMA["$defs"][cls.__name__]
    return found


def test_the_schema_is_valid_and_named_as_the_model_says():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == model.SCHEMA == SCHEMA["properties"]["schema"]["const"]
    assert set(SCHEMA["$defs"]) == {cls.__name__ for cls in MODELS} - {"StudyReport"}


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_the_schema_has_the_fields_of_the_model_with_their_types_and_nullability(cls):
    described, fields = definition(cls), field_types(cls)
    assert {k: allowed(fragment) for k, fragment in described["properties"].items()} == fields
    assert sorted(described["required"]) == sorted(fields)
    assert described["additionalProperties"] is False
    for name, fragment in described["properties"].items():
        assert fragment["description"].endswith("."), name
        if "_ns" in name:
            assert "nanoseconds" in fragment["description"], name


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_report_fits_the_schema(name):
    report = EXAMPLES[name]()
    loaded = json.loads(render(report))
    assert loaded == to_dict(report)
    assert list(loaded) == list(SCHEMA["properties"])
    jsonschema.validate(loaded, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("verdict", "outcome"), "good", id="outcome"),
        pytest.param(("published", 0, "kind"), "mfu", id="kind"),
        pytest.param(("rows", 1, "gain"), {"low": 0.0}, id="gain"),
        pytest.param(("rows", 1, "step", "low_ns"), -1, id="negative-time"),
        pytest.param(("groups", 0, "batch"), "8", id="batch"),
        pytest.param(("comparisons",), {}, id="extra"),
    ],
)
def test_the_schema_refuses(path, value):
    report = to_dict(usual())
    target: Any = report
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)
