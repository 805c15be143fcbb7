"""`Trace` -> SQLite export with the schema of `nsysoffload.trace.ddl`.

Used for predicted, converted and test traces. As in exports of Nsight Systems, a kind without rows
has no table. What a trace does not carry is NULL, or a neutral value where NULL is not allowed.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.ddl import ENUMS, SCHEMA_VERSION, create_table
from nsysoffload.trace.metadata import CAPTURE_KIND, CAPTURE_PREDICTION, CAPTURE_RECORDER
from nsysoffload.trace.prediction import to_json
from nsysoffload.trace.schema import UINT32_UNSET, CopyKind, EventClass
from nsysoffload.trace.shapes import launch_of
from nsysoffload.trace.tables import TABLES, UNSET, Source, Trace

__all__ = ["write"]

Columns = Mapping[str, NDArray[Any] | int | str]
"""Cells by column of the export; a scalar stands in every row, a column left out is NULL."""

CHUNK_ROWS = 100_000  # rows that are Python objects at one time
ID_BITS = 24  # of a process or thread id within globalPid and globalTid
PID_MASK = (1 << ID_BITS) - 1
VM = 1 << 48  # global id of the first virtual machine, where the GPUs are
NULL_STREAM = 7  # in every context of every export seen
NULL_STREAM_FLAG = 3  # ENUM_CUPTI_STREAM_TYPE
UNIFIED_KINDS = (
    CopyKind.UNIFIED_HOST_TO_DEVICE,
    CopyKind.UNIFIED_DEVICE_TO_HOST,
    CopyKind.UNIFIED_DEVICE_TO_DEVICE,
)


def write(
    trace: Trace, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a trace as an SQLite export; the file appears under its name only once complete.

    Parameters
    ----------
    trace : Trace
        Rows are written in their order. `absent` and `warnings` are not written.
    path : path
        The export; a file of that name is replaced.
    metadata : mapping of str to str, optional
        Further rows of META_DATA_CAPTURE.

    Raises
    ------
    TraceError
        If the file cannot be written: no such folder, no permission, no space.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise TraceError(f"The folder {path.parent} does not exist; create it or choose another.")
    part = path.with_name(f".nsysoffload-{secrets.token_hex(8)}.part")
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as db:
            _fill(db, _tables(trace, metadata or {}))
        part.replace(path)
    except (sqlite3.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{path.name} cannot be written ({reason}); free space or choose another folder."
        raise TraceError(message) from error
    finally:
        part.unlink(missing_ok=True)


def _fill(db: sqlite3.Connection, tables: Iterator[tuple[str, Columns]]) -> None:
    # The file has no reader before it is complete, so a journal would protect nothing.
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("BEGIN")
    for table, columns in tables:
        db.execute(create_table(table))
        _insert(db, table, columns)
    db.execute("COMMIT")


def _insert(db: sqlite3.Connection, table: str, columns: Columns) -> None:
    cells = np.broadcast_arrays(*columns.values())
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    for first in range(0, len(cells[0]), CHUNK_ROWS):
        chunk = [column[first : first + CHUNK_ROWS].tolist() for column in cells]
        db.executemany(statement, zip(*chunk, strict=True))


def _tables(trace: Trace, metadata: Mapping[str, str]) -> Iterator[tuple[str, Columns]]:
    strings = _Strings()
    for name, (table, columns) in _KINDS.items():
        rows = getattr(trace, name)
        if len(rows):
            yield table, columns(rows, strings)
    yield "StringIds", strings.columns()
    yield from _target_info(trace)
    yield "META_DATA_EXPORT", _pairs(_export_metadata(trace.source))
    yield "META_DATA_CAPTURE", _pairs({**metadata, **_capture_metadata(trace.source)})
    for enum, values in ENUMS.items():
        ids, names, labels = zip(*values, strict=True)
        yield enum, {"id": np.array(ids), "name": _objects(names), "label": _objects(labels)}


# --- Cells ---


class _Strings:
    """The strings of StringIds, each kept once."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def ids(self, text: "pd.Series[str]") -> NDArray[np.int64]:
        """Return the id of each cell; a missing text counts as an empty one."""
        codes, names = pd.factorize(text, use_na_sentinel=False)
        values = ["" if pd.isna(name) else name for name in names]
        ids = [self._ids.setdefault(value, len(self._ids) + 1) for value in values]
        return np.array(ids, dtype=np.int64)[codes]

    def columns(self) -> Columns:
        return {"id": np.array(list(self._ids.values()), int), "value": _objects(self._ids)}


def _objects(values: Iterable[object]) -> NDArray[Any]:
    return np.array(list(values), dtype=object)


def _pairs(values: Mapping[str, str]) -> Columns:
    return {"name": _objects(values), "value": _objects(values.values())}


def _filled(values: ArrayLike, value: int) -> NDArray[Any]:
    """Return the values with another one for UNSET, for columns that are NOT NULL."""
    cells = np.array(values)
    cells[cells == UNSET] = value
    return cells


