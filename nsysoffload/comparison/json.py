"""A comparison as JSON, schema ``nsysoffload-compare/1``: the fields of the model, unrounded."""

import json
from importlib import resources
from typing import Any

from nsysoffload.comparison.model import Comparison
from nsysoffload.report.json import plain

__all__ = ["render", "schema", "to_dict"]

_ORDER = ("schema", "tool", "verdict", "base", "new", "differences", "pairs", "gates")


def render(comparison: Comparison) -> str:
    """Write the comparison as JSON text.

    Returns
    -------
    str
        A JSON object that is valid under `schema`, ending in a newline.
    """
    return json.dumps(to_dict(comparison), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Turn the comparison into plain dictionaries, lists and values, ``schema`` first."""
    values = plain(comparison)
    return {key: values[key] for key in _ORDER}


def schema() -> dict[str, Any]:
    """Load the JSON Schema (draft 2020-12) of a comparison."""
    file = (
        resources.files("nsysoffload.comparison") / "schema" / "nsysoffload-compare-1.schema.json"
    )
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded
