"""Nsight Systems SQLite export -> `Trace`.

What a version lacks is UNSET in the rows, and said in the trace's warnings. Nothing is believed or
judged here: see `nsysoffload.timeline`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, quoted, shown
from nsysoffload.trace.gpus import assign_gpus
from nsysoffload.trace.metadata import capture_warnings, contents, source
from nsysoffload.trace.schema import ORIGINS, UINT32_UNSET, Origin
from nsysoffload.trace.tables import NO_TIME, TABLES, UNSET, Trace, TraceWarning

__all__ = ["GPU_TABLES", "read"]

GPU_TABLES = ("kernels", "copies", "memsets", "graph_spans")
"""Tables whose rows are GPU activity; an export without any of them cannot be analysed."""

CHUNK_ROWS = 250_000
MAX_PARTS = 256  # row ids need not be dense
_VERSION_SUFFIX = re.compile(r"(?:_v\d+)+$")  # of API names: cudaMemcpyAsync_v3020
_PROCESS_BITS = 24

Progress = Callable[[int, int], None]
"""Called with the rows read so far and the rows to read."""


def read(
    path: Path, tables: Collection[str] = tuple(TABLES), progress: Progress | None = None
) -> Trace:
    """Read an export.

    Parameters
    ----------
    path : Path
        SQLite export; opened read-only, and nothing is written beside it.
    tables : collection of str
        Which of `TABLES` to read; the others stay empty.
    progress : callable, optional
        Called with rows read and rows to read, from several threads.

    Returns
    -------
    Trace
        Frames as `nsysoffload.trace.tables` defines them, in the order of the export's rows.

    Raises
    ------
    TraceError
        If the file is damaged, is no export, or holds no GPU activity.
    """
    export = Export.open(path)
    found, warnings = _find(export)
    if not found.keys() & set(GPU_TABLES):
        raise TraceError(contents(export))
    wanted = {name: found[name] for name in TABLES if name in found and name in tables}
    rows, unread = _read_all(export, wanted, progress)
    if not any(len(rows[name]) for name in rows if name in GPU_TABLES):
        raise TraceError(contents(export))
    frames = _frames(export, wanted, rows)
    gpus, frames, doubts = assign_gpus(export, frames)
    absent = {name for name in TABLES if _is_absent(export, found.get(name), frames.get(name))}
    return Trace(
        source=source(export),
        gpus=gpus,
        **{name: TABLES[name].conform(frame) for name, frame in frames.items()},
        absent=frozenset(absent),
        warnings=(*warnings, *unread, *doubts, *capture_warnings(export)),
    )


def _is_absent(export: Export, found: "_Found | None", frame: pd.DataFrame | None) -> bool:
    if found is None or frame is not None:
        return found is None or frame is None or frame.empty
    try:
        hits = export.read(
            f"SELECT 1 AS hit FROM {quoted(found.table)} WHERE {found.where} LIMIT 1"
        )
    except TraceError:
        return True
    return len(hits) == 0


# --- Which table of the export is which of ours ---


@dataclass(frozen=True)
class _Found:
    """A table of ours in the export: ``columns`` maps our column to the export's."""

    table: str
    columns: Mapping[str, str]
    strings: Mapping[str, tuple[str, ...]]
    where: str
    last_row: int | None


def _find(export: Export) -> tuple[dict[str, _Found], list[TraceWarning]]:
    """Find each table of `ORIGINS` by name, else by its columns."""
    found: dict[str, _Found] = {}
    warnings: list[TraceWarning] = []
    for name, origin in ORIGINS.items():
        table, renamed = _table(export, origin)
        if table is None:
            continue
        entry, missing = _describe(export, origin, table)
        if missing:
            message = (
                f"Table {shown(table)} lacks {', '.join(missing)}, so its rows cannot be used."
            )
            warnings.append(TraceWarning("table_unusable", message))
            continue
        found[name] = entry
        if renamed:
            message = f"Table {shown(table)} was recognised by its columns and read as {name}."
            warnings.append(TraceWarning("table_renamed", message))
    return found, warnings


