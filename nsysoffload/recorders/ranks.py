"""Which of several ranks this process is, as SLURM or MPI tell it."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Rank", "rank_of"]

# A batch script has SLURM_PROCID and SLURM_NTASKS too and is no rank: those of a step have more.
_LAUNCHERS = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


@dataclass(frozen=True)
class Rank:
    """A rank among others.

    Attributes
    ----------
    index, count : int
        Which it is, from 0, and how many there are.
    variable : str
        Environment variable that holds the index.
    """

    index: int
    count: int
    variable: str


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """Return the rank of a process of this environment; None where it is alone.

    Examples
    --------
    >>> rank_of({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"})
    Rank(index=3, count=8, variable='OMPI_COMM_WORLD_RANK')
    """
    for variable, size in _LAUNCHERS:
        index, count = environment.get(variable, ""), environment.get(size, "")
        if index.isdecimal() and count.isdecimal() and int(count) > 1:
            return Rank(int(index), int(count), variable)
    return None
