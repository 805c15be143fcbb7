"""Nsight Systems SQLite export -> `Trace`.

What a version lacks is UNSET in the rows, and said in the trace's warnings. Nothing is believed or
judged here: see `nsysoffload.timeline`.
"""

import ctypes
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export
from nsysoffload.trace.gpus import assign_gpus
from nsysoffload.trace.layout import Layout, layouts
from nsysoffload.trace.metadata import capture_warnings, contents, source
from nsysoffload.trace.rows import Progress, read_rows
from nsysoffload.trace.schema import UINT32_UNSET
from nsysoffload.trace.tables import NO_TIME, TABLES, UNSET, Trace
from nsysoffload.trace.text import Ids, strings, text, without_versions

__all__ = ["GPU_TABLES", "read"]

GPU_TABLES = ("kernels", "copies", "memsets", "graph_spans")
"""Tables whose rows are GPU activity; an export without any of them cannot be analysed."""

_PROCESS_BITS = 24


def read(
    path: Path,
    tables: Collection[str] = tuple(TABLES),
    columns: Mapping[str, Collection[str]] = MappingProxyType({}),
    progress: Progress | None = None,
) -> Trace:
    """Read an export.

    Parameters
    ----------
    path : Path
        SQLite export; opened read-only, and nothing is written beside it.
    tables : collection of str
        Which of `TABLES` to read; the others stay empty.
    columns : mapping of collection of str
        For some tables the columns to read; the others of these tables stay UNSET or NO_TIME.
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
    found, warnings = layouts(export)
    if not found.keys() & set(GPU_TABLES):
        raise TraceError(contents(export))
    wanted = {
        name: found[name].only(columns.get(name, TABLES[name].names))
        for name in TABLES
        if name in found and name in tables
    }
    rows, unread = read_rows(export, wanted, GPU_TABLES, progress)
    if not any(len(rows[name]) for name in rows if name in GPU_TABLES):
        raise TraceError(contents(export))
    frames = _frames(export, wanted, rows)
    _return_freed_memory()
    gpus, frames, doubts = assign_gpus(export, frames)
    present = {name for name in found if _has_rows(export, found[name], frames.get(name))}
    complete: dict[str, Any] = {name: TABLES[name].conform(frame) for name, frame in frames.items()}
    return Trace(
        source=source(export),
        gpus=gpus,
        **complete,
        absent=frozenset(TABLES) - present,
        warnings=(*warnings, *unread, *doubts, *capture_warnings(export)),
    )


def _return_freed_memory() -> None:
    """Return what reading has freed to the system; glibc would keep a quarter of the peak."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


def _has_rows(export: Export, layout: Layout, frame: pd.DataFrame | None) -> bool:
    return not (layout.is_empty(export) if frame is None else frame.empty)


def _frames(
    export: Export, wanted: Mapping[str, Layout], rows: dict[str, pa.Table]
) -> dict[str, pd.DataFrame]:
    """Turn Arrow columns into frames; ``device`` is still to be assigned."""
    ids = {
        name: _ids(table, f"{own}_id")
        for name, table in rows.items()
        for own in wanted[name].strings
        if f"{own}_id" in table.column_names
    }
    values = strings(export, ids.values())
    frames = {}
    for name in list(rows):
        table = rows.pop(name)  # so that rows are not held twice
        columns: dict[str, Any] = {}
        for column in TABLES[name].columns:
            if column.dtype == "category":
                texts = text(table, column.name, ids.get(name), values)
                columns[column.name] = without_versions(texts) if name == "calls" else texts
            else:
                columns[column.name] = _integers(table, column.name, _missing(name, column.name))
        frames[name] = _split_process(name, pd.DataFrame(columns, copy=False))
    return frames


def _missing(table: str, column: str) -> int:
    open_range = (table, column) == ("nvtx_ranges", "end_ns")
    return NO_TIME if column in ("start_ns", "end_ns") and not open_range else UNSET


def _integers(table: pa.Table, name: str, missing: int = UNSET) -> NDArray[np.int64]:
    if name not in table.column_names:
        return np.broadcast_to(np.int64(missing), len(table))  # takes no memory
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


def _ids(table: pa.Table, column: str) -> Ids:
    """Return codes per row and the distinct string ids they stand for."""
    codes, unique = pd.factorize(_integers(table, column))
    return codes, np.asarray(unique, dtype=np.int64)