def _table(export: Export, origin: Origin) -> tuple[str | None, bool]:
    """Return the export's table for an origin, and whether it bears another name than usual."""
    by_name = {table.lower(): table for table in export.columns}
    for usual in origin.tables:
        if usual.lower() in by_name:
            return by_name[usual.lower()], False
    usual_names = {table.lower() for other in ORIGINS.values() for table in other.tables}
    alike = [
        table
        for table, columns in export.columns.items()
        if _lower(origin.signature) <= _lower(columns)
        and not _lower(origin.foreign) & _lower(columns)
        and table.lower() not in usual_names
    ]
    return (alike[0], True) if len(alike) == 1 else (None, False)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _describe(export: Export, origin: Origin, table: str) -> tuple[_Found, list[str]]:
    """Match the columns of a table; return also the names of those it cannot do without."""
    present = {column.lower(): column for column in export.columns[table]}
    last_row = export.last_row(table)
    if last_row is not None:
        present.setdefault("rowid", "rowid")
    matches = {
        ours: next((present[name.lower()] for name in theirs if name.lower() in present), None)
        for ours, theirs in origin.columns.items()
    }
    missing = [origin.columns[ours][0] for ours in origin.required if matches[ours] is None]
    strings = {
        ours: tuple(present[name.lower()] for name in theirs if name.lower() in present)
        for ours, theirs in origin.strings.items()
    }
    where = " AND ".join(
        f"{quoted(present[column.lower()])} IN ({', '.join(str(int(v)) for v in values)})"
        for column, values in origin.where.items()
        if column.lower() in present
    )
    columns = {ours: column for ours, column in matches.items() if column is not None}
    if "text" in origin.strings and "text" in present:
        columns["text"] = present["text"]
    return _Found(table, columns, strings, where or "1", last_row), sorted(missing)


# --- Rows ---


def _read_all(
    export: Export, wanted: Mapping[str, _Found], progress: Progress | None
) -> tuple[dict[str, pa.Table], list[TraceWarning]]:
    """Read tables in parallel, large ones in parts; a damaged side table is left out and said."""
    tasks = [(name, sql) for name, found in wanted.items() for sql in _queries(found)]
    total = sum(found.last_row or 0 for found in wanted.values())
    done = 0

    def run(task: tuple[str, str]) -> pa.Table | TraceError:
        nonlocal done
        try:
            rows = export.read(task[1])
        except TraceError as error:
            return error
        done += len(rows)
        if progress:
            progress(done, total)
        return rows

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        results = list(pool.map(run, tasks))
    parts: dict[str, list[Any]] = {name: [] for name in wanted}
    for (name, _), part in zip(tasks, results, strict=True):
        parts[name].append(part)
    return _joined(wanted, parts)


def _joined(
    wanted: Mapping[str, _Found], parts: Mapping[str, list[Any]]
) -> tuple[dict[str, pa.Table], list[TraceWarning]]:
    rows: dict[str, pa.Table] = {}
    warnings = []
    for name, pieces in parts.items():
        errors = [piece for piece in pieces if isinstance(piece, TraceError)]
        if errors and name in GPU_TABLES:
            raise errors[0]
        if errors:
            message = f"Table {shown(wanted[name].table)} cannot be read and was left out."
            warnings.append(TraceWarning("table_damaged", message))
            continue
        # Without rows, a column has no type either.
        rows[name] = pa.concat_tables([part for part in pieces if len(part)] or pieces[:1])
    return rows, warnings


