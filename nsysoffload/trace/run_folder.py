"""The folder of a run: what its ``manifest.json`` says beside the trace, and folders of ranks.

A manifest is taken as far as it can be read: what is damaged, or not ours, only costs a warning.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from nsysoffload.trace import files
from nsysoffload.trace.numerics import Losses
from nsysoffload.trace.records import record
from nsysoffload.trace.tables import TraceWarning
from nsysoffload.trace.workload import Workload

__all__ = [
    "MANIFEST",
    "MODULE",
    "Numerics",
    "Recording",
    "RunFolder",
    "RunMemory",
    "rank_traces",
    "read",
    "report_name",
]

MANIFEST = "nsysoffload-run/1"
"""Schema of the manifests of runs."""

MODULE = "schedule.hlo.gz"
"""Name of the compiled program's text in the folder of a run."""

_FILE = "manifest.json"
_TRACE = "trace.sqlite"
_RANK = re.compile(r"rank(\d+)")
_LONGEST = 10_000_000  # bytes; a thousand steps take some 100,000
_TEXT, _ENTRIES = 1_000, 50  # characters of a text, entries of a list
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Numerics:
    """Whether the run computes the same as the one it was recorded with.

    ``agree`` is ``None`` where nothing could be compared. ``text`` says it in a sentence, and
    ``against`` names the other run.
    """

    agree: bool | None
    against: str | None
    text: str | None


@dataclass(frozen=True)
class Recording:
    """How a run was recorded, by its manifest; ``None`` where that does not say.

    ``left_out`` are options that its nsys did not know, ``trace`` what it traced, ``capture_range``
    when it recorded. ``bare_step_ms`` and ``profiled_step_ms`` are medians without and with the
    profiler, ``overhead`` is by how much of itself a step took longer; ``overhead_null_reason``
    says why that is not known. ``steps`` are those that were asked for, ``expect_offload_bytes``
    the bytes that each GPU was to move each way in a step. ``notes`` are sentences. ``losses`` are
    by step, ``workload`` what was trained where it is one of ours.
    """

    variant: str | None
    nsys_version: str | None
    trace: str | None
    capture_range: str | None
    left_out: tuple[str, ...]
    rank: int | None
    ranks: int | None
    steps: int | None
    bare_step_ms: float | None
    profiled_step_ms: float | None
    overhead: float | None
    overhead_null_reason: str | None
    xla_preset: str | None
    xla_flags: tuple[str, ...]
    expect_offload_bytes: int | None
    numerics: Numerics | None
    notes: tuple[str, ...]
    losses: Losses | None = None
    workload: Workload | None = None


@dataclass(frozen=True)
class RunMemory:
    """Memory of one device of a measured run, in bytes, and of the host for it.

    ``device_bytes`` (arguments + temporaries + outputs - aliased) and ``host_bytes`` are by the
    compiler's own buffer assignment; ``device_peak_bytes`` is the most that was in use on a device,
    ``None`` where it was not counted.
    """

    device_bytes: int
    argument_bytes: int
    temp_bytes: int
    output_bytes: int
    alias_bytes: int
    host_bytes: int
    device_peak_bytes: int | None


@dataclass(frozen=True)
class RunFolder:
    """What the folder of a trace says of it; nothing where there is no manifest."""

    recording: Recording | None = None
    memory: RunMemory | None = None
    warnings: tuple[TraceWarning, ...] = ()


def rank_traces(path: Path) -> list[Path]:
    """Return the traces of the ranks whose folders are in a folder, by rank; else the path.

    Parameters
    ----------
    path : Path
        A folder with ``rank0/trace.sqlite``, ``rank1/trace.sqlite`` and so on, or anything else.
    """
    try:
        inside = [] if (path / _TRACE).exists() else list(path.glob(f"*/{_TRACE}"))
    except (OSError, ValueError):
        return [path]  # whoever opens it says what is wrong
    numbered = ((_RANK.fullmatch(trace.parent.name), trace) for trace in inside)
    ranks = sorted((int(match[1]), trace) for match, trace in numbered if match)
    return [trace for _, trace in ranks] or [path]


