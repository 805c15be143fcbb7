"""What to record: a workload or any command, how often, and with which flags of XLA."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.recorders.flags import SCHEDULER_LOG, joined, run_flags, using
from nsysoffload.recorders.variants import Variant

__all__ = [
    "STEPS",
    "TRAINER",
    "WARMUP",
    "Command",
    "Request",
    "Workload",
    "command_of",
    "flags_of",
]

TRAINER: tuple[str, ...] = (sys.executable, "-m", "workloads.train")
"""The program that trains a workload."""

STEPS = 3
WARMUP = 3


@dataclass(frozen=True)
class Workload:
    """A model to train; what is None is left to the model's own defaults.

    Attributes
    ----------
    model, mesh, batch, seq, layers, optimizer, offload_optimizer
        As for `workloads.train`.
    warmup : int
        Steps before those that are recorded.
    """

    model: str
    mesh: str = ""
    batch: int | None = None
    seq: int | None = None
    layers: int | None = None
    optimizer: str = "adam"
    offload_optimizer: bool = False
    warmup: int = WARMUP

    def program(self, policy: str) -> dict[str, object]:
        """Return what is asked for as the run's manifest will have it; None for defaults."""
        kept = ("model", "mesh", "batch", "seq", "layers", "optimizer", "offload_optimizer")
        return {"policy": policy, **{name: getattr(self, name) for name in kept}}

    def words(self, policy: str, steps: int, output: Path) -> tuple[str, ...]:
        """Return the command that trains it under a policy."""
        options = {
            "--model": self.model,
            "--policy": policy,
            "--steps": self.warmup + steps,
            "--warmup": self.warmup,
            "--profile-steps": steps,
            "--mesh": self.mesh or None,
            "--batch": self.batch,
            "--seq": self.seq,
            "--layers": self.layers,
            "--optimizer": None if self.optimizer == "adam" else self.optimizer,
            "--output": output,
        }
        given = [
            str(word) for option in options.items() if option[1] is not None for word in option
        ]
        return (*TRAINER, *given, *(["--offload-optimizer"] if self.offload_optimizer else []))


@dataclass(frozen=True)
class Request:
    """What to record.

    Attributes
    ----------
    workload : Workload or None
        To be trained.
    command : tuple of str
        To be run where there is no workload.
    steps : int
        Steps to record; of a command, those that the recording has to hold if it marks steps.
    preset, flags, command_buffers
        Flags of XLA, see `nsysoffload.recorders.flags.run_flags`.
    profile : Path or None
        Folder or file of a profile for XLA's scheduler, absolute.
    step_range, step_kernel : str or None
        What marks a step, see `nsysoffload.analyze`.
    expect_offload : int or None
        Bytes per step, direction and device that are to be offloaded.
    bare : bool
        Whether the command is run without the profiler first.
    timeout_s : float or None
        Seconds for each run of the command.
    grace_s : float
        Seconds for the command to end once its report is there.
    """

    workload: Workload | None = None
    command: tuple[str, ...] = ()
    steps: int = STEPS
    preset: str = "default"
    flags: str = ""
    command_buffers: bool = False
    profile: Path | None = None
    step_range: str | None = None
    step_kernel: str | None = None
    expect_offload: int | None = None
    bare: bool = True
    timeout_s: float | None = None
    grace_s: float = 60


@dataclass(frozen=True)
class Command:
    """A command line and what is set in its environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]

    def behind(self, *words: str) -> "Command":
        """Return this command as what another one runs."""
        return Command((*words, *self.words), self.environment)

    def __str__(self) -> str:
        """Return it as a line for a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, shlex.join(self.words)])


def command_of(
    request: Request, variant: Variant, partial: Path, output: str, environment: Mapping[str, str]
) -> Command:
    """Return the command of a variant.

    Parameters
    ----------
    request : Request
        What to record.
    variant : Variant
        Adds words and environment.
    partial : Path
        Folder of the run in the making.
    output : str
        Name of the folder in it for what the workload itself writes.
    environment : mapping of str to str
        Of this process, whose ``XLA_FLAGS`` are kept.

    Raises
    ------
    UsageError
        If the flags make no sense.
    """
    words = (
        request.workload.words(variant.name, request.steps, partial / output)
        if request.workload
        else request.command
    )
    flags = flags_of(request, variant, environment)
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(partial / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    log = {
        name: value
        for name, value in SCHEDULER_LOG.items()
        if request.profile and name not in environment
    }
    set_flags = {"XLA_FLAGS": joined(flags)} if flags else {}
    given = {**cache, **log, **dict(variant.environment), **set_flags}
    return Command((*words, *variant.words), given)


def flags_of(request: Request, variant: Variant, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return XLA's flags for a variant; the arguments are those of `command_of`.

    Raises
    ------
    UsageError
        If they make no sense.
    """
    flags = run_flags(
        request.preset,
        # Loop bodies in CUDA graphs would hide which operation of XLA a kernel belongs to. Of a
        # command of others nothing is changed that was not asked for.
        command_buffers=request.command_buffers or request.workload is None,
        extra=request.flags,
        inherited=variant.environment.get("XLA_FLAGS", environment.get("XLA_FLAGS", "")),
    )
    return using(flags, request.profile) if request.profile else flags
