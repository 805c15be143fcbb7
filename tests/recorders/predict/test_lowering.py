import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nsysoffload.recorders.predict.lowering import NOT_IN_A_GRAPH, Call, lower
from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Program, Start
from nsysoffload.recorders.predict.record import run
from tests.recorders.predict.small_programs import compute, copy, duration_ns, programs


def issued(*items, launch_ns=0, **options):
    return lower(Program("jit_f", items), duration_ns, launch_ns=launch_ns, **options)


def spans(*items, gap_ns=0, wait_ns=0, **options):
    """Run a program; return what ran when, in the order of issue."""
    record = run(issued(*items, **options), gap_ns=gap_ns, wait_ns=wait_ns)
    names = [record.issue.ops[op].name for op in record.issue.op_of]
    return [*zip(names, record.start_ns.tolist(), record.end_ns.tolist(), strict=True)]


# --- Streams and events ---


def test_a_copy_waits_for_all_earlier_work_of_the_compute_stream_not_for_its_producer_only():
    #  compute  [a 3)[b  7)[c 9)
    #  d2h                 [copy    )     starts at 7, though it needs only a
    assert spans(compute("a", 3), compute("b", 4), copy("k", 5, needs=(0,)), compute("c", 2)) == [
        ("a", 0, 3),
        ("b", 3, 7),
        ("k", 7, 12),
        ("c", 7, 9),
    ]


def test_what_the_compute_stream_has_done_is_known_by_its_last_task_alone():
    issue = issued(compute("a", 3), compute("b", 4), copy("k", 5))
    assert [task.after for task in issue.tasks] == [(), (0,), (1,)]


def test_done_blocks_the_compute_stream_until_the_copy_has_ended():
    #  compute  [a 3)[b 5)     [c 9)
    #  h2d           [copy   8)
    program = (compute("a", 3), copy("k", 5, "h2d"), compute("b", 2), Done(1), compute("c", 1))
    assert spans(*program) == [("a", 0, 3), ("k", 3, 8), ("b", 3, 5), ("c", 8, 9)]


def test_a_copy_waits_for_the_waits_of_the_compute_stream_too():
    #  d2h      [k     8)
    #  h2d                 [l 9)     issued after the wait for k
    assert spans(copy("k", 8), Done(0), copy("l", 1, "h2d")) == [("k", 0, 8), ("l", 8, 9)]


def test_the_two_directions_run_side_by_side():
    assert spans(copy("k", 8), copy("l", 6, "h2d")) == [("k", 0, 8), ("l", 0, 6)]


def test_copies_of_one_direction_queue_on_their_stream():
    #  compute  [a 2)[b 4)
    #  d2h           [k     8)[l  11)
    program = (compute("a", 2), copy("k", 6), compute("b", 2), copy("l", 3))
    assert spans(*program) == [("a", 0, 2), ("k", 2, 8), ("b", 2, 4), ("l", 8, 11)]


def test_collectives_and_further_compute_streams_are_started_alike():
    gather = copy("g", 4, "comm", collective="all-gather")
    slice_ = Start(Op("s", Kind.COPY, flops=1), "compute.1")
    program = (gather, slice_, compute("a", 2), Done(0), Done(1), compute("b", 1))
    assert spans(*program) == [("g", 0, 4), ("s", 0, 1), ("a", 0, 2), ("b", 4, 5)]


def test_a_copy_by_a_kernel_runs_on_the_copy_stream():
    peeled = copy("k", 3, is_kernel=True)
    (task,) = issued(peeled).tasks
    assert (task.stream, task.link) == ("d2h", "d2h")


def test_waits_between_streams_cost_time_both_ways():
    #  compute  [a 3)          [b 14)
    #  d2h           [k 5 10)            3 + 2, 10 + 2
    program = (compute("a", 3), copy("k", 5), Done(1), compute("b", 2))
    assert spans(*program, wait_ns=2) == [("a", 0, 3), ("k", 5, 10), ("b", 12, 14)]


# --- Loops and steps ---


def test_a_loop_runs_its_body_as_often_as_it_says():
    loop = Loop("while", (compute("a", 2), Loop("inner", (compute("b", 1),), 2)), 2)
    issue = issued(loop)
    assert spans(loop) == [
        *(("a", 0, 2), ("b", 2, 3), ("b", 3, 4)),
        *(("a", 4, 6), ("b", 6, 7), ("b", 7, 8)),
    ]
    assert issue.paths[-2:] == (
        (("while", 1), ("inner", 0)),
        (("while", 1), ("inner", 1)),
    )
    assert [op.name for op in issue.ops] == ["a", "b"]


def test_a_loop_that_runs_no_time_issues_nothing():
    assert spans(Loop("while", (compute("a", 2),), 0), compute("b", 1)) == [("b", 0, 1)]


@pytest.mark.parametrize("command_buffers", [False, True])
def test_a_loop_without_a_body_costs_nothing(command_buffers):
    loop = Loop("while", (), 3)
    assert issued(loop, launch_ns=2, command_buffers=command_buffers).calls == ()


