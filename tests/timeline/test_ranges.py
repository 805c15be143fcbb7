import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.timeline.ranges import innermost, occurrences
from nsysoffload.trace.tables import UNSET


def column(values) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def found(ranges, moments) -> list[int]:
    """Innermost ranges; ranges are (start, end, group), moments (time, group)."""
    start, end, group = (column(r[i] for r in ranges) for i in range(3))
    at, at_group = (column(m[i] for m in moments) for i in range(2))
    return innermost(start, end, group, at, at_group).tolist()


def surrounding(ranges, moment) -> int:
    """Innermost range by looking at each."""
    at, thread = moment
    around = [
        (start, -(2**62 if end == UNSET else end), position)
        for position, (start, end, group) in enumerate(ranges)
        if group == thread and start <= at and (end == UNSET or at < end)
    ]
    return max(around)[2] if around else -1


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        pytest.param([], [-1, -1, -1, -1], id="none"),
        pytest.param([(1, 4, 0)], [-1, 0, 0, -1], id="half-open"),
        pytest.param([(0, 9, 0), (1, 4, 0)], [0, 1, 1, 0], id="nested"),
        pytest.param([(0, 9, 0), (1, 2, 0), (3, 4, 0)], [0, 1, 2, 0], id="siblings"),
        pytest.param([(0, 4, 0), (1, 9, 0)], [0, 1, 1, 1], id="crossing"),
        pytest.param([(0, UNSET, 0), (1, 2, 0)], [0, 1, 0, 0], id="open"),
        pytest.param([(1, 4, 0), (1, 9, 0)], [-1, 0, 0, 1], id="start-together"),
        pytest.param([(1, 4, 0), (1, 4, 0)], [-1, 1, 1, -1], id="equal"),
        pytest.param([(1, 1, 0)], [-1, -1, -1, -1], id="empty"),
        pytest.param([(0, 9, 1)], [-1, -1, -1, -1], id="another-thread"),
        pytest.param([(0, UNSET, -1), (0, UNSET, 1)], [-1, -1, -1, -1], id="threads-beside"),
    ],
)
def test_the_innermost_range_is_the_last_to_start_of_those_that_have_not_ended(ranges, expected):
    # moments    0 1 2 3 4 5 6 7 8
    #            ^ ^   ^ ^
    assert found(ranges, [(0, 0), (1, 0), (3, 0), (4, 0)]) == expected


some_ranges = st.lists(
    st.tuples(st.integers(-9, 25), st.integers(0, 20), st.integers(0, 3)).map(
        lambda r: (r[0], UNSET if r[1] == 20 else max(r[0], 0) + r[1], r[2])
    ),
    max_size=40,
)
some_moments = st.lists(st.tuples(st.integers(-10, 50), st.integers(-1, 4)), max_size=25)


@given(some_ranges, some_moments)
def test_the_innermost_range_agrees_with_looking_at_each(ranges, moments):
    assert found(ranges, moments) == [surrounding(ranges, moment) for moment in moments]


def test_a_moment_after_ten_thousand_nested_ranges_is_in_the_outermost():
    #  range 0   [0                    100,000)
    #  range 1     [1              20,000)
    #  range 2       [2         19,999)           and so on
    depth = 10_000
    nested = [(n, 2 * depth - n, 0) for n in range(1, depth)]
    moments = [(2 * depth - n, 0) for n in range(1, depth)]  # each the end of a range
    expected = list(range(depth - 1))
    assert found([(0, 10 * depth, 0), *nested], moments) == expected


@given(st.lists(st.integers(-2, 4)))
def test_occurrences_count_the_earlier_rows_of_the_same_code(codes):
    expected = [codes[:row].count(code) for row, code in enumerate(codes)]
    assert occurrences(column(codes)).tolist() == expected
