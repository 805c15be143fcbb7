"""Which kernel launches have GPU rows: a process without any was not traced on the GPU."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.calls import CallIndex
from nsysoffload.trace.tables import UNSET, TraceWarning

__all__ = ["coverage_warnings", "names_matching"]

_LAUNCH = re.compile(r"cu(?:da)?(?:Launch(?:Cooperative)?Kernel(?:ExC?)?|GraphLaunch)(?:_ptsz)?")
_PID_BITS = (1 << 24) - 1
MIN_COVERED = 0.9
_SHOWN = 5


def names_matching(names: pd.Series, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Tell for each row of a text column whether its whole text matches."""
    hits = np.array([bool(pattern.fullmatch(name)) for name in names.cat.categories], dtype=bool)
    return hits[names.cat.codes.to_numpy()] if len(hits) else np.zeros(len(names), dtype=bool)


def coverage_warnings(
    calls: pd.DataFrame, index: CallIndex, tables: list[pd.DataFrame]
) -> list[TraceWarning]:
    """Name the processes whose kernel launches left no, or few, GPU rows.

    Parameters
    ----------
    calls : DataFrame
        Table `CALLS`.
    index : CallIndex
        The calls by process and correlation id.
    tables : list of DataFrame
        GPU tables, with ``call`` (position in the index's keys, or -1).
    """
    launch = names_matching(calls["name"], _LAUNCH) & (index.group >= 0)
    if not launch.any():
        return []
    has_row = np.zeros(len(index.keys) + 1, dtype=bool)
    for table in tables:
        has_row[table["call"].to_numpy()] = True
    has_row[-1] = False  # where rows without a call point to
    launches = pd.DataFrame(
        {
            "process": calls["process"].to_numpy()[launch],
            "covered": has_row[index.group[launch]],
        }
    )
    counts = launches.groupby("process")["covered"].agg(["size", "sum"])
    none = counts[counts["sum"] == 0]
    few = counts[(counts["sum"] > 0) & (counts["sum"] < MIN_COVERED * counts["size"])]
    return [
        *_warning(
            "process_without_gpu_rows",
            none,
            "its work is in no figure here; it may have been forked without tracing",
        ),
        *_warning(
            "launches_without_gpu_rows",
            few,
            "the rest went into CUDA graphs, lies outside the recording, or was lost",
        ),
    ]


def _warning(code: str, counts: pd.DataFrame, meaning: str) -> list[TraceWarning]:
    if counts.empty:
        return []
    parts = [
        f"{_process(process)}: {covered:,} of {size:,} kernel launches have GPU rows"
        for process, size, covered in zip(
            counts.index[:_SHOWN], counts["size"], counts["sum"], strict=False
        )
    ]
    more = len(counts) - len(parts)
    rest = f"; and {more} more processes" if more else ""
    return [TraceWarning(code, f"{'; '.join(parts)}{rest} ({meaning}).")]


def _process(process: int) -> str:
    return "a process" if process == UNSET else f"pid {process & _PID_BITS}"
