"""A trace as it may be shown."""

import pytest

import nsysoffload
from nsysoffload.private.masked import cleaned, masked
from nsysoffload.private.names import Names
from nsysoffload.private.words import Words
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.run_folder import Numerics, Recording
from nsysoffload.trace.tables import Trace


@pytest.fixture
def names() -> Names:
    return Names(Words({"alice": "user"}))


def distinct(trace: Trace) -> list[str]:
    return trace.kernels["name"].tolist()


def test_a_trace_without_private_words_stays_as_it_is(names):
    trace = TraceBuilder().kernel((0, 1), "gemm").nvtx("train_step", (0, 1)).build()
    shown = masked(trace, names)
    assert (shown.kernels is trace.kernels, shown.nvtx_ranges is trace.nvtx_ranges) == (True, True)
    assert shown.gpus.equals(trace.gpus)
    assert shown.written == {}


def test_names_that_differ_in_a_private_part_alone_stay_two(names):
    trace = TraceBuilder().kernel((0, 1), "gemm(/b/x.cu)").kernel((1, 3), "gemm(/a/x.cu)")
    shown = masked(trace.kernel((3, 4), "gemm(/b/x.cu)").build(), names)
    assert distinct(shown) == ["gemm(<path-2>)", "gemm(<path-1>)", "gemm(<path-2>)"]
    assert shown.written == {
        "gemm(<path-1>)": "gemm(/a/x.cu)",
        "gemm(<path-2>)": "gemm(/b/x.cu)",
    }


def test_a_name_that_was_written_like_a_marker_is_summed_with_it(tmp_path):
    trace = TraceBuilder().kernel((0, 1), "gemm(/a/x.cu)").kernel((1, 3), "gemm(<path-1>)")
    (kernel,) = nsysoffload.analyze(trace.write(tmp_path / "trace.sqlite")).kernels
    assert (kernel.name, kernel.count, kernel.busy_ns) == ("gemm(<path-1>)", 2, 3_000_000)


def test_of_ranges_only_those_of_xla_are_changed(names):
    trace = TraceBuilder().kernel((0, 1), "gemm")
    for text in ("load /a/b", "Thunk:#name=jit(alice)/add#", "XlaModule:#hlo_module=jit_f#"):
        trace.nvtx(text, (0, 1))
    texts = masked(trace.build(), names).nvtx_ranges["text"].tolist()
    assert texts == ["load /a/b", "Thunk:#name=jit(<user-1>)/add#", "XlaModule:#hlo_module=jit_f#"]


def test_what_stands_for_a_uuid_gets_another_name_and_uuids_stay(names):
    trace = TraceBuilder().gpu("GPU of alice", "alices-gpu", device=0)
    trace.gpu(None, "0123abcd-0000-0000-0000-000000000001", device=1).gpu("A100", device=2)
    for device in range(3):
        trace.kernel((0, 1), "gemm", device=device)
    shown = masked(trace.build(), names).gpus
    assert shown["uuid"].tolist()[:2] == ["uuid-1", "0123abcd-0000-0000-0000-000000000001"]
    assert shown["id"].tolist()[0] == "uuid-1"
    assert shown["name"].tolist() == ["GPU of <user-1>", None, "A100"]


def test_records_lose_the_private_parts_of_their_texts_and_nothing_else(names):
    told = {"bare_step_ms": 1.5, "notes": ("by alice",), "xla_flags": ("--dump=/a/b",)}
    empty = dict.fromkeys(Recording.__dataclass_fields__)
    recording = Recording(**{**empty, **told, "numerics": Numerics(True, "x", "alice agrees")})
    shown = cleaned(recording, names)
    assert (shown.bare_step_ms, shown.notes) == (1.5, ("by <user-1>",))
    assert shown.xla_flags == ("--dump=<path-1>",)
    assert shown.numerics == Numerics(True, "x", "<user-1> agrees")


# --- Patterns of the user ---


@pytest.fixture
def trace(tmp_path):
    made = TraceBuilder()
    for start in (0, 10, 20):
        made.nvtx(f"step /data/{start}", (start, start + 9))
        made.kernel((start + 1, start + 3), "/home/me/open.cu", call=(start, start + 1))
        made.kernel((start + 3, start + 5), "/home/me/gemm.cu", call=(start + 1, start + 2))
    return made.write(tmp_path / "trace.sqlite")


def test_patterns_match_names_as_they_stand_in_the_trace(trace):
    by_range = nsysoffload.analyze(trace, step_range="step /data/.*", skip_steps=0)
    by_kernel = nsysoffload.analyze(trace, step_kernel="me/open", skip_steps=0)
    for report in (by_range, by_kernel):
        assert len(report.devices[0].steps) == 3
    classes = nsysoffload.analyze(trace, collective="me/open", not_compute="gemm.cu").kernels
    assert [(k.name, k.class_) for k in classes] == [
        ("<path-1>", "other"),
        ("<path-2>", "collective"),
    ]


def test_an_xla_range_is_matched_as_it_stands_in_the_trace(tmp_path):
    made = TraceBuilder().nvtx("XlaModule:#hlo_module=jit_f(/a/b)#", (0, 9))
    path = made.kernel((1, 3), "gemm", call=(0, 1)).write(tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(path, step_range=r"XlaModule.*\(/a/b\)#", skip_steps=0)
    assert report.window.steps_found_by == "step_range"


def test_an_error_that_lists_ranges_has_no_private_part(trace):
    with pytest.raises(nsysoffload.UsageError, match=r"are: 'step <path-3>', 'step <path-4>', "):
        nsysoffload.analyze(trace, step_range="other")
