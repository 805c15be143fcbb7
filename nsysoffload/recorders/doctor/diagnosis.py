"""All checks together, and which recorders can be used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import UsageError
from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.doctor.folders import lock_checks, output_check, temporary_check
from nsysoffload.recorders.doctor.gpus import gpu_check, mig_checks, permission_checks
from nsysoffload.recorders.doctor.host_memory import memory_check, numa_checks
from nsysoffload.recorders.doctor.profilers import injected_check, running_checks
from nsysoffload.recorders.doctor.software import software_checks
from nsysoffload.recorders.machine.survey import Machine, survey
from nsysoffload.recorders.nsys.tool import Nsys, find
from nsysoffload.recorders.predict.versions import VersionError, check_versions

__all__ = ["Diagnosis", "examine"]


@dataclass(frozen=True)
class Diagnosis:
    """What can be recorded here.

    Attributes
    ----------
    checks : tuple of Check
        What was looked at.
    recorders : dict of str to (str or None)
        For each of ``nsys``, ``jax`` and ``predict`` None where it can be used, else why not.
    machine : Machine
        The facts.
    nsys : Nsys or None
        The nsys found.
    """

    checks: tuple[Check, ...]
    recorders: dict[str, str | None]
    machine: Machine
    nsys: Nsys | None


def examine(
    output: Path,
    *,
    environment: Mapping[str, str],
    root: Path = Path("/"),
    nsys: str | None = None,
    offload: bool = True,
) -> Diagnosis:
    """Look at this machine and say what can be recorded here; nothing is written or started.

    Parameters
    ----------
    output : Path
        Folder for what is recorded, which need not be there.
    environment : mapping of str to str
        Of this process.
    root : Path
        What stands for ``/``.
    nsys : str, optional
        The nsys to use, else the one that `nsysoffload.recorders.nsys.tool.find` finds.
    offload : bool
        Whether a program of this Python is to offload. If not, it does not matter that its jax
        offloads wrongly, or how much pinned memory there is.
    """
    machine = survey(output, environment, root)
    found, no_nsys = _nsys(nsys, root)
    folders = (output_check(output, machine.output), temporary_check(machine.temporary))
    software = tuple(software_checks(machine, offload))
    checks = (
        _nsys_check(found),
        *lock_checks(machine.locks),
        gpu_check(machine),
        *mig_checks(machine.chosen, found),
        *permission_checks(machine),
        *numa_checks(machine),
        memory_check(machine.memory, offload),
        *folders,
        injected_check(machine),
        *running_checks(machine),
        *software,
        *_rank(machine),
    )
    blocked = _first_problem(folders)
    recorders = {
        "nsys": blocked or no_nsys,
        "jax": blocked or _no_jax(machine, software),
        "predict": blocked or _no_prediction(),
    }
    return Diagnosis(checks, recorders, machine, found)


def _nsys(path: str | None, root: Path) -> tuple[Nsys | None, str | None]:
    try:
        return find(path, root), None
    except UsageError as error:
        return None, str(error)


def _nsys_check(nsys: Nsys | None) -> Check:
    if nsys is None:
        return Check("nsys", "warning", "There is no nsys to record with.")
    return Check("nsys", "ok", f"nsys {nsys.version} is there: {nsys.path}.")


def _no_jax(machine: Machine, software: Sequence[Check]) -> str | None:
    """Say why jax.profiler cannot record."""
    bad = next((check for check in software if check.state != "ok"), None)
    if bad:
        return f"{bad.text} {bad.advice}"
    if not machine.chosen:
        return "No GPU can be seen."
    if machine.injected:
        return f"Another profiler takes its place ({', '.join(machine.injected)})."
    return None


def _no_prediction() -> str | None:
    try:
        check_versions()
    except VersionError as error:
        return str(error)
    return None


def _first_problem(checks: Sequence[Check]) -> str | None:
    return next((f"{c.text} {c.advice}" for c in checks if c.state == "problem"), None)


def _rank(machine: Machine) -> Iterator[Check]:
    rank = machine.rank
    if rank:
        text = f"This is rank {rank.index} of {rank.count} ({rank.variable})."
        yield Check("rank", "ok", text, "Each records into a folder of its own.")
