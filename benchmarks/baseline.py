"""What any analysis in Python pays at least: ``fetchall()`` of the columns that it needs.

Run as a script, ``python benchmarks/baseline.py FILE``, so that nothing but sqlite3 is imported.
"""

import sqlite3
import sys

__all__ = ["COLUMNS"]

WHEN = "start, end"
WHERE = f"{WHEN}, deviceId, contextId, streamId, correlationId, globalPid"
SIGNAL = "contextId, streamId, correlationId, globalPid, eventId, eventSyncId"
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{WHERE}, graphNodeId, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{WHERE}, graphNodeId, bytes, copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": f"{WHEN}, globalTid, correlationId, nameId, eventClass",
    "NVTX_EVENTS": f"{WHEN}, eventType, globalTid, text, textId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": SIGNAL,
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": SIGNAL,
}
"""What an analysis needs of kernels, copies, API calls, NVTX ranges, waits and events."""


def main(file: str) -> None:
    """Read the tables, one after the other, and keep them as an analysis would."""
    connection = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    rows = {
        table: connection.execute(f"SELECT {columns} FROM {table}").fetchall()
        for table, columns in COLUMNS.items()
    }
    print(sum(map(len, rows.values())))


if __name__ == "__main__":
    main(sys.argv[1])
