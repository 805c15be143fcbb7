import dataclasses
import json
import re
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import jsonschema
import pytest

from nsysoffload.report import model
from nsysoffload.report.json import render, schema, to_dict
from nsysoffload.report.lanes import Lane
from tests.report.examples import EXAMPLES, KERNELS, one_device, stepped

SCHEMA = schema()
MODELS = [
    value for value in vars(model).values() if dataclasses.is_dataclass(value) and value is not Lane
]
NAMES = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}
UNITS = {"_ns": "nanoseconds", "bytes": "bytes", "gbps": "GB/s", "overlap": "from 0 to 1"}


def definition(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = (
        SCHEMA if cls is model.Report else SCHEMA["$defs"][cls.__name__.rstrip("_")]
    )
    return found


def allowed(fragment: dict[str, Any]) -> set[str]:
    """Types, or names of definitions, that a property of the schema may have."""
    if "anyOf" in fragment:
        return set().union(*map(allowed, fragment["anyOf"]))
    if "$ref" in fragment:
        return {fragment["$ref"].removeprefix("#/$defs/")}
    if "const" in fragment or "enum" in fragment:
        values = fragment.get("enum", [fragment.get("const")])
        return {NAMES[type(value)] for value in values}
    types = fragment["type"] if isinstance(fragment["type"], list) else [fragment["type"]]
    if "prefixItems" in fragment:
        items = [kind for item in fragment["prefixItems"] for kind in sorted(allowed(item))]
        return {f"array of {', '.join(items)}" if kind == "array" else kind for kind in types}
    if "items" in fragment:
        (item,) = allowed(fragment["items"])
        return {f"array of {item}, ..." if kind == "array" else kind for kind in types}
    return set(types)


def declared(hint: Any) -> set[str]:
    """The same of a field of a dataclass."""
    if isinstance(hint, UnionType):
        return set().union(*map(declared, get_args(hint)))
    if get_origin(hint) is tuple:
        items = ["..." if arg is ... else "".join(declared(arg)) for arg in get_args(hint)]
        return {f"array of {', '.join(items)}"}
    if get_origin(hint) is not None:
        return {"object"}
    return {NAMES.get(hint) or hint.__name__.rstrip("_")}


def field_types(cls: type) -> dict[str, set[str]]:
    hints = get_type_hints(cls)
    shown = [f.name for f in dataclasses.fields(cls) if f.metadata.get("json", True)]
    return {name.rstrip("_"): declared(hints[name]) for name in shown}


def walk(node: Any) -> list[dict[str, Any]]:
    """All objects of a JSON document."""
    nested = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node] * isinstance(node, dict) + [found for value in nested for found in walk(value)]


