"""Predict steps of the workloads, a variant each, into run folders."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.flags import using, xla_flags
from nsysoffload.recorders.predict.compile import Compiled, compile_program
from nsysoffload.recorders.predict.constants import constants_for, measured
from nsysoffload.recorders.predict.predict import STEPS, Options, Predicted, predict
from nsysoffload.recorders.predict.process import Cancelled
from nsysoffload.recorders.predict.run_folder import write_run
from nsysoffload.recorders.predict.versions import JAX_VERSION, VersionError
from nsysoffload.recorders.variants import PROFILED, folder_name
from nsysoffload.trace.workload import Workload

if TYPE_CHECKING:
    from workloads.config import Config

__all__ = [
    "PROGRAM",
    "Accept",
    "Request",
    "Run",
    "arguments_of",
    "capture",
    "compiled",
    "flags_of",
    "made_of",
    "options_of",
    "recorded",
    "timed",
]

PROGRAM = "workloads.step:program"
"""What makes a train step of the workloads."""

Accept = Callable[[Compiled, Path], None]
"""Takes a compiled program and the log of its compilation; raises what is to be refused."""


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
    profile : Path or None
        Folder or file of a profile for XLA's scheduler, absolute.
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
    profile: Path | None = None
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
    accept: Accept = lambda program, log: None,
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
        Where the folders go, each named after its variant, and with `PROFILED` where there is a
        profile.
    progress : callable, optional
        Called with a sentence when a variant is compiled.
    accept : callable, optional
        Called with each compiled program before it is timed, from several threads.

    Raises
    ------
    OffloadError
        If one cannot be compiled or timed; an earlier run stays as it was, beside ``failed.log``.
    """
    options_of(request)  # what is wrong with it is said before anything is begun
    chosen = {folder_name(variant): variant for variant in variants}  # no two runs in one folder
    cancelled = Event()

    def run(name: str) -> Run:
        folder = directory / (f"{name}{PROFILED}" if request.profile else name)
        return recorded(request, chosen[name], folder, progress, cancelled, accept)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(pool.map(run, chosen))
        except BaseException:
            cancelled.set()  # the others would be waited for
            raise


def recorded(
    request: Request,
    variant: str,
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
    cancelled: Event | None = None,
    accept: Accept = lambda program, log: None,
) -> Run:
    """Predict a step under one variant and write its run folder.

    Parameters
    ----------
    request, progress, accept
        As for `capture`.
    variant : str
        The policy.
    folder : Path
        Where the run goes.
    cancelled : Event, optional
        Set by another thread to give up.

    Raises
    ------
    OffloadError
        If it cannot be compiled or timed; an earlier run stays as it was, beside ``failed.log``.
    """
    options = options_of(request)
    with _logged(folder) as log:
        program = compiled(request, variant, log, cancelled)
        accept(program, log)
    progress(f"{variant}: compiled in {program.seconds:.0f} s")
    return timed(request, variant, program, options, folder)


@contextmanager
def _logged(folder: Path) -> Iterator[Path]:
    """Give a log, ``log.txt`` if all goes well, else ``failed.log`` beside what was there.

    Where nothing ran or another thread gave up, nothing is left behind.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The run cannot be written to {folder}: {error.strerror}; name another folder."
        ) from error
    log = folder / "failed.log"
    try:
        yield log
    except (UsageError, VersionError, Cancelled):
        log.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
        raise
    log.replace(folder / "log.txt")


def compiled(
    request: Request, variant: str, log: Path | None = None, cancelled: Event | None = None
) -> Compiled:
    """Compile the step under a variant."""
    return compile_program(
        PROGRAM,
        target=TARGETS[request.target],
        devices=_devices(request),
        arguments=arguments_of(request, variant),
        flags=flags_of(request),
        timeout_s=request.timeout_s,
        log=log,
        cancelled=cancelled,
    )


def timed(request: Request, variant: str, program: Compiled, options: Options, folder: Path) -> Run:
    """Time a compiled step and write its run folder."""
    predicted = predict(program, replace(options, variant=variant))
    made = made_of(request, variant, options)
    write_run(folder, program, predicted, arguments_of(request, variant), made)
    return Run(variant, folder, predicted)


def made_of(request: Request, variant: str, options: Options) -> str:
    """Return a digest of all that a run's prediction depends on.

    Program and its arguments, target with its peaks, flags, what is in a profile, constants and
    other options, releases of the compiler and of this tool: two runs with the same digest say the
    same.
    """
    profile = request.profile
    parts = {
        "program": [PROGRAM, arguments_of(request, variant)],
        "target": asdict(TARGETS[request.target]),
        "flags": flags_of(replace(request, profile=None)),
        "options": asdict(replace(options, variant=variant)),
        "releases": [JAX_VERSION, version("nsysoffload")],
        **({"profile": [profile.name, *_contents(profile)]} if profile else {}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _contents(profile: Path) -> list[str]:
    """Return digests of what XLA may read of a profile, wherever that is."""
    files = sorted(profile.glob("*.pb*")) if profile.is_dir() else [profile]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def options_of(request: Request) -> Options:
    """Return what the request says of the prediction beside the program.

    Raises
    ------
    UsageError
        If there is no such model, or the measured constants make no sense.
    """
    from workloads.config import model

    config = model(request.model, request.layers)
    workload = _workload(request, config)
    constants = constants_for(TARGETS[request.target], _devices(request))
    if request.efficiency:
        constants = measured(constants, request.efficiency)
    notes: tuple[str, ...] = ()
    if config.experts:
        notes = (
            "Every expert is taken to be full to its capacity: how tokens are routed depends on"
            " data, and an uneven routing drops tokens instead of taking longer.",
        )
    return Options(
        name=_title(request, workload),
        workload=workload,
        preset=request.preset,
        constants=constants,
        contention=request.contention,
        command_buffers=request.command_buffers,
        steps=request.steps,
        notes=notes,
    )


def flags_of(request: Request) -> tuple[str, ...]:
    """Return XLA's flags for a request.

    Raises
    ------
    UsageError
        If they make no sense.
    """
    buffers = request.command_buffers
    flags = xla_flags(request.preset, command_buffers=buffers, extra=request.flags)
    return using(flags, request.profile) if request.profile else flags


def _devices(request: Request) -> int:
    from workloads.sharding import parse_mesh

    return math.prod(parse_mesh(request.mesh).values())


def _workload(request: Request, config: "Config") -> Workload:
    """Return what is trained, with what the request leaves open filled in."""
    from workloads.sharding import RULES, parse_mesh

    axes = parse_mesh(request.mesh)
    shards = math.prod(axes.get(axis, 1) for axis in RULES["batch"])
    return Workload(
        model=request.model,
        layers=config.layers,
        batch=request.batch or config.batch * shards,
        seq=request.seq or config.seq,
        mesh=request.mesh,
        optimizer=request.optimizer,
        offload_optimizer=request.offload_optimizer,
    )


def _title(request: Request, workload: Workload) -> str:
    sizes = (
        f"{request.layers} layers" if request.layers else "",
        f"batch {workload.batch}",
        f"{workload.seq} tokens",
        workload.mesh,
        f"{workload.optimizer} offloaded" if workload.offload_optimizer else "",
    )
    return ", ".join([workload.model, *filter(None, sizes)])


def arguments_of(request: Request, variant: str) -> dict[str, object]:
    """Return the arguments of the workload's program; None where its defaults hold."""
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
