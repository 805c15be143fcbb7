"""Several processes that train one model together: all see the devices of all."""

from collections.abc import Mapping

from nsysoffload.errors import UsageError
from nsysoffload.recorders.ranks import Rank, rank_of

__all__ = ["join"]


def join(environment: Mapping[str, str], wanted: bool | None) -> Rank | None:
    """Join the other processes that a launcher has started; before devices are listed.

    As JAX has it, a process takes one GPU of its host, the one with its number, or the only one it
    sees. ``JAX_LOCAL_DEVICE_IDS=0,1,2,3`` gives it others, and ``JAX_COORDINATOR_ADDRESS`` says
    where the first process is, for a launcher that does not.

    Parameters
    ----------
    environment : mapping of str to str
        Of this process; see `nsysoffload.recorders.ranks.rank_of`.
    wanted : bool or None
        None joins them if there are any.

    Returns
    -------
    Rank or None
        Of this process; None where it is alone.

    Raises
    ------
    UsageError
        If they are to be joined and are not there, or cannot be reached.
    """
    rank = rank_of(environment)
    if wanted and rank is None:
        raise UsageError(
            "No launcher (SLURM, Open MPI) shows that this process is one of several; start it with"
            " srun or mpirun, or leave out --distributed."
        )
    if rank is None or wanted is False:
        return None
    _initialize(rank, environment)
    return rank


def _initialize(rank: Rank, environment: Mapping[str, str]) -> None:
    import jax

    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    try:
        jax.distributed.initialize(
            num_processes=rank.count,
            process_id=rank.index,
            # Where each task is given its own GPU, this is number 0 for all of them.
            local_device_ids=[0] if visible and "," not in visible else None,
        )
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise UsageError(
            f"Process {rank.index} of {rank.count} cannot join the others ({reason}); set "
            "JAX_COORDINATOR_ADDRESS to HOST:PORT of the first one, or let each train by itself "
            "with --no-distributed."
        ) from error
