"""Planes of GPUs: what ran on each stream.

Beside the streams, a plane may have lines that were derived from them, such as ``XLA Ops`` or
``Steps``: these show the same time again and are not read.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from nsysoffload.trace.tables import UNSET
from nsysoffload.trace.xplane.details import (
    COPY_KINDS,
    MIGRATION_KINDS,
    launch_shape,
    memory_kinds,
    size_bytes,
)
from nsysoffload.trace.xplane.operations import Operations
from nsysoffload.trace.xplane.profile import Plane, Row, frame_of, integer

__all__ = ["GPU_TABLES", "DeviceRows", "device_rows", "ordinal_of"]

_PLANE = re.compile(r"/device:GPU:(\d{1,4})")
_STREAM = re.compile(r"Stream #(\d{1,18})(?:\(.*\))?")
# CUPTI's own work has no stream, and gives its line this name even where there is one.
_OVERHEAD = "CUPTI overhead"
_PSEUDO_STREAM = 0x1000_0000  # from here on, numbers stand for counters of unified memory
_CONTEXT = re.compile(r"\$\$(\d{1,18})")
# Of events that are no work of the GPU: allocations, CUPTI's own time, counters of page faults.
_IDLE = re.compile(
    r"Memory\w* ?\w*|COMPILER|BUFFER_FLUSH|INSTRUMENTATION|RESOURCE|UM_\w+|<UNKNOWN>"
)

_WHERE = dict.fromkeys(("ordinal", "context", "stream", "correlation", "operation"), "int64")
_GRAPH_NODE = {"graph_node": "int64"}
_COPY = dict.fromkeys(("size_bytes", "copy_kind", "source_kind", "target_kind"), "int64")
GPU_TABLES: Mapping[str, Mapping[str, str]] = {
    "kernels": _WHERE | {"name": "category", "shape": "int64"} | _GRAPH_NODE,
    "copies": _WHERE | _COPY | _GRAPH_NODE,
    "memsets": _WHERE | {"size_bytes": "int64"} | _GRAPH_NODE,
    "graph_spans": _WHERE,
}
"""Columns of the rows that are read, beside the times, and their dtypes."""


@dataclass(frozen=True)
class DeviceRows:
    """Rows of all GPUs by table of `GPU_TABLES`, and how many events are of no known kind."""

    tables: Mapping[str, pd.DataFrame]
    unknown: int


def ordinal_of(plane_name: str) -> int | None:
    """Return the number of the GPU that a plane is of, None if it is of none."""
    found = _PLANE.fullmatch(plane_name)
    return int(found[1]) if found else None


def device_rows(planes: Iterable[Plane], operations: Operations) -> DeviceRows:
    """Read the rows of GPUs; the operations that they name are added to those known."""
    rows: dict[str, list[Row]] = {name: [] for name in GPU_TABLES}
    unknown = 0
    for plane in planes:
        ordinal = ordinal_of(plane.name)
        for line in plane.lines:
            stream = _stream(line.name)
            if stream is None:
                continue
            for event in line.events:
                name, stats = event.name, dict(event.stats)
                table, cells = _described(name, stats)
                if table:
                    where = (ordinal, _context(stats), stream)
                    caused = integer(stats.get("correlation_id")), operations.number(stats)
                    when = (event.start_ns, event.duration_ns)
                    rows[table].append((*when, *where, *caused, *cells))
                elif not _IDLE.fullmatch(name):
                    unknown += 1
    tables = {name: frame_of(rows.pop(name), columns) for name, columns in GPU_TABLES.items()}
    return DeviceRows(tables, unknown)


def _stream(line_name: str) -> int | None:
    """Return a line's stream, UNSET if it has an unknown one, None if it is of no stream."""
    found = _STREAM.fullmatch(line_name)
    if found:
        return int(found[1]) if int(found[1]) < _PSEUDO_STREAM else UNSET
    return UNSET if line_name == _OVERHEAD else None


def _context(stats: Mapping[str, object]) -> int:
    found = _CONTEXT.fullmatch(str(stats.get("context_id", "")))
    return int(found[1]) if found else UNSET


def _described(name: str, stats: Mapping[str, object]) -> tuple[str, Row]:
    """Return the table that an event belongs to, none if it is no work, and its own cells."""
    graph_node = integer(stats.get("cuda_graph_node_id"))
    if "kernel_details" in stats:
        shape = launch_shape(str(stats["kernel_details"]))
        # ROCm names the descriptor of a kernel, not the kernel.
        return "kernels", (name.removesuffix(".kd"), shape, graph_node)
    if name in COPY_KINDS:
        details = str(stats.get("memcpy_details", ""))
        kinds = memory_kinds(details)
        return "copies", (size_bytes(details), COPY_KINDS[name], *kinds, graph_node)
    if name in MIGRATION_KINDS:
        return "copies", (UNSET, MIGRATION_KINDS[name], UNSET, UNSET, UNSET)
    if "Memset_details" in stats:
        return "memsets", (size_bytes(str(stats["Memset_details"])), graph_node)
    return ("graph_spans" if "cuda_graph_exec_id" in stats else ""), ()
