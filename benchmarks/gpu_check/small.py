"""Traces that are small enough to be kept: the last two steps of those that are not."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.gpu_check.privacy import nameless
from benchmarks.gpu_check.steps import Measured
from nsysoffload.trace.metadata import CAPTURE_WARNINGS, warnings_text
from nsysoffload.trace.tables import TABLES, Trace
from nsysoffload.trace.writer import write

__all__ = ["LARGE_BYTES", "STEPS", "last_steps", "write_small"]

LARGE_BYTES = 3_000_000
STEPS = 2

_NEVER = np.iinfo(np.int64).min


def write_small(
    measured: Measured, path: Path, large_bytes: int = LARGE_BYTES
) -> dict[str, object]:
    """Write a trace without names of machine or user, of a large one the last steps only.

    Returns
    -------
    dict
        What is to be said of the file: its name, how many steps it holds, and its bytes.
    """
    steps = len(measured.steps)
    said = {CAPTURE_WARNINGS: warnings_text(measured.timeline.trace.warnings)}
    write(nameless(measured.timeline.trace), path, said)
    if path.stat().st_size > large_bytes and steps > STEPS:
        steps = STEPS
        write(nameless(last_steps(measured, steps)), path, said)
    return {"file": path.name, "steps": steps, "bytes": path.stat().st_size}


def last_steps(measured: Measured, count: int) -> Trace:
    """Return the rows that were issued from the beginning of the last so many steps on.

    ::

        issued    [step 0    )[step 1    )[step 2    )
        runs         [step 0    )[step 1    )[step 2    )
        two steps             |---------------------->
    """
    trace, index = measured.timeline.trace, measured.timeline.index
    called = np.append(trace.calls["start_ns"].to_numpy()[index.first], _NEVER)

    def issued(rows: pd.DataFrame, call: NDArray[np.int64]) -> NDArray[np.int64]:
        own = rows["start_ns"].to_numpy() if "start_ns" in rows else _NEVER
        return np.where(call < 0, own, called[call])

    rows = measured.gpu_rows()
    when, step = issued(rows, rows["call"].to_numpy()), measured.steps.of(rows)
    first = when[step == len(measured.steps) - count].min()
    since = when[when < first].max(initial=_NEVER)  # the range of a step begins before its rows
    frames = {}
    for name in TABLES:
        table = getattr(trace, name)
        on_host = name in ("calls", "nvtx_ranges")
        at = table["start_ns"].to_numpy() if on_host else issued(table, index.of(table))
        frames[name] = table[at > since].reset_index(drop=True)
    return Trace(trace.source, trace.gpus, **frames, absent=trace.absent)
