"""A profile of `jax.profiler` -> `Trace`, and -> an export as Nsight Systems would make it.

What a profile lacks stays UNSET and is said in warnings. The clock starts with the profile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.metadata import CAPTURE_WARNINGS, warnings_text
from nsysoffload.trace.schema import NvtxKind
from nsysoffload.trace.tables import GPUS, TABLES, UNSET, Source, Trace
from nsysoffload.trace.writer import write
from nsysoffload.trace.xplane.device import device_rows, ordinal_of
from nsysoffload.trace.xplane.doubts import doubts
from nsysoffload.trace.xplane.host import PLANES, host_rows
from nsysoffload.trace.xplane.operations import EXECUTION, Operations, called, module_range
from nsysoffload.trace.xplane.profile import Plane, integer, opened

__all__ = ["convert", "export"]

_VM = 1 << 24  # bit of the first virtual machine, above the pid, as in exports of nsys


def export(profile: Path, target: Path) -> None:
    """Write a profile as an SQLite export; its warnings are in the export.

    Parameters
    ----------
    profile : Path
        The ``.xplane.pb`` file.
    target : Path
        The export; a file of that name is replaced.

    Raises
    ------
    TraceError
        As by `convert`, or if the export cannot be written.
    """
    trace = convert(profile)
    write(trace, target, {CAPTURE_WARNINGS: warnings_text(trace.warnings)})


def convert(profile: Path) -> Trace:
    """Read a profile.

    Parameters
    ----------
    profile : Path
        The ``.xplane.pb`` file.

    Returns
    -------
    Trace
        Kernels, copies, memsets, graphs traced as a whole, API calls, and ranges: those of the
        host, with an execution of an XLA program under the name that it has in NVTX, and for each
        call the range of the operation that it launched. Times count from the profile's start.

    Raises
    ------
    TraceError
        If jax is not installed, or the file is no profile, is damaged, or holds no GPU activity.
    """
    operations = Operations()
    with opened(profile) as content:
        planes = content.planes
        gpus = [plane for plane in planes if ordinal_of(plane.name) is not None]
        if not gpus:
            raise TraceError(
                f"{profile.name} holds no GPU, only the host; record the profile on a machine with"
                " a GPU that jax uses."
            )
        device = device_rows(gpus, operations)
        host = host_rows([plane for plane in planes if plane.name in PLANES], operations)
        names = {ordinal_of(plane.name): dict(plane.stats).get("gpu_device_name") for plane in gpus}
        pid = max(_pid(plane) for plane in planes)
    ordinals = np.unique(np.concatenate([rows["ordinal"] for rows in device.tables.values()]))
    if not len(ordinals):
        raise TraceError(
            f"{profile.name} holds no GPU activity (no kernel, copy or memset); record the profile"
            " while steps run."
        )
    launched, several = called(
        host.calls["correlation"].to_numpy(), [*device.tables.values(), host.calls]
    )
    ranges = pd.concat([_named(host.ranges, operations), _around(host.calls, launched, operations)])
    tables: dict[str, Any] = {
        **{name: _placed(name, rows, ordinals, pid) for name, rows in device.tables.items()},
        "calls": _of_process("calls", pid, host.calls.assign(return_value=UNSET)),
        "nvtx_ranges": _of_process(
            "nvtx_ranges", pid, ranges.assign(event_type=NvtxKind.PUSH_POP, domain=0)
        ),
    }
    return Trace(
        source=Source(profile, recorder="jax"),
        gpus=_gpus(ordinals, pid, names),
        **tables,
        absent=frozenset(name for name in TABLES if not len(tables.get(name, ()))),
        warnings=doubts(device, host, launched, several, content.events_lost),
    )


def _pid(plane: Plane) -> int:
    """Return the process that a plane is of, 0 if it does not say, as it did not before 2025."""
    pid = integer(dict(plane.stats).get("process_id"))
    return pid if 0 < pid < _VM else 0


def _gpus(
    ordinals: NDArray[np.int64], pid: int, names: Mapping[int | None, object]
) -> pd.DataFrame:
    known = [names[ordinal] for ordinal in ordinals.tolist()]
    columns = {
        "id": [f"{pid}:{ordinal}" for ordinal in ordinals],
        "ordinal": ordinals,
        "pid": pid,
        "name": [str(name)[:100] if name else None for name in known],
        "uuid": None,
        "copy_engines": UNSET,
    }
    return GPUS.conform(pd.DataFrame(columns, dtype=object))


# --- Rows ---


def _of_process(table: str, pid: int, rows: pd.DataFrame) -> pd.DataFrame:
    return TABLES[table].conform(rows.assign(process=_VM | pid))


def _placed(table: str, rows: pd.DataFrame, ordinals: NDArray[np.int64], pid: int) -> pd.DataFrame:
    """Return rows of GPUs as a table of the trace, in which GPUs are numbered by ordinal."""
    device = np.searchsorted(ordinals, rows["ordinal"].to_numpy())
    row_id = np.arange(1, len(rows) + 1)
    return _of_process(table, pid, rows.assign(device=device, row_id=row_id))


# --- Ranges ---


def _named(ranges: pd.DataFrame, operations: Operations) -> pd.DataFrame:
    """Return the host's ranges, executions of programs named as in NVTX."""
    programs = operations.programs()
    texts = [
        module_range(module, programs.get(module, set())) if text.endswith(EXECUTION) else text
        for text in ranges["text"].cat.categories
        for module in [text.removesuffix(EXECUTION)]
    ]
    return ranges.assign(text=np.array(texts, dtype=object)[ranges["text"].cat.codes])


def _around(
    calls: pd.DataFrame, launched: NDArray[np.int64], operations: Operations
) -> pd.DataFrame:
    """Return a range around each call that launched a named operation."""
    texts = np.array([*operations.range_texts(), ""], dtype=object)[launched]
    # A call that lasts less than the clock's nanosecond would lie outside its own range.
    end_ns = np.maximum(calls["end_ns"], calls["start_ns"] + 1)
    ranges = calls[["thread", "start_ns"]].assign(end_ns=end_ns, text=texts)
    named: pd.DataFrame = ranges[texts != ""]
    return named