def report_name(path: Path, here: Path) -> str:
    """Return the name of the report of a trace, as a path where runs of one name differ by it.

    A run is named by its folder and that above it, of which the current one is none: runs of one
    variant, recorded for different models, are not to replace each other's reports.

    Parameters
    ----------
    path : Path
        What the user named, a folder of ranks included.
    here : Path
        Current folder, absolute.

    Raises
    ------
    TraceError
        If there is no such trace.
    """
    ranks = rank_traces(path)
    trace = files.located(ranks[0])
    if not _is_of_run(trace):
        return files.report_name(trace)
    folder = (trace.parent if ranks == [path] else path).resolve()
    below = folder.relative_to(here) if folder.is_relative_to(here) else folder
    names = [part for part in below.parts if part != below.anchor] or [folder.name]
    name = "/".join(names[-3:] if _RANK.fullmatch(names[-1]) else names[-2:])
    # A name that is no UTF-8 could not be printed.
    return os.fsencode(name).decode(errors="replace") or "trace"


def read(trace: Path) -> RunFolder:
    """Read the manifest beside a trace.

    Parameters
    ----------
    trace : Path
        The trace of a run folder, ``trace.sqlite`` or what that was made from; other names are no
        runs. What was predicted says so in the trace itself.
    """
    path = trace.with_name(_FILE)
    if not _is_of_run(trace) or not path.is_file():
        return RunFolder()
    manifest = _loaded(path)
    if manifest is None:
        return _ignored("cannot be read")
    if not isinstance(manifest, dict) or manifest.get("schema") != MANIFEST:
        return _ignored(f"is not of the form {MANIFEST}")
    if manifest.get("kind") != "measured":
        return RunFolder()
    recording = manifest.get("recording")
    return RunFolder(
        recording=_recording(recording, manifest) if isinstance(recording, dict) else None,
        memory=_memory(manifest),
    )


def _recording(told: dict[str, Any], manifest: Mapping[str, Any]) -> Recording:
    beside = {"variant": manifest.get("variant"), "workload": manifest.get("program")}
    return _fitting(Recording, told | beside)


def _is_of_run(trace: Path) -> bool:
    """Tell by its name whether a file is the trace of a run folder, exported or not."""
    return trace.name.startswith("trace.")


def _ignored(why: str) -> RunFolder:
    message = f"The {_FILE} beside the trace {why}, so nothing is told of how it was recorded."
    return RunFolder(warnings=(TraceWarning("manifest_ignored", message),))


def _loaded(path: Path) -> Any:
    """Return the parsed file; None if that is not possible."""
    try:
        if path.stat().st_size > _LONGEST:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _memory(manifest: Mapping[str, Any]) -> RunMemory | None:
    """Memory by the names of the workloads; None unless all of the compiler's figures are there."""
    needs = manifest.get("memory")
    if not isinstance(needs, dict):
        return None
    renamed = {
        "device_bytes": needs.get("device_need_bytes"),
        "host_bytes": needs.get("host_need_bytes"),
        "device_peak_bytes": manifest.get("device_peak_bytes"),
    }
    memory = _fitting(RunMemory, needs | renamed)
    counted = {name: value for name, value in vars(memory).items() if name != "device_peak_bytes"}
    return None if None in counted.values() else memory


# --- Values that fit their fields ---


def _fitting[Record](kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Fill a dataclass; a value that does not fit its field is as if it was not there."""
    hints = get_type_hints(kind)
    return kind(**{name: _value(hint, values.get(name)) for name, hint in hints.items()})


def _value(hint: Any, value: Any) -> Any:
    if hint == tuple[str, ...]:
        texts = value if isinstance(value, list) else ()
        return tuple(text[:_TEXT] for text in texts if isinstance(text, str))[:_ENTRIES]
    wanted = (get_args(hint) or (hint,))[0]
    if wanted is Numerics:
        return _fitting(Numerics, value) if isinstance(value, dict) else None
    if is_dataclass(wanted):
        return _whole(wanted, value)
    if wanted is float:
        return float(value) if type(value) in (int, float) and _is_sane(value) else None
    if type(value) is not wanted or (wanted is int and not 0 <= value <= _LARGEST):
        return None
    return value[:_TEXT] if wanted is str else value


def _whole(kind: Any, value: Any) -> Any:
    """Fill a dataclass of which no part may be missing; None if that cannot be."""
    try:
        return record(kind, value)
    except TypeError:
        return None


def _is_sane(number: float) -> bool:
    return abs(number) <= _LARGEST and math.isfinite(number)
