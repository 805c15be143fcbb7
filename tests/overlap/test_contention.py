"""Excess time by contention, by hand and against medians taken in plain loops."""

from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.trace.builder import TraceBuilder
from tests.examined import examined

MIB = 1 << 20


def stretched(rows, copies):
    """Comparison of kernels, given as (start, end, name, grid), beside copies."""
    trace = TraceBuilder(unit="us")
    for start, end, name, grid in rows:
        trace.kernel((start, end), name, grid=(grid, 1, 1))
    for when in copies:
        trace.copy("h2d", when, stream=20)
    columns = ["name", "lone_ns", "covered_ns", "lone_count", "covered_count", "excess_ns"]
    table = examined(trace).measurements.stretched.table[columns]
    return sorted(table.itertuples(index=False, name=None))


def in_a_row(*lengths, name="gemm", grid=1, start=10):
    rows = []
    for length in lengths:
        rows.append((start, start + length, name, grid))
        start += length + 5
    return rows


def test_kernels_under_transfers_are_compared_with_their_lone_twins():
    #  lone 100, 100, 102; under the copy 120, 130, 150: each over the lone median of 100
    rows = in_a_row(100, 100, 102) + in_a_row(120, 130, 150, start=1000)
    assert stretched(rows, [(995, 1500)]) == [("gemm", 100_000, 130_000, 3, 3, 100_000)]


@pytest.mark.parametrize(
    ("rows", "copies"),
    [
        pytest.param(
            in_a_row(100, 100) + in_a_row(130, 130, 130, start=1000), [(995, 1500)], id="two-lone"
        ),
        pytest.param(
            in_a_row(100, 100, 100) + in_a_row(130, 130, start=1000),
            [(995, 1500)],
            id="two-covered",
        ),
        pytest.param(
            in_a_row(100, 100, 100, grid=1) + in_a_row(130, 130, 130, grid=2, start=1000),
            [(995, 1500)],
            id="another-shape",
        ),
        pytest.param(
            in_a_row(100, 100, 100) + in_a_row(102, 102, 102, start=1000), [(995, 1500)], id="noise"
        ),
        pytest.param(in_a_row(100, 100, 100, 130, 130, 130), [], id="no-transfers"),
        pytest.param(
            in_a_row(100, 100, 100) + in_a_row(130, 130, 130, start=1000),
            [(1000, 1100), (1135, 1235), (1270, 1370)],
            id="covered-by-77-percent",
        ),
    ],
)
def test_what_does_not_prove_it_is_not_told(rows, copies):
    assert stretched(rows, copies) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]), st.integers(1, 2), st.integers(10, 20), st.integers(0, 10)
        ),
        min_size=6,
        max_size=16,
    )
)
@settings(max_examples=25)
def test_medians_agree_with_a_loop_over_kernels(drawn):
    rows, copies, time = [], [], 10
    for name, grid, length, tenths in drawn:
        rows.append((time, time + length, name, grid))
        if length * tenths // 10:
            copies.append((time, time + length * tenths // 10))
        time += length + 3
    expected = []
    for name in ("a", "b"):
        for grid in (1, 2):
            alone, beside = [], []
            for start, end, *of in rows:
                under = sum(max(0, min(end, e) - max(start, s)) for s, e in copies)
                if of == [name, grid] and 10 * under <= end - start:
                    alone.append(1000 * (end - start))
                elif of == [name, grid] and 10 * under >= 9 * (end - start):
                    beside.append(1000 * (end - start))
            if len(alone) < 3 or len(beside) < 3 or median(beside) <= 1.02 * median(alone):
                continue
            excess = sum(beside) - int(median(alone)) * len(beside)
            expected.append(
                (name, int(median(alone)), int(median(beside)), len(alone), len(beside), excess)
            )
    assert stretched(rows, copies) == sorted(expected)


# --- Transfers ---


def slow(lone_us, beside_us, **other):
    """Transfers that are slow: three lone ones, then one beside a kernel, all of 16 MiB."""
    trace = TraceBuilder(unit="us")
    for n, length in enumerate(lone_us):
        trace.copy("h2d", (10 + 1000 * n, 10 + 1000 * n + length), stream=20, size_bytes=16 * MIB)
    trace.copy("h2d", (5000, 5000 + beside_us), stream=20, size_bytes=16 * MIB)
    if other.get("against"):
        trace.copy("d2h", (5000, 5000 + beside_us), stream=21, size_bytes=1 * MIB)
    else:
        trace.kernel((5000, 5000 + beside_us), "gemm")
    found = examined(trace).measurements.slow
    return [
        (int(row), int(excess), bool(against))
        for row, excess, against in zip(found.row, found.excess_ns, found.against, strict=True)
    ]


def test_a_transfer_beside_kernels_is_compared_with_lone_ones_of_its_size():
    #  lone 100 us each; beside a kernel 200 us: 100 us more
    assert slow([100, 100, 100], 200) == [(3, 100_000, False)]


def test_a_transfer_against_the_other_direction_is_told_apart():
    found = slow([100, 100, 100], 200, against=True)
    assert (3, 100_000, True) in found


def test_two_lone_transfers_prove_nothing_and_little_is_noise():
    assert slow([100, 100], 200) == []
    assert slow([100, 100, 100], 120) == []