def _or_null(values: ArrayLike) -> NDArray[Any]:
    """Return the values with NULL for UNSET."""
    cells = np.array(values)
    unset = cells == UNSET
    if unset.any():
        cells = cells.astype(object)
        cells[unset] = None
    return cells


def _global_pid(rows: pd.DataFrame) -> NDArray[Any]:
    process = rows["process"].to_numpy()
    return _or_null(np.where(process == UNSET, UNSET, process << ID_BITS))


def _global_tid(rows: pd.DataFrame) -> NDArray[Any]:
    process, thread = rows["process"].to_numpy(), rows["thread"].to_numpy()
    unset = (process == UNSET) | (thread == UNSET)
    return _or_null(np.where(unset, UNSET, process << ID_BITS | thread))


# --- Kinds of rows ---


def _when(rows: pd.DataFrame) -> Columns:
    return {"start": rows["start_ns"].to_numpy(), "end": rows["end_ns"].to_numpy()}


def _where(rows: pd.DataFrame, unset: int = 0) -> Columns:
    return {
        "deviceId": _filled(rows["ordinal"], unset),
        "contextId": _filled(rows["context"], unset),
        "streamId": _filled(rows["stream"], unset),
        "correlationId": _or_null(rows["correlation"]),
        "globalPid": _global_pid(rows),
    }


def _kernels(rows: pd.DataFrame, strings: _Strings) -> Columns:
    name = strings.ids(rows["name"])
    unknown = (
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "localMemoryPerThread",
        "localMemoryTotal",
        "gridId",
    )
    return {
        **_when(rows),
        **_where(rows),
        "demangledName": name,
        "shortName": name,
        "graphNodeId": _or_null(rows["graph_node"]),
        **launch_of(rows["shape"].to_numpy()),
        **dict.fromkeys(unknown, 0),
        "tensorSizeMinusOneElements": "[]",
    }


def _copies(rows: pd.DataFrame, _: _Strings) -> Columns:
    unified = rows["copy_kind"].isin(UNIFIED_KINDS).to_numpy()
    return {
        **_when(rows),
        **_where(rows),
        "bytes": _filled(rows["size_bytes"], 0),
        "copyKind": rows["copy_kind"].to_numpy(),
        "srcKind": _or_null(rows["source_kind"]),
        "dstKind": _or_null(rows["target_kind"]),
        "migrationCause": _or_null(np.where(unified, 0, UNSET)),  # 0: unknown
        "graphNodeId": _or_null(rows["graph_node"]),
        "copyCount": _or_null(np.where(unified, UNSET, 1)),
    }


def _memsets(rows: pd.DataFrame, _: _Strings) -> Columns:
    return {
        **_when(rows),
        **_where(rows),
        "value": 0,
        "bytes": _filled(rows["size_bytes"], 0),
        "graphNodeId": _or_null(rows["graph_node"]),
    }


def _graph_spans(rows: pd.DataFrame, _: _Strings) -> Columns:
    return {**_when(rows), **_where(rows), "graphId": 0, "graphExecId": 0}


def _calls(rows: pd.DataFrame, strings: _Strings) -> Columns:
    driver = rows["name"].str.match("cu(?!da)", na=False).to_numpy()
    return {
        **_when(rows),
        "eventClass": np.where(driver, EventClass.DRIVER, EventClass.RUNTIME),
        "globalTid": _global_tid(rows),
        "correlationId": _or_null(rows["correlation"]),
        "nameId": strings.ids(rows["name"]),
        "returnValue": _filled(rows["return_value"], 0),
    }


def _nvtx_ranges(rows: pd.DataFrame, strings: _Strings) -> Columns:
    return {
        "start": rows["start_ns"].to_numpy(),
        "end": _or_null(rows["end_ns"]),
        "eventType": rows["event_type"].to_numpy(),
        "globalTid": _global_tid(rows),
        "textId": strings.ids(rows["text"]),
        "domainId": _or_null(rows["domain"]),
    }


def _syncs(rows: pd.DataFrame, _: _Strings) -> Columns:
    stream, event = rows["stream"] != UNSET, rows["event"] != UNSET
    return {
        **_when(rows),
        **_where(rows, UINT32_UNSET),
        # ENUM_CUPTI_SYNC_TYPE as 3.25.0 uses it: event, stream wait, stream, context
        "syncType": np.select([stream & event, stream, event], [2, 3, 1], 4),
        "eventId": _filled(rows["event"], UINT32_UNSET),
        "eventSyncId": _or_null(rows["event_sync"]),
    }


def _events(rows: pd.DataFrame, _: _Strings) -> Columns:
    return {
        "timestamp": 0,  # not collected
        **_where(rows),
        "eventId": _filled(rows["event"], UINT32_UNSET),
        "eventSyncId": _or_null(rows["event_sync"]),
    }


