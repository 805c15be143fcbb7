"""What any analysis in Python pays at least: ``fetchall()`` of the columns that it needs.

Run as a script, ``python benchmarks/baseline.py FILE``, so that nothing but sqlite3 is imported.
"""

import sqlite3
import sys

__all__ = ["COLUMNS"]

WHERE = "start, end, deviceId, contextId, streamId, correlationId, globalPid, graphNodeId"
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{WHERE}, demangledName",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{WHERE}, bytes, copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start, end, globalTid, correlationId, nameId, eventClass, returnValue"
    ),
    "NVTX_EVENTS": "start, end, eventType, globalTid, domainId, text, textId",
}
"""What attribution needs of kernels, copies, API calls and NVTX ranges."""


def main(file: str) -> None:
    """Read the four tables, one after the other, and keep them as an analysis would."""
    connection = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    rows = {
        table: connection.execute(f"SELECT {columns} FROM {table}").fetchall()
        for table, columns in COLUMNS.items()
    }
    print(sum(map(len, rows.values())))


if __name__ == "__main__":
    main(sys.argv[1])
