"""Figures of each step against counting nanoseconds, row by row."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.timeline.steps import STEP_RANGE
from nsysoffload.trace.builder import TraceBuilder
from tests.examined import examined

NCCL = "ncclDevKernel_AllGather_RING_LL"


@st.composite
def rows(draw):
    """Rows as (kind, step, start, end, stream) of three steps; a step's work may run late."""
    made = []
    for stream, kinds in ((7, ("gemm",)), (9, (NCCL,)), (20, ("h2d", "d2h")), (21, ("h2d", "d2h"))):
        time = 1
        for number in range(3):
            for _ in range(draw(st.integers(0, 3))):
                time += draw(st.integers(0, 6))
                end = time + draw(st.integers(1, 9))
                made.append((draw(st.sampled_from(kinds)), number, time, end, stream))
                time = end
    return made


def trace_of(made) -> TraceBuilder:
    trace = TraceBuilder(unit="ns")
    for number in range(3):
        trace.nvtx(STEP_RANGE, (100 * number, 100 * number + 90))
    for place, (kind, number, start, end, stream) in enumerate(made):
        call = (100 * number + place, 100 * number + place + 1)
        when = (start + 1_000, end + 1_000)
        if kind in ("h2d", "d2h"):
            trace.copy(kind, when, stream=stream, size_bytes=10 * place + 1, call=call)
        else:
            trace.kernel(when, kind, stream=stream, call=call)
    return trace


def ticks(made) -> set[int]:
    return {t for _, _, start, end, _ in made for t in range(start + 1_000, end + 1_000)}


@given(rows())
@settings(max_examples=40)
def test_figures_of_steps_agree_with_counting_nanoseconds(made):
    if not made:
        return
    device = examined(trace_of(made))
    values, steps = device.values, device.steps
    compute = ticks(row for row in made if row[0] == "gemm")
    collective = ticks(row for row in made if row[0] == NCCL)
    moving = ticks(row for row in made if row[0] in ("h2d", "d2h"))
    # The chosen steps, told by their first moment of work.
    start_of = {n: min((r[2] + 1_000 for r in made if r[1] == n), default=-1) for n in range(3)}
    for place, (first, last) in enumerate(zip(steps.start_ns, steps.end_ns, strict=True)):
        (number, *_) = (
            n
            for n, start in start_of.items()
            if start == first and max(r[3] for r in made if r[1] == n) + 1_000 == last
        )
        window = set(range(first, last))
        assert values.compute_busy_ns[place] == len(window & compute)
        assert values.collective_busy_ns[place] == len(window & collective)
        assert values.lost_ns[place] == len(window - compute)
        assert values.idle_ns[place] == len(window - compute - collective - moving)
        for way in ("h2d", "d2h"):
            mine = [row for row in made if row[0] == way and row[1] == number]
            at, found = ticks(mine), values.directions[way]
            assert found.copies[place] == len(mine)
            assert found.bytes[place] == sum(10 * made.index(row) + 1 for row in mine)
            assert found.sum_ns[place] == sum(row[3] - row[2] for row in mine)
            assert found.busy_ns[place] == len(at)
            assert found.hidden_ns[place] == len(at & compute)
            assert found.exposed_ns[place] == len(at - compute)
            assert found.hidden_by_collectives_ns[place] == len((at & collective) - compute)
            free = compute - ticks(row for row in made if row[0] == way)
            hideable = min(int(found.stall_ns[place]), len(window & free))
            assert found.hideable_ns[place] == hideable
        both = ticks(r for r in made if r[0] in ("h2d", "d2h") and r[1] == number)
        assert values.both.busy_ns[place] == len(both)
        assert values.both.hidden_ns[place] == len(both & compute)


def test_what_runs_in_another_step_hides_and_counts_to_its_own():
    #  step 0   [gemm 0 100)
    #  step 0       d2h [50       150)     issued in step 0, half hidden by each step's kernel
    #  step 1            [gemm 100   200)
    trace = TraceBuilder(unit="us")
    trace.nvtx(STEP_RANGE, (1, 4)).nvtx(STEP_RANGE, (5, 9))
    trace.kernel((100, 200), "gemm", call=(2, 3)).kernel((200, 300), "gemm", call=(6, 7))
    trace.copy("d2h", (150, 250), stream=20, call=(3, 4))
    values = examined(trace).values
    assert values.directions["d2h"].busy_ns.tolist() == [100_000, 0]
    assert values.directions["d2h"].hidden_ns.tolist() == [100_000, 0]
    assert values.lost_ns.tolist() == [0, 0]


def test_phases_are_there_only_with_names_of_xla():
    assert examined(TraceBuilder().kernel((1, 2), "gemm")).values.phases is None


def test_names_of_xla_without_a_whole_step_are_no_error():
    trace = TraceBuilder(unit="ns").nvtx(STEP_RANGE, (0, 100))
    trace.nvtx("XlaModule:#hlo_module=jit_step,program_id=1#", (200, 300))
    trace.nvtx("Thunk:#name=jit(step)/jvp(f)/dot,hlo_op=dot.1#", (210, 220))
    trace.kernel((230, 240), "gemm", call=(212, 214))
    phases = examined(trace).values.phases
    assert phases is not None
    assert {len(values) for values in phases.values()} == {0}