_KINDS: Mapping[str, tuple[str, Callable[[pd.DataFrame, _Strings], Columns]]] = {
    "kernels": ("CUPTI_ACTIVITY_KIND_KERNEL", _kernels),
    "copies": ("CUPTI_ACTIVITY_KIND_MEMCPY", _copies),
    "memsets": ("CUPTI_ACTIVITY_KIND_MEMSET", _memsets),
    "graph_spans": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _graph_spans),
    "calls": ("CUPTI_ACTIVITY_KIND_RUNTIME", _calls),
    "nvtx_ranges": ("NVTX_EVENTS", _nvtx_ranges),
    "syncs": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _syncs),
    "events": ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", _events),
}


# --- What the rows ran on ---


def _target_info(trace: Trace) -> Iterator[tuple[str, Columns]]:
    places = _places(trace)
    tables = {
        "PROCESSES": _processes(trace),
        "TARGET_INFO_GPU": _gpus(trace.gpus),
        "TARGET_INFO_CUDA_DEVICE": _devices(places, trace.gpus),
        "TARGET_INFO_CUDA_CONTEXT_INFO": _contexts(places),
        "TARGET_INFO_CUDA_STREAM": _streams(places),
        "TARGET_INFO_SESSION_START_TIME": {"utcEpochNs": _objects([None])},
    }
    for table, columns in tables.items():
        if len(np.broadcast_arrays(*columns.values())[0]):
            yield table, columns


def _places(trace: Trace) -> pd.DataFrame:
    """Return the distinct process, ordinal, device, context and stream of rows on known GPUs."""
    keys = ["process", "ordinal", "device", "context", "stream"]
    frames = [getattr(trace, name) for name, table in TABLES.items() if "device" in table.names]
    places: pd.DataFrame = pd.concat([frame[keys].drop_duplicates() for frame in frames])
    places = places.drop_duplicates()
    return places.loc[(places["process"] != UNSET) & (places["device"] != UNSET)]


def _processes(trace: Trace) -> Columns:
    processes = pd.concat([getattr(trace, name)["process"].drop_duplicates() for name in TABLES])
    known = np.unique(processes[processes != UNSET])
    return {"globalPid": known << ID_BITS, "pid": known & PID_MASK}


def _gpus(gpus: pd.DataFrame) -> Columns:
    return {
        "vmId": VM,
        "id": np.arange(len(gpus)),
        "name": _objects(gpus["name"]),
        "uuid": _objects(gpus["uuid"]),
        "chipName": "unknown",  # an empty one marks adapters that are no CUDA devices
        "cuDevice": _or_null(gpus["ordinal"]),
        "asyncEngines": _or_null(gpus["copy_engines"]),
    }


def _devices(places: pd.DataFrame, gpus: pd.DataFrame) -> Columns:
    used = places[["process", "ordinal", "device"]].drop_duplicates()
    device = used["device"].to_numpy()
    return {
        "gpuId": device,
        "cudaId": used["ordinal"].to_numpy(),
        "pid": used["process"].to_numpy() & PID_MASK,
        "uuid": _objects(gpus["uuid"])[device],
    }


def _process_ids(process: NDArray[np.int64]) -> Columns:
    return {
        "hwId": process >> (ID_BITS + 8) & 0xFF,
        "vmId": process >> ID_BITS & 0xFF,
        "processId": process & PID_MASK,
    }


def _contexts(places: pd.DataFrame) -> Columns:
    used = places.loc[places["context"] > 0, ["process", "ordinal", "context"]].drop_duplicates()
    return {
        "nullStreamId": NULL_STREAM,
        **_process_ids(used["process"].to_numpy()),
        "deviceId": used["ordinal"].to_numpy(),
        "contextId": used["context"].to_numpy(),
    }


def _streams(places: pd.DataFrame) -> Columns:
    known = (places["context"] > 0) & (places["stream"] > 0)
    used = places.loc[known, ["process", "context", "stream"]].drop_duplicates()
    return {
        "streamId": used["stream"].to_numpy(),
        **_process_ids(used["process"].to_numpy()),
        "contextId": used["context"].to_numpy(),
        "priority": 0,
        "flag": np.where(used["stream"] == NULL_STREAM, NULL_STREAM_FLAG, 0),  # 0: unknown
    }


# --- What the file says about itself ---


def _export_metadata(source: Source) -> dict[str, str]:
    """Return the versions; the file is no product of Nsight Systems unless its rows are."""
    product = {"EXPORT_PRODUCT_NAME": "nsysoffload"}
    if source.nsys_version is not None:
        product = {
            "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
            "EXPORT_PRODUCT_VERSION": source.nsys_version,
        }
    parts = zip(("MAJOR", "MINOR", "MICRO"), SCHEMA_VERSION.split("."), strict=True)
    return product | {
        "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
        **{f"EXPORT_SCHEMA_VERSION_{part}": number for part, number in parts},
    }


def _capture_metadata(source: Source) -> dict[str, str]:
    made = {} if source.prediction is None else {CAPTURE_PREDICTION: to_json(source.prediction)}
    return {CAPTURE_KIND: source.kind, CAPTURE_RECORDER: source.recorder, **made}
