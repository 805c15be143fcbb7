"""Steps of several ranks, threads and marks that do not fit, of traces that can be read by eye."""

from nsysoffload.timeline.steps import StepRule, Steps, find_steps
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder

MS = 10**6


def steps_of(trace: TraceBuilder, device: int = 0) -> Steps:
    timeline = build(trace.build())
    chosen = timeline.devices[device]
    return find_steps(timeline, chosen, chosen.recorded, StepRule())


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
