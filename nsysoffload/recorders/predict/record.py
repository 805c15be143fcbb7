"""What happened when an `Issue` ran: the simulator's own account of it, kept by its own means.

A report on the exported trace must agree with it to the nanosecond, so it shares no code with the
analysis of traces: here, running tasks of each class are counted over time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from nsysoffload.recorders.predict.lowering import COMPUTE, Issue
from nsysoffload.recorders.predict.program import Kind, Op
from nsysoffload.recorders.predict.simulator import Contention, simulate
from nsysoffload.timeline.phase import PHASES, phase_of

__all__ = ["Record", "Stall", "StepTime", "Transfers", "Work", "run", "work_of"]

_PAUSE_NS = 20_000
"""Longest pause within a chain of transfers, and between it and the kernel it holds up."""

_Span = tuple[int, int, int]
"""Start and end of a task, and its position."""

_DIRECTIONS: Mapping[str, tuple[Kind, ...]] = {
    "h2d": (Kind.H2D,),
    "d2h": (Kind.D2H,),
    "both": (Kind.H2D, Kind.D2H),
}


class Work(StrEnum):
    """What a task is to the measures."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    TRANSFER = "transfer"
    OTHER = "other"  # copies within the device, memsets


def work_of(op: Op) -> Work:
    """Return what an operation is to the measures; a kernel that copies is compute."""
    if op.kind is Kind.COLLECTIVE:
        return Work.COLLECTIVE
    if op.is_kernel:
        return Work.COMPUTE
    return Work.TRANSFER if op.kind in (Kind.H2D, Kind.D2H) else Work.OTHER


@dataclass(frozen=True)
class Transfers:
    """Host copies by the driver; ``hidden_ns + exposed_ns == busy_ns``, time with one running."""

    copies: int
    bytes: int
    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    hidden_by_collectives_ns: int


