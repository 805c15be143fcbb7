"""Stages of the check: each has its share of the time, and one that fails stops no other."""

import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.gpu_check.privacy import without_paths
from nsysoffload.errors import OffloadError

__all__ = ["Skipped", "Stages"]

LEAST_S = 5.0  # in less nothing is begun


class Skipped(Exception):
    """A stage has nothing to do here; the text is a sentence that says why."""


class Stages:
    """Runs stages within a limit, and keeps what became of them.

    Parameters
    ----------
    limit_s : float
        Seconds for all stages.
    clock : function
        Returns seconds.

    Attributes
    ----------
    done : list of dict
        By stage: ``stage``, ``seconds``, ``failure`` and ``skipped``, sentences or None.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + limit_s
        self.done: list[dict[str, Any]] = []

    def within[T](
        self, stage: str, most_s: float, action: Callable[[float], T], *, keep_s: float = 0
    ) -> T | None:
        """Run a stage that has a limit of its own; return its result, or None if it fails.

        Parameters
        ----------
        stage : str
            Its name.
        most_s : float
            The most seconds that it may take.
        action : function
            Takes the seconds that it has.
        keep_s : float
            Seconds to be left for the stages after it.
        """

        def act() -> T:
            seconds = min(most_s, self._end - self._clock() - keep_s)
            if seconds < LEAST_S:
                raise Skipped("No time is left for it.")
            return action(seconds)

        return self.run(stage, act)

    def run[T](self, stage: str, action: Callable[[], T]) -> T | None:
        """Run a stage that is quick; return its result, or None if it fails."""
        print(f"{stage} ...", file=sys.stderr, flush=True)
        began = self._clock()
        result, failure, skipped = None, None, None
        try:
            result = action()
        except Skipped as reason:
            skipped = str(reason)
        except OffloadError as error:
            failure = str(error)
        except Exception as error:
            traceback.print_exc()
            failure = f"Something unforeseen happened ({type(error).__name__}: {error})."
        seconds = self._clock() - began
        self.done.append(
            {
                "stage": stage,
                "seconds": round(seconds, 1),
                "failure": failure and without_paths(failure),
                "skipped": skipped and without_paths(skipped),
            }
        )
        print(f"{stage}: {failure or skipped or 'done'} ({seconds:.0f} s)", file=sys.stderr)
        return result
