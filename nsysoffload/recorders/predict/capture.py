"""Predicted runs of the workloads, each in a folder: trace, manifest, schedule and log."""

import gzip
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.compile import Compiled, compile_program
from nsysoffload.recorders.predict.constants import constants_for, measured
from nsysoffload.recorders.predict.flags import xla_flags
from nsysoffload.recorders.predict.predict import STEPS, Options, Predicted, predict
from nsysoffload.timeline.phase import phase_of
from nsysoffload.trace.writer import write

__all__ = [
    "MANIFEST",
    "Request",
    "Run",
    "arguments_of",
    "capture",
    "folder_name",
    "options_of",
    "write_run",
]

MANIFEST = "nsysoffload-run/1"
_PROGRAM = "workloads.step:program"


@dataclass(frozen=True)
class Request:
    """What to predict; what is None is left to the model's own defaults.

    Attributes
    ----------
    model, mesh, batch, seq, optimizer, offload_optimizer, layers
        As for `workloads.step.program`; ``mesh`` is text such as ``fsdp=8``, empty for one GPU.
    target : str
        Key of `nsysoffload.hardware.TARGETS`.
    preset, flags : str
        Preset of XLA flags, and more flags.
    efficiency : Path or None
        JSON file of measured constants.
    contention, command_buffers, steps
        As for `nsysoffload.recorders.predict.predict.Options`.
    timeout_s : float or None
        Longest time of one compilation.
    """

    model: str
    target: str
    mesh: str = ""
    batch: int | None = None
    seq: int | None = None
    optimizer: str = "adam"
    offload_optimizer: bool = False
    layers: int | None = None
    preset: str = "default"
    flags: str = ""
    efficiency: Path | None = None
    contention: bool = True
    command_buffers: bool = False
    steps: int = STEPS
    timeout_s: float | None = None


@dataclass(frozen=True)
class Run:
    """A predicted run and the folder it is in."""

    variant: str
    folder: Path
    predicted: Predicted


def capture(
    request: Request,
    variants: Iterable[str],
    directory: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Run]:
    """Predict a step under each variant and write its run folder.

    Compilations run beside each other, as many as there are processors.

    Parameters
    ----------
    request : Request
        What to predict.
    variants : iterable of str
        Policies, such as ``offload`` and ``remat``.
    directory : Path
        Where the folders go, each named after its variant.
    progress : callable, optional
        Called with a sentence when a variant is compiled.

    Raises
    ------
    OffloadError
        If one cannot be compiled or timed; folders of earlier runs stay as they were.
    """
    from workloads.sharding import parse_mesh

    options = options_of(request)
    devices = math.prod(parse_mesh(request.mesh).values())
    flags = xla_flags(request.preset, command_buffers=request.command_buffers, extra=request.flags)

    def recorded(variant: str) -> Run:
        folder = directory / folder_name(variant)
        folder.mkdir(parents=True, exist_ok=True)
        arguments = arguments_of(request, variant)
        compiled = compile_program(
            _PROGRAM,
            target=TARGETS[request.target],
            devices=devices,
            arguments=arguments,
            flags=flags,
            timeout_s=request.timeout_s,
            log=folder / "log.txt",
        )
        progress(f"{variant}: compiled in {compiled.seconds:.0f} s")
        predicted = predict(compiled, replace(options, variant=variant))
        write_run(folder, compiled, predicted, arguments)
        return Run(variant, folder, predicted)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(recorded, dict.fromkeys(variants)))


def folder_name(variant: str) -> str:
    """Return the name of a variant's folder: the variant, with ``-`` for what names no file.

    Examples
    --------
    >>> folder_name("offload:query,key")
    'offload-query,key'
    """
    return re.sub(r"[^\w.,+=-]+", "-", variant).lstrip(".-") or "run"


def write_run(
    folder: Path,
    compiled: Compiled,
    predicted: Predicted,
    arguments: Mapping[str, object],
) -> None:
    """Write ``trace.sqlite``, ``schedule.hlo.gz`` and, last, ``manifest.json``.

    Files of an earlier run stay until the new ones are complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        staged = Path(partial)
        write(predicted.trace(), staged / "trace.sqlite")
        (staged / "schedule.hlo.gz").write_bytes(gzip.compress(compiled.text.encode(), mtime=0))
        manifest = json.dumps(_manifest(compiled, predicted, arguments), indent=1)
        (staged / "manifest.json").write_text(manifest + "\n", encoding="utf-8")
        for name in ("trace.sqlite", "schedule.hlo.gz", "manifest.json"):
            (staged / name).replace(folder / name)


def options_of(request: Request) -> Options:
    """Return what the request says of the prediction beside the program.

    Raises
    ------
    UsageError
        If there is no such model, or the measured constants make no sense.
    """
    from workloads.config import model

    config = model(request.model, request.layers)
    constants = constants_for(TARGETS[request.target])
    if request.efficiency:
        constants = measured(constants, request.efficiency)
    notes: tuple[str, ...] = ()
    if config.experts:
        notes = (
            "Every expert is taken to be full to its capacity: how tokens are routed depends on"
            " data, and an uneven routing drops tokens instead of taking longer.",
        )
    return Options(
        name=_title(request),
        preset=request.preset,
        constants=constants,
        contention=request.contention,
        command_buffers=request.command_buffers,
        steps=request.steps,
        notes=notes,
    )


def _title(request: Request) -> str:
    sizes = (
        (request.layers, f"{request.layers} layers"),
        (request.batch, f"batch {request.batch}"),
        (request.seq, f"{request.seq} tokens"),
        (request.mesh, request.mesh),
        (request.offload_optimizer, f"{request.optimizer} offloaded"),
    )
    return ", ".join([request.model, *(text for given, text in sizes if given)])


def arguments_of(request: Request, variant: str) -> dict[str, object]:
    """Return what the step is built from, as `workloads.step.program` takes it."""
    return {
        "model": request.model,
        "policy": variant,
        "mesh": request.mesh,
        "batch": request.batch,
        "seq": request.seq,
        "optimizer": request.optimizer,
        "offload_optimizer": request.offload_optimizer,
        "layers": request.layers,
    }


def _manifest(
    compiled: Compiled, predicted: Predicted, arguments: Mapping[str, object]
) -> dict[str, Any]:
    made, record = predicted.prediction, predicted.record
    last = len(record.steps()) - 1
    ways = ("h2d", "d2h", "both")
    return {
        "schema": MANIFEST,
        "kind": "predicted",
        "recorder": "predict",
        "program": dict(arguments),
        "target": compiled.target,
        "devices": compiled.devices,
        "preset": made.preset,
        "xla_flags": list(compiled.flags),
        "jax_version": compiled.jax_version,
        "compile_s": round(compiled.seconds, 3),
        "memory": asdict(compiled.memory),
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
