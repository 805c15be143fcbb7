"""Compile a jitted function for a GPU that is not there."""

import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import MappingProxyType
from typing import Any, Protocol

from nsysoffload.errors import UsageError
from nsysoffload.hardware import Target
from nsysoffload.recorders.flags import xla_flags
from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.recorders.predict.process import CompileError, Process
from nsysoffload.recorders.predict.target_config import CUDNN, target_config
from nsysoffload.recorders.predict.versions import JAX_VERSION, check_versions

__all__ = ["Compiled", "Jitted", "compile_function", "compile_program", "without_folders"]


# The text lists the source files of its operations; where they lie is nobody's business.
_FOLDERS = re.compile(r'^(\d+ ")[^"]*/', re.MULTILINE)


class Jitted(Protocol):
    """What ``jax.jit`` returns, as far as it is used here."""

    def trace(self, *args: Any) -> Any:
        """Trace the function for abstract arguments."""


@dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes
    ----------
    text : str
        The scheduled HLO module: instructions of a computation stand in the order of their issue.
    memory : Memory
        What it needs, per device.
    target : str
        Key of the target in `nsysoffload.hardware.TARGETS`.
    devices : int
        GPUs that the program is partitioned over.
    flags : tuple of str
        XLA flags, as ``--name=value``.
    jax_version : str
        Release of jax, jaxlib and the compiler.
    seconds : float
        Time that all of it took, the start of the process included.
    """

    text: str
    memory: Memory
    target: str
    devices: int
    flags: tuple[str, ...]
    jax_version: str
    seconds: float


def without_folders(text: str) -> str:
    """Return a module's text with the names of source files alone, not where they lie."""
    return _FOLDERS.sub(r"\1", text)


def compile_program(
    program: str,
    *,
    target: Target,
    devices: int = 1,
    arguments: Mapping[str, object] = MappingProxyType({}),
    flags: tuple[str, ...] | None = None,
    timeout_s: float | None = None,
    log: Path | None = None,
    cancelled: Event | None = None,
) -> Compiled:
    """Compile what a function of a module makes.

    Parameters
    ----------
    program : str
        ``module:function``, importable from the working directory or installed. It is called as
        ``function(devices, **arguments)`` and returns a jitted function and the tuple of its
        arguments, as ``jax.ShapeDtypeStruct`` with shardings on these devices. The devices stand in
        for the GPUs: a mesh is made of them, nothing runs on them.
    target : Target
        GPU to compile for.
    devices : int
        How many of them.
    arguments : mapping of str to object
        Passed on; they have to be JSON.
    flags : tuple of str, optional
        From `xla_flags`; those of the default preset where none are given. ``XLA_FLAGS`` and other
        variables of XLA and JAX in the environment are not used.
    timeout_s : float, optional
        Seconds after which to give up.
    log : Path, optional
        File for what the program and the compiler print.
    cancelled : Event, optional
        Set by another thread to give up.

    Raises
    ------
    VersionError
        If a package is missing or of another release than the pinned one.
    UsageError
        If ``program`` or ``arguments`` cannot be passed on.
    CompileError
        If the program fails, or the compiler does, or takes too long.
    """
    if not re.fullmatch(r"[\w.]+:\w+", program):
        raise UsageError(f"'{program}' names no function; write it as module:function.")
    request = {"program": program, "arguments": dict(arguments), "devices": devices}
    compiled = _compile(request, target, flags, Process(program, timeout_s, log, cancelled))
    if compiled.devices != devices:
        raise CompileError(
            f"{program} uses {compiled.devices} of the {devices} devices it is given; make the "
            "shardings of its arguments of all of them."
        )
    return compiled


def compile_function(
    function: Jitted,
    *args: object,
    target: Target,
    flags: tuple[str, ...] | None = None,
    timeout_s: float | None = None,
    log: Path | None = None,
) -> Compiled:
    """Compile a jitted function of this process.

    It is lowered here and compiled in another process, so neither a GPU nor XLA flags of this one
    matter. Shardings, memory kinds and donated arguments come along.

    Parameters
    ----------
    function : Jitted
        From ``jax.jit``.
    *args : object
        Its arguments, or ``jax.ShapeDtypeStruct`` in their place. For more GPUs than this process
        has devices, make the shardings with a ``jax.sharding.AbstractMesh``.
    target, flags, timeout_s, log
        As for `compile_program`.

    Raises
    ------
    VersionError
        If a package is missing or of another release than the pinned one.
    CompileError
        If the compiler fails or takes too long.
    """
    check_versions()
    lowered = function.trace(*args).lower(lowering_platforms=("cuda",))
    request = {"program": None, "lowered": lowered.as_text(debug_info=True)}
    return _compile(request, target, flags, Process("the function", timeout_s, log))


def _compile(
    request: Mapping[str, object], target: Target, flags: tuple[str, ...] | None, process: Process
) -> Compiled:
    check_versions()
    flags = xla_flags() if flags is None else flags
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nsysoffload-") as temporary:
        folder = Path(temporary)
        about = {
            "target_config": target_config(target),
            "compute_capability": target.compute_capability,
            "cudnn": CUDNN[0] * 10_000 + CUDNN[1] * 100 + CUDNN[2],
        }
        answer = process.answer({**request, **about}, flags, folder)
        return Compiled(
            text=without_folders((folder / "module.hlo").read_text(encoding="utf-8")),
            memory=Memory(**answer["memory"]),
            target=target.key,
            devices=answer["devices"],
            flags=flags,
            jax_version=JAX_VERSION,
            seconds=time.monotonic() - start,
        )
