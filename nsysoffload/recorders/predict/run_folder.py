"""The folder of a predicted run: trace, schedule, and a manifest of what was made how."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nsysoffload.recorders.predict.bundle import zipped
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.predict import Predicted
from nsysoffload.timeline.phase import phase_of
from nsysoffload.trace.run_folder import MANIFEST
from nsysoffload.trace.writer import write

__all__ = ["is_whole", "read_manifest", "write_run"]

_MANIFEST = "manifest.json"


def write_run(
    folder: Path,
    program: Compiled,
    predicted: Predicted,
    arguments: Mapping[str, object],
    made_of: str,
) -> None:
    """Write ``trace.sqlite``, ``schedule.hlo.gz`` and, last, ``manifest.json``.

    Files of an earlier run stay until the new ones are complete. ``arguments`` are what the program
    was made from, ``made_of`` a digest of all that the prediction depends on.
    """
    files: dict[str, Callable[[Path], object]] = {
        "trace.sqlite": lambda path: write(predicted.trace(), path),
        "schedule.hlo.gz": lambda path: path.write_bytes(zipped(program.text)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        for name, write_to in files.items():
            write_to(Path(partial, name))
        manifest = {
            **_manifest(program, predicted, arguments),
            "made_of": made_of,
            "sha256": {name: _digest(Path(partial, name)) for name in files},
        }
        Path(partial, _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        for name in (*files, _MANIFEST):
            Path(partial, name).replace(folder / name)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; empty if there is none that can be read."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def is_whole(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Tell whether the files of a run are those that its manifest was written for."""
    digests = manifest.get("sha256")
    if not isinstance(digests, dict) or not digests:
        return False
    try:
        return all(_digest(folder / Path(name).name) == told for name, told in digests.items())
    except (OSError, ValueError):  # a name may have been made to hold a null
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(
    program: Compiled, predicted: Predicted, arguments: Mapping[str, object]
) -> dict[str, object]:
    made, record = predicted.prediction, predicted.record
    last = len(record.steps()) - 1
    ways = ("h2d", "d2h", "both")
    return {
        "schema": MANIFEST,
        "kind": "predicted",
        "recorder": "predict",
        "program": dict(arguments),
        "target": program.target,
        "devices": program.devices,
        "preset": made.preset,
        "xla_flags": made.flags,
        "jax_version": program.jax_version,
        "compile_s": round(program.seconds, 3),
        "memory": asdict(program.memory),
        "step": asdict(made.step),
        "corners": [asdict(corner) for corner in made.corners],
        "transfers": {way: asdict(record.transfers(way, last)) for way in ways},
        "kernel_copy_bytes": {way: record.kernel_copy_bytes(way, last) for way in ways},
        "phase_ns": record.phase_ns(last),
        "flops": _flops(predicted),
        "notes": made.notes,
        "warnings": made.warnings,
    }


def _flops(predicted: Predicted) -> dict[str, int]:
    """Multiplications and additions of a step on one device, by phase."""
    flops: Counter[str] = Counter()
    for op, times in predicted.program.ops():
        flops[phase_of(op.op_name)] += op.flops * times
    return dict(flops)