@dataclass(frozen=True)
class StepTime:
    """A step on the device, from its first task to its last; ``period_ns``: to the next step's."""

    start_ns: int
    end_ns: int
    period_ns: int | None

    @property
    def duration_ns(self) -> int:
        """First start to last end."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Stall:
    """Part of a step in which it stood still for transfers.

    Attributes
    ----------
    start_ns, end_ns : int
        From where the chain of transfers begins in a gap between kernels to the gap's end.
    transfers : tuple of int
        Positions of the chain's tasks, by start.
    kernel : int or None
        Position of the kernel that ends the gap; None where the step ends with it.
    proven : bool
        Whether the compute stream was told to wait for one of the transfers before that kernel.
    """

    start_ns: int
    end_ns: int
    transfers: tuple[int, ...]
    kernel: int | None
    proven: bool


@dataclass(frozen=True, eq=False)
class Record:
    """When everything of an issue happened.

    Attributes
    ----------
    issue : Issue
        What ran.
    start_ns, end_ns : int64 array, shape (len(issue.tasks),)
        When each task ran; the host begins at 0.
    call_start_ns, call_end_ns : int64 array, shape (len(issue.calls),)
        When the host made each call.
    """

    issue: Issue
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    call_start_ns: NDArray[np.int64]
    call_end_ns: NDArray[np.int64]

    def transfers(self, direction: str, step: int | None = None) -> Transfers:
        """Return how transfers were covered.

        Parameters
        ----------
        direction : {"h2d", "d2h", "both"}
            Which; ``both`` is the time with either running, not the sum.
        step : int, optional
            Only those issued in this step; by default all. What hides them may be of any step.
        """
        moving = self._in(step) & self._where(
            lambda op: work_of(op) is Work.TRANSFER and op.kind in _DIRECTIONS[direction]
        )
        length, (moves, computes, collects) = self._running(
            moving, self._is(Work.COMPUTE), self._is(Work.COLLECTIVE)
        )
        sizes = np.array([op.size_bytes for op in self.issue.ops], dtype=np.int64)
        return Transfers(
            copies=int(moving.sum()),
            bytes=int(sizes[self.issue.op_of[moving]].sum()),
            busy_ns=int(length[moves].sum()),
            hidden_ns=int(length[moves & computes].sum()),
            exposed_ns=int(length[moves & ~computes].sum()),
            hidden_by_collectives_ns=int(length[moves & ~computes & collects].sum()),
        )

    def busy_ns(self, work: Work) -> int:
        """Return how long at least one task of a class was running."""
        return self._busy_ns(self._is(work))

    @property
    def compute_busy_ns(self) -> int:
        """Time with a compute kernel."""
        return self.busy_ns(Work.COMPUTE)

    @property
    def collective_busy_ns(self) -> int:
        """Time with a collective."""
        return self.busy_ns(Work.COLLECTIVE)

    def phase_ns(self, step: int | None = None) -> dict[str, int]:
        """Return, by phase of training, how long a compute kernel of it was running.

        Parameters
        ----------
        step : int, optional
            Only what was issued in this step; by default all.
        """
        computes = self._is(Work.COMPUTE) & self._in(step)
        phases = np.array([phase_of(op.op_name) for op in self.issue.ops], dtype=object)
        return {
            phase: self._busy_ns(computes & (phases == phase)[self.issue.op_of]) for phase in PHASES
        }

    def kernel_copy_bytes(self, direction: str, step: int | None = None) -> int:
        """Return the bytes that kernels copied to or from the host, which are no transfers.

        Parameters
        ----------
        direction : {"h2d", "d2h", "both"}
            Which way.
        step : int, optional
            Only what was issued in this step; by default all.
        """
        copies = np.array(
            [
                op.size_bytes if op.is_kernel and op.kind in _DIRECTIONS[direction] else 0
                for op in self.issue.ops
            ],
            dtype=np.int64,
        )
        return int(copies[self.issue.op_of[self._in(step)]].sum())

    def steps(self) -> list[StepTime]:
        """Return when each step ran on the device; one without tasks is left out.

        What was issued under a negative number belongs to no step.
        """
        numbers = np.unique(self.step_of)
        spans = [self._span(step) for step in numbers[numbers >= 0]]
        following = [*(start for start, _ in spans[1:]), None]
        return [
            StepTime(start, end, None if after is None else after - start)
            for (start, end), after in zip(spans, following, strict=False)
        ]

    def host_ns(self, step: int) -> int:
        """Return how long the host was busy issuing a step; negative steps count from the last."""
        issued = _calls(self.issue)[3]
        of_step = issued == np.unique(issued)[step]
        return int((self.call_end_ns - self.call_start_ns)[of_step].sum())

    @property
    def step_of(self) -> NDArray[np.int64]:
        """Step in which each task was issued; int64 array, shape (len(issue.tasks),)."""
        steps: NDArray[np.int64] = _calls(self.issue)[3][self.issue.call_of]
        return steps

    # --- Time without compute ---

    def stalls(self, step: int) -> list[Stall]:
        """Return where a step stood still for transfers, in order.

        In a gap between kernels, a chain of transfers holds up the next kernel if it ends at most
        20 us before it, or if the kernel was told to wait for one of them; at the end of the step,
        if it lasts to that end. The gap counts from the first such chain on. What is still moving
        when the kernel starts has not held it up::

            kernels   [a  )..............[b )
            transfer     [k    )  [l   )
            transfer               [m          )
            stall        [               )

        Where no chain does, the gap ends already at the copies within the device and memsets that
        run into the kernel, for these may be what waits.

        Parameters
        ----------
        step : int
            Within the time of this step, by whichever step the transfers were issued.
        """
        _, step_end = self._span(step)
        moving = self._spans(Work.TRANSFER)
        found = []
        for start, end in self._gaps(step, Work.COMPUTE, Work.COLLECTIVE):
            kernel = self._kernel_at(end) if end < step_end else None
            spans = self._owners(moving, start, end, kernel)
            if not spans and kernel is not None:
                end = self._arrival(start, end)
                spans = self._owners(moving, start, end, kernel)
            if spans:
                tasks = tuple(task for _, _, task in spans)
                proven = self._proven(spans, kernel)
                found.append(Stall(max(start, spans[0][0]), end, tasks, kernel, proven))
        return found

    def _owners(
        self, moving: Iterable[_Span], start: int, end: int, kernel: int | None
    ) -> list[_Span]:
        """Transfers of the chains that hold up what begins at the end of a gap."""
        inside = [span for span in moving if span[0] < end and span[1] > start]
        slack_ns = 0
        if kernel is not None:
            slack_ns = _PAUSE_NS
            inside = [span for span in inside if span[1] <= end]
        owners = [
            chain
            for chain in _chains(inside)
            if end - max(ends for _, ends, _ in chain) <= slack_ns or self._proven(chain, kernel)
        ]
        return [span for chain in owners for span in chain]

    def _arrival(self, start: int, end: int) -> int:
        """When the copies within the device and memsets begin that run into the end of a gap."""
        begun = [span for span in self._spans(Work.OTHER) if span[0] < end]
        if not begun or end - max(ends for _, ends, _ in begun) > _PAUSE_NS:
            return end
        return max(start, _chains(begun)[-1][0][0])

    def lost_ns(self, step: int) -> dict[str, int]:
        """Return the time of a step without a compute kernel, divided without remainder.

        Parameters
        ----------
        step : int
            Which.

        Returns
        -------
        dict
            ``collective``: where one ran; ``stall``: in `stalls`; ``rest``.
        """
        lost = _length_ns(self._gaps(step, Work.COMPUTE))
        idle = _length_ns(self._gaps(step, Work.COMPUTE, Work.COLLECTIVE))
        stall = _length_ns((stall.start_ns, stall.end_ns) for stall in self.stalls(step))
        return {"collective": lost - idle, "stall": stall, "rest": idle - stall}

    def _gaps(self, step: int, *works: Work) -> list[tuple[int, int]]:
        """Pieces of a step's time without a task of some classes."""
        start, end = self._span(step)
        gaps, reach = [], start
        for begins, ends, _ in [*self._spans(*works), (end, end, -1)]:
            if reach < min(begins, end):
                gaps.append((reach, min(begins, end)))
            reach = max(reach, ends)
        return gaps

    def _kernel_at(self, time: int) -> int:
        """Kernel that starts at a time, which one does."""
        kernels = self._spans(Work.COMPUTE, Work.COLLECTIVE)
        return next(task for start, _, task in kernels if start == time)

    def _proven(self, transfers: Sequence[_Span], kernel: int | None) -> bool:
        """Tell whether an event made the kernel's stream wait for one of them before it."""
        awaited = set() if kernel is None else self._awaited(kernel)
        return any(task in awaited for _, _, task in transfers)

    def _awaited(self, kernel: int) -> set[int]:
        """Tasks that events stood for which the kernel's own stream was told to wait for."""
        issue = self.issue
        call = issue.call_of[kernel]
        if issue.tasks[kernel].stream == COMPUTE:
            return {wait.task for wait in issue.waits if wait.call < call}
        if not issue.started[kernel]:
            return set()
        before = [task for task in range(kernel) if issue.tasks[task].stream == COMPUTE]
        return set(before[-1:])

    def _span(self, step: int) -> tuple[int, int]:
        mine = self._in(step)
        return int(self.start_ns[mine].min()), int(self.end_ns[mine].max())

    def _spans(self, *works: Work) -> list[_Span]:
        """Start, end and position of each task of some classes that takes time, by start."""
        chosen = self._where(lambda op: work_of(op) in works) & (self.end_ns > self.start_ns)
        tasks = np.flatnonzero(chosen)
        columns = (self.start_ns[tasks], self.end_ns[tasks], tasks)
        return sorted(zip(*(column.tolist() for column in columns), strict=True))

    # --- Counting ---

    def _where(self, chosen: Callable[[Op], bool]) -> NDArray[np.bool_]:
        of_op = np.array([chosen(op) for op in self.issue.ops], dtype=bool)
        return of_op[self.issue.op_of]

    def _in(self, step: int | None) -> NDArray[np.bool_]:
        if step is None:
            return np.ones(len(self.issue.tasks), dtype=bool)
        of_step: NDArray[np.bool_] = self.step_of == step
        return of_step

    def _is(self, work: Work) -> NDArray[np.bool_]:
        return self._where(lambda op: work_of(op) is work)

    def _busy_ns(self, tasks: NDArray[np.bool_]) -> int:
        length, (busy,) = self._running(tasks)
        return int(length[busy].sum())

    def _running(
        self, *sets: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], list[NDArray[np.bool_]]]:
        """Cut time at every start and end; return the lengths, and where a task of each set ran."""
        times = np.concatenate([self.start_ns, self.end_ns])
        order = np.argsort(times, kind="stable")
        length = np.diff(times[order])
        running = []
        for tasks in sets:
            change = np.concatenate([tasks.astype(np.int64), -tasks.astype(np.int64)])
            running.append(np.cumsum(change[order])[:-1] > 0)
        return length, running