def _queries(found: _Found) -> list[str]:
    """Return the query of a table, split by row id where it is large."""
    select = ", ".join(
        [f"{_cell(ours, _sql(column))} AS {ours}" for ours, column in found.columns.items()]
        + [
            f"CAST({_coalesce(ids)} AS INTEGER) AS {ours}_id"
            for ours, ids in found.strings.items()
            if ids
        ]
    )
    query = f"SELECT {select} FROM {quoted(found.table)} WHERE {found.where}"
    if found.last_row is None:
        return [query]
    step = max(CHUNK_ROWS, found.last_row // MAX_PARTS)
    edges = range(step, found.last_row - step // 2, step)
    lower = ["1", *(f"rowid > {edge}" for edge in edges)]
    upper = [*(f"rowid <= {edge}" for edge in edges), "1"]
    return [f"{query} AND {low} AND {high}" for low, high in zip(lower, upper, strict=True)]


def _sql(column: str) -> str:
    return column if column == "rowid" else quoted(column)


def _cell(ours: str, column: str) -> str:
    if ours != "text":
        return f"CAST({column} AS INTEGER)"
    # Text need not be UTF-8. ADBC takes a column's type from the first rows, and NULL has none.
    return f"COALESCE(CAST({column} AS BLOB), x'')"


def _coalesce(columns: tuple[str, ...]) -> str:
    names = ", ".join(map(quoted, columns))
    return f"COALESCE({names})" if len(columns) > 1 else names


# --- Frames ---


def _frames(
    export: Export, wanted: Mapping[str, _Found], rows: dict[str, pa.Table]
) -> dict[str, pd.DataFrame]:
    """Turn Arrow columns into frames; ``device`` is still to be assigned."""
    ids = {
        name: _ids(table, f"{text}_id")
        for name, table in rows.items()
        for text in wanted[name].strings
        if f"{text}_id" in table.column_names
    }
    values = _strings(export, ids.values())
    frames = {}
    for name in list(rows):
        table = rows.pop(name)  # so that rows are not held twice
        columns: dict[str, Any] = {}
        for column in TABLES[name].columns:
            if column.dtype == "category":
                texts = _text(table, column.name, ids.get(name), values)
                columns[column.name] = _without_versions(texts) if name == "calls" else texts
            else:
                columns[column.name] = _integers(table, column.name, _missing(name, column.name))
        frames[name] = _split_process(name, pd.DataFrame(columns, copy=False))
    return frames


def _missing(table: str, column: str) -> int:
    open_range = (table, column) == ("nvtx_ranges", "end_ns")
    return NO_TIME if column in ("start_ns", "end_ns") and not open_range else UNSET


def _integers(table: pa.Table, name: str, missing: int = UNSET) -> NDArray[np.int64]:
    if name not in table.column_names:
        return np.full(len(table), missing, dtype=np.int64)
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), missing)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _split_process(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Split globalPid or globalTid into process bits and, for host rows, thread bits."""
    if "process" not in frame:
        return frame
    packed = frame["process"].to_numpy()
    known = packed != UNSET
    columns = {"process": np.where(known, packed >> _PROCESS_BITS, UNSET)}
    if "thread" in TABLES[name].names:
        columns["thread"] = np.where(known, packed & ((1 << _PROCESS_BITS) - 1), UNSET)
    if name in ("syncs", "events"):
        for column in ("stream", "event"):
            ids = frame[column].to_numpy()
            columns[column] = np.where(ids == UINT32_UNSET, UNSET, ids)
    return frame.assign(**columns)


def _ids(table: pa.Table, column: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return codes per row and the distinct string ids they stand for."""
    codes, unique = pd.factorize(_integers(table, column))
    return codes, np.asarray(unique, dtype=np.int64)


def _strings(
    export: Export, ids: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> dict[int, str]:
    """Look up the strings that are asked for; one without an entry is missing in the result."""
    table = {name.lower(): name for name in export.columns}.get("stringids")
    wanted = sorted({int(i) for _, unique in ids for i in unique})
    columns = _lower(export.columns.get(table or "", ()))
    if table is None or not {"id", "value"} <= columns:
        return {}
    values: dict[int, str] = {}
    for first in range(0, len(wanted), 5000):
        some = ", ".join(map(str, wanted[first : first + 5000]))
        sql = f"SELECT CAST(id AS INTEGER) AS id, CAST(value AS BLOB) AS value FROM {quoted(table)}"
        try:
            rows = export.read(f"{sql} WHERE id IN ({some})")
        except TraceError:
            continue  # names are lost, figures are not
        for key, value in zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True):
            if value is not None:
                values[key] = value.decode(errors="replace")
    return values


def _text(
    table: pa.Table,
    name: str,
    ids: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    values: Mapping[int, str],
) -> pd.Categorical:
    """Build a text column from string ids, and from the text itself where a row carries it."""
    codes, unique = ids or (np.zeros(len(table), dtype=np.int64), np.array([UNSET]))
    named = [values[i] if i in values else _unnamed(i) for i in unique.tolist()]
    if name in table.column_names:
        own = pc.dictionary_encode(table[name].combine_chunks())
        texts = [text.decode(errors="replace") for text in own.dictionary.to_pylist()]
        carried = np.array([bool(text) for text in texts], dtype=bool)
        own_codes = own.indices.to_numpy()
        codes = np.where(carried[own_codes], own_codes, codes + len(texts))
        named = texts + named
    categories, merged = np.unique(np.asarray(named, dtype=object), return_inverse=True)
    return pd.Categorical.from_codes(merged[codes], categories=pd.Index(categories, dtype=object))


def _without_versions(names: pd.Categorical) -> pd.Categorical:
    """Strip from API names the version of CUDA that nsys adds; names that become alike merge."""
    bare = [_VERSION_SUFFIX.sub("", name) for name in names.categories]
    unique, merged = np.unique(np.asarray(bare, dtype=object), return_inverse=True)
    return pd.Categorical.from_codes(merged[names.codes], categories=pd.Index(unique, dtype=object))


def _unnamed(string_id: int) -> str:
    return "" if string_id == UNSET else f"string {string_id} (not in the export)"
