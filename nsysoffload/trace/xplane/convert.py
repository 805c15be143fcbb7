"""A profile of `jax.profiler` -> `Trace`, and -> an export as Nsight Systems would make it.

What a profile lacks stays UNSET and is said in warnings. The clock starts with the profile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
from nsysoffload.trace.xplane.operations import Operations, called, module_range
from nsysoffload.trace.xplane.profile import integer, opened

if TYPE_CHECKING:
    from jax.profiler import ProfilePlane

__all__ = ["convert", "export"]

_EXECUTION = ":XLA GPU module"  # ends the name of the range around an execution of a program
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
    rows = [frame for frame in device.tables.values() if len(frame)]
    if not rows:
        raise TraceError(
            f"{profile.name} holds no GPU activity (no kernel, copy or memset); record the profile"
            " while steps run."
        )
    launched, several = called(
        host.calls["correlation"].to_numpy(), [*device.tables.values(), host.calls]
    )
    ranges = pd.concat([_named(host.ranges, operations), _around(host.calls, launched, operations)])
    ordinals = np.unique(np.concatenate([frame["ordinal"] for frame in rows]))
    tables = {
        name: _conformed(name, frame, process=_VM | pid, device=_places(frame, ordinals))
        for name, frame in device.tables.items()
    }
    tables["calls"] = _conformed("calls", host.calls, process=_VM | pid, return_value=UNSET)
    tables["nvtx_ranges"] = _conformed(
        "nvtx_ranges", ranges, process=_VM | pid, event_type=NvtxKind.PUSH_POP, domain=0
    )
    return Trace(
        source=Source(profile, recorder="jax"),
        gpus=_gpus(ordinals, pid, names),
        **tables,
        absent=frozenset(name for name in TABLES if not len(tables.get(name, ()))),
        warnings=doubts(device, host, launched, several, content.events_lost),
    )


def _pid(plane: "ProfilePlane") -> int:
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
        "name": np.array([str(name)[:100] if name else None for name in known], dtype=object),
        "uuid": None,
        "copy_engines": UNSET,
    }
    return GPUS.conform(pd.DataFrame(columns))


# --- Rows ---


def _conformed(table: str, frame: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return rows as a table of the trace; what they lack is given by column."""
    return TABLES[table].conform(frame.assign(row_id=np.arange(1, len(frame) + 1), **columns))


def _places(frame: pd.DataFrame, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of each row's GPU in the trace's table of them."""
    return np.searchsorted(ordinals, frame["ordinal"].to_numpy())


# --- Ranges ---


def _named(ranges: pd.DataFrame, operations: Operations) -> pd.DataFrame:
    """Return the host's ranges, executions of programs named as in NVTX."""
    programs = operations.programs()
    texts = [
        module_range(module, programs.get(module, set())) if text.endswith(_EXECUTION) else text
        for text in ranges["text"].cat.categories
        for module in [text.removesuffix(_EXECUTION)]
    ]
    return ranges.assign(text=np.array(texts, dtype=object)[ranges["text"].cat.codes])


def _around(
    calls: pd.DataFrame, launched: NDArray[np.int64], operations: Operations
) -> pd.DataFrame:
    """Return a range around each call that launched a named operation."""
    texts = np.array([*operations.range_texts(), ""], dtype=object)[launched]
    ranges = calls[["thread", "start_ns", "end_ns"]].assign(text=texts)[texts != ""]
    # A call that lasts less than the clock's nanosecond would lie outside its own range.
    return ranges.assign(end_ns=np.maximum(ranges["end_ns"], ranges["start_ns"] + 1))
