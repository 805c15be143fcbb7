"""Steps, stalls and phases of a report are those of the record, without a compiler."""

from itertools import pairwise

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nsysoffload.recorders.predict.export import trace
from nsysoffload.recorders.predict.lowering import COMPUTE, lower
from nsysoffload.recorders.predict.program import Done, Loop, Program
from nsysoffload.recorders.predict.record import Work, run, work_of
from nsysoffload.recorders.predict.simulator import Contention
from tests.examined import report_of
from tests.recorders.predict.small_programs import compute, copy, duration_ns, programs
from tests.recorders.predict.step_checks import the_layers_agree, the_steps_agree

LAUNCH_NS = 8  # starting a copy is four calls, which need a time of their own


def both(*items, steps=3, **options):
    """Return the record of a program, and the report on its trace."""
    issue = lower(Program("jit_train_step", items), duration_ns, steps=steps, launch_ns=LAUNCH_NS)
    record = run(issue, **options)
    return record, report_of(trace(record, gpu="NVIDIA GB200"))


def they_agree(record, report):
    # What is behind a copy on the compute stream waits for it without an event.
    streams = {record.issue.tasks[n].stream for n in np.flatnonzero(of_work(record, Work.TRANSFER))}
    the_steps_agree(record, report.devices[0], stalls=COMPUTE not in streams)
    the_layers_agree(record, report)


def test_a_copy_that_compute_waits_for_stalls_each_step_alike():
    #  compute  [a 10)    [b 8)            [c 30)      of each step; the host takes 8 per call
    #  d2h            [k            50)
    record, report = both(
        compute("a", 10), copy("k", 50), compute("b", 8), Done(1), compute("c", 30)
    )
    they_agree(record, report)
    # The copy is issued when a begins and runs from its end on: 50, of which b hides 8.
    for step in report.devices[0].steps:
        assert step.d2h.busy_ns == 50
        assert step.d2h.hidden_ns == 8
        assert step.stall_ns == step.stall_proven_ns


def test_iterations_of_a_loop_are_layers():
    layer = (compute("a", 9), copy("k", 6, size_bytes=3), compute("b", 2), Done(1))
    record, report = both(Loop("while", layer, 4), compute("c", 3))
    they_agree(record, report)
    (group,) = report.transfers
    assert (group.op, group.copies, len(group.layers)) == ("k", 4, 4)


def of_work(record, *works) -> np.ndarray:
    """Tell which tasks are of a class."""
    chosen = np.array([work_of(op) in works for op in record.issue.ops], dtype=bool)
    return chosen[record.issue.op_of]


def in_turn(record) -> bool:
    """Tell whether steps follow one another, with a pause between them."""
    steps = record.steps()
    return bool(steps) and all(one.end_ns < two.start_ns for one, two in pairwise(steps))


def one_at_a_time(record) -> bool:
    """Tell whether no two kernels start together: then one ends each gap, with its own waits."""
    starts = record.start_ns[of_work(record, Work.COMPUTE, Work.COLLECTIVE)]
    return len(np.unique(starts)) == len(starts)


@given(
    programs(),
    st.sampled_from([1, 5_000, 9_000]),
    st.sampled_from([LAUNCH_NS, 3_000]),
    st.sampled_from([None, Contention(0.6, 5.0)]),
)
@settings(max_examples=60)
def test_a_report_agrees_with_the_record_step_by_step(program, scale, launch_ns, contention):
    issue = lower(program, lambda op: scale * (1 + op.flops), steps=3, launch_ns=launch_ns)
    record = run(issue, gap_ns=1, wait_ns=1, contention=contention)
    assume(of_work(record, Work.COMPUTE, Work.COLLECTIVE, Work.TRANSFER).any())
    assume(in_turn(record) and one_at_a_time(record))
    they_agree(record, report_of(trace(record, gpu="NVIDIA GB200")))
