"""Steps of small traces that can be read by eye, and what counts of them."""

import re

import numpy as np
import pytest

from nsysoffload.errors import UsageError
from nsysoffload.timeline.steps import StepRule, Steps, find_steps
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder

MS = 10**6


BY_ITS_MARKS = StepRule()


def steps_of(
    trace: TraceBuilder, rule: StepRule = BY_ITS_MARKS, device: int = 0, window=None
) -> Steps:
    timeline = build(trace.build())
    chosen = timeline.devices[device]
    found: Steps = find_steps(timeline, chosen, window or chosen.recorded, rule)
    return found


def spans(steps: Steps) -> list[tuple[float, float]]:
    return [(s / MS, e / MS) for s, e in zip(steps.start_ns, steps.end_ns, strict=True)]


def stepped(durations, *, host=1.0, gpu=100.0, name="train_step", **where) -> TraceBuilder:
    """Steps of one kernel each, issued long before the GPU runs them, 1 ms apart on the GPU."""
    trace = TraceBuilder()
    for number, duration in enumerate(durations):
        begin = host + 2 * number
        trace.nvtx(name, (begin, begin + 1), **where)
        trace.kernel((gpu, gpu + duration), "gemm", call=(begin + 0.1, begin + 0.2), **where)
        gpu += duration + 1
    return trace


def test_a_row_belongs_to_the_step_in_which_its_call_was_made():
    #  host  [step 0)[step 1)
    #  GPU                     [K 0)[copy 0) [K 1)
    trace = TraceBuilder().nvtx("train_step", (1, 2)).nvtx("train_step", (2, 3))
    trace.kernel((10, 12), "gemm", call=(1.1, 1.2))
    trace.copy("d2h", (12, 15), stream=20, call=(1.3, 1.4))
    trace.kernel((16, 18), "gemm", call=(2.1, 2.2))
    found = steps_of(trace)
    assert found.found_by == "train_step"
    assert spans(found) == [(10, 15), (16, 18)]
    assert found.period_ns.tolist() == [6 * MS, -1]
    timeline = build(trace.build())
    device = timeline.devices[0]
    assert found.of(device.kernels).tolist() == [0, 1]
    assert found.of(device.transfers).tolist() == [0]


def test_a_row_without_a_call_belongs_to_the_step_it_starts_in():
    trace = stepped([10, 10]).kernel((105, 106), "late", stream=9).kernel((300, 301), "stray")
    found = steps_of(trace)
    timeline = build(trace.build())
    names = timeline.devices[0].kernels["name"].tolist()
    assert dict(zip(names, found.of(timeline.devices[0].kernels), strict=True)) == {
        "gemm": 1,
        "late": 0,
        "stray": -1,
    }


def test_without_marks_the_whole_window_is_one_step():
    found = steps_of(TraceBuilder().kernel((3, 9), "gemm"))
    assert (found.found_by, spans(found), len(found.left_out)) == ("window", [(3, 9)], 0)


def test_executions_delimit_steps_and_a_range_names_those_that_begin_in_it():
    #  range      [0      )[1      )
    #  execution    [a        )[b      )      a reaches into the second range
    trace = TraceBuilder().nvtx("train_step", (1, 2)).nvtx("train_step", (2, 3))
    trace.nvtx("XlaModule:#hlo_module=jit_train_step,program_id=1#", (1.2, 2.3), thread=5)
    trace.nvtx("XlaModule:#hlo_module=jit_train_step,program_id=1#", (2.4, 2.9), thread=5)
    for call, gpu in (((1.3, 1.4), 10), ((2.1, 2.2), 12), ((2.5, 2.6), 15)):
        trace.call("cudaLaunchKernel", call, thread=5, correlation=gpu)
        trace.kernel((gpu, gpu + 1), "gemm", correlation=gpu)
    assert spans(steps_of(trace)) == [(10, 13), (15, 16)]


def test_without_ranges_the_busiest_module_is_the_step():
    trace = TraceBuilder()
    for number in range(3):
        begin, gpu = 1 + number, 100 + 20 * number
        trace.nvtx("XlaModule:#hlo_module=jit_init,program_id=1#", (begin, begin + 0.2))
        trace.nvtx("XlaModule:#hlo_module=jit_step,program_id=2#", (begin + 0.3, begin + 0.9))
        trace.kernel((gpu, gpu + 1), "init", call=(begin + 0.1, begin + 0.15))
        trace.kernel((gpu + 2, gpu + 12), "gemm", call=(begin + 0.4, begin + 0.5))
    found = steps_of(trace)
    assert found.found_by == "xla_module"
    assert spans(found) == [(102, 112), (122, 132), (142, 152)]


