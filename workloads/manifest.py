"""What a training run leaves behind: ``manifest.json``, whose form is the dataclasses below.

It speaks of the program and the machine's kind only: no host or user, no path, and of the
environment ``XLA_FLAGS`` alone.
"""

import json
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from nsysoffload.errors import UsageError
from nsysoffload.recorders.flags import without_paths
from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.trace.run_folder import MANIFEST
from workloads.config import Config
from workloads.loop import StepRecord

__all__ = [
    "Manifest",
    "Needs",
    "Offload",
    "Program",
    "Speed",
    "needs",
    "speed",
    "writable",
    "write",
    "xla_flags",
]


@dataclass(frozen=True)
class Program:
    """What was asked for, with what was left open filled in.

    Attributes
    ----------
    mesh : str
        Such as ``fsdp=8``.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.
    seed : int
        Of the first weights and of the tokens.
    """

    model: str
    policy: str
    mesh: str
    batch: int
    seq: int
    layers: int
    optimizer: str
    offload_optimizer: bool
    attention: str
    seed: int


@dataclass(frozen=True)
class Needs(Memory):
    """Memory of one device by the compiler's count, with its sums (see `Memory`).

    Attributes
    ----------
    device_need_bytes, host_need_bytes : int
        Arguments, temporaries and outputs, without outputs written over arguments.
    """

    device_need_bytes: int
    host_need_bytes: int


@dataclass(frozen=True)
class Offload:
    """Offloading of activations.

    Attributes
    ----------
    declared_bytes : dict of str to int, or None
        What the policy moves per step in each direction, by name, for one device; None where it
        goes by operations and not by names.
    in_effect : bool
        Whether the compiled step has temporaries in host memory.
    """

    declared_bytes: dict[str, int] | None
    in_effect: bool


@dataclass(frozen=True)
class Speed:
    """Of the median warm step.

    Attributes
    ----------
    model_tflops_per_device : float
        Of the model's own operations, those of rematerialisation left out, by formula.
    """

    step_ms: float
    tokens_per_s: float
    model_tflops_per_device: float


@dataclass(frozen=True)
class Manifest:
    """A run.

    Attributes
    ----------
    kind : str
        ``measured``; a run that was only compiled is ``predicted``.
    config : Config
        Sizes of the model.
    devices : int
        How many, of all processes, all of ``device_kind``.
    xla_flags : tuple of str
        See `xla_flags`.
    compile_s : float
        Seconds.
    offload : Offload or None
        None for a policy that offloads no activations.
    device_peak_bytes : int or None
        Most memory in use on any device of this process, so far; None where it isn't counted.
    steps : tuple of StepRecord
        All of them, in order.
    notes : tuple of str
        Sentences on what differs from what was asked for.
    """

    schema: str = field(default=MANIFEST, init=False)
    kind: str = field(default="measured", init=False)
    program: Program
    config: Config
    devices: int
    device_kind: str
    backend: str
    jax_version: str
    jaxlib_version: str
    xla_flags: tuple[str, ...]
    compile_s: float
    memory: Needs
    offload: Offload | None
    device_peak_bytes: int | None
    speed: Speed
    steps: tuple[StepRecord, ...]
    notes: tuple[str, ...]


def needs(memory: Memory) -> Needs:
    """Memory with its sums."""
    return Needs(
        **asdict(memory),
        device_need_bytes=memory.device_bytes,
        host_need_bytes=memory.host_bytes,
    )


def speed(steps: Sequence[StepRecord], tokens: int, flops: int, devices: int) -> Speed:
    """Speed of a step with so many tokens and operations over all devices."""
    step_ms = statistics.median(step.ms for step in steps if step.warm)
    return Speed(
        step_ms=step_ms,
        tokens_per_s=tokens / step_ms * 1e3,
        model_tflops_per_device=flops / step_ms / devices / 1e9,
    )


def xla_flags(text: str) -> tuple[str, ...]:
    """Split an ``XLA_FLAGS`` into its flags, with ``PATH`` for absolute paths.

    Examples
    --------
    >>> xla_flags("--xla_gpu_enable_latency_hiding_scheduler=true --xla_dump_to=/home/me/dump")
    ('--xla_gpu_enable_latency_hiding_scheduler=true', '--xla_dump_to=PATH')
    """
    try:
        flags = shlex.split(text)
    except ValueError:  # an open quote, which XLA itself takes as it is
        flags = text.split()
    return without_paths(tuple(flags))


def writable(folder: Path) -> Path:
    """Make the folder of a manifest, so that a run does not fail at its end.

    Raises
    ------
    UsageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be made ({error.strerror}); choose another folder with --output."
        ) from error
    return folder


def write(manifest: Manifest, folder: Path) -> Path:
    """Write ``manifest.json`` into a folder; an older one stays until the new one is complete.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    path = folder / "manifest.json"
    text = json.dumps(asdict(manifest), indent=1, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
            staged = Path(partial, path.name)
            staged.write_text(text + "\n", encoding="utf-8")
            staged.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"{path} cannot be written ({reason}); choose another folder with --output."
        ) from error
    return path
