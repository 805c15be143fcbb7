"""Traces of a run -> its profile."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysoffload.analysis import load
from nsysoffload.errors import TraceError, UsageError
from nsysoffload.profiles.costs import Copies, costs
from nsysoffload.profiles.executions import Executions, executions
from nsysoffload.profiles.instructions import Costed, Instructions, Role, instructions
from nsysoffload.profiles.run import Run, module_text, run_of
from nsysoffload.report.format import plain, share
from nsysoffload.timeline.steps import StepRule
from nsysoffload.trace.files import located
from nsysoffload.trace.run_folder import rank_traces

__all__ = ["COPIES", "About", "Made", "Profile", "hopes", "pipelined", "profile"]

COPIES = Copies.QUEUED
"""What a profile says of host copies unless told otherwise."""

KNOWN_SHARE = 0.9  # of the GPU's time in a step; a program that is not the traced one has less
TIMED_SHARE = 2 / 3  # of the module's instructions; likewise
_LISTED = 5
_PIPELINING = "xla_gpu_enable_pipelined_host_offloading"
_HOST = (Role.H2D, Role.D2H)


@dataclass(frozen=True)
class About:
    """What a profile was made of, and for.

    Attributes
    ----------
    module, fingerprint : str
        The compiled module's name, and its ``fingerprint_before_lhs``.
    kind : str
        ``measured`` or ``predicted``: where the times are from.
    copies : str
        See `nsysoffload.profiles.costs.Copies`.
    flags : tuple of str or None
        XLA flags that the module was compiled with; None where nothing tells.
    jax_version, target : str or None
        Likewise.
    program : mapping or None
        Arguments of the workload, if it is one of ours.
    """

    module: str
    fingerprint: str
    kind: str
    copies: str
    flags: tuple[str, ...] | None
    jax_version: str | None
    target: str | None
    program: Mapping[str, Any] | None


@dataclass(frozen=True)
class Profile:
    """What each instruction of a module takes.

    Attributes
    ----------
    about : About
        What it was made of.
    costs : mapping of str to float
        Microseconds by the instruction's name, in the order of the schedule.
    missing : tuple of str
        Instructions that take time and have none in the trace.
    left_out : tuple of str
        Host copies that nothing is said of, as was asked for.
    names : mapping of str to str
        For each cost the instruction's own name: that of an asynchronous one may stand under the
        name of the one within it.
    notes : tuple of str
        Sentences on what to keep in mind.
    """

    about: About
    costs: Mapping[str, float]
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    names: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """A profile and the run it is of."""

    profile: Profile
    run: Run
    text: str


def profile(
    traces: Sequence[Path],
    *,
    hlo: Path | None = None,
    copies: Copies = COPIES,
    rule: StepRule | None = None,
) -> Made:
    """Make the profile of a run.

    Parameters
    ----------
    traces : sequence of Path
        The run's folder or trace; of several ranks one each, or the folder that holds theirs.
    hlo : Path, optional
        Text of the compiled module; by default what the run's folder keeps.
    copies : Copies
        What to say of host copies.
    rule : StepRule, optional
        What a step is; by default as in a report.

    Raises
    ------
    TraceError
        If a trace cannot be used, or does not name XLA's operations.
    UsageError
        If there is no text of the module, or it is not of the program that ran.
    """
    paths = [located(each) for path in traces for each in rank_traces(path)]
    if not paths:
        raise UsageError("No trace was given; name at least one.")
    text = module_text(paths[0], hlo)
    module = instructions(text)
    loaded = [load(path) for path in paths]
    run = run_of(loaded[0], paths[0])
    _check_ranks(paths, [run, *map(run_of, loaded[1:], paths[1:])])
    found = executions(loaded, module, rule)
    _check(found, module)
    timed = costs(found.frame, module, Copies.PLAIN)
    _check_timed(timed, module)
    left_out = _names(c for c in module.all if copies is Copies.OMIT and c.role in _HOST)
    about = About(
        module=module.module,
        fingerprint=module.fingerprint,
        kind=run.kind,
        copies=copies,
        flags=run.flags,
        jax_version=run.jax_version,
        target=run.target,
        program=run.program,
    )
    outer = {c.name: name for name, c in module.by_name.items() if name != c.name}
    chosen = costs(found.frame, module, copies)
    made = Profile(
        about=about,
        costs=chosen,
        missing=_names(c for c in module.all if c.name not in timed and c.name not in left_out),
        left_out=left_out,
        names={name: outer.get(name, name) for name in chosen},
        notes=tuple(_notes(module, run, found.devices)),
    )
    return Made(made, run, text)


def _names(chosen: Iterable[Costed]) -> tuple[str, ...]:
    return tuple(costed.name for costed in chosen)


def _check_ranks(paths: Sequence[Path], runs: Sequence[Run]) -> None:
    """Refuse traces that are not of the ranks of one run.

    Raises
    ------
    UsageError
        If one is given twice, or is of another run than the first.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("A trace is given twice; give that of each rank once.")
    first, *others = ((run.kind, run.flags, run.jax_version, run.target) for run in runs)
    for path, other in zip(paths[1:], others, strict=True):
        if other != first:
            raise UsageError(
                f"{path.parent.name}/{path.name} is of another run than {paths[0].parent.name}/"
                f"{paths[0].name}, or does not say of which; give the ranks of one run."
            )


