"""The run that a trace is of: its program, flags and compiled module, as its folder keeps them."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.trace.prediction import Prediction
from nsysoffload.trace.records import record
from nsysoffload.trace.run_folder import MANIFEST, MODULE
from nsysoffload.trace.tables import Trace

__all__ = ["Run", "module_text", "run_of"]

_GZIP = b"\x1f\x8b"
_LONGEST = 1 << 30  # bytes of a module's text; a large one has some 10 million


@dataclass(frozen=True)
class Run:
    """What is known of a run; ``None`` is what nothing tells.

    Attributes
    ----------
    kind : str
        ``measured`` or ``predicted``.
    flags : tuple of str or None
        XLA's, as ``--name=value``.
    jax_version, target : str or None
        Release of jax, and key of the GPU in `nsysoffload.hardware.TARGETS` it was compiled for.
    program : mapping or None
        What the workload was asked for, as in the run's manifest.
    prediction : Prediction or None
        How its times were made.
    """

    kind: str
    flags: tuple[str, ...] | None = None
    jax_version: str | None = None
    target: str | None = None
    devices: int | None = None
    program: Mapping[str, Any] | None = None
    prediction: Prediction | None = None


@dataclass(frozen=True)
class _Manifest:
    """The part of a run's manifest that is read here."""

    schema: str
    xla_flags: tuple[str, ...] | None = None
    jax_version: str | None = None
    target: str | None = None
    device_kind: str | None = None
    devices: int | None = None
    program: Mapping[str, Any] | None = None


def run_of(trace: Trace, path: Path) -> Run:
    """Return what is known of the run of a trace, by its folder and the trace itself.

    Parameters
    ----------
    trace : Trace
        The trace.
    path : Path
        Its file.
    """
    said = trace.source.prediction
    manifest = _manifest(path)
    if manifest is None:
        if said is None:
            return Run(trace.source.kind)
        known = (said.flags, said.jax_version, said.target, said.devices)
        return Run(trace.source.kind, *known, prediction=said)
    return Run(
        trace.source.kind,
        manifest.xla_flags,
        manifest.jax_version,
        manifest.target or _target(manifest.device_kind),
        manifest.devices,
        manifest.program,
        said,
    )


def _target(device_kind: str | None) -> str | None:
    """Return the target whose product name a GPU has; measured runs name the product."""
    return next((key for key, target in TARGETS.items() if target.name == device_kind), None)


def _manifest(path: Path) -> _Manifest | None:
    """Read the manifest beside a trace; None if there is none, or none of ours."""
    try:
        values = json.loads(path.with_name("manifest.json").read_bytes())
        found = record(_Manifest, values)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    assert isinstance(found, _Manifest)
    return found if found.schema == MANIFEST else None


def module_text(trace: Path, given: Path | None = None) -> str:
    """Return the text of the module that a trace ran.

    Parameters
    ----------
    trace : Path
        The trace, beside which the folder of a run keeps it.
    given : Path, optional
        Another file, plain or gzipped.

    Raises
    ------
    UsageError
        If it is not there or cannot be read.
    """
    path = given or trace.with_name(MODULE)
    if given is None and not path.is_file():
        raise UsageError(
            f"There is no {MODULE} beside {trace.name}, so the names of the compiled program are"
            " not known; give its text, from the compiled step's as_text(), with --hlo."
        )
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{path.name} holds no text of a module ({error}); check it.") from error
