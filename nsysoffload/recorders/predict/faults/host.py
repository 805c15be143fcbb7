"""What goes wrong at run time: the host waits, a copy queues behind another, a copy is slow.

`perform` issues a program, as `lower` does, with such incidents and runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from nsysoffload.recorders.predict.lowering import Call, Issue, lower
from nsysoffload.recorders.predict.program import Kind, Op, Program
from nsysoffload.recorders.predict.record import Record, run
from nsysoffload.recorders.predict.simulator import Contention

__all__ = ["GBPS", "LAUNCH_NS", "STEPS", "Incidents", "Pause", "Performance", "perform"]

STEPS = 5
GBPS = 200.0
"""Rate of a healthy link, each way."""

LAUNCH_NS = 2_000
_GAP_NS = 200
_WAIT_NS = 1_000


@dataclass(frozen=True)
class Pause:
    """The host issues nothing for a while: from when it has issued an operation on.

    Attributes
    ----------
    after : str
        Name of the operation.
    until : str
        Name of the operation whose latest task has to end.
    delay_ns : int
        Time from that end until the host goes on.
    call : str
        Name of the API function that it spends this time in; empty where it is none.
    """

    after: str
    until: str
    delay_ns: int = 0
    call: str = ""


@dataclass(frozen=True)
class Incidents:
    """What happens beside the program.

    Attributes
    ----------
    pauses : tuple of Pause
        At most one after each operation.
    behind : mapping of str to str
        Operations that an engine starts only after the latest task of another.
    outside : tuple of str
        Operations that are no part of the step: done between two steps.
    gbps : mapping of str to float
        Rates of copies by name of the operation, else by direction, else `GBPS`.
    launch_ns : int
        What the host needs to issue something.
    contention : Contention, optional
        How tasks slow each other.
    """

    pauses: tuple[Pause, ...] = ()
    behind: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    gbps: Mapping[str, float] = field(default_factory=dict)
    launch_ns: int = LAUNCH_NS
    contention: Contention | None = None


@dataclass(frozen=True)
class Performance:
    """A record, and when the host paused.

    Attributes
    ----------
    record : Record
        What ran.
    paused : tuple of (Pause, int, int)
        Each pause with the call after which it began, and the task that ended it.
    """

    record: Record
    paused: tuple[tuple[Pause, int, int], ...]

    def tasks(self, *names: str) -> list[int]:
        """Return positions of the tasks of operations, in order of issue."""
        ops = self.record.issue.ops
        op_of = self.record.issue.op_of.tolist()
        return [task for task, op in enumerate(op_of) if ops[op].name in names]

    def duration_ns(self, task: int) -> int:
        """Return how long a task ran."""
        return int(self.record.end_ns[task] - self.record.start_ns[task])


def perform(program: Program, incidents: Incidents) -> Performance:
    """Run a program a few times.

    Parameters
    ----------
    program : Program
        A step, and behind it what is done between two steps.
    incidents : Incidents
        What happens beside.
    """
    rates = incidents.gbps

    def duration_ns(op: Op) -> int:
        if op.kind not in (Kind.H2D, Kind.D2H):
            return op.flops
        return ceil(op.size_bytes / rates.get(op.name, rates.get(op.kind, GBPS)))

    issue = lower(program, duration_ns, steps=STEPS, launch_ns=incidents.launch_ns)
    issue = _between_steps(issue, incidents.outside)
    issue, paused = _delayed(issue, incidents)
    record = run(issue, gap_ns=_GAP_NS, wait_ns=_WAIT_NS, contention=incidents.contention)
    return Performance(record, paused)


def _between_steps(issue: Issue, outside: tuple[str, ...]) -> Issue:
    """Take operations out of the steps that they end, and leave those of the last step out.

    Each group gets a negative number for its step.
    """
    names = [issue.ops[op].name for op in issue.op_of]
    outer = [task for task, name in enumerate(names) if name in outside]
    if not outer:
        return issue
    calls = list(issue.calls)
    for task in outer:
        call = issue.call_of[task]
        calls[call] = calls[call]._replace(step=-1 - calls[call].step)
    kept = max(task for task, name in enumerate(names) if name not in outside) + 1
    return replace(
        issue,
        tasks=issue.tasks[:kept],
        op_of=issue.op_of[:kept],
        calls=tuple(calls[: issue.call_of[kept - 1] + 1]),
        call_of=issue.call_of[:kept],
        node_of=issue.node_of[:kept],
        started=issue.started[:kept],
        paths=issue.paths[:kept],
    )


def _delayed(
    issue: Issue, incidents: Incidents
) -> tuple[Issue, tuple[tuple[Pause, int, int], ...]]:
    """Issue everything anew, with pauses and queues."""
    pauses = {pause.after: pause for pause in incidents.pauses}
    task_of = {call: task for task, call in enumerate(issue.call_of.tolist())}
    latest: dict[str, int] = {}
    tasks, calls, paused = list(issue.tasks), [], []
    clock_ns, waited_for = 0, -1
    for number, call in enumerate(issue.calls):
        start_ns, clock_ns = clock_ns, clock_ns + incidents.launch_ns
        calls.append(Call(start_ns, clock_ns, waited_for, call.step))
        task = task_of.get(number)
        if task is None:
            continue
        name = issue.ops[issue.op_of[task]].name
        latest[name] = task
        after = tasks[task].after
        if name in incidents.behind:
            after = (*after, latest[incidents.behind[name]])
        tasks[task] = tasks[task]._replace(after=after, release_ns=clock_ns, released_by=waited_for)
        if name in pauses:
            pause = pauses[name]
            clock_ns, waited_for = pause.delay_ns, latest[pause.until]
            paused.append((pause, number, waited_for))
    return replace(issue, tasks=tuple(tasks), calls=tuple(calls)), tuple(paused)
