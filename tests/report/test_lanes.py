from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.report.lanes import Lane, Marks, columns_per_lane, lanes

WINDOW = (100, 180)
spans = st.tuples(st.integers(100, 179), st.integers(0, 25)).map(
    lambda span: (span[0], min(span[0] + span[1], WINDOW[1]))
)
many_spans = st.lists(spans, max_size=25).map(sorted)
columns = st.integers(1, 30)


def kernels(*rows, name="gemm", kind="compute"):
    """Kernels from (start, end) or (start, end, name) or (start, end, name, kind)."""
    full = [(*row, *(name, kind)[len(row) - 2 :]) for row in rows]
    frame = pd.DataFrame(full, columns=["start_ns", "end_ns", "name", "kind"])
    return frame.astype(
        {"start_ns": "int64", "end_ns": "int64", "name": "category", "kind": "category"}
    )


def transfers(*rows, compute=(), way="h2d", size_bytes=1):
    """Transfers from (start, end), hidden as far as the compute kernels cover them."""
    busy = covered(compute)
    full = [
        (start, end, size_bytes, len(busy & covered([(start, end)])), way) for start, end in rows
    ]
    names = ["start_ns", "end_ns", "size_bytes", "hidden_ns", "direction"]
    return pd.DataFrame(full, columns=names).astype(
        dict.fromkeys(names[:-1], "int64") | {"direction": "category"}
    )


def covered(rows):
    """Nanoseconds that any row covers."""
    return {t for start, end, *_ in rows for t in range(start, end)}


def made(compute=(), copies=(), fine=10, coarse=5, keep=None) -> dict[str, Lane]:
    """Lanes of these kernels and H2D copies by name."""
    frame = transfers(*copies, compute=compute)
    chosen = np.zeros(len(copies), bool) if keep is None else np.array(keep, bool)
    found = lanes("gpu", kernels(*compute), frame, WINDOW, fine, coarse, chosen)
    return {lane.name: lane for lane in found}


def extents(marks: Marks) -> list[tuple[int, int]]:
    return list(zip(marks.start_ns.tolist(), marks.end_ns.tolist(), strict=True))


def test_the_picture_in_the_docstring_is_what_happens():
    rows = [(100, 105), (103, 108), (115, 131), (122, 126), (130, 135)]
    lane = lanes("gpu", kernels(*rows), transfers(), (100, 140), 4, 4, np.zeros(0, bool))[0]
    assert extents(lane.fine) == [(100, 108), (115, 131), (131, 135)]
    assert lane.fine.rows.tolist() == [2, 2, 1]
    assert not lane.exact


def test_a_lane_with_few_rows_keeps_each_as_a_mark_even_where_they_overlap():
    lane = made(compute=[(100, 120, "a"), (110, 130, "b"), (110, 111, "a")], fine=3)["compute"]
    assert lane.exact
    assert extents(lane.fine) == [(100, 120), (110, 130), (110, 111)]
    assert [lane.names[i] for i in lane.fine.name] == ["a", "b", "a"]


def test_copies_are_named_by_their_labels_where_they_have_any():
    rows = [(100, 102), (104, 106), (108, 110)]
    frame = transfers(*rows)
    labels = pd.Categorical(["load, layer 0", None, "load, layer 1"])
    keep = np.zeros(3, bool)
    *_, h2d, d2h = lanes("gpu", kernels(), frame.assign(label=labels), WINDOW, 5, 5, keep)
    assert [h2d.names[i] if i >= 0 else None for i in h2d.fine.name] == [
        "load, layer 0",
        None,
        "load, layer 1",
    ]
    assert d2h.names == ()
    *_, h2d, d2h = lanes("gpu", kernels(), frame, WINDOW, 5, 5, keep)
    assert (h2d.names, h2d.fine.name.tolist()) == ((), [-1, -1, -1])


def test_a_merged_mark_counts_the_pause_between_its_rows_as_extent_but_not_as_busy():
    lane = made(compute=[(100, 101), (104, 105)], fine=1, coarse=1)["compute"]
    assert extents(lane.fine) == [(100, 105)]
    assert lane.fine.busy_ns.tolist() == [2]


def test_a_merged_mark_of_one_name_has_it_and_one_of_several_names_has_none():
    one = made(compute=[(100, 101, "a"), (102, 103, "a")], fine=1, coarse=1)["compute"]
    several = made(compute=[(100, 101, "a"), (102, 103, "b")], fine=1, coarse=1)["compute"]
    assert (one.names, one.fine.name.tolist()) == (("a",), [0])
    assert (several.names, several.fine.name.tolist()) == ((), [-1])


