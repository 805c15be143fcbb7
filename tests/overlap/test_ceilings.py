"""What a step would save if something were different, by numbers checked by hand."""

import pytest

from nsysoffload.hardware import gpu_named
from nsysoffload.overlap.ceilings import savings
from nsysoffload.trace.builder import TraceBuilder
from tests.examined import examined


def saved(trace: TraceBuilder) -> dict[str, int | None]:
    m = examined(trace).measurements
    found = savings(m.stall, m.transfers, m.steps, m.compute, m.lone, m.link)
    return {s.name: None if s.saving_ns is None else int(s.saving_ns.sum()) for s in found}


def late_copy(*, length=100, size_bytes=1, host="pinned", gpu="NVIDIA GB200"):
    """A kernel of 1,000 us, a copy that the next one waits for, and that one, of 10 us."""
    trace = TraceBuilder(gpu, unit="us").kernel((10, 1_010), "gemm")
    trace.copy("h2d", (1_010, 1_010 + length), stream=20, size_bytes=size_bytes, host=host)
    return trace.kernel((1_010 + length, 1_020 + length), "gemm")


def test_hiding_everything_saves_all_stalls():
    assert saved(late_copy())["all_transfers_hidden"] == 100_000


@pytest.mark.parametrize(("length", "saving"), [(100, 100_000), (1_500, 1_000_000)])
def test_an_earlier_copy_saves_its_stall_as_far_as_there_is_compute_before_it(length, saving):
    #  [gemm 1000)[copy 100 or 1500)[gemm
    assert saved(late_copy(length=length))["prefetch_one_layer_earlier"] == saving


def test_compute_that_copies_of_the_direction_use_is_not_free():
    #  gemm  [10                1010)                   [1110
    #  h2d   [10           1000)      [1010       1110)
    trace = late_copy().copy("h2d", (10, 1_000), stream=21)
    assert saved(trace)["prefetch_one_layer_earlier"] == 10_000


def test_pinned_memory_saves_what_pageable_copies_take_longer_than_lone_pinned_ones():
    trace = late_copy(host="pageable", size_bytes=1 << 24)
    for n in range(3):
        begin = 2_000 + 1_000 * n
        trace.copy("h2d", (begin, begin + 40), stream=20, size_bytes=1 << 24)
        trace.kernel((begin + 500, begin + 600), "gemm")
    # Pinned twins take 40 us for the bytes of which the pageable copy takes 100.
    assert saved(trace)["pinned"] == 60_000


def test_without_a_known_link_its_range_saves_nothing_that_can_be_told():
    assert saved(late_copy(gpu=None))["link_at_measured_range"] is None


@pytest.mark.parametrize(("takes", "saving"), [(100, 50_000), (40, 0)])
def test_a_copy_at_half_the_link_s_low_end_takes_half_its_time_too_long(takes, saving):
    #  bytes that the low end of the range carries in 50 us
    low = gpu_named("NVIDIA GB200").link.h2d.low_gbps
    found = saved(late_copy(length=takes, size_bytes=int(50_000 * low)))
    assert found["link_at_measured_range"] == pytest.approx(saving, abs=2)
