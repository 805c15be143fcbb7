import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.recorders.predict.lowering import lower
from nsysoffload.recorders.predict.program import Done, Kind, Loop, Op, Program, Start
from nsysoffload.recorders.predict.record import StepTime, Transfers, Work, run, work_of
from nsysoffload.recorders.predict.simulator import Contention
from nsysoffload.timeline.phase import phase_of
from tests.recorders.predict.small_programs import compute, copy, duration_ns, programs

RECOMPUTED = "jit(s)/transpose(jvp())/rematted_computation/dot"


def recorded(*items, steps=1, **options):
    return run(lower(Program("jit_f", items), duration_ns, steps=steps, launch_ns=0), **options)


# --- By hand ---


def test_a_transfer_is_hidden_where_a_kernel_runs_and_exposed_elsewhere():
    #  compute  [a 3)[b 5)          [c 14)
    #  comm          [g      9)
    #  d2h           [k        11)             hidden 3..5, exposed 5..11, of it 5..9 under g
    record = recorded(
        compute("a", 3),
        copy("g", 6, "comm", collective="all-gather"),
        copy("k", 8, size_bytes=100),
        compute("b", 2),
        Done(2),
        compute("c", 3),
    )
    assert record.transfers("d2h") == Transfers(1, 100, 8, 2, 6, 4)
    assert record.transfers("h2d") == Transfers(0, 0, 0, 0, 0, 0)
    assert record.transfers("both") == record.transfers("d2h")
    assert (record.compute_busy_ns, record.collective_busy_ns) == (8, 6)


def test_both_directions_together_are_a_union():
    #  h2d [0   4)    d2h [0      6)
    record = recorded(copy("k", 6, size_bytes=10), copy("l", 4, "h2d", size_bytes=20))
    assert record.transfers("both") == Transfers(2, 30, 6, 0, 6, 0)


def test_a_copy_by_a_kernel_is_compute_and_its_bytes_are_told_apart():
    record = recorded(
        copy("k", 6, size_bytes=10, is_kernel=True),
        copy("l", 4, "h2d", size_bytes=20),
        Loop("while", (copy("m", 1, "h2d", size_bytes=7, is_kernel=True),), 3),
    )
    assert record.transfers("d2h").copies == 0
    assert record.kernel_copy_bytes("d2h") == 10
    assert record.kernel_copy_bytes("h2d") == 21
    assert record.kernel_copy_bytes("both") == 31
    assert record.transfers("h2d") == Transfers(1, 20, 4, 4, 0, 0)


def test_copies_within_the_device_and_memsets_are_other_work():
    items = (
        compute("copied", 2, kind=Kind.COPY, is_kernel=False),
        compute("set", 3, kind=Kind.UNKNOWN, is_kernel=False),
        compute("sliced", 4, kind=Kind.COPY),
    )
    assert [work_of(item.op) for item in items] == [Work.OTHER, Work.OTHER, Work.COMPUTE]
    assert recorded(*items).busy_ns(Work.OTHER) == 5


def test_compute_time_is_told_by_phase():
    record = recorded(
        compute("f", 2, op_name="jit(s)/jvp()/dot"),
        compute("r", 3, op_name=RECOMPUTED),
        compute("b", 4, op_name="jit(s)/transpose(jvp())/dot"),
        compute("o", 5),
        copy("k", 9, op_name=RECOMPUTED),
    )
    assert record.phase_ns() == {"forward": 2, "backward": 4, "recompute": 3, "other": 5}


def test_a_step_lasts_from_its_first_work_to_its_last():
    #  compute  [a 0  4)[a 4  8)[a 8 12)
    #  d2h              [k 4     10)[k 10     16)[k 16     22)
    record = recorded(compute("a", 4), copy("k", 6, size_bytes=5), steps=3)
    assert record.steps() == [StepTime(0, 10, 4), StepTime(4, 16, 4), StepTime(8, 22, None)]
    assert [step.duration_ns for step in record.steps()] == [10, 12, 14]
    assert record.transfers("d2h", step=0) == Transfers(1, 5, 6, 6, 0, 0)
    assert record.transfers("d2h", step=1) == Transfers(1, 5, 6, 2, 4, 0)