def test_collectives_have_a_lane_of_their_own_only_where_there_are_any():
    rows = [
        (100, 110, "gemm", "compute"),
        (110, 120, "nccl", "collective"),
        (120, 130, "x", "other"),
    ]
    assert list(made(compute=[(100, 110)])) == ["compute", "h2d", "d2h"]
    found = lanes("gpu", kernels(*rows), transfers(), WINDOW, 5, 5, np.zeros(0, bool))
    assert [(lane.name, lane.names) for lane in found] == [
        ("compute", ("gemm",)),
        ("collectives", ("nccl",)),
        ("h2d", ()),
        ("d2h", ()),
    ]


def test_without_any_rows_the_lanes_are_empty_and_exact():
    for lane in made().values():
        assert (len(lane.fine), len(lane.coarse), lane.exact) == (0, 0, True)


def test_a_copy_of_unknown_size_counts_as_no_bytes():
    frame = transfers((100, 110), size_bytes=-1)
    lane = lanes("gpu", kernels(), frame, WINDOW, 1, 1, np.zeros(1, bool))[1]
    assert lane.fine.size_bytes.tolist() == [0]


@given(many_spans, columns, columns)
def test_marks_of_kernels_agree_with_counting_nanoseconds(rows, fine, coarse):
    lane = made(compute=rows, fine=fine, coarse=coarse)["compute"]
    for marks, limit in (
        (lane.fine, max(fine, len(rows) if lane.exact else 0)),
        (lane.coarse, None),
    ):
        assert marks.rows.sum() == len(rows)
        assert limit is None or len(marks) <= limit
        assert sorted(marks.start_ns.tolist()) == marks.start_ns.tolist()
        if (marks.rows > 1).any() or not lane.exact:
            assert_disjoint(marks)
            assert marks.busy_ns.sum() == len(covered(rows))
            for (start, end), busy in zip(extents(marks), marks.busy_ns.tolist(), strict=True):
                assert busy == len(covered(rows) & covered([(start, end)]))
    assert len(lane.coarse) <= max(coarse, 1) or lane.coarse is lane.fine


def assert_disjoint(marks: Marks) -> None:
    assert all(end <= start for (_, end), (start, _) in pairwise(extents(marks)))


@given(many_spans, many_spans, columns, columns)
def test_hidden_time_of_merged_copies_agrees_with_counting_nanoseconds(work, copies, fine, coarse):
    lane = made(work, copies, fine, coarse)["h2d"]
    if not lane.exact:
        for marks in (lane.fine, lane.coarse):
            assert marks.hidden_ns.sum() == len(covered(work) & covered(copies))
            assert (marks.hidden_ns <= marks.busy_ns).all()
            assert marks.size_bytes.sum() == len(copies)


@given(many_spans, many_spans, st.data())
def test_kept_copies_stay_marks_of_their_own_and_the_others_add_up_without_them(work, copies, data):
    keep = data.draw(st.lists(st.booleans(), min_size=len(copies), max_size=len(copies)))
    lane = made(work, copies, 3, 2, keep)["h2d"]
    kept = [span for span, chosen in zip(copies, keep, strict=True) if chosen]
    rest = [span for span, chosen in zip(copies, keep, strict=True) if not chosen]
    for marks in (lane.fine, lane.coarse):
        assert marks.rows.sum() == len(copies)
        left = extents(marks)
        for span in kept:
            left.remove(span)
        if not lane.exact:
            assert marks.busy_ns.sum() == len(covered(rest)) + sum(
                end - start for start, end in kept
            )


@given(many_spans, columns)
def test_rows_are_merged_only_with_rows_of_their_column_or_inside_earlier_ones(rows, fine):
    lane = made(compute=rows, fine=fine, coarse=fine)["compute"]
    if lane.exact:
        return
    starts = sorted(start for start, _ in rows)
    edges = [WINDOW[0] + i * (WINDOW[1] - WINDOW[0]) // fine for i in range(fine)]
    for start, end in extents(lane.fine):
        column_end = min([edge for edge in edges if edge > start], default=WINDOW[1])
        later = [s for s in starts if column_end <= s < end]
        # A row that starts in a later column is inside this mark only where earlier rows reach.
        reach = max(e for s, e in rows if s < column_end)
        assert all(s <= reach for s in later)


@pytest.mark.parametrize("number", [1, 4, 7, 64, 10_000])
def test_a_page_of_many_lanes_has_a_bounded_number_of_marks(number):
    assert 1 <= columns_per_lane(number) <= 4_000
    assert number * columns_per_lane(number) <= max(20_000, number)
