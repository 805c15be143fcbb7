"""Tasks on streams: when each starts and ends. Knows nothing of programs or GPUs.

A stream runs its tasks one after another, in the order they are given. All times are whole
nanoseconds: where a slowed task ends between two of them, the end is rounded up, once, and
everything that waits for it sees the same number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Contention", "Task", "simulate"]

_FULL = 1 << 30
"""Full speed. Speeds are whole parts of it and work is their product with time, so all is exact."""


class Task(NamedTuple):
    """Something that occupies a stream for a time.

    Attributes
    ----------
    stream : str
        Where it runs.
    duration_ns : int
        How long it takes alone on the device.
    after : tuple of int
        Positions of earlier tasks that must have ended.
    release_ns : int
        When the host has issued it: counted from the end of ``released_by``, or from 0.
    hbm_bytes : int
        Bytes it moves through device memory.
    link : str
        ``h2d`` or ``d2h`` if it uses the host link in that direction; else empty.
    released_by : int
        Position of the task whose end the host last waited for; -1 if it never did.
    """

    stream: str
    duration_ns: int
    after: tuple[int, ...] = ()
    release_ns: int = 0
    hbm_bytes: int = 0
    link: str = ""
    released_by: int = -1


@dataclass(frozen=True)
class Contention:
    """What running beside others costs.

    Attributes
    ----------
    both_ways : float
        Speed of host copies while both directions run, as a share of their speed alone.
    hbm_bytes_per_ns : float, optional
        What device memory can move. While tasks ask for more, each that asks gets the same share
        of what it asks for; None means that memory is never short.
    """

    both_ways: float = 1.0
    hbm_bytes_per_ns: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no speed."""
        if not 0 < self.both_ways <= 1:
            raise ValueError(f"both_ways must be above 0 and at most 1, not {self.both_ways}")
        if self.hbm_bytes_per_ns is not None and self.hbm_bytes_per_ns <= 0:
            raise ValueError(f"hbm_bytes_per_ns must be positive, not {self.hbm_bytes_per_ns}")