def test_a_program_without_work_has_no_step():
    record = recorded(Loop("while", (), 3))
    assert record.steps() == []
    assert record.transfers("both") == Transfers(0, 0, 0, 0, 0, 0)


def test_contention_lengthens_what_is_recorded():
    record = recorded(
        copy("k", 6), copy("l", 6, "h2d"), contention=Contention(both_ways=0.5), gap_ns=1, wait_ns=1
    )
    assert record.transfers("both").busy_ns == 12


# --- For all ---


@given(programs(), st.booleans(), st.sampled_from([None, Contention(0.6, 5.0)]))
@settings(max_examples=60)
def test_the_record_agrees_with_counting_nanoseconds(program, command_buffers, contention):
    issue = lower(program, duration_ns, steps=2, launch_ns=1, command_buffers=command_buffers)
    record = run(issue, gap_ns=1, wait_ns=1, contention=contention)

    def covered(chosen):
        tasks = zip(issue.op_of, record.start_ns, record.end_ns, strict=True)
        return {t for n, start, end in tasks if chosen(issue.ops[n]) for t in range(start, end)}

    computes = covered(lambda op: op.kind is not Kind.COLLECTIVE and op.is_kernel)
    collects = covered(lambda op: op.kind is Kind.COLLECTIVE)
    for name, kinds in (("h2d", "h2d"), ("d2h", "d2h"), ("both", ("h2d", "d2h"))):
        moves = covered(lambda op, kinds=kinds: op.kind in kinds and not op.is_kernel)
        transfers = record.transfers(name)
        assert (transfers.busy_ns, transfers.hidden_ns) == (len(moves), len(moves & computes))
        assert transfers.exposed_ns == len(moves - computes)
        assert transfers.hidden_by_collectives_ns == len((moves - computes) & collects)
    assert record.compute_busy_ns == len(computes)
    assert record.collective_busy_ns == len(collects)
    for phase, busy_ns in record.phase_ns().items():
        mine = covered(
            lambda op, phase=phase: (
                op.kind is not Kind.COLLECTIVE and op.is_kernel and phase_of(op.op_name) == phase
            )
        )
        assert busy_ns == len(mine)


# --- Stalls ---


def spans(record, step=0):
    return [(stall.start_ns, stall.end_ns) for stall in record.stalls(step)]


def test_a_chain_of_transfers_before_a_kernel_stalls_it_from_its_start_on():
    #  compute  [a 3)                  [b 40)
    #  d2h           [k 10)[l 20)               a pause of 2 in the chain, and 2 before b
    record = recorded(
        compute("a", 3),
        copy("k", 5),
        copy("l", 8),
        Done(2),
        compute("b", 18),
        gap_ns=2,
        wait_ns=2,
    )
    (stall,) = record.stalls(0)
    assert (stall.start_ns, stall.end_ns) == (5, 22)
    assert (stall.transfers, stall.kernel, stall.proven) == ((1, 2), 3, True)
    assert record.lost_ns(0) == {"collective": 0, "stall": 17, "rest": 2}


def test_a_transfer_that_runs_into_a_gap_stalls_it_from_the_gap_s_start_on():
    #  compute  [a 3)[b 5)      [c 12)
    #  d2h           [k      9)
    record = recorded(compute("a", 3), copy("k", 6), compute("b", 2), Done(1), compute("c", 3))
    assert spans(record) == [(5, 9)]


def test_a_stall_without_a_wait_is_not_proven():
    #  compute  [a 3)        [b 12)     b waits for a copy within the device, which ends with k
    #  compute.1     [c     9)
    #  d2h           [k     9)
    record = recorded(
        compute("a", 3),
        Start(Op("c", Kind.COPY, flops=6, is_kernel=False), "compute.1"),
        copy("k", 6),
        Done(1),
        compute("b", 3),
    )
    (stall,) = record.stalls(0)
    assert (stall.start_ns, stall.end_ns, stall.kernel, stall.proven) == (3, 9, 3, False)


def test_a_kernel_started_on_another_stream_waits_for_what_the_compute_stream_has_got():
    #  compute    [a 3)[k 8)
    #  compute.1            [b 12)
    record = recorded(
        compute("a", 3),
        compute("k", 5, kind=Kind.D2H, is_kernel=False),
        Start(Op("b", Kind.FUSION, flops=4), "compute.1"),
    )
    (stall,) = record.stalls(0)
    assert (stall.start_ns, stall.end_ns, stall.kernel, stall.proven) == (3, 8, 2, True)


