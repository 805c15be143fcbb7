"""Steps, stalls and phases of a report are those of the record, without a compiler."""

import tempfile
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nsysoffload
from nsysoffload.recorders.predict.export import trace
from nsysoffload.recorders.predict.lowering import lower
from nsysoffload.recorders.predict.program import Done, Loop, Program
from nsysoffload.recorders.predict.record import run
from nsysoffload.recorders.predict.simulator import Contention
from nsysoffload.trace.writer import write
from tests.recorders.predict.small_programs import compute, copy, duration_ns, programs
from tests.recorders.predict.step_checks import the_layers_agree, the_steps_agree


def reported(record):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.sqlite"
        write(trace(record, gpu="NVIDIA GB200"), path)
        return nsysoffload.analyze(path, skip_steps=0)


def both(*items, steps=3, scale=1, **options):
    issue = lower(
        Program("jit_train_step", items), lambda op: scale * op.flops, steps=steps, launch_ns=2
    )
    record = run(issue, **options)
    return record, reported(record)


@given(
    programs(),
    st.sampled_from([1, 5_000, 9_000]),
    st.sampled_from([1, 3_000]),
    st.booleans(),
    st.sampled_from([None, Contention(0.6, 5.0)]),
)
@settings(max_examples=50)
def test_a_report_agrees_with_the_record_step_by_step(
    program, scale, launch_ns, command_buffers, contention
):
    issue = lower(
        program,
        lambda op: scale * duration_ns(op),
        steps=3,
        launch_ns=launch_ns,
        command_buffers=command_buffers,
    )
    record = run(issue, gap_ns=1, wait_ns=1, contention=contention)
    steps = record.steps()
    # Without rows that take time there is no report, and nothing is left of a step without length.
    assume(steps and all(step.duration_ns for step in steps))
    report = reported(record)
    the_steps_agree(record, report.devices[0])
    the_layers_agree(record, report)
