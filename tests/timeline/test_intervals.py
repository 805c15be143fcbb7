import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.timeline.intervals import (
    clip,
    covered_ns,
    difference,
    grouped_length_ns,
    grouped_union,
    intersection,
    length_ns,
    union,
)

BIG = 2**61


def spans(*pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


some_spans = st.lists(
    st.tuples(st.integers(-20, 60), st.integers(0, 25)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def nanoseconds(pairs) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def as_union(ticks: set[int]) -> list[list[int]]:
    """Write a set of nanoseconds as sorted intervals that do not touch."""
    out: list[list[int]] = []
    for tick in sorted(ticks):
        if out and out[-1][1] == tick:
            out[-1][1] = tick + 1
        else:
            out.append([tick, tick + 1])
    return out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(3, 3)], [], id="empty"),
        pytest.param([(0, 5), (5, 8)], [[0, 8]], id="touching"),
        pytest.param([(0, 9), (2, 3)], [[0, 9]], id="nested"),
        pytest.param([(10, 12), (0, 5), (3, 8)], [[0, 8], [10, 12]], id="unsorted"),
        pytest.param([(-BIG, BIG)], [[-BIG, BIG]], id="huge"),
    ],
)
def test_union_merges_what_overlaps_or_touches(given, expected):
    assert union(spans(*given)).tolist() == expected


def test_union_refuses_an_interval_that_ends_before_it_starts():
    with pytest.raises(ValueError, match="ends before it starts"):
        union(spans((5, 4)))


def test_compute_on_two_streams_hides_a_transfer_once():
    #  compute 1   [0    6)
    #  compute 2      [4     10)
    #  transfer     [2         12)    hidden 2..10
    cover = union(spans((0, 6), (4, 10)))
    assert covered_ns(spans((2, 12)), cover).tolist() == [8]


def test_rows_outside_a_window_become_empty():
    assert clip(spans((0, 5), (3, 9), (20, 30)), 4, 10).tolist() == [[4, 5], [4, 9], [10, 10]]


@given(some_spans, some_spans)
def test_union_of_sets_agrees_with_counting_nanoseconds(a, b):
    assert union(spans(*a), spans(*b)).tolist() == as_union(nanoseconds(a) | nanoseconds(b))


@given(some_spans, some_spans)
def test_covered_ns_agrees_with_counting_nanoseconds(rows, cover):
    covered = nanoseconds(cover)
    expected = [len(covered & set(range(*row))) for row in rows]
    assert covered_ns(spans(*rows), union(spans(*cover))).tolist() == expected


@given(some_spans, some_spans)
def test_intersection_and_difference_agree_with_counting_nanoseconds(a, b):
    one, other = union(spans(*a)), union(spans(*b))
    assert intersection(one, other).tolist() == as_union(nanoseconds(a) & nanoseconds(b))
    assert difference(one, other).tolist() == as_union(nanoseconds(a) - nanoseconds(b))
    assert length_ns(difference(one, other)) + length_ns(intersection(one, other)) == length_ns(one)


@given(some_spans, st.randoms())
def test_the_order_of_rows_never_matters(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert union(spans(*rows)).tolist() == union(spans(*shuffled)).tolist()


@given(some_spans, st.integers(-20, 80))
def test_splitting_rows_never_changes_a_union(rows, cut):
    pieces = [
        piece
        for start, end in rows
        for piece in ([(start, cut), (cut, end)] if start < cut < end else [(start, end)])
    ]
    assert union(spans(*rows)).tolist() == union(spans(*pieces)).tolist()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 60), st.integers(0, 25)), max_size=15)
)
def test_lengths_by_group_agree_with_the_union_of_each_group(rows):
    rows.sort(key=lambda row: row[1])
    group = np.array([row[0] for row in rows], dtype=np.int8)
    start = np.array([row[1] for row in rows], dtype=np.int64)
    end = start + np.array([row[2] for row in rows], dtype=np.int64)
    lengths = grouped_length_ns(start, end, group, 6)
    expected = [
        len(nanoseconds([(s, e) for g, s, e in zip(group, start, end, strict=True) if g == number]))
        for number in range(6)
    ]
    assert lengths.tolist() == expected


def test_lengths_by_group_hold_when_groups_times_time_exceed_64_bits():
    start = np.array([0, 0, 10, BIG - 5], dtype=np.int64)
    end = np.array([10, 20, 30, BIG], dtype=np.int64)
    group = np.array([0, 1, 1, 999], dtype=np.int64)
    lengths = grouped_length_ns(start, end, group, 1000)
    assert (lengths[0], lengths[1], lengths[999], lengths.sum()) == (10, 30, 5, 45)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 60), st.integers(0, 25)), max_size=15)
)
def test_unions_by_group_agree_with_counting_nanoseconds_of_each_group(rows):
    group = np.array([row[0] for row in rows], dtype=np.int64)
    start = np.array([row[1] for row in rows], dtype=np.int64)
    end = start + np.array([row[2] for row in rows], dtype=np.int64)
    expected = [
        (number, *span)
        for number in range(5)
        for span in as_union(nanoseconds((s, s + n) for g, s, n in rows if g == number))
    ]
    found, of_group = grouped_union(start, end, group)
    assert [(int(g), *pair) for g, pair in zip(of_group, found.tolist(), strict=True)] == expected


def test_unions_by_group_hold_when_groups_times_time_exceed_64_bits():
    start = np.array([BIG - 5, 0, 5, 0, 12], dtype=np.int64)
    end = np.array([BIG, 10, 20, 10, 13], dtype=np.int64)
    found, group = grouped_union(start, end, np.array([9, 1, 1, 2, 2], dtype=np.int64))
    assert found.tolist() == [[0, 20], [0, 10], [12, 13], [BIG - 5, BIG]]
    assert group.tolist() == [1, 2, 2, 9]