def test_the_schema_is_valid_draft_2020_12():
    assert SCHEMA["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    assert SCHEMA["$id"] == model.SCHEMA == SCHEMA["properties"]["schema"]["const"]
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_the_schema_has_the_fields_of_the_model_with_their_types_and_nullability(cls):
    described = definition(cls)
    fields = field_types(cls)
    assert {k: allowed(fragment) for k, fragment in described["properties"].items()} == fields
    assert sorted(described["required"]) == sorted(fields)
    assert described["additionalProperties"] is False


def test_the_schema_defines_nothing_that_is_not_in_the_model():
    named = {cls.__name__.rstrip("_") for cls in MODELS} - {"Report"}
    assert set(SCHEMA["$defs"]) - {"known_or_reason"} == named


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_every_property_is_described_with_its_unit(cls):
    for name, fragment in definition(cls)["properties"].items():
        assert fragment["description"].endswith("."), name
        for ending, unit in UNITS.items():
            if name.endswith(ending):
                assert unit in fragment["description"], name


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_report_fits_the_schema(name):
    loaded = json.loads(render(EXAMPLES[name]()))
    assert loaded == to_dict(EXAMPLES[name]())
    jsonschema.validate(loaded, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("verdict", "outcome"), "good", id="outcome"),
        pytest.param(("trace", "kind"), "guessed", id="kind"),
        pytest.param(("kernels", 0, "class"), "copy", id="class"),
        pytest.param(("worst_copies", 0, "direction"), "d2d", id="direction"),
        pytest.param(("devices", 0, "link", "h2d_verdict"), "slow", id="verdict"),
        pytest.param(("devices", 0, "trace", "h2d", "overlap"), 1.5, id="over-one"),
        pytest.param(("devices", 0, "trace", "h2d", "overlap"), None, id="null-without-reason"),
        pytest.param(("devices", 0, "trace", "h2d", "busy_ns"), 1.5, id="fraction-of-ns"),
        pytest.param(("devices", 0, "link", "h2d_gbps"), [1.0, 2.0, 3.0], id="range-of-three"),
        pytest.param(("findings",), None, id="no-list"),
        pytest.param(("findings", 0, "cause"), "bad_luck", id="cause"),
        pytest.param(("findings", 0, "severity"), "error", id="severity"),
        pytest.param(("findings", 0, "direction"), "both", id="finding-of-both-directions"),
        pytest.param(("findings", 0, "evidence", "spans"), [[1]], id="half-a-span"),
        pytest.param(("stalls", 0, "direction"), None, id="stall-without-direction"),
        pytest.param(("stalls", 0, "proven"), 1, id="proven-as-a-number"),
        pytest.param(("gates", 0, "kind"), "at_least", id="kind-of-gate"),
        pytest.param(("gates", 2, "passed"), None, id="gate-neither-passed-nor-failed"),
        pytest.param(("transfers", 0, "phase"), "sideways", id="phase"),
        pytest.param(("transfers", 0, "layers", 0, "bytes"), 1, id="extra-in-a-layer"),
        pytest.param(("contention", 0, "excess_ns_per_step"), 0.5, id="fraction-of-excess"),
        pytest.param(("window", "steps_found_by"), "guess", id="steps-found-by"),
        pytest.param(("window", "skipped_steps"), None, id="skipped-steps"),
        pytest.param(("devices", 0, "steps", 0, "lost", "starved"), 1, id="no-owner"),
        pytest.param(("devices", 0, "steps", 0, "lost", "host_gap"), -1, id="negative-loss"),
        pytest.param(("devices", 0, "steps", 0, "both", "overlap"), None, id="step-without-reason"),
        pytest.param(("devices", 0, "per_step", "phases"), {"forward": 1}, id="missing-phase"),
        pytest.param(("devices", 0, "per_step", "steps"), 0, id="medians-of-nothing"),
        pytest.param(("devices", 0, "per_step", "unattributed"), 2, id="share-over-one"),
        pytest.param(("extra",), 1, id="extra"),
    ],
)
def test_the_schema_refuses(path, value):
    report = to_dict(stepped())
    jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)
    target: Any = report
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_keys_come_in_the_order_of_the_schema_and_none_is_lost():
    assert list(to_dict(one_device())) == list(SCHEMA["properties"])


def test_figures_are_not_rounded_and_class_is_called_class():
    report = one_device()
    loaded = json.loads(render(report))
    assert loaded["schema"] == "nsysoffload/1"
    assert loaded["devices"][0]["trace"]["h2d"]["overlap"] == 20_583_232 / 24_680_135
    assert loaded["kernels"][0] == {
        "name": "gemm_bf16_128x128",
        "class": "compute",
        "count": 1000,
        "busy_ns": 70_000_000,
        "copy_like": False,
    }
    assert loaded["devices"][0]["link"]["h2d_gbps"] == [370.0, 420.0]


def test_marks_of_the_timeline_are_left_out():
    assert one_device().lanes
    assert all("lanes" not in found for found in walk(to_dict(one_device())))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_can_be_encoded_and_ends_in_a_newline(name):
    text = render(EXAMPLES[name]())
    assert text.encode().endswith(b"}\n")


def test_text_stays_readable_and_half_a_character_becomes_a_mark():
    kernels = (dataclasses.replace(KERNELS[0], name="µ🚀\udc80"),)
    text = render(dataclasses.replace(one_device(), kernels=kernels))
    assert re.findall(r'"name": "(µ.*)"', text) == ["µ🚀\ufffd"]


def test_a_number_that_json_lacks_is_refused():
    gpu = dataclasses.replace(one_device().worst_copies[0], gbps=float("nan"))
    with pytest.raises(ValueError, match="JSON compliant"):
        render(dataclasses.replace(one_device(), worst_copies=(gpu,)))
