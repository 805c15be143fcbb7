"""Names and numbers of the Nsight Systems SQLite schema, as exports from 2021 to 2026 have them.

The enumerations are written out because exports before 2022.4 have no ENUM tables. Source: the
ENUM tables of exports with schema 3.0.0 to 3.25.0, and NVIDIA's "SQLite Schema Reference".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from nsysoffload.trace.shapes import SHAPE_BITS

__all__ = [
    "ANY_DEVICE",
    "ORIGINS",
    "UINT32_UNSET",
    "CopyKind",
    "EventClass",
    "MemKind",
    "NvtxKind",
    "Origin",
]


class CopyKind(IntEnum):
    """``copyKind`` of a memory copy (ENUM_CUDA_MEMCPY_OPER)."""

    UNKNOWN = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_ARRAY = 3
    ARRAY_TO_HOST = 4
    ARRAY_TO_ARRAY = 5
    ARRAY_TO_DEVICE = 6
    DEVICE_TO_ARRAY = 7
    DEVICE_TO_DEVICE = 8
    HOST_TO_HOST = 9
    PEER_TO_PEER = 10
    UNIFIED_HOST_TO_DEVICE = 11
    UNIFIED_DEVICE_TO_HOST = 12
    UNIFIED_DEVICE_TO_DEVICE = 13


class MemKind(IntEnum):
    """``srcKind`` and ``dstKind`` (ENUM_CUDA_MEM_KIND). CUPTI's own numbers differ by one."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    DEVICE_STATIC = 5
    MANAGED_STATIC = 6
    UNKNOWN = 7


class EventClass(IntEnum):
    """``eventClass`` of an API row; other classes repeat calls, such as 67, a call's backtrace."""

    RUNTIME = 0
    DRIVER = 1


class NvtxKind(IntEnum):
    """``eventType`` of an NVTX row (ENUM_NSYS_EVENT_TYPE)."""

    CATEGORY = 33
    MARK = 34
    THREAD_NAME = 39
    PUSH_POP = 59
    START_END = 60
    DOMAIN_CREATE = 75
    DOMAIN_DESTROY = 76


@dataclass(frozen=True)
class Origin:
    """Where a table of a trace comes from in an export, found by tables and columns.

    `columns` maps each column of ours to the export's columns that may hold it, the first present
    one wins; ``start_ns`` and the like are read as integers, ``text`` and ``name`` see `strings`.
    """

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    required: frozenset[str]
    """Columns of ours without which the table is of no use."""
    signature: frozenset[str]
    """Columns by which a renamed table is recognised."""
    foreign: frozenset[str] = frozenset()
    """Columns that only similar tables have."""
    where: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values to which a column of the export is restricted."""
    strings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Text columns of ours, and the columns that hold an id of StringIds for them."""
    packed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Columns of ours that stand for several: their sum, each less 1 and shifted by so many bits,
    less 1 in turn."""


def _columns(**columns: str) -> dict[str, tuple[str, ...]]:
    return {ours: tuple(theirs.split()) for ours, theirs in columns.items()}


_WHERE = _columns(
    process="globalPid",
    ordinal="deviceId",
    context="contextId",
    stream="streamId",
    correlation="correlationId",
)
_WHEN = _columns(start_ns="start", end_ns="end")
_CALL = _columns(process="globalTid", correlation="correlationId", return_value="returnValue")
_SPAN = frozenset({"start_ns", "end_ns"})

ORIGINS: Mapping[str, Origin] = {
    "kernels": Origin(
        tables=("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"),
        columns=_WHERE | _WHEN | _columns(graph_node="graphNodeId"),
        required=_SPAN,
        signature=frozenset({"start", "end", "deviceId", "streamId", "gridX", "blockX"}),
        strings={"name": ("demangledName", "shortName", "mangledName")},
        packed={"shape": SHAPE_BITS},
    ),
    "copies": Origin(
        tables=("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2"),
        columns=_WHERE
        | _WHEN
        | _columns(
            size_bytes="bytes",
            copy_kind="copyKind",
            source_kind="srcKind",
            target_kind="dstKind",
            graph_node="graphNodeId",
            row_id="rowid",
        ),
        required=_SPAN | {"copy_kind"},
        signature=frozenset({"start", "end", "deviceId", "bytes", "copyKind"}),
    ),
    "memsets": Origin(
        tables=("CUPTI_ACTIVITY_KIND_MEMSET",),
        columns=_WHERE | _WHEN | _columns(size_bytes="bytes", graph_node="graphNodeId"),
        required=_SPAN,
        signature=frozenset({"start", "end", "deviceId", "streamId", "value", "bytes"}),
    ),
    "graph_spans": Origin(
        tables=("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",),
        columns=_WHERE | _WHEN,
        required=_SPAN,
        signature=frozenset({"start", "end", "deviceId", "graphId", "graphExecId"}),
    ),
    "calls": Origin(
        tables=("CUPTI_ACTIVITY_KIND_RUNTIME",),
        columns=_CALL | _WHEN,
        required=_SPAN | {"process", "correlation"},
        signature=frozenset(
            {"start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"}
        ),
        foreign=frozenset({"nestingLevel"}),  # OSRT_API
        where={"eventClass": (EventClass.RUNTIME, EventClass.DRIVER)},
        strings={"name": ("nameId",)},
    ),
    "nvtx_ranges": Origin(
        tables=("NVTX_EVENTS",),
        columns=_WHEN | _columns(process="globalTid", event_type="eventType", domain="domainId"),
        required=_SPAN | {"process", "event_type"},
        signature=frozenset({"start", "end", "eventType", "text", "globalTid", "domainId"}),
        where={"eventType": (NvtxKind.PUSH_POP, NvtxKind.START_END)},
        strings={"text": ("textId",)},
    ),
    "syncs": Origin(
        tables=("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",),
        columns=_WHERE | _WHEN | _columns(event="eventId", event_sync="eventSyncId"),
        required=_SPAN,
        signature=frozenset({"start", "end", "deviceId", "streamId", "syncType", "eventId"}),
    ),
    "events": Origin(
        tables=("CUPTI_ACTIVITY_KIND_CUDA_EVENT",),
        columns=_WHERE | _columns(event="eventId", event_sync="eventSyncId"),
        required=frozenset({"event"}),
        signature=frozenset({"deviceId", "contextId", "streamId", "correlationId", "eventId"}),
        foreign=frozenset({"syncType"}),
    ),
}
"""Tables of a trace by name. What a version lacks is simply not among an export's columns."""

UINT32_UNSET = 4_294_967_295
"""What streamId and eventId of a synchronisation hold where they do not apply."""

ANY_DEVICE = 2_147_483_647
"""deviceId of a graph span whose graph starts with a host node: any device of its process."""
