"""Tables of an export with schema 3.25.0 (Nsight Systems 2026.2), as data for the writer.

Columns stand in the order of the export. `!` marks NOT NULL, `*` the primary key; a column is an
INTEGER unless `:TEXT` or `:REAL` follows. Sources: exports of 2026.1 and 2026.2, and for
CUPTI_ACTIVITY_KIND_GRAPH_TRACE, which none of them has, NVIDIA's "SQLite Schema Reference".
"""

from collections.abc import Mapping

__all__ = ["ENUMS", "SCHEMA_VERSION", "TABLES", "create_table"]

SCHEMA_VERSION = "3.25.0"

_WHEN = "start! end!"
_WHERE = "deviceId! contextId! greenContextId streamId! correlationId globalPid"
_CUPTI = "CUPTI_ACTIVITY_KIND_"

_COLUMNS = {
    "StringIds": "id* value:TEXT!",
    f"{_CUPTI}KERNEL": f"""
        {_WHEN} {_WHERE} demangledName! shortName! mangledName launchType cacheConfig
        registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory!
        dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted
        graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone
        graphId clusterX clusterY clusterZ clusterSchedulingPolicy maxPotentialClusterSize
        maxActiveClusters sharedMemoryRequestedPercentage tensorSizeMinusOneElements:TEXT!""",
    f"{_CUPTI}MEMCPY": f"""
        {_WHEN} {_WHERE} bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId
        dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount""",
    f"{_CUPTI}MEMSET": f"{_WHEN} {_WHERE} value! bytes! graphNodeId memKind",
    f"{_CUPTI}GRAPH_TRACE": f"{_WHEN} {_WHERE} graphId! graphExecId!",
    f"{_CUPTI}RUNTIME": f"""
        {_WHEN} eventClass! globalTid correlationId nameId! returnValue! callchainId""",
    f"{_CUPTI}SYNCHRONIZATION": f"""
        {_WHEN} {_WHERE} deprecatedSyncType syncType! eventId! eventSyncId""",
    f"{_CUPTI}CUDA_EVENT": f"timestamp {_WHERE} eventId! eventSyncId",
    "NVTX_EVENTS": """
        start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId
        domainId uint64Value int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL
        jsonTextId jsonText:TEXT binaryData:TEXT""",
    "PROCESSES": "globalPid pid name:TEXT",
    "TARGET_INFO_GPU": """
        vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth
        clockRate smCount pwGpuId uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT
        ctrlDevPath:TEXT revision nodeMask constantMemory maxIPC maxRegistersPerBlock
        maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp
        asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY
        maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor
        smMinor""",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid! uuid:TEXT numMultiprocessors",
    "TARGET_INFO_CUDA_CONTEXT_INFO": """
        nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext
        numMultiprocessors numTpcs tpcMask:TEXT workqueueResourceId workqueueConcurrencyLimit
        workqueueSharingScope""",
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT systemClockNs",
    "META_DATA_CAPTURE": "name:TEXT! value:TEXT",
    "META_DATA_EXPORT": "name:TEXT! value:TEXT",
}


def _definition(column: str) -> str:
    name, _, kind = column.rstrip("!*").partition(":")
    required = {"!": " NOT NULL", "*": " NOT NULL PRIMARY KEY"}.get(column[-1], "")
    return f"{name} {kind or 'INTEGER'}{required}"


_ENUM = "id* name:TEXT label:TEXT"


def _enum(prefix: str, **labels: str) -> tuple[tuple[int, str, str], ...]:
    return tuple((id_, prefix + name, label) for id_, (name, label) in enumerate(labels.items()))


ENUMS: Mapping[str, tuple[tuple[int, str, str], ...]] = {
    "ENUM_CUDA_MEMCPY_OPER": _enum(
        "CUDA_MEMCPY_KIND_",
        UNKNOWN="Unknown",
        HTOD="Host-to-Device",
        DTOH="Device-to-Host",
        HTOA="Host-to-Array",
        ATOH="Array-to-Host",
        ATOA="Array-to-Array",
        ATOD="Array-to-Device",
        DTOA="Device-to-Array",
        DTOD="Device-to-Device",
        HTOH="Host-to-Host",
        PTOP="Peer-to-Peer",
        UVM_HTOD="Unified Host-to-Device",
        UVM_DTOH="Unified Device-to-Host",
        UVM_DTOD="Unified Device-to-Device",
    ),
    "ENUM_CUDA_MEM_KIND": _enum(
        "CUDA_MEMOPR_MEMORY_KIND_",
        PAGEABLE="Pageable",
        PINNED="Pinned",
        DEVICE="Device",
        ARRAY="Array",
        MANAGED="Managed",
        DEVICE_STATIC="Device Static",
        MANAGED_STATIC="Managed Static",
        UNKNOWN="Unknown",
    ),
    "ENUM_CUDA_UNIF_MEM_MIGRATION": _enum(
        "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_",
        UNKNOWN="Unknown",
        USER="User prefetch",
        COHERENCE="Page fault",
        PREFETCH="Speculative prefecth",  # spelled so in the exports
        EVICTION="Eviction",
        ACCESS_COUNTERS="Access counters",
    ),
    "ENUM_CUPTI_SYNC_TYPE": _enum(
        "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_",
        UNKNOWN="Unknown",
        EVENT_SYNCHRONIZE="Event sync",
        STREAM_WAIT_EVENT="Stream wait sync",
        STREAM_SYNCHRONIZE="Stream sync",
        CONTEXT_SYNCHRONIZE="Context sync",
    ),
    "ENUM_CUPTI_STREAM_TYPE": _enum(
        "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_",
        UNKNOWN="Unknown stream type",
        DEFAULT="Default stream",
        NON_BLOCKING="Non-blocking stream",
        NULL="Null stream",
    ),
    "ENUM_NSYS_EVENT_CLASS": _enum(
        "TRACE_PROCESS_EVENT_", CUDA_RUNTIME="CUDA runtime", CUDA_DRIVER="CUDA driver"
    ),
    "ENUM_NSYS_EVENT_TYPE": (
        (33, "NvtxCategory", "NvtxCategory"),
        (34, "NvtxMark", "NvtxMark"),
        (39, "NvtxThread", "NvtxThread"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
        (75, "NvtxDomainCreate", "NvtxDomainCreate"),
        (76, "NvtxDomainDestroy", "NvtxDomainDestroy"),
    ),
}
"""Rows ``(id, name, label)`` of the ENUM tables that columns filled by the writer refer to."""

TABLES: Mapping[str, tuple[str, ...]] = {
    table: tuple(_definition(column) for column in columns.split())
    for table, columns in {**_COLUMNS, **dict.fromkeys(ENUMS, _ENUM)}.items()
}
"""Column definitions by table, such as ``start INTEGER NOT NULL``."""


def create_table(name: str) -> str:
    """Return the statement that creates a table of `TABLES`.

    Examples
    --------
    >>> create_table("PROCESSES")
    'CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)'
    """
    return f"CREATE TABLE {name} ({', '.join(TABLES[name])})"
