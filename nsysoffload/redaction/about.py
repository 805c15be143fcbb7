"""The small tables of the copy: which GPUs, which versions, how it was predicted, what nsys said.

Each cell is let through by a rule of its own; what has none is left out.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nsysoffload.errors import TraceError
from nsysoffload.private.masked import cleaned
from nsysoffload.private.names import UNREADABLE, Names
from nsysoffload.redaction.copying import declared_types
from nsysoffload.redaction.draft import SOURCE
from nsysoffload.trace.export import quoted
from nsysoffload.trace.gpus import plain_uuid
from nsysoffload.trace.metadata import (
    CAPTURE_KIND,
    CAPTURE_PREDICTION,
    CAPTURE_RECORDER,
    CAPTURE_WARNINGS,
    RECORDERS,
    VERSION,
)
from nsysoffload.trace.prediction import from_json, to_json

__all__ = ["DIAGNOSTICS", "GPU_TABLES", "METADATA", "copy_about", "gpu_columns"]

Cell = str | int | None
Rule = Callable[[str, Names], Cell]
"""Text of a cell -> what stands in the copy, None for nothing."""

GPU_TABLES = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_CUDA_DEVICE")
METADATA = ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE")
DIAGNOSTICS = "DIAGNOSTIC_EVENT"

_MOST_ROWS = 10_000  # as many as are read
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_BUS = re.compile(r"[0-9A-Fa-f:.]*|bus-\d+")
_PRODUCTS = ("NVIDIA Nsight Systems", "nsysoffload")
_KINDS = ("measured", "predicted")
_SAID = (
    "Not all CUDA events might have been collected",
    "CUPTI events might be missing",
    "CUDA driver version % is not supported by this build",
)
"""What nsys says of rows that are missing; ``%`` stands for what differs."""


def copy_about(
    db: sqlite3.Connection, columns: Mapping[str, tuple[str, ...]], names: Names
) -> None:
    """Copy what the trace says of its GPUs and of itself.

    Parameters
    ----------
    db : Connection
        The draft, with the export attached.
    columns : mapping of tuple of str
        The export's tables and their columns.
    names : Names
        Finds private parts.
    """
    for table in GPU_TABLES:
        if rules := gpu_columns(columns.get(table, ())):
            cells = _rows(db, table, rules)
            rows = [
                [_of_gpu(rule, cell, names) for rule, cell in zip(rules.values(), row, strict=True)]
                for row in cells
            ]
            _write(db, table, rules, rows)
    for table in METADATA:
        if {"name", "value"} <= set(columns.get(table, ())):
            pairs = [
                (name, value)
                for name, text in _rows(db, table, ("name", "value"))
                if name in _SETTINGS and (value := _ruled(_SETTINGS[name], text, names)) is not None
            ]
            _write(db, table, ("name", "value"), pairs)
    if "text" in columns.get(DIAGNOSTICS, ()):
        said = [(text.replace("% ", ""),) for text in _SAID if _is_said(db, text)]
        if said:
            _write(db, DIAGNOSTICS, ("text",), said)


def gpu_columns(columns: Iterable[str]) -> dict[str, Rule]:
    """Return the columns of a table of GPUs that are kept, and the rule of each."""
    return {column: _GPU[column.lower()] for column in columns if column.lower() in _GPU}


# --- Rows ---


def _rows(
    db: sqlite3.Connection, table: str, columns: Iterable[str]
) -> list[tuple[str | None, ...]]:
    select = ", ".join(f"CAST({quoted(column)} AS BLOB)" for column in columns)
    rows = db.execute(f"SELECT {select} FROM {SOURCE}.{quoted(table)} LIMIT {_MOST_ROWS}")
    return [
        tuple(None if cell is None else cell.decode(errors="replace") for cell in row)
        for row in rows
    ]


def _write(
    db: sqlite3.Connection, table: str, columns: Iterable[str], rows: Iterable[Iterable[Cell]]
) -> None:
    types = declared_types(db, table)
    defined = [f"{quoted(column)} {types[column]}".strip() for column in columns]
    db.execute(f"CREATE TABLE main.{quoted(table)} ({', '.join(defined)})")
    marks = ", ".join("?" * len(defined))
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO main.{quoted(table)} VALUES ({marks})", map(tuple, rows))
    db.execute("COMMIT")


def _ruled(rule: Rule, cell: str | None, names: Names) -> Cell:
    return None if cell is None else rule(cell.strip(), names)


def _of_gpu(rule: Rule, cell: str | None, names: Names) -> Cell:
    """Return what stands for a cell, and count one that is not let through."""
    shown = _ruled(rule, cell, names)
    if shown is None and cell:
        names.replaced[UNREADABLE] += 1
    return shown


def _is_said(db: sqlite3.Connection, text: str) -> bool:
    sql = f"SELECT 1 FROM {SOURCE}.{DIAGNOSTICS} WHERE text LIKE ? LIMIT 1"
    return db.execute(sql, (f"%{text.replace(' % ', '%')}%",)).fetchone() is not None


# --- Rules ---


def _integer(text: str, _: Names) -> Cell:
    return int(text) if _INTEGER.fullmatch(text) else None


def _part(text: str, names: Names) -> Cell:
    return names.part(text)


def _uuid(text: str, names: Names) -> Cell:
    known = plain_uuid(text)
    if known is None:
        return None
    shown = names.uuid(known)
    return text if shown == known else shown  # in the form that the export has it


def _bus(text: str, names: Names) -> Cell:
    return text if _BUS.fullmatch(text) else names.alias("bus", text)


def _version(text: str, _: Names) -> Cell:
    return text if not text or VERSION.fullmatch(text) else None


def _one_of(*known: str) -> Rule:
    return lambda text, _: text if text in known else None


def _prediction(text: str, names: Names) -> Cell:
    try:
        known = json.loads(to_json(from_json(text)))
    except TraceError:
        return None
    if _has_more(json.loads(text), known):
        names.replaced[UNREADABLE] += 1
    return json.dumps(cleaned(known, names), separators=(",", ":"))


def _has_more(given: Any, known: Any) -> bool:
    """Tell whether a value of JSON has keys that are not known."""
    if isinstance(given, dict):
        return any(key not in known or _has_more(item, known[key]) for key, item in given.items())
    return isinstance(given, list) and any(map(_has_more, given, known))


def _warnings(text: str, names: Names) -> Cell:
    try:
        told = [[str(code), str(message)] for code, message in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return None
    return json.dumps(cleaned(told, names))


_GPU: Mapping[str, Rule] = {
    **dict.fromkeys(("name", "chipname"), _part),
    **dict.fromkeys(("buslocation", "pcibusid"), _bus),
    "uuid": _uuid,
    **dict.fromkeys(
        (
            "id",
            "cudevice",
            "deviceid",
            "asyncengines",
            "nummemcpyengines",
            "computemajor",
            "gpuid",
            "cudaid",
            "pid",
        ),
        _integer,
    ),
}
_SETTINGS: Mapping[str | None, Rule] = {
    "EXPORT_PRODUCT_NAME": _one_of(*_PRODUCTS),
    "EXPORT_PRODUCT_VERSION": _version,
    "EXPORT_SCHEMA_VERSION": _version,
    **{f"EXPORT_SCHEMA_VERSION_{part}": _version for part in ("MAJOR", "MINOR", "MICRO")},
    CAPTURE_KIND: _one_of(*_KINDS),
    CAPTURE_RECORDER: _one_of(*RECORDERS),
    CAPTURE_PREDICTION: _prediction,
    CAPTURE_WARNINGS: _warnings,
}
