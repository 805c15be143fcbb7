"""What each instruction took, from traces whose numbers can be added up by hand."""

import pytest

from nsysoffload.errors import TraceError
from nsysoffload.profiles.costs import Copies, costs
from nsysoffload.profiles.executions import executions
from nsysoffload.profiles.instructions import instructions
from tests.profiles.modules import DUMPED, PRINTED
from tests.profiles.traces import ADD, ADD_BEFORE, COPY, COPY_7, GATHER, Launches

MODULE = instructions(PRINTED)
H2D, H2D_7 = "wrapped_dynamic-slice", "wrapped_dynamic-slice.1"


def found(*launches: Launches, copies=Copies.PLAIN, module=MODULE):
    traces = [each.trace.build() for each in launches]
    return costs(executions(traces, module).frame, module, copies)


def test_an_instruction_costs_the_median_of_its_executions_in_microseconds():
    #  loop_add_fusion: 10, 20, 90 in a step, 20 and 30 in the next: median 20
    trace = Launches()
    trace.step((ADD, (1_000, 1_010)), (ADD, (1_010, 1_030)), (ADD, (1_030, 1_120)))
    trace.step((ADD, (2_000, 2_020)), (ADD, (2_020, 2_050)), (ADD_BEFORE, (2_050, 2_120)))
    assert found(trace) == {"loop_add_fusion": 20.0, "loop_add_fusion.1": 70.0}


def test_kernels_that_an_operation_launches_together_add_up():
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((ADD, (at, at + 10)), (ADD_BEFORE, (at + 10, at + 110), (at + 110, at + 117)))
    assert found(trace) == {"loop_add_fusion.1": 107.0, "loop_add_fusion": 10.0}


def test_a_collective_costs_as_long_as_on_the_rank_where_it_was_shortest():
    #  rank 0   [gather 50   )  [gather 20)      shortest: 30, 20, median 25
    #  rank 1      [ 30      )  [  90     )
    ranks = Launches(), Launches(pid=2)
    for (first, second), rank in zip(((50, 20), (30, 90)), ranks, strict=True):
        rank.step((ADD, (1_000, 1_010)), (GATHER, (1_010, 1_010 + first)))
        rank.step((ADD, (2_000, 2_010)), (GATHER, (2_010, 2_010 + second)))
    assert found(*ranks)["all-gather-start.3"] == 25.0


def test_compute_costs_the_median_over_all_ranks():
    ranks = Launches(), Launches(pid=2)
    for length, rank in zip((10, 30), ranks, strict=True):
        for at in (1_000, 2_000):
            rank.step((ADD, (at, at + length)))
    assert found(*ranks) == {"loop_add_fusion": 20.0}


@pytest.mark.parametrize(
    ("copies", "costs_us"),
    [
        pytest.param(Copies.PLAIN, {H2D: 200.0, H2D_7: 300.0}, id="plain"),
        pytest.param(Copies.QUEUED, {H2D: 500.0, H2D_7: 500.0}, id="queued"),
        pytest.param(Copies.OMIT, {}, id="omit"),
    ],
)
def test_a_queued_copy_takes_as_long_as_all_of_its_direction_in_the_loop(copies, costs_us):
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((COPY, (at, at + 200)), (COPY_7, (at + 200, at + 500)), (ADD, (at, at + 40)))
    assert found(trace, copies=copies) == {"loop_add_fusion": 40.0, **costs_us}


def test_outside_of_loops_a_copy_queues_behind_none():
    text = PRINTED.replace("body=%body, backend", "body=%none, backend").replace(
        "ENTRY %main", "%main"
    )
    module = instructions(text.replace("%body (p", "ENTRY %body (p"))
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((COPY, (at, at + 200)), (COPY_7, (at + 200, at + 500)))
    assert found(trace, copies=Copies.QUEUED, module=module) == {H2D: 200.0, H2D_7: 300.0}


@pytest.mark.parametrize("text", [PRINTED, DUMPED])
@pytest.mark.parametrize(
    "op",
    [
        pytest.param(COPY, id="outer"),
        pytest.param("wrapped_dynamic-slice", id="inner"),
        pytest.param(f"{COPY}/wrapped_dynamic-slice", id="inner-in-outer"),
        pytest.param(f"{COPY}/loop_slice_fusion.44", id="unknown-in-outer"),
    ],
)
def test_an_operation_is_known_by_its_name_or_that_of_the_range_around_it(text, op):
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((op, (at, at + 200)), (ADD, (at, at + 40)))
    module = instructions(text)
    assert found(trace, module=module) == {H2D: 200.0, "loop_add_fusion": 40.0}


def test_a_range_that_only_ends_before_is_not_around_an_operation():
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((ADD, (at, at + 40)), ("slice.99", (at + 40, at + 70)))
    made = executions([trace.trace.build()], MODULE)
    assert made.unknown == {"slice.99": 60_000}
    assert (made.total_ns, made.named_ns, made.known_ns) == (140_000, 140_000, 80_000)


def test_a_trace_of_nothing_believable_is_refused():
    launches = Launches()
    launches.trace.kernel((0, 0), "kernel")
    with pytest.raises(TraceError, match=r"^The traces hold no GPU row that can be believed"):
        executions([launches.trace.build()], MODULE)


def test_warm_up_is_left_out():
    trace = Launches()
    trace.step((ADD, (1_000, 1_900)))
    for at in (3_000, 4_000, 5_000):
        trace.step((ADD, (at, at + 40)))
    assert found(trace) == {"loop_add_fusion": 40.0}


def test_operations_of_another_module_are_passed_over():
    trace = Launches()
    for at in (1_000, 2_000):
        trace.step((ADD, (at, at + 40)))
    other = Launches("jit_other", pid=2)
    for at in (1_000, 2_000):
        other.step((ADD, (at, at + 900)))
    made = executions([trace.trace.build(), other.trace.build()], MODULE)
    assert costs(made.frame, MODULE, Copies.PLAIN) == {"loop_add_fusion": 40.0}
    assert made.modules == {"jit_step", "jit_other"}
    assert made.total_ns == 80_000
