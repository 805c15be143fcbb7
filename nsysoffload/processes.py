"""The same work on several items, in processes beside each other."""

import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context

from nsysoffload.errors import OffloadError

__all__ = ["Progress", "each"]

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is to do."""


def each[Item, Result](
    work: Callable[[Item], Result],
    items: Sequence[Item],
    processes: int,
    progress: Progress | None = None,
) -> list[Result]:
    """Do the work on each item.

    Parameters
    ----------
    work : callable
        What can be pickled, as have to be its results.
    items : sequence
        What to do it on.
    processes : int
        How many share the items; with one it is done here.
    progress : callable, optional
        See `Progress`.

    Returns
    -------
    list
        The results, in the order of the items.

    Raises
    ------
    OffloadError
        If a process was ended from outside; else what the work raises.
    """
    results: list[Result] = []
    with ExitStack() as stack:
        arrive: Iterable[Result] = map(work, items)
        if min(processes, len(items)) > 1:
            workers = ProcessPoolExecutor(
                min(len(items), processes),
                mp_context=get_context("spawn"),
                # An interrupt ends them without a word; the parent speaks for all.
                initializer=signal.signal,
                initargs=(signal.SIGINT, signal.SIG_DFL),
            )
            arrive = stack.enter_context(workers).map(work, items)
        try:
            for result in arrive:
                results.append(result)
                if progress:
                    progress(len(results), len(items))
        except BrokenProcessPool as error:
            raise OffloadError(
                "A process that analysed a trace was ended, perhaps for want of memory, or because"
                " the script does not guard its main module; analyse fewer traces at once."
            ) from error
    return results