def test_without_pipelining_each_iteration_waits_for_its_own_copy():
    #  compute  [a 4)       [a 14)
    #  d2h           [k 10)        [k 20)
    body = (compute("a", 4), copy("k", 6), Done(1))
    assert spans(Loop("while", body, 2)) == [
        *(("a", 0, 4), ("k", 4, 10)),
        *(("a", 10, 14), ("k", 14, 20)),
    ]


def test_a_pipelined_loop_moves_the_copy_of_the_iteration_before_beside_its_compute():
    #  compute  [first 4)[a   8)   [a 14)   [last 20)
    #  d2h               [k   10)  [k  16)
    body = (copy("k", 6), compute("a", 4), Done(0))
    program = (compute("first", 4), Loop("while", body, 2), compute("last", 4))
    assert spans(*program) == [
        ("first", 0, 4),
        *(("k", 4, 10), ("a", 4, 8)),
        *(("k", 10, 16), ("a", 10, 14)),
        ("last", 16, 20),
    ]


def test_steps_follow_each_other_without_a_pause_of_the_host():
    issue = issued(compute("a", 5), copy("k", 9), steps=2, launch_ns=1)
    record = run(issue)
    #  compute  [a 1 6)[a 6 11)
    #  d2h             [k 6   15)[k 15 24)
    assert record.start_ns.tolist() == [1, 6, 6, 15]
    assert record.step_of.tolist() == [0, 0, 1, 1]
    assert record.call_start_ns.tolist() == [0, 1, 2, 3]


# --- The host ---


def test_each_operation_and_each_wait_costs_the_host_a_launch():
    #  host     a  k  done  b
    #  at       0  3  6     9   each 3 ns; the GPU starts when the call returns
    program = (compute("a", 1), copy("k", 1), Done(1), compute("b", 1))
    assert spans(*program, launch_ns=3) == [("a", 3, 4), ("k", 6, 7), ("b", 12, 13)]
    assert issued(*program, launch_ns=3).waits == ((2, 1),)


def test_a_loop_costs_the_host_no_more_than_its_body():
    calls = issued(Loop("while", (compute("a", 1),), 3), compute("b", 1), launch_ns=2).calls
    assert [(call.start_ns, call.end_ns) for call in calls] == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_a_loop_of_unknown_count_makes_the_host_wait_before_it_and_after_it():
    #  host     issues a, c  waits until 9  issues b, c  waits until 17  issues d
    #  compute  [a 2 9)[c)                  [b 11  17)[c)                [d 19 20)
    program = (compute("a", 7), Loop("while", (compute("b", 6),), None), compute("d", 1))
    assert spans(*program, launch_ns=2) == [
        ("a", 2, 9),
        ("while.condition", 9, 9),
        ("b", 11, 17),
        ("while.condition", 17, 17),
        ("d", 19, 20),
    ]
    issue = issued(*program, launch_ns=2)
    assert issue.blocking == (1, 3)
    assert issue.calls[-1] == Call(start_ns=0, end_ns=2, after=3, step=0)


def test_the_host_waits_for_all_that_the_compute_stream_waits_for():
    #  compute  [a 1)           [c 7 7)    [b 9 10)
    #  d2h           [k 1    7)
    program = (compute("a", 1), copy("k", 6), Done(1), Loop("while", (compute("b", 1),), None))
    assert spans(*program)[2:4] == [("while.condition", 7, 7), ("b", 7, 8)]


# --- Command buffers ---


def test_a_loop_body_is_one_launch_per_iteration():
    body = (compute("a", 2), copy("k", 3), compute("b", 2), Done(1))
    issue = issued(Loop("while", body, 2), launch_ns=5, command_buffers=True)
    assert issue.call_of.tolist() == [0, 0, 0, 1, 1, 1]
    assert issue.node_of.tolist() == [1, 2, 3, 1, 2, 3]
    assert [task.release_ns for task in issue.tasks] == [5, 5, 5, 10, 10, 10]
    assert not issue.started.any()
    assert issue.waits == ()


def test_in_a_graph_a_copy_waits_for_its_input_only():
    #  compute  [a 3)[b  7)
    #  d2h           [k    8)
    body = (compute("a", 3), compute("b", 4, (0,)), copy("k", 5, needs=(0,)), Done(2))
    loop = Loop("while", body, 1)
    assert spans(loop)[2] == ("k", 7, 12)
    assert spans(loop, command_buffers=True) == [("a", 0, 3), ("b", 3, 7), ("k", 3, 8)]


def test_in_a_graph_only_what_needs_a_copy_waits_for_it():
    #  compute  [a 2)         [c 7)
    #  h2d      [k    6)
    body = (copy("k", 6, "h2d"), Done(0), compute("a", 2), compute("c", 1, (1, 2)))
    loop = Loop("while", body, 1)
    assert spans(loop) == [("k", 0, 6), ("a", 6, 8), ("c", 8, 9)]
    assert spans(loop, command_buffers=True) == [("k", 0, 6), ("a", 0, 2), ("c", 6, 7)]