def test_collectives_own_what_they_cover_and_are_kernels_that_wait():
    #  compute  [a 3)                     [b 19)
    #  h2d           [k 8)      [l 16)
    #  comm               [g  12)
    record = recorded(
        compute("a", 3),
        copy("k", 5, "h2d"),
        Done(1),
        copy("g", 4, "comm", collective="all-gather"),
        Done(3),
        copy("l", 4, "h2d"),
        Done(5),
        compute("b", 3),
    )
    assert spans(record) == [(3, 8), (12, 16)]
    assert [stall.kernel for stall in record.stalls(0)] == [2, 4]
    assert record.lost_ns(0) == {"collective": 4, "stall": 9, "rest": 0}


def test_what_still_moves_when_the_kernel_starts_has_not_held_it_up():
    #  compute  [a 3)  [b    11)    the gap is of the launch
    #  d2h           [k   10)
    record = recorded(compute("a", 3), copy("k", 6), compute("b", 6), gap_ns=2, wait_ns=1)
    assert record.stalls(0) == []
    assert record.lost_ns(0) == {"collective": 0, "stall": 0, "rest": 2}


@pytest.mark.parametrize(
    ("pause", "awaited", "owned"),
    [
        pytest.param(20_000, False, [(3, 20_008)], id="short"),
        pytest.param(20_001, False, [], id="long"),
        pytest.param(20_001, True, [(3, 20_009)], id="long-and-proven"),
    ],
)
def test_a_transfer_that_ended_long_before_a_kernel_holds_it_up_where_it_was_awaited(
    pause, awaited, owned
):
    #  compute    [a 3)                    [b
    #  d2h             [k 8)
    #  compute.1       [c      8 + pause)
    record = recorded(
        compute("a", 3),
        copy("k", 5),
        Start(Op("c", Kind.COPY, flops=5 + pause, is_kernel=False), "compute.1"),
        Done(2),
        *([Done(1)] if awaited else []),
        compute("b", 1),
    )
    assert spans(record) == owned


def test_a_transfer_at_the_end_of_a_step_stalls_it_and_what_ends_before_does_not():
    #  compute  [a 3)
    #  d2h           [k       9)      step 0 ends with k
    #  h2d           [l 5)
    record = recorded(compute("a", 3), copy("k", 6), copy("l", 2, "h2d"))
    (stall,) = record.stalls(0)
    assert (stall.start_ns, stall.end_ns, stall.kernel, stall.proven) == (3, 9, None, False)
    record = recorded(
        compute("a", 3), copy("l", 2, "h2d"), copy("g", 50, "comm", collective="all-gather")
    )
    assert record.stalls(0) == []


def test_a_transfer_before_the_first_kernel_stalls_it():
    record = recorded(copy("k", 6, "h2d"), Done(0), compute("a", 3))
    assert spans(record) == [(0, 6)]


@given(programs(), st.booleans())
@settings(max_examples=60)
def test_lost_time_is_all_time_of_a_step_without_compute(program, command_buffers):
    issue = lower(program, duration_ns, steps=2, launch_ns=1, command_buffers=command_buffers)
    record = run(issue, gap_ns=1, wait_ns=1)
    works = [work_of(op) for op in issue.ops]

    def covered(work):
        tasks = zip(issue.op_of, record.start_ns, record.end_ns, strict=True)
        return {t for n, start, end in tasks if works[n] is work for t in range(start, end)}

    numbers = sorted(set(record.step_of.tolist()))
    for number, step in zip(numbers, record.steps(), strict=True):
        lost = set(range(step.start_ns, step.end_ns)) - covered(Work.COMPUTE)
        collective = lost & covered(Work.COLLECTIVE)
        stalled = {t for start, end in spans(record, number) for t in range(start, end)}
        assert stalled <= lost
        assert record.lost_ns(number) == {
            "collective": len(collective),
            "stall": len(stalled - collective),
            "rest": len(lost - stalled - collective),
        }
        for stall in record.stalls(number):
            moving = {
                t
                for task in stall.transfers
                for t in range(record.start_ns[task], record.end_ns[task])
            }
            assert stall.start_ns in moving
