"""The report as JSON, schema ``nsysoffload/1``: the fields of the model, unrounded.

The JSON Schema beside this module describes every key; both are checked against each other.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import resources
from typing import Any

from nsysoffload.report.model import Report

__all__ = ["plain", "render", "schema", "to_dict"]

# Readers look for what the file is first and for long lists last.
_ORDER = (
    "schema",
    "tool",
    "verdict",
    "trace",
    "recording",
    "window",
    "devices",
    "total",
    "ranks",
    "transfers",
    "worst_copies",
    "findings",
    "stalls",
    "contention",
    "kernels",
    "memory",
    "range",
    "prediction",
    "gates",
)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character: no encoder takes it


def render(report: Report) -> str:
    """Write the report as JSON text.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        A JSON object that is valid under `schema`, ending in a newline.
    """
    return json.dumps(to_dict(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """Turn the report into plain dictionaries, lists and values.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    dict of str to Any
        The keys of schema ``nsysoffload/1``, ``schema`` first. Fields that are for another output
        are left out.
    """
    values = plain(report)
    return {key: values[key] for key in _ORDER}


def schema() -> dict[str, Any]:
    """Load the JSON Schema (draft 2020-12) of a report."""
    file = resources.files("nsysoffload.report") / "schema" / "nsysoffload-1.schema.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def plain(value: Any) -> Any:
    """Return what JSON has for a value.

    Dataclasses become dictionaries without what is for another output, tuples become lists, and
    text can be encoded.
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(getattr(value, name)) for name, key in _keys(type(value))}
    return value


@cache
def _keys(model: type) -> tuple[tuple[str, str], ...]:
    """Field and JSON key of each field; ``class_`` is a Python name for ``class``."""
    shown = [f.name for f in fields(model) if f.metadata.get("json", True)]
    return tuple((name, name.removesuffix("_")) for name in shown)