def simulate(
    tasks: Sequence[Task],
    *,
    gap_ns: int = 0,
    wait_ns: int = 0,
    contention: Contention | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run the tasks, each as early as its stream, its inputs and the host allow.

    ::

        a  stream 1, 4 ns           [0   4)
        b  stream 2, 3 ns           [0  3)
        c  stream 2, 2 ns, after a        [4 6)

    Parameters
    ----------
    tasks : sequence of Task
        In the order in which each stream gets them.
    gap_ns : int, optional
        Pause between two tasks of one stream.
    wait_ns : int, optional
        From the end of a task to the start of one that waits for it on another stream.
    contention : Contention, optional
        Slows tasks that run at the same time; by default none does.

    Returns
    -------
    start_ns, end_ns : int64 array, shape (len(tasks),)
        When each task runs.

    Raises
    ------
    ValueError
        If a task waits for itself or a later one, or a duration or release is negative.
    """
    inputs = [*_inputs(tasks, gap_ns, wait_ns)]
    if contention is None:
        start, end = _alone(tasks, inputs)
    else:
        start, end = _Contest(tasks, inputs, contention).run()
    return np.array(start, dtype=np.int64), np.array(end, dtype=np.int64)


_Inputs = list[tuple[int, int]]
"""What a task waits for: a task's position, and the time from its end on; -1 for the outset."""


def _inputs(tasks: Sequence[Task], gap_ns: int, wait_ns: int) -> Iterator[_Inputs]:
    latest: dict[str, int] = {}
    streams = [task.stream for task in tasks]
    for position, task in enumerate(tasks):
        stream, duration_ns, after, release_ns, _, _, released_by = task
        if duration_ns < 0 or release_ns < 0:
            raise ValueError(f"task {position} has a negative duration or release: {task}")
        inputs = [(released_by, release_ns)]
        if stream in latest:
            inputs.append((latest[stream], gap_ns))
        for needed in after:
            if not 0 <= needed < position:
                raise ValueError(f"task {position} waits for {needed}, which is not before it")
            inputs.append((needed, 0 if streams[needed] == stream else wait_ns))
        if released_by >= position:
            raise ValueError(f"task {position} is released by {released_by}, not before it")
        latest[stream] = position
        yield inputs


def _alone(tasks: Sequence[Task], inputs: list[_Inputs]) -> tuple[list[int], list[int]]:
    starts = []
    ends = [0] * (len(tasks) + 1)  # the last one is the outset, which position -1 means
    for position, needed in enumerate(inputs):
        start = 0
        for task, lag_ns in needed:
            ready = ends[task] + lag_ns
            if ready > start:
                start = ready
        starts.append(start)
        ends[position] = start + tasks[position].duration_ns
    return starts, ends[:-1]


class _Contest:
    """Tasks that slow each other: an event loop with constant speeds between events."""

    def __init__(
        self, tasks: Sequence[Task], inputs: list[_Inputs], contention: Contention
    ) -> None:
        self._contention = contention
        self._starts = [0] * len(tasks)
        self._ends: dict[int, int] = {}  # of running tasks at their present speeds
        # What was left of each task, when its speed last changed, and when that was.
        self._left = [task.duration_ns * _FULL for task in tasks]
        self._speeds = [0] * len(tasks)
        self._since = [0] * len(tasks)
        self._links = [task.link for task in tasks]
        self._asked = [  # bytes of device memory per nanosecond
            task.hbm_bytes / task.duration_ns if task.duration_ns else 0.0 for task in tasks
        ]
        self._ready = [0] * len(tasks)  # earliest start by the inputs that have ended
        self._missing = [0] * len(tasks)  # how many inputs have not
        self._outputs: list[_Inputs] = [[] for _ in tasks]
        for position, needed in enumerate(inputs):
            for task, lag_ns in needed:
                if task < 0:
                    self._ready[position] = lag_ns
                else:
                    self._outputs[task].append((position, lag_ns))
                    self._missing[position] += 1
        self._queue = [(at, n) for n, at in enumerate(self._ready) if not self._missing[n]]
        heapify(self._queue)

    def run(self) -> tuple[list[int], list[int]]:
        running, queue = self._ends, self._queue
        ends = [0] * len(self._starts)
        while running or queue:
            upcoming = [*running.values(), queue[0][0]] if queue else running.values()
            now = min(upcoming)
            for ended in [task for task, end in running.items() if end == now]:
                del running[ended]
                ends[ended] = now
                self._release(ended, now)
            while queue and queue[0][0] == now:
                _, begun = heappop(queue)
                self._starts[begun] = self._since[begun] = running[begun] = now
            self._set_speeds(now)
        return self._starts, ends

    def _release(self, ended: int, now: int) -> None:
        for task, lag_ns in self._outputs[ended]:
            self._ready[task] = max(self._ready[task], now + lag_ns)
            self._missing[task] -= 1
            if not self._missing[task]:
                heappush(self._queue, (self._ready[task], task))

    def _set_speeds(self, now: int) -> None:
        ends, asked, link_of, speeds = self._ends, self._asked, self._links, self._speeds
        links = {link_of[task] for task in ends}
        on_link = self._contention.both_ways if "h2d" in links and "d2h" in links else 1.0
        share = self._memory_share(on_link)
        for task in ends:
            slowed = (on_link if link_of[task] else 1.0) * (share if asked[task] else 1.0)
            speed = ceil(slowed * _FULL)  # up, so that what fits whole nanoseconds ends on one
            if speed != speeds[task]:
                left = self._left[task] - speeds[task] * (now - self._since[task])
                self._left[task], self._since[task], speeds[task] = left, now, speed
                ends[task] = now - (-left // speed)

    def _memory_share(self, on_link: float) -> float:
        """Share of what running tasks ask of device memory that it can give, at most 1."""
        capacity = self._contention.hbm_bytes_per_ns
        if capacity is None:
            return 1.0
        asked = 0.0
        for task in self._ends:
            asked += self._asked[task] * (on_link if self._links[task] else 1.0)
        return capacity / asked if asked > capacity else 1.0
