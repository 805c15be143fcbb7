"""What an export says about itself: versions, kind, diagnostics, and what it holds.

Only named keys are read, so that no environment, host, user or command line gets into a report.
"""

import json
import re
from collections.abc import Iterable

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, quoted
from nsysoffload.trace.prediction import Prediction, from_json
from nsysoffload.trace.schema import ORIGINS
from nsysoffload.trace.tables import Source, TraceWarning

__all__ = [
    "CAPTURE_KIND",
    "CAPTURE_PREDICTION",
    "CAPTURE_RECORDER",
    "CAPTURE_WARNINGS",
    "RECORDERS",
    "VERSION",
    "capture_warnings",
    "contents",
    "source",
    "warnings_text",
]

CAPTURE_KIND = "NSYSOFFLOAD:KIND"
CAPTURE_RECORDER = "NSYSOFFLOAD:RECORDER"
CAPTURE_PREDICTION = "NSYSOFFLOAD:PREDICTION"
CAPTURE_WARNINGS = "NSYSOFFLOAD:WARNINGS"
RECORDERS = ("nsys", "predict", "jax")
VERSION = re.compile(
    r"20\d\d(?:\.\d+)*(?:-\d+v\d+)?(?: (?:Linux|Windows|QNX))?|\d{1,2}(?:\.\d+){0,2}"
)
"""A version of nsys, or of its schema; anything else in its place is not shown."""

_LONGEST_WARNINGS = 20_000  # characters; a conversion says a few sentences
_PRODUCT = "EXPORT_PRODUCT_VERSION"
_SCHEMA = "EXPORT_SCHEMA_VERSION"
_EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE")

_DIAGNOSTICS = (
    (
        "%Not all CUDA events might have been collected%",
        "events_lost",
        "nsys says that not all CUDA events may have been collected: rows may be missing.",
    ),
    (
        "%CUPTI events might be missing%",
        "events_lost",
        "nsys says that CUPTI events may be missing: rows may be missing.",
    ),
    (
        "%CUDA driver version%is not supported by this build%",
        "driver_too_new",
        "nsys says that it does not support the CUDA driver it ran on: rows may be missing.",
    ),
)

_CONTENTS = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA API calls",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "CUDA synchronisations",
    "NVTX_EVENTS": "NVTX events",
    "OSRT_API": "operating-system calls",
    "OPENACC_EVENTS": "OpenACC events",
    "MPI_EVENTS": "MPI events",
    "COMPOSITE_EVENTS": "CPU samples",
    "SCHED_EVENTS": "thread switches",
    "GPU_METRICS": "GPU metric samples",
    "DX12_API": "DirectX 12 calls",
    "VULKAN_API": "Vulkan calls",
}
_SIGNS = ("StringIds", "TARGET_INFO_GPU", "TARGET_INFO_SYSTEM_ENV", "ThreadNames", *_TABLES)


def source(export: Export) -> Source:
    """Return where the trace came from, as far as the export says."""
    values = _values(export, (_PRODUCT, _SCHEMA, CAPTURE_KIND, CAPTURE_RECORDER))
    recorder = values.get(CAPTURE_RECORDER)
    predicted = values.get(CAPTURE_KIND) == "predicted"
    return Source(
        path=export.path,
        kind="predicted" if predicted else "measured",
        recorder=recorder if recorder in RECORDERS else RECORDERS[0],
        nsys_version=_version(values.get(_PRODUCT)),
        export_schema=_version(values.get(_SCHEMA)),
        prediction=_prediction(export) if predicted else None,
    )


def _version(text: str | None) -> str | None:
    return text[:100] if text and VERSION.fullmatch(text) else None


def _prediction(export: Export) -> Prediction | None:
    text = _values(export, (CAPTURE_PREDICTION,)).get(CAPTURE_PREDICTION)
    try:
        return from_json(text) if text else None
    except TraceError:
        return None


def _values(export: Export, keys: tuple[str, ...]) -> dict[str, str]:
    names = ", ".join(f"'{key}'" for key in keys)
    values: dict[str, str] = {}
    for table in _TABLES:
        if {"name", "value"} <= set(export.columns.get(table, ())):
            sql = (
                "SELECT CAST(name AS BLOB) AS name, CAST(value AS BLOB) AS value"
                f" FROM {quoted(table)} WHERE name IN ({names}) AND value IS NOT NULL"
            )
            for row in _rows(export, sql):
                values[row["name"].decode()] = row["value"].decode(errors="replace")
    return values


