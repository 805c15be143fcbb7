from dataclasses import replace

import pytest

from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.constants import constants_for, corners
from nsysoffload.recorders.predict.costs import duration_ns
from nsysoffload.recorders.predict.program import Kind, Op

# Round numbers, so that every time can be worked out by hand.
ROUND = {
    "gemm_efficiency": 0.5,
    "attention_forward_efficiency": 0.25,
    "attention_backward_efficiency": 0.2,
    "hbm_efficiency": 0.5,
    "kernel_floor": 0.9,
    "copy_latency": 2.0,
    "h2d": 100.0,
    "d2h": 200.0,
    "nvlink_efficiency": 0.5,
    "network": 50.0,
    "collective_latency": 10.0,
}
HBM = 8000.0  # GB/s
BF16 = 2_000_000.0  # FLOP per nanosecond
NVLINK = 900.0


@pytest.fixture(scope="module")
def target():
    return replace(
        TARGETS["gb200"], hbm_gbps=HBM, bf16_tflops=BF16 / 1000, nvlink_gbps=NVLINK, nvlink_domain=8
    )


@pytest.fixture(scope="module")
def sheet():
    expected = corners(constants_for(TARGETS["gb200"]))[0]
    return replace(expected, values={**expected.values, **ROUND})


def collective(name, ranks, size_bytes=450_000):
    return Op("c", Kind.COLLECTIVE, size_bytes=size_bytes, collective=name, ranks=ranks)


@pytest.mark.parametrize(
    ("op", "ns"),
    [
        pytest.param(
            Op("g", Kind.GEMM, flops=10**9, dtype="bf16", size_bytes=10**6), 1000, id="flops"
        ),
        pytest.param(
            Op("g", Kind.GEMM, flops=10**6, dtype="bf16", size_bytes=4 * 10**6), 1000, id="bytes"
        ),
        pytest.param(
            Op("a", Kind.ATTENTION, flops=10**9, dtype="bf16"), 2000, id="attention-forward"
        ),
        pytest.param(
            Op("a", Kind.ATTENTION, flops=10**9, dtype="bf16", backward=True),
            2500,
            id="attention-backward",
        ),
        pytest.param(Op("f", Kind.FUSION, size_bytes=4 * 10**6), 1000, id="fusion"),
        pytest.param(Op("c", Kind.COPY, size_bytes=4 * 10**6, is_kernel=False), 1000, id="copy"),
        pytest.param(Op("u", Kind.UNKNOWN, size_bytes=4 * 10**6), 1000, id="unknown"),
        pytest.param(Op("h", Kind.H2D, size_bytes=10**6, is_kernel=False), 12_000, id="h2d"),
        pytest.param(Op("d", Kind.D2H, size_bytes=10**6, is_kernel=False), 7_000, id="d2h"),
        pytest.param(collective("all-gather", 8), 11_000, id="within-nvlink"),
        # Eight adapters of 50 GB/s serve the rings of a machine: 400 GB/s, below NVLink's 450.
        pytest.param(collective("all-gather", 16, 400_000), 11_000, id="ring-over-the-network"),
        # 8 of 15 peers are outside: 50 GB/s for 8/15 of 750 kB; the rest is inside, and faster.
        pytest.param(collective("all-to-all", 16, 750_000), 18_000, id="all-to-all"),
        pytest.param(Op("f", Kind.FUSION, size_bytes=8), 900, id="no-kernel-is-shorter"),
    ],
)
def test_times_can_be_worked_out_by_hand(target, sheet, op, ns):
    assert duration_ns(op, target, sheet) == ns
