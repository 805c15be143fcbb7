import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from nsysoffload.comparison import model
from nsysoffload.comparison.json import render, schema, to_dict
from nsysoffload.report.model import Report, Tool, Warning_
from nsysoffload.trace.workload import Workload
from tests.comparison.examples import EXAMPLES, pair
from tests.report.test_json import allowed, field_types

SCHEMA = schema()
MODELS = [
    value
    for value in vars(model).values()
    if dataclasses.is_dataclass(value) and value is not Report
]


def definition(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = (
        SCHEMA if cls is model.Comparison else SCHEMA["$defs"][cls.__name__.rstrip("_")]
    )
    return found


def test_the_schema_is_valid_and_named_as_the_model_says():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == model.SCHEMA == SCHEMA["properties"]["schema"]["const"]
    named = {cls.__name__.rstrip("_") for cls in MODELS} - {"Comparison"}
    assert set(SCHEMA["$defs"]) == named
    assert {Tool, Warning_, Workload} <= set(MODELS)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_the_schema_has_the_fields_of_the_model_with_their_types_and_nullability(cls):
    described, fields = definition(cls), field_types(cls)
    assert {k: allowed(fragment) for k, fragment in described["properties"].items()} == fields
    assert sorted(described["required"]) == sorted(fields)
    assert described["additionalProperties"] is False
    for name, fragment in described["properties"].items():
        assert fragment["description"].endswith("."), name
        if name.endswith("_ns") and name != "change_ns":
            assert "nanoseconds" in fragment["description"], name


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_comparison_fits_the_schema(name):
    comparison = EXAMPLES[name]()
    loaded = json.loads(render(comparison))
    assert loaded == to_dict(comparison)
    assert list(loaded) == list(SCHEMA["properties"])
    jsonschema.validate(loaded, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("verdict", "outcome"), "good", id="outcome"),
        pytest.param(("base", "kind"), "guessed", id="kind"),
        pytest.param(("new",), [], id="no-new-run"),
        pytest.param(("differences", 0, "noise"), [1.0], id="half-a-range"),
        pytest.param(("pairs", 0, "account", "parts", 0, "name"), "luck", id="part"),
        pytest.param(("pairs", 0, "findings", 0, "state"), "found", id="state"),
        pytest.param(("gates", 0, "kind"), "at_least", id="kind-of-gate"),
        pytest.param(("base", "steps"), -1, id="negative-steps"),
        pytest.param(("reports",), {}, id="extra"),
    ],
)
def test_the_schema_refuses(path, value):
    comparison = to_dict(pair())
    target: Any = comparison
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(comparison, SCHEMA, cls=jsonschema.Draft202012Validator)