def test_what_follows_a_graph_waits_for_all_of_it():
    body = (compute("a", 2), copy("k", 9, needs=(0,)))
    #  compute  [a 2)             [a 13)           [b 23)
    #  d2h           [k       11)        [k    22)
    assert spans(Loop("while", body, 2), compute("b", 1), command_buffers=True) == [
        *(("a", 0, 2), ("k", 2, 11)),
        *(("a", 11, 13), ("k", 13, 22)),
        ("b", 22, 23),
    ]


def test_a_graph_of_copies_alone_keeps_its_place_behind_the_compute_stream():
    #  compute  [a 4)           [b 9 10)
    #  d2h           [k 4     9)
    loop = Loop("while", (copy("k", 5),), 1)
    assert spans(compute("a", 4), loop, compute("b", 1), command_buffers=True) == [
        ("a", 0, 4),
        ("k", 4, 9),
        ("b", 9, 10),
    ]


def test_a_body_with_collectives_is_cut_into_graphs_and_its_copies_stay_plain():
    body = (
        *(compute("a", 1), compute("b", 1)),
        copy("g", 4, "comm", collective="all-gather"),
        *(compute("c", 1), copy("k", 1), compute("d", 1), compute("e", 1)),
        *(Done(2), Done(4)),
        Item(Op("sync", Kind.COLLECTIVE, flops=1)),
    )
    issue = issued(Loop("while", body, 1), command_buffers=True)
    calls = issue.call_of.tolist()
    names = [issue.ops[op].name for op in issue.op_of]
    in_graph = issue.node_of != NOT_IN_A_GRAPH
    assert [*zip(names, calls, in_graph.tolist(), strict=True)] == [
        *(("a", 0, True), ("b", 0, True)),
        ("g", 1, False),
        *(("c", 2, True), ("k", 3, False), ("d", 4, True), ("e", 4, True)),
        ("sync", 7, False),
    ]
    assert issue.waits == ((5, 2), (6, 4))


def test_a_body_with_a_loop_is_cut_around_it():
    inner = Loop("inner", (compute("b", 1), compute("c", 1)), 2)
    issue = issued(Loop("outer", (compute("a", 1), inner), 1), command_buffers=True)
    assert issue.call_of.tolist() == [0, 1, 1, 2, 2]
    assert issue.node_of.tolist() == [1, 2, 3, 2, 3]


# --- Bad programs ---


@pytest.mark.parametrize("command_buffers", [False, True])
def test_a_done_without_its_start_is_refused(command_buffers):
    loop = Loop("while", (Done(1), copy("k", 1)), 1)
    with pytest.raises(ValueError, match="the Done at position 0 has no Start before it at 1"):
        issued(loop, command_buffers=command_buffers)


# --- For all ---


@given(programs(), st.booleans(), st.integers(1, 2))
@settings(max_examples=50)
def test_nothing_starts_before_what_it_needs_has_ended(program, command_buffers, steps):
    issue = lower(program, duration_ns, steps=steps, launch_ns=1, command_buffers=command_buffers)
    record = run(issue)
    when = {
        (step, path, issue.ops[op].name): (start, end)
        for step, path, op, start, end in zip(
            record.step_of, issue.paths, issue.op_of, record.start_ns, record.end_ns, strict=True
        )
    }
    sequences = {"": program.items}
    sequences |= {item.name: item.body for item in program.items if isinstance(item, Loop)}
    for step, path, name in when:
        items = sequences[path[-1][0] if path else ""]
        for item in items:
            if isinstance(item, Item | Start) and item.op.name == name:
                for need in item.needs:
                    needed = items[need]
                    source = items[needed.start] if isinstance(needed, Done) else needed
                    assert when[step, path, source.op.name][1] <= when[step, path, name][0]


@given(programs(), st.integers(0, 2))
@settings(max_examples=50)
def test_every_operation_is_issued_as_often_as_the_program_says(program, launch_ns):
    issue = lower(program, duration_ns, launch_ns=launch_ns)
    names = [issue.ops[op].name for op in issue.op_of]
    for op, times in program.ops():
        assert names.count(op.name) == times


@given(programs())
@settings(max_examples=50)
def test_data_dependences_alone_never_take_longer_than_streams(program):
    loops = [item for item in program.items if isinstance(item, Loop)]
    assume(not any(_leaves_a_copy_running(loop) for loop in loops))
    plain = run(lower(program, duration_ns, launch_ns=0))
    graphs = run(lower(program, duration_ns, launch_ns=0, command_buffers=True))
    assert (graphs.end_ns <= plain.end_ns).all()


def _leaves_a_copy_running(loop: Loop) -> bool:
    """Whether an iteration of the plain program may go on before its copies have ended."""
    done = {item.start for item in loop.body if isinstance(item, Done)}
    return any(isinstance(item, Start) and n not in done for n, item in enumerate(loop.body))