def _rows(export: Export, sql: str) -> list[dict[str, bytes]]:
    """Rows of a side table; none where it cannot be read, since no figure hangs on them."""
    try:
        rows: list[dict[str, bytes]] = export.read(sql).to_pylist()
    except TraceError:
        return []
    return rows


def capture_warnings(export: Export) -> list[TraceWarning]:
    """Return what the recorder itself said about missing rows, and what was not read."""
    return [
        *_diagnostics(export),
        *_event_trace(export),
        *_unmerged(export),
        *_views(export),
        *_unread_prediction(export),
        *_told(export),
    ]


def warnings_text(warnings: Iterable[TraceWarning]) -> str:
    """Write warnings of a converted trace as JSON text, for `CAPTURE_WARNINGS`."""
    return json.dumps([[warning.code, warning.message] for warning in warnings])


def _told(export: Export) -> list[TraceWarning]:
    """Return the warnings that were written with a converted trace; none if they are no such."""
    text = _values(export, (CAPTURE_WARNINGS,)).get(CAPTURE_WARNINGS, "[]")
    try:
        told = json.loads(text) if len(text) <= _LONGEST_WARNINGS else []
        pairs = [(code, message) for code, message in told]
    except (ValueError, TypeError, RecursionError):
        return []
    readable = all(isinstance(t, str) and t.isprintable() for pair in pairs for t in pair)
    return [TraceWarning(code, message) for code, message in pairs] if readable else []


def _unread_prediction(export: Export) -> list[TraceWarning]:
    origin = source(export)
    if origin.kind == "measured" or origin.prediction:
        return []
    message = "How the trace was predicted cannot be read from it: no range, no memory, no model."
    return [TraceWarning("prediction_unknown", message)]


def _diagnostics(export: Export) -> list[TraceWarning]:
    if "text" not in export.columns.get("DIAGNOSTIC_EVENT", ()):
        return []
    return [
        TraceWarning(code, message)
        for pattern, code, message in _DIAGNOSTICS
        if _rows(
            export, f"SELECT 1 AS hit FROM DIAGNOSTIC_EVENT WHERE text LIKE '{pattern}' LIMIT 1"
        )
    ]


def _event_trace(export: Export) -> list[TraceWarning]:
    """Say if CUDA events were traced, which is when they have times; nsys 2025.5 is the first."""
    if "timestamp" not in export.columns.get(_EVENTS, ()):
        return []
    if not _rows(export, f"SELECT 1 AS hit FROM {_EVENTS} WHERE timestamp > 0 LIMIT 1"):
        return []
    message = (
        "CUDA events were traced, which may make streams wait for each other: waits may be the"
        " profiler's doing; record with --cuda-event-trace=false."
    )
    return [TraceWarning("event_trace", message)]


def _unmerged(export: Export) -> list[TraceWarning]:
    wal = export.path.with_name(export.path.name + "-wal")
    if not wal.is_file() or not wal.stat().st_size:
        return []
    message = f"{wal.name} holds changes that are not in the export yet; they were not read."
    return [TraceWarning("unmerged_changes", message)]


def _views(export: Export) -> list[TraceWarning]:
    names = {table for origin in ORIGINS.values() for table in origin.tables}
    return [
        TraceWarning("view_not_read", f"{view} is a view, which is not read; make it a table.")
        for view in export.views
        if view in names
    ]


def contents(export: Export) -> str:
    """Say in a sentence what a file without GPU activity holds, and what to do."""
    name = export.path.name
    if not {*_SIGNS, *_CONTENTS} & {*export.columns, *export.views}:
        return (
            f"{name} is an SQLite database but no Nsight Systems export;"
            " make one with 'nsys export --type sqlite'."
        )
    views = _views(export)
    if views:
        return f"{name} holds no GPU activity that can be read: {views[0].message}"
    counts = {label: _count(export, table) for table, label in _CONTENTS.items()}
    held = ", ".join(f"{count:,} {label}" for label, count in counts.items() if count)
    return (
        f"{name} holds no GPU activity (no kernel, copy or memset row), only"
        f" {held or 'system information'}; record with 'nsys profile --trace=cuda,nvtx'."
    )


def _count(export: Export, table: str) -> int:
    if table not in export.columns:
        return 0
    try:
        return int(export.read(f"SELECT COUNT(*) AS n FROM {quoted(table)}")["n"][0].as_py())
    except TraceError:
        return 0