def test_a_pattern_matches_whole_names():
    trace = stepped([5, 5], name="step 1")
    assert steps_of(trace, StepRule(step_range=re.compile(r"step \d"))).found_by == "step_range"
    with pytest.raises(UsageError, match="No NVTX range is named 'step'.*'step 1'"):
        steps_of(trace, StepRule(step_range=re.compile("step")))


def test_a_kernel_can_open_steps():
    trace = TraceBuilder()
    for begin in (0, 10, 20):
        trace.kernel((begin + 1, begin + 3), "embed").kernel((begin + 4, begin + 8), "gemm")
    found = steps_of(trace, StepRule(step_kernel=re.compile("emb")))
    assert (found.found_by, spans(found)) == ("step_kernel", [(1, 8), (11, 18), (21, 28)])
    with pytest.raises(UsageError, match="No kernel's name has 'zzz'"):
        steps_of(trace, StepRule(step_kernel=re.compile("zzz")))


def test_leading_steps_that_take_much_longer_are_warm_up():
    found = steps_of(stepped([1000, 10, 10, 10, 10]))
    assert (found.index.tolist(), found.left_out) == ([1, 2, 3, 4], ((0, "warm-up"),))


def test_a_slow_step_later_on_is_an_outlier_and_counts():
    found = steps_of(stepped([10, 10, 10, 40, 10]))
    assert found.index.tolist() == [0, 1, 2, 3, 4]
    assert found.outlier.tolist() == [False, False, False, True, False]


def test_steps_can_be_skipped_by_number():
    found = steps_of(stepped([10, 10, 10]), StepRule(skip=2))
    assert (found.index.tolist(), found.left_out) == ([2], ((0, "skipped"), (1, "skipped")))
    assert len(steps_of(stepped([1000, 10, 10]), StepRule(skip=0))) == 3


def test_a_range_that_is_still_open_was_not_recorded_whole():
    trace = stepped([10, 10, 10]).nvtx("train_step", (7, None))
    trace.kernel((140, 150), "gemm", call=(7.1, 7.2))
    found = steps_of(trace)
    assert found.left_out == ((3, "not recorded whole"),)


def test_a_last_step_with_few_rows_was_not_recorded_whole():
    trace = TraceBuilder()
    for number, rows in enumerate((10, 10, 10, 4)):
        trace.nvtx("train_step", (1 + number, 1.9 + number))
        for row in range(rows):
            begin = 100 * number + 100 + row
            call = (1 + number + 0.01 * row + 0.01, 1 + number + 0.01 * row + 0.015)
            trace.kernel((begin, begin + 0.5), "gemm", call=call)
    assert steps_of(trace).left_out == ((3, "not recorded whole"),)


def test_steps_beyond_the_window_do_not_count():
    found = steps_of(stepped([10, 10, 10]), window=(105 * MS, 200 * MS))
    assert found.left_out == ((0, "not wholly in the window"),)
    assert found.index.tolist() == [1, 2]


def test_marks_without_rows_are_no_steps():
    trace = TraceBuilder().kernel((1, 2), "gemm", call=(0.5, 0.6))
    trace.nvtx("train_step", (10, 11)).nvtx("train_step", (11, 12))
    found = steps_of(trace)
    assert (found.found_by, len(found)) == ("train_step", 0)


def test_ranges_of_two_ranks_at_one_time_are_two_ranks_not_two_steps():
    trace = TraceBuilder()
    for pid, device in ((1, 0), (2, 1)):
        for number in range(2):
            begin = 1 + 2 * number + 0.1 * pid
            trace.nvtx("train_step", (begin, begin + 1), pid=pid)
            where = {"pid": pid, "device": device}
            gpu = 100 + 20 * number + pid
            trace.kernel((gpu, gpu + 10), "gemm", call=(begin + 0.1, begin + 0.2), **where)
    assert [spans(steps_of(trace, device=n)) for n in (0, 1)] == [
        [(101, 111), (121, 131)],
        [(102, 112), (122, 132)],
    ]


def test_threads_that_drive_a_gpu_each_have_their_own_steps():
    trace = TraceBuilder()
    for thread, device in ((11, 0), (12, 1)):
        for number in range(2):
            begin = 1 + 2 * number + 0.1 * device
            trace.nvtx("train_step", (begin, begin + 1), thread=thread)
            correlation = 10 * thread + number
            trace.call(
                "cudaLaunchKernel",
                (begin + 0.2, begin + 0.3),
                thread=thread,
                correlation=correlation,
            )
            gpu = 100 + 20 * number
            trace.kernel((gpu, gpu + 10), "gemm", device=device, correlation=correlation)
    for device in (0, 1):
        found = steps_of(trace, device=device)
        assert spans(found) == [(100, 110), (120, 130)]


def test_durations_are_last_end_minus_first_start():
    found = steps_of(stepped([10, 12]))
    assert np.array_equal(found.duration_ns, found.end_ns - found.start_ns)
    assert found.duration_ns.tolist() == [10 * MS, 12 * MS]
