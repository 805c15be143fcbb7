"""Planes of the host: API calls and named ranges of each thread.

XLA traces calls of the driver and merges them with the ranges of the same thread; where it cannot,
a thread has a second line, ``Host Threads/ID``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from nsysoffload.trace.xplane.operations import Operations
from nsysoffload.trace.xplane.profile import Plane, Row, frame_of, integer

__all__ = ["PLANES", "HostRows", "host_rows"]

PLANES = ("/host:CPU", "/host:CUPTI", "/host:ROCTRACER")
"""The last two only where XLA did not merge them into the first."""

# A version ends the names of some of the driver's functions, a graph those of launches of graphs.
_CALL = re.compile(r"((?:cu|hip)[A-Z]\w*?)(?:_v\d+)*(?: \(CudaGraph:\d+\))?")
_PYTHON_CALL = "$"  # that jax traces unless told otherwise, often a million
_CALLS = {"thread": "int64", "correlation": "int64", "operation": "int64", "name": "category"}
_RANGES = {"thread": "int64", "text": "category"}


@dataclass(frozen=True)
class HostRows:
    """``calls`` and ``ranges`` of all threads, numbered from 1; ``ranges`` have a ``text``."""

    calls: pd.DataFrame
    ranges: pd.DataFrame


def host_rows(planes: Iterable[Plane], operations: Operations) -> HostRows:
    """Read calls and ranges; the operations that calls name are added to those known."""
    calls: list[Row] = []
    ranges: list[Row] = []
    threads: dict[object, int] = {}  # ids of threads have up to 64 bits, more than fit a trace
    for plane in planes:
        for number, line in enumerate(plane.lines):
            key = line.name.rpartition("/")[2] if "/" in line.name else (plane.name, number)
            thread = threads.setdefault(key, len(threads) + 1)
            for event in line.events:
                name = event.name
                if name.startswith(_PYTHON_CALL):
                    continue
                when = (event.start_ns, event.duration_ns)
                call = _CALL.fullmatch(name)
                stats: Mapping[str, object] = dict(event.stats) if call else {}
                if call and "correlation_id" in stats:
                    correlation = integer(stats["correlation_id"])
                    operation = operations.number(stats)
                    calls.append((*when, thread, correlation, operation, call[1]))
                elif event.duration_ns > 0:
                    ranges.append((*when, thread, name))
    return HostRows(frame_of(calls, _CALLS), frame_of(ranges, _RANGES))
