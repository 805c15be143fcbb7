"""All facts together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.recorders.machine.folders import Folder, folder
from nsysoffload.recorders.machine.gpus import Gpu, chosen, driver, gpus, profiling_restricted
from nsysoffload.recorders.machine.memory import HostMemory, host_memory
from nsysoffload.recorders.machine.numa import Placement, placement
from nsysoffload.recorders.machine.profilers import injected, running
from nsysoffload.recorders.machine.software import Software, software
from nsysoffload.recorders.ranks import Rank, rank_of

__all__ = ["Machine", "local_rank", "survey"]

_LOCAL_RANKS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


@dataclass(frozen=True)
class Machine:
    """What this machine and this process have.

    Attributes
    ----------
    driver : str or None
        Version of the GPUs' driver.
    gpus : tuple of Gpu
        That the driver shows to this process.
    chosen : tuple of Gpu
        Those of them that a program started here will use, as far as can be told.
    profiling_restricted : bool or None
        Whether only administrators may read GPU counters.
    placement : Placement
        NUMA nodes.
    memory : HostMemory
        Host memory.
    output, temporary, locks : Folder
        Of the recording, of temporary files, and ``/var/lock``.
    injected, running : tuple of str
        Variables that bring in another profiler, and profilers that run.
    software : Software
        Versions.
    rank, local_rank : Rank or None, int or None
        Of this process among others, and among those of this machine.
    """

    driver: str | None
    gpus: tuple[Gpu, ...]
    chosen: tuple[Gpu, ...]
    profiling_restricted: bool | None
    placement: Placement
    memory: HostMemory
    output: Folder
    temporary: Folder
    locks: Folder
    injected: tuple[str, ...]
    running: tuple[str, ...]
    software: Software
    rank: Rank | None
    local_rank: int | None


def survey(output: Path, environment: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """Look at this machine.

    Parameters
    ----------
    output : Path
        Folder for what is recorded, which need not be there.
    environment : mapping of str to str
        Of this process.
    root : Path
        What stands for ``/``.
    """
    seen = gpus(root, environment)
    local = local_rank(environment)
    temporary = environment.get("TMPDIR")
    return Machine(
        driver=driver(root),
        gpus=seen,
        chosen=chosen(seen, environment, local),
        profiling_restricted=profiling_restricted(root),
        placement=placement(root),
        memory=host_memory(root, environment),
        output=folder(output),
        temporary=folder(Path(temporary) if temporary else root / "tmp"),
        locks=folder(root / "var/lock"),
        injected=injected(environment),
        running=running(root),
        software=software(),
        rank=rank_of(environment),
        local_rank=local,
    )


def local_rank(environment: Mapping[str, str]) -> int | None:
    """Return the rank of this process among those of its machine; None where it is alone.

    A batch script has such a variable too, and is no rank.
    """
    values = [environment.get(name, "") for name in _LOCAL_RANKS]
    found = next((int(value) for value in values if value.isdecimal()), None)
    return found if rank_of(environment) else None