def run(
    issue: Issue,
    *,
    gap_ns: int = 0,
    wait_ns: int = 0,
    contention: Contention | None = None,
) -> Record:
    """Run what was issued; see `nsysoffload.recorders.predict.simulator.simulate`."""
    start_ns, end_ns = simulate(issue.tasks, gap_ns=gap_ns, wait_ns=wait_ns, contention=contention)
    call_start, call_end, after, _ = _calls(issue)
    since = np.r_[end_ns, 0][after]  # the outset stands last, where position -1 finds it
    return Record(issue, start_ns, end_ns, since + call_start, since + call_end)


def _calls(issue: Issue) -> NDArray[np.int64]:
    """Fields of the calls, one row each."""
    return np.array(issue.calls, dtype=np.int64).reshape(-1, 4).T


def _chains(spans: Iterable[_Span]) -> list[list[_Span]]:
    """Cut intervals, given by start, where none runs for longer than `_PAUSE_NS`."""
    chains: list[list[_Span]] = []
    reach = 0
    for span in spans:
        if not chains or span[0] - reach > _PAUSE_NS:
            chains.append([])
        chains[-1].append(span)
        reach = max(reach, span[1])
    return chains


def _length_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Add up the lengths of intervals."""
    return sum(end - start for start, end in spans)
