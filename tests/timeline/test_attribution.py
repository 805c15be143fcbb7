import pytest

from nsysoffload.timeline.attribution import attribute
from nsysoffload.timeline.calls import CallIndex
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import UNSET

MODULE = "XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=12#"


def thunk(op: str, name: str = "jvp()/dot") -> str:
    return f"Thunk:#name={name},hlo_op={op}#"


def attributed(builder: TraceBuilder):
    """Return for each kernel the op, the execution's row, and the other range; and all names."""
    timeline = build(builder.build())
    names = timeline.names
    rows = [
        (
            names.thunks["hlo_op"][names.thunk[call]] if names.thunk[call] >= 0 else None,
            int(names.execution[call]),
            names.range_texts[names.range_[call]] if names.range_[call] >= 0 else None,
        )
        for call in timeline.devices[0].kernels["call"]
    ]
    return rows, names


def test_a_row_belongs_to_the_ranges_around_its_call():
    #  step       [0                               20)
    #  execution     [1              10)
    #  thunks          [2  4)  [5  7)
    #  calls            ^        ^         ^            ^
    made = TraceBuilder().nvtx("train_step", (0, 20)).nvtx(MODULE, (1, 10))
    made.nvtx(thunk("fusion.1"), (2, 4), domain=2).nvtx(thunk("fusion.2"), (5, 7), domain=2)
    for number, called in enumerate((3, 6, 12, 25)):
        made.kernel((30 + number, 31 + number), "k", call=(called, called + 0.5))
    made.kernel((40, 41), "k")  # its call was not recorded
    rows, names = attributed(made)
    assert rows == [
        ("fusion.1", 0, "train_step"),
        ("fusion.2", 0, "train_step"),
        (None, -1, "train_step"),
        (None, -1, None),
        (None, -1, None),
    ]
    assert names.executions.to_dict("records") == [
        {
            "process": 1 << 24 | 1,
            "thread": 1,
            "start_ns": 1_000_000,
            "end_ns": 10_000_000,
            "module": "jit_f",
            "program_id": 12,
        }
    ]


def test_the_innermost_thunk_counts():
    #  while   [0                10)
    #  body       [2     4)
    #  calls    ^   ^       ^
    made = TraceBuilder().nvtx(thunk("while.1"), (0, 10)).nvtx(thunk("fusion.1"), (2, 4))
    for called in (1, 3, 5):
        made.kernel((20 + called, 21 + called), "k", call=(called, called))
    assert [op for op, _, _ in attributed(made)[0]] == ["while.1", "fusion.1", "while.1"]


def test_a_range_holds_the_calls_that_begin_in_it():
    made = TraceBuilder().nvtx(thunk("fusion.1"), (2, 4))
    made.kernel((10, 11), "before", call=(1, 3)).kernel((12, 13), "first", call=(2, 9))
    made.kernel((14, 15), "after", call=(4, 5))
    assert [op for op, _, _ in attributed(made)[0]] == [None, "fusion.1", None]


def test_ranges_of_other_threads_and_processes_hold_no_call():
    made = TraceBuilder()
    made.nvtx(thunk("mine"), (0, 9), thread=5).nvtx(thunk("another"), (1, 9), thread=6)
    made.nvtx(thunk("far"), (1, 9), pid=2, thread=5)
    made.kernel((10, 11), "k", correlation=1).call("cudaLaunchKernel", (2, 3), thread=5)
    assert [op for op, _, _ in attributed(made)[0]] == ["mine"]


def test_a_range_that_is_still_open_holds_all_later_calls():
    made = TraceBuilder().nvtx(MODULE, (1, None)).kernel((90, 91), "k", call=(80, 81))
    rows, names = attributed(made)
    assert rows == [(None, 0, None)]
    assert names.executions["end_ns"].tolist() == [UNSET]


def test_names_are_completed_by_the_prefix_of_the_program_around_them():
    #  program f   [0        5)
    #  program g                [5       9)    all of it is of the backward pass
    #  thunk         [1   2)      [6   7)      of one text
    backward = "XlaModule:#prefix=jit(g)/transpose(jvp()),hlo_module=jit_g,program_id=3#"
    made = TraceBuilder().nvtx(MODULE, (0, 5)).nvtx(backward, (5, 9))
    for start in (1, 6):
        made.nvtx(thunk("fusion.1", "dot"), (start, start + 1))
        made.kernel((20 + start, 21 + start), "k", call=(start, start))
    _, names = attributed(made)
    assert names.thunks.to_dict("records") == [
        {"hlo_op": "fusion.1", "op_name": "jit(f)/dot", "phase": "other", "module": "jit_f"},
        {
            "hlo_op": "fusion.1",
            "op_name": "jit(g)/transpose(jvp())/dot",
            "phase": "backward",
            "module": "jit_g",
        },
    ]


def test_an_operation_that_runs_often_has_one_row():
    made = TraceBuilder()
    for start in (1, 3, 5):
        made.nvtx(thunk("fusion.1"), (start, start + 1))
        made.kernel((20 + start, 21 + start), "k", call=(start, start))
    _, names = attributed(made)
    assert names.thunk.tolist() == [0, 0, 0, -1]
    assert len(names.thunks) == 1


def test_executions_are_sorted_by_start():
    made = TraceBuilder().nvtx(MODULE, (5, 6)).nvtx(MODULE, (1, 2), thread=9)
    made.kernel((10, 11), "k", call=(5, 6))
    rows, names = attributed(made)
    assert names.executions["thread"].tolist() == [9, 1]
    assert rows == [(None, 1, None)]


@pytest.mark.parametrize("number", ["", "x", "-4", "9" * 40])
def test_a_program_id_that_is_no_number_is_unset(number):
    made = TraceBuilder().nvtx(f"XlaModule:#hlo_module=m,program_id={number}#", (0, 1))
    _, names = attributed(made.kernel((1, 2), "k", call=(0, 1)))
    assert names.executions[["module", "program_id"]].to_numpy().tolist() == [["m", UNSET]]


def test_garbage_texts_are_thunks_without_a_name():
    made = TraceBuilder().nvtx("Thunk:#=,,=#", (0, 9)).kernel((1, 2), "k", call=(0, 1))
    _, names = attributed(made)
    assert names.thunks.to_numpy().tolist() == [["", "", "other", ""]]


def test_without_calls_or_ranges_there_is_nothing_around_anything():
    trace = TraceBuilder().kernel((0, 1), "k").build()
    names = attribute(CallIndex.build(trace.calls), trace.calls, trace.nvtx_ranges)
    assert [names.thunk.tolist(), names.execution.tolist(), names.range_.tolist()] == [[-1]] * 3
    assert (len(names.thunks), len(names.executions), names.range_texts) == (0, 0, [])


def test_of_calls_that_share_an_id_the_first_counts():
    made = TraceBuilder().nvtx(thunk("early"), (0, 2)).nvtx(thunk("late"), (4, 6))
    made.call("cuCtxSynchronize", (5, 6), correlation=1)
    made.call("cuLaunchKernel", (1, 2), correlation=1)
    made.kernel((10, 11), "k", correlation=1)
    assert [op for op, _, _ in attributed(made)[0]] == ["early"]
