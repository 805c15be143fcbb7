"""Which rows belong to which step, which steps count, and how long each is."""

import re
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.errors import UsageError
from nsysoffload.timeline.steps import STEP_RANGE, StepRule, find_steps
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import UNSET

ALL = StepRule(skip=0)


def steps_of(trace: TraceBuilder, rule=ALL, window=None):
    timeline = build(trace.build())
    (device,) = timeline.devices
    return find_steps(timeline, device, window or device.recorded, rule)


def spans(steps):
    return list(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True))


def step(trace, number, *, begin=None, length=100, name=STEP_RANGE):
    """Issue a step of one kernel at 10 times its number, which runs at 1,000 times it."""
    host, begin = 10 * number, 1_000 * number if begin is None else begin
    trace.nvtx(name, (host, host + 5))
    trace.kernel((begin, begin + length), "gemm", call=(host + 1, host + 2))
    return trace


def several(*lengths, **fields):
    trace = TraceBuilder(unit="ns")
    for number, length in enumerate(lengths, start=1):
        step(trace, number, length=length, **fields)
    return trace


def test_a_row_belongs_to_the_step_of_its_call_and_without_one_to_that_of_its_start():
    #  host   [step 10 15)[step 20 25)
    #  GPU         [kernel 1000 1100)[copy 1100 1150)[kernel 2000 2100)   [kernel 2050 2300)
    #  call          11                12               21                  none
    trace = several(100, 100)
    trace.copy("d2h", (1100, 1150), stream=20, call=(12, 13))
    trace.kernel((2050, 2300), "late", stream=8)
    steps = steps_of(trace)
    assert steps.found_by == "train_step"
    assert spans(steps) == [(1000, 1150), (2000, 2300)]
    assert steps.period_ns.tolist() == [1000, UNSET]
    timeline = build(trace.build())
    assert steps.of(timeline.devices[0].kernels).tolist() == [0, 1, 1]
    assert steps.of(timeline.devices[0].transfers).tolist() == [0]


def test_a_step_lasts_from_its_first_work_to_its_last_of_whatever_kind():
    #  memset [990 1000)[kernel 1000 1100)[copy within the device 1100 1130)
    trace = several(100)
    trace.memset((990, 1000), call=(11, 12))
    trace.copy("d2d", (1100, 1130), call=(13, 14))
    assert spans(steps_of(trace)) == [(990, 1130)]


def test_a_range_counts_for_all_threads_of_its_process():
    trace = TraceBuilder(unit="ns").nvtx(STEP_RANGE, (10, 20), thread=1)
    trace.kernel((100, 200), "gemm", correlation=7)
    trace.call("cudaLaunchKernel", (12, 13), thread=2, correlation=7)
    assert spans(steps_of(trace)) == [(100, 200)]


def test_executions_delimit_steps_and_a_range_names_those_that_begin_in_it():
    #  range    [step 10 20)            the execution ends after it
    #  XLA         [module 12      40)
    #  call                       30
    trace = TraceBuilder(unit="ns").nvtx(STEP_RANGE, (10, 20))
    trace.nvtx("XlaModule:#hlo_module=jit_train_step,program_id=1#", (12, 40))
    trace.kernel((100, 200), "gemm", call=(13, 14)).kernel((200, 300), "gemm", call=(30, 31))
    assert spans(steps_of(trace)) == [(100, 300)]


def test_without_ranges_the_busiest_module_makes_steps_and_without_any_the_window_is_one():
    trace = TraceBuilder(unit="ns")
    for host, begin, module in (
        (10, 100, "jit_step"),
        (30, 400, "jit_step"),
        (50, 700, "jit_eval"),
    ):
        trace.nvtx(f"XlaModule:#hlo_module={module},program_id=1#", (host, host + 9))
        trace.kernel((begin, begin + 90), "gemm", call=(host + 1, host + 2))
    steps = steps_of(trace)
    assert (steps.found_by, spans(steps)) == ("xla_module", [(100, 190), (400, 490)])
    whole = steps_of(TraceBuilder(unit="ns").kernel((5, 9), "a").kernel((20, 30), "b"))
    assert (whole.found_by, spans(whole)) == ("window", [(5, 30)])


def test_a_step_range_matches_whole_names_and_what_is_missing_is_named():
    trace = several(100, 100, name="iteration")
    found = steps_of(trace, StepRule(re.compile("iter.*"), skip=0))
    assert (found.found_by, len(found)) == ("step_range", 2)
    with pytest.raises(UsageError, match="'iteration'"):
        steps_of(trace, StepRule(re.compile("iter")))


