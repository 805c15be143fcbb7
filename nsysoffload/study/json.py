"""The report of a study as JSON, schema ``nsysoffload-study/1``: the fields of the model."""

import json
from importlib import resources
from typing import Any

from nsysoffload.report.json import plain
from nsysoffload.study.model import StudyReport

__all__ = ["render", "schema", "to_dict"]

_ORDER = (
    "schema",
    "tool",
    "verdict",
    "about",
    "jax_version",
    "published",
    "groups",
    "rows",
    "notes",
)


def render(report: StudyReport) -> str:
    """Write the report as JSON text.

    Returns
    -------
    str
        A JSON object that is valid under `schema`, ending in a newline.
    """
    return json.dumps(to_dict(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_dict(report: StudyReport) -> dict[str, Any]:
    """Turn the report into plain dictionaries, lists and values, ``schema`` first."""
    values = plain(report)
    return {key: values[key] for key in _ORDER}


def schema() -> dict[str, Any]:
    """Load the JSON Schema (draft 2020-12) of a study's report."""
    file = resources.files("nsysoffload.study") / "schema" / "nsysoffload-study-1.schema.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded
