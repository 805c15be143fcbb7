"""`Program` -> tasks on streams, issued as XLA's runtime on a GPU does it.

The host walks the program once per step and only ever waits where a loop's trip count depends on
data. A `Start` makes its stream wait for all that the compute stream has got so far, a `Done` makes
the compute stream wait for the started operation::

    program    a   start copy   b   done   c
    compute   [a     )[b   )........[c  )
    d2h               [copy         )

In command-buffer mode the body of a loop becomes a CUDA graph: one launch, whose operations wait
only for their own inputs and for their stream.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Program, Start
from nsysoffload.recorders.predict.simulator import Task

__all__ = ["COMPUTE", "NOT_IN_A_GRAPH", "Call", "Issue", "Wait", "lower"]

COMPUTE = "compute"
NOT_IN_A_GRAPH = -1

_Path = tuple[tuple[str, int], ...]
"""Loops around a task, the outermost first, each with its iteration."""

_Items = tuple[Item | Start | Done | Loop, ...]
_LINKS = {Kind.H2D: "h2d", Kind.D2H: "d2h"}


class Call(NamedTuple):
    """What the host does to issue one thing.

    Times count from the end of the task at position ``after``, the last that the host waited for;
    from 0 where that is -1.
    """

    start_ns: int
    end_ns: int
    after: int
    step: int


class Wait(NamedTuple):
    """The compute stream is told, by a call, to wait for a started task."""

    call: int
    task: int


@dataclass(frozen=True, eq=False)
class Issue:
    """A program as tasks, with what each of them stands for.

    Attributes
    ----------
    module : str
        Name of the program.
    tasks : tuple of Task
        In the order of issue.
    ops : tuple of Op
        The distinct operations.
    op_of : int64 array, shape (len(tasks),)
        Position in ``ops`` of each task's operation.
    calls : tuple of Call
        What the host did, in order.
    call_of : int64 array, shape (len(tasks),)
        The call that issued each task; tasks of one graph launch share one.
    node_of : int64 array, shape (len(tasks),)
        Node in a CUDA graph, the same in every launch; `NOT_IN_A_GRAPH` for the rest.
    started : bool array, shape (len(tasks),)
        Whether events order the task against the compute stream: a `Start` outside of graphs.
    paths : tuple of tuple of (str, int)
        The loops around each task, the outermost first, with the iteration of each.
    waits : tuple of Wait
        One per `Done` outside of graphs.
    blocking : tuple of int
        Positions of the tasks whose end the host waited for, as soon as it had issued them.
    """

    module: str
    tasks: tuple[Task, ...]
    ops: tuple[Op, ...]
    op_of: NDArray[np.int64]
    calls: tuple[Call, ...]
    call_of: NDArray[np.int64]
    node_of: NDArray[np.int64]
    started: NDArray[np.bool_]
    paths: tuple[_Path, ...]
    waits: tuple[Wait, ...]
    blocking: tuple[int, ...]


def lower(
    program: Program,
    duration_ns: Callable[[Op], int],
    *,
    steps: int = 1,
    launch_ns: int = 4_000,
    command_buffers: bool = False,
) -> Issue:
    """Issue a program.

    Parameters
    ----------
    program : Program
        What to run.
    duration_ns : callable
        Time of an operation alone on the device; asked once for each.
    steps : int, optional
        How often the program runs. The host doesn't wait between steps.
    launch_ns : int, optional
        What the host needs to issue one operation, one wait or one graph.
    command_buffers : bool, optional
        Whether loop bodies become CUDA graphs: whole ones, or where a body holds collectives or
        loops, each run of its operations on the compute stream.

    Raises
    ------
    ValueError
        If a `Done` has no `Start` before it.

    Notes
    -----
    A loop without a trip count runs once; before and after that its condition, one byte, is copied
    to the host, which waits for it.
    """
    host = _Host(duration_ns, launch_ns, command_buffers)
    for step in range(steps):
        host.run(program, step)
    return host.issue(program.name)


class _Piece(NamedTuple):
    """Part of a sequence, from position ``first`` on, that becomes one graph or is issued plain."""

    first: int
    items: _Items
    is_graph: bool


def _pieces(body: _Items, command_buffers: bool) -> list[_Piece]:
    if not command_buffers:
        return [_Piece(0, body, False)]
    if body and not any(isinstance(item, Loop) or _is_collective(item) for item in body):
        return [_Piece(0, body, True)]
    runs = groupby(
        enumerate(body), lambda place: isinstance(place[1], Item) and not _is_collective(place[1])
    )
    pieces = []
    for is_graph, places in runs:
        positions, items = zip(*places, strict=True)
        pieces.append(_Piece(positions[0], items, is_graph))
    return pieces


def _is_collective(item: Item | Start | Done | Loop) -> bool:
    return isinstance(item, Item | Start) and item.op.kind is Kind.COLLECTIVE


class _Host:
    """The host's clock, and what it has issued."""

    def __init__(
        self, duration_ns: Callable[[Op], int], launch_ns: int, command_buffers: bool
    ) -> None:
        self._duration_ns = duration_ns
        self._launch_ns = launch_ns
        self._command_buffers = command_buffers
        self._step = 0
        self._clock_ns = 0  # counted from the end of the task last waited for
        self._waited_for = -1
        self._path: _Path = ()
        self._before: tuple[int, ...] = ()  # ends of these mean: the compute stream has got here
        self._ops: dict[int, tuple[int, Op, int]] = {}  # by id: position, operation, duration
        self._conditions: dict[int, Op] = {}
        self._nodes: dict[tuple[int, int], int] = {}  # by id of the body and position in it
        self._tasks: list[Task] = []
        self._op_of: list[int] = []
        self._calls: list[Call] = []
        self._call_of: list[int] = []
        self._node_of: list[int] = []
        self._started: list[bool] = []
        self._paths: list[_Path] = []
        self._waits: list[Wait] = []
        self._blocking: list[int] = []

    def issue(self, module: str) -> Issue:
        return Issue(
            module=module,
            tasks=tuple(self._tasks),
            ops=tuple(op for _, op, _ in self._ops.values()),
            op_of=np.array(self._op_of, dtype=np.int64),
            calls=tuple(self._calls),
            call_of=np.array(self._call_of, dtype=np.int64),
            node_of=np.array(self._node_of, dtype=np.int64),
            started=np.array(self._started, dtype=bool),
            paths=tuple(self._paths),
            waits=tuple(self._waits),
            blocking=tuple(self._blocking),
        )

    def run(self, program: Program, step: int) -> None:
        self._step = step
        self._sequence([_Piece(0, program.items, False)], program.items)

    # --- Sequences ---

    def _sequence(self, pieces: Iterable[_Piece], whole: _Items) -> None:
        tasks: dict[int, int] = {}  # by position in the sequence
        for piece in pieces:
            if piece.is_graph:
                self._graph(piece, whole, tasks)
            else:
                for position, item in enumerate(piece.items, piece.first):
                    self._plain(position, item, tasks)

    def _plain(
        self, position: int, item: Item | Start | Done | Loop, tasks: dict[int, int]
    ) -> None:
        if isinstance(item, Item):
            tasks[position] = self._compute(item.op)
        elif isinstance(item, Start):
            tasks[position] = self._task(item.op, item.stream, self._before, started=True)
        elif isinstance(item, Done):
            started = _started(item, position, tasks)
            self._waits.append(Wait(self._call(), started))
            self._before = (*self._before, started)
        else:
            self._loop(item)

    def _compute(self, op: Op) -> int:
        task = self._task(op, COMPUTE, self._before)
        self._before = (task,)
        return task

    def _loop(self, loop: Loop) -> None:
        outer = self._path
        pieces = _pieces(loop.body, self._command_buffers)
        for iteration in range(1 if loop.trips is None else loop.trips):
            self._path = (*outer, (loop.name, iteration))
            if loop.trips is None:
                self._read_condition(loop)
            self._sequence(pieces, loop.body)
        self._path = outer
        if loop.trips is None:
            self._read_condition(loop)

    def _read_condition(self, loop: Loop) -> None:
        """Copy a loop's condition to the host, which goes on when it is there."""
        op = self._conditions.setdefault(
            id(loop), Op(f"{loop.name}.condition", Kind.D2H, size_bytes=1, is_kernel=False)
        )
        self._waited_for = self._compute(op)
        self._clock_ns = 0
        self._blocking.append(self._waited_for)

    def _graph(self, piece: _Piece, whole: _Items, tasks: dict[int, int]) -> None:
        """Launch a graph: it follows the compute stream, which goes on when all of it has ended."""
        call, before = self._call(), self._before
        ends: dict[str, int] = {}
        for position, item in enumerate(piece.items, piece.first):
            if isinstance(item, Done):
                tasks[position] = _started(item, position, tasks)
            elif isinstance(item, Item | Start):
                needs = (tasks[need] for need in item.needs if need in tasks)
                stream = item.stream if isinstance(item, Start) else COMPUTE
                node = self._nodes.setdefault((id(whole), position), len(self._nodes) + 1)
                task = self._task(item.op, stream, (*before, *needs), call=call, node=node)
                tasks[position] = ends[stream] = task
        self._before = tuple(ends.values())

    # --- Tasks ---

    def _call(self) -> int:
        start_ns, self._clock_ns = self._clock_ns, self._clock_ns + self._launch_ns
        self._calls.append(Call(start_ns, self._clock_ns, self._waited_for, self._step))
        return len(self._calls) - 1

    def _task(
        self,
        op: Op,
        stream: str,
        after: tuple[int, ...],
        *,
        call: int | None = None,
        node: int = NOT_IN_A_GRAPH,
        started: bool = False,
    ) -> int:
        if id(op) not in self._ops:
            self._ops[id(op)] = (len(self._ops), op, self._duration_ns(op))
        number, _, duration_ns = self._ops[id(op)]
        self._call_of.append(self._call() if call is None else call)
        self._tasks.append(
            Task(
                stream,
                duration_ns,
                after,
                release_ns=self._clock_ns,
                hbm_bytes=op.size_bytes,
                link=_LINKS.get(op.kind, ""),
                released_by=self._waited_for,
            )
        )
        self._op_of.append(number)
        self._node_of.append(node)
        self._started.append(started)
        self._paths.append(self._path)
        return len(self._tasks) - 1


def _started(done: Done, position: int, tasks: dict[int, int]) -> int:
    if done.start not in tasks:
        raise ValueError(f"the Done at position {position} has no Start before it at {done.start}")
    return tasks[done.start]
