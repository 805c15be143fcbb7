"""XLA's operations, as events name them, and the ranges that say the same of API calls.

While XLA launches an operation, its annotations stand on the thread: the program's, and within it
the operation's. An event has what they say as stats::

    prefix=jit(step)  hlo_module=jit_step  program_id=12  name=jvp()/dot_general  hlo_op=fusion.3

GPU rows are attributed by the ranges around their API calls. What the annotations of a call were is
known for the time of the call, so that is where its range is put.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.trace.tables import UNSET

__all__ = ["EXECUTION", "Operation", "Operations", "called", "module_range"]

EXECUTION = ":XLA GPU module"
"""How the name of the host's range ends that is around an execution of a program."""


class Operation(NamedTuple):
    """What the annotations around a launch said; empty where they said nothing."""

    prefix: str
    name: str
    hlo_op: str
    hlo_module: str
    program_id: str

    def range_text(self) -> str:
        """Return the text of the operation's range, as XLA writes it; empty without a name.

        Examples
        --------
        >>> Operation("jit(f)", "jvp()/dot", "fusion.1", "jit_f", "3").range_text()
        'Thunk:#name=jit(f)/jvp()/dot,hlo_op=fusion.1#'
        """
        name = self.name
        if name and self.prefix and not f"{name}/".startswith(f"{self.prefix}/"):
            name = f"{self.prefix}/{name}"
        said = [
            f"{key}={value}" for key, value in (("name", name), ("hlo_op", self.hlo_op)) if value
        ]
        return f"Thunk:#{','.join(said)}#" if said else ""


class Operations:
    """The distinct operations of a profile, each with a number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def number(self, stats: Mapping[str, object]) -> int:
        """Return the number of the operation that an event's stats name, UNSET if none."""
        said = tuple(map(stats.get, Operation._fields))
        if said in self._numbers:
            return self._numbers[said]
        return self._numbers.setdefault(said, len(self._numbers)) if any(said) else UNSET

    def _all(self) -> Iterator[Operation]:
        for said in self._numbers:
            yield Operation(*("" if value is None else str(value) for value in said))

    def range_texts(self) -> list[str]:
        """Return the text of each operation's range, by number."""
        return [operation.range_text() for operation in self._all()]

    def programs(self) -> dict[str, set[str]]:
        """Return the ids of the programs of each module's name."""
        programs: dict[str, set[str]] = {}
        for operation in self._all():
            programs.setdefault(operation.hlo_module, set()).add(operation.program_id)
        return programs


def module_range(module: str, programs: set[str]) -> str:
    """Return the text of a range of a module, with the program's id where only one can be meant.

    Examples
    --------
    >>> module_range("jit_step", {"12"}), module_range("jit_step", {"12", "15"})
    ('XlaModule:#hlo_module=jit_step,program_id=12#', 'XlaModule:#hlo_module=jit_step#')
    """
    ids = [f",program_id={number}" for number in programs if number and len(programs) == 1]
    return f"XlaModule:#hlo_module={module}{''.join(ids)}#"


def called(
    correlation: NDArray[np.int64], tables: Sequence[pd.DataFrame]
) -> tuple[NDArray[np.int64], int]:
    """Tell which operation each call launched.

    Parameters
    ----------
    correlation : int64 array, shape (n,)
        Of each call.
    tables : sequence of DataFrame
        Rows with ``correlation`` and ``operation``, of GPUs and of the calls themselves.

    Returns
    -------
    operation : int64 array, shape (n,)
        Number of the operation; UNSET where none is named, or several: a graph has nodes of many.
    several : int
        How many calls launched several operations.
    """
    told = pd.concat([table[["correlation", "operation"]] for table in tables])
    told = told[(told["correlation"] > 0) & (told["operation"] != UNSET)]
    ends = told.groupby("correlation")["operation"].agg(["min", "max"]).reindex(correlation)
    several = (ends["min"] < ends["max"]).to_numpy()
    operation = ends["min"].where(~several).fillna(UNSET).to_numpy(np.int64)
    return operation, int(several.sum())