def _check(found: Executions, module: Instructions) -> None:
    """Refuse a trace that does not tell what each of the module's instructions took."""
    if found.graph_ns > (1 - KNOWN_SHARE) * found.total_ns:
        raise TraceError(
            "Much of the trace ran as CUDA graphs, in which no row tells its operation; record"
            " without them, as nsysoffload capture does unless told otherwise, or with"
            " XLA_FLAGS=--xla_gpu_enable_command_buffer= (empty)."
        )
    if found.modules and module.module not in found.modules:
        raise UsageError(
            f"The trace ran {', '.join(sorted(found.modules)[:_LISTED])}, and the text is of"
            f" {module.module}; give the text of the program that ran with --hlo."
        )
    if not found.named_ns:
        raise TraceError(
            "The trace names no operations of XLA, so nothing tells which instruction took what;"
            " record a JAX program with --trace=cuda,nvtx."
        )
    if found.known_ns < KNOWN_SHARE * found.named_ns:
        longest = sorted(found.unknown, key=lambda op: -found.unknown[op])[:_LISTED]
        raise UsageError(
            f"{share(1 - found.known_ns / found.named_ns)} of the time is of operations that the"
            f" module does not have ({', '.join(map(plain, longest))}): it was compiled with other"
            " flags, or is of another program; give the text of what ran with --hlo."
        )


def _check_timed(timed: Mapping[str, float], module: Instructions) -> None:
    every = len(module.all)
    if len(timed) < TIMED_SHARE * every:
        raise UsageError(
            f"The trace has times for {len(timed)} of the module's {every} instructions: it is cut"
            " off, or the module was compiled with other flags; record whole steps, and give the"
            " text of what ran with --hlo."
        )


def _notes(module: Instructions, run: Run, devices: int) -> Iterator[str]:
    if run.kind == "predicted":
        yield (
            "The times are modelled and the matrix products not autotuned: on a GPU XLA may choose,"
            " and name, others. Prefer the profile of a measured run."
        )
    elif devices < module.devices and any(c.role is Role.COLLECTIVE for c in module.all):
        yield (
            f"The program runs on {module.devices} GPUs, and {devices} were traced: what a"
            " collective took may be waiting for another GPU; give the traces of all ranks."
        )
    yield from hopes(module, run.flags)


def hopes(module: Instructions, flags: tuple[str, ...] | None) -> Iterator[str]:
    """Yield sentences on why a profile can do little for the copies of a module."""
    if not any(costed.role in _HOST for costed in module.all):
        yield "The module copies nothing to or from the host, so a profile changes no such copy."
        return
    if module.devices == 1:
        yield (
            "The program runs on one GPU: without collectives the scheduler has no reason to start"
            " copies late, and a profile is not known to gain anything."
        )
    if flags is not None and not pipelined(flags):
        yield (
            "Pipelined host offloading is off: a copy cannot leave its iteration of the loop, so a"
            " profile moves none, though it may hide collectives; record with --xla-preset"
            " pipelined."
        )


def pipelined(flags: tuple[str, ...]) -> bool:
    """Whether flags of XLA let host copies move into a neighbouring iteration."""
    return f"--{_PIPELINING}=true" in flags
