"""The folder of a predicted run: trace, schedule, and a manifest of what was made how."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from nsysoffload.recorders.predict.bundle import zipped
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.predict import Predicted
from nsysoffload.timeline.phase import phase_of
from nsysoffload.trace.run_folder import MANIFEST
from nsysoffload.trace.writer import write

__all__ = ["write_run"]


def write_run(
    folder: Path, program: Compiled, predicted: Predicted, arguments: Mapping[str, object]
) -> None:
    """Write ``trace.sqlite``, ``schedule.hlo.gz`` and, last, ``manifest.json``.

    Files of an earlier run stay until the new ones are complete. ``arguments`` are what the program
    was made from.
    """
    files: dict[str, Callable[[Path], object]] = {
        "trace.sqlite": lambda path: write(predicted.trace(), path),
        "schedule.hlo.gz": lambda path: path.write_bytes(zipped(program.text)),
        "manifest.json": lambda path: path.write_text(_manifest(program, predicted, arguments)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        for name, write_to in files.items():
            write_to(Path(partial, name))
        for name in files:
            Path(partial, name).replace(folder / name)


def _manifest(program: Compiled, predicted: Predicted, arguments: Mapping[str, object]) -> str:
    made, record = predicted.prediction, predicted.record
    last = len(record.steps()) - 1
    ways = ("h2d", "d2h", "both")
    manifest = {
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
    return json.dumps(manifest, indent=1) + "\n"


def _flops(predicted: Predicted) -> dict[str, int]:
    """Multiplications and additions of a step on one device, by phase."""
    flops: Counter[str] = Counter()
    for op, times in predicted.program.ops():
        flops[phase_of(op.op_name)] += op.flops * times
    return dict(flops)
