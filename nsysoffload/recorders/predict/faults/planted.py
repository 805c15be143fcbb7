"""A planted fault: the trace of a train step with it, and what it truly costs."""

from collections.abc import Callable
from dataclasses import dataclass

from nsysoffload.recorders.predict.faults.host import STEPS, Incidents, Performance, perform
from nsysoffload.recorders.predict.faults.rows import Traits, traced
from nsysoffload.recorders.predict.program import Program
from nsysoffload.recorders.predict.record import Record, Work, work_of
from nsysoffload.trace.tables import Trace

__all__ = [
    "Plant",
    "Planted",
    "gap_at",
    "planted",
    "resting_ns",
    "stalled_ns",
]


@dataclass(frozen=True, eq=False)
class Planted:
    """A trace with one fault.

    Attributes
    ----------
    trace : Trace
        What Nsight Systems would have recorded.
    record : Record
        What ran; of the host's pauses it knows only the effect.
    cause : str
        What a report has to name first.
    kind : {"lost", "excess"}
        Whether it costs time outside of compute, or makes work slower.
    cost_ns_per_step : int
        By the simulator's own times, summed over all steps and divided by their number.
    """

    trace: Trace
    record: Record
    cause: str
    kind: str
    cost_ns_per_step: int


Plant = Callable[..., Planted]


def planted(
    cause: str,
    program: Program,
    cost_ns: Callable[[Performance], int],
    *,
    kind: str = "lost",
    incidents: Incidents | None = None,
    traits: Traits | None = None,
) -> Planted:
    """Run a program with a fault.

    Parameters
    ----------
    cause : str
        Name of the fault.
    program : Program
        What runs.
    cost_ns : callable
        What the fault costs in all steps.
    kind : {"lost", "excess"}, optional
        What sort of cost that is.
    incidents : Incidents, optional
        What happens beside.
    traits : Traits, optional
        What the trace shows beside the record.
    """
    performance = perform(program, incidents or Incidents())
    made = traced(performance, traits or Traits())
    cost = round(cost_ns(performance) / STEPS)
    return Planted(made, performance.record, cause, kind, cost)


def stalled_ns(performance: Performance) -> int:
    """Return the time in stalls."""
    record = performance.record
    return sum(record.lost_ns(step)["stall"] for step in range(STEPS))


def resting_ns(performance: Performance) -> int:
    """Return the time without a kernel in which the host paused, where a call shows the pause.

    ::

        compute   [a        )            [b )
        call          [pause        )
        resting              [      )
    """
    record = performance.record
    total = 0
    for pause, call, task in performance.paused:
        if pause.call:
            resumes = int(record.end_ns[task]) + pause.delay_ns
            start, end = gap_at(record, resumes)
            total += min(end, resumes) - max(start, int(record.call_end_ns[call]))
    return total


def gap_at(record: Record, time: int) -> tuple[int, int]:
    """Return the gap between two kernels around a time at which none runs."""
    ops = record.issue.ops
    kernels = [
        (int(start), int(end))
        for op, start, end in zip(record.issue.op_of, record.start_ns, record.end_ns, strict=True)
        if work_of(ops[op]) is Work.COMPUTE
    ]
    before = max(end for _, end in kernels if end <= time)
    after = min(start for start, _ in kernels if start >= time)
    return before, after