def test_a_kernel_opens_steps_and_one_that_is_missing_is_an_error():
    #  [open)[work) [open)[work)
    trace = TraceBuilder(unit="ns")
    for begin in (10, 100):
        trace.kernel((begin, begin + 5), "open_step").kernel((begin + 5, begin + 50), "work")
    rule = StepRule(step_kernel=re.compile("open"), skip=0)
    assert spans(steps_of(trace, rule)) == [(10, 60), (100, 150)]
    with pytest.raises(UsageError, match="--step-kernel"):
        steps_of(trace, StepRule(step_kernel=re.compile("absent")))


@pytest.mark.parametrize(
    ("lengths", "rule", "kept", "why"),
    [
        pytest.param((100, 100, 100), StepRule(), [0, 1, 2], (), id="alike"),
        pytest.param((400, 100, 100), StepRule(), [1, 2], ((0, "warm-up"),), id="warm-up"),
        pytest.param((140, 100, 100), StepRule(), [0, 1, 2], (), id="little-longer"),
        pytest.param((100, 400, 100), StepRule(), [0, 1, 2], (), id="an-outlier-is-no-warm-up"),
        pytest.param((400, 100, 100), ALL, [0, 1, 2], (), id="none-skipped"),
        pytest.param(
            (100, 100, 100),
            StepRule(skip=2),
            [2],
            ((0, "skipped"), (1, "skipped")),
            id="two-skipped",
        ),
        pytest.param(
            (100, 100), StepRule(skip=5), [], ((0, "skipped"), (1, "skipped")), id="all-skipped"
        ),
    ],
)
def test_steps_that_do_not_count_are_left_out_with_a_reason(lengths, rule, kept, why):
    steps = steps_of(several(*lengths), rule)
    assert steps.index.tolist() == kept
    assert steps.left_out == why


def test_steps_that_reach_out_of_the_window_are_left_out_and_keep_their_number():
    steps = steps_of(several(100, 100, 100), window=(1_500, 3_200))
    assert steps.index.tolist() == [1, 2]
    assert steps.left_out == ((0, "not wholly in the window"),)


def test_the_outlier_is_named():
    steps = steps_of(several(100, 100, 100, 300, 100))
    assert steps.outlier.tolist() == [False, False, False, True, False]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 60), st.integers(1, 40)),
        min_size=1,
        max_size=10,
    )
)
@settings(max_examples=40)
def test_spans_agree_with_a_loop_over_rows(rows):
    trace = TraceBuilder(unit="ns")
    own: dict[int, list[tuple[int, int]]] = {}
    for number in range(1, 5):
        trace.nvtx(STEP_RANGE, (100 * number, 100 * number + 90))
    for place, (number, copies, begin, length) in enumerate(rows):
        # Steps run on the GPU one after another, long after they were issued.
        when = (1_000 * number + begin, 1_000 * number + begin + length)
        call = (100 * number + place, 100 * number + place + 1)
        if copies:
            trace.copy("h2d", when, stream=20 + place, call=call)
        else:
            trace.kernel(when, "gemm", stream=20 + place, call=call)
        own.setdefault(number, []).append(when)
    steps = steps_of(trace)
    kept = sorted(own)
    if len(kept) > 2:
        usual = median(len(own[number]) for number in kept)
        kept = [n for n in kept if n not in (kept[0], kept[-1]) or len(own[n]) >= 0.9 * usual]
    expected = [(min(s for s, _ in own[n]), max(e for _, e in own[n])) for n in kept]
    assert spans(steps) == expected
    assert set(dict(steps.left_out).values()) <= {"not recorded whole"}


def test_a_graph_that_was_traced_whole_is_part_of_its_step():
    #  host  [0        )
    #  GPU       [graph       )[copy)
    trace = TraceBuilder()
    for begin in (1, 3):
        trace.nvtx("train_step", (begin, begin + 1))
        gpu = 100 * begin
        trace.graph((gpu, gpu + 89), call=(begin + 0.1, begin + 0.2))
        trace.copy("h2d", (gpu + 92, gpu + 95), stream=20, call=(begin + 0.3, begin + 0.4))
    assert spans(steps_of(trace)) == [(100_000_000, 195_000_000), (300_000_000, 395_000_000)]
