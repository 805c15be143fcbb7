"""A profile analysed: the same steps, transfers and phases as a trace of Nsight Systems has."""

import os

import pytest

import nsysoffload
from nsysoffload.trace.xplane.convert import convert
from tests.trace.xspace import Event, call, copy, kernel, write_profile

LAUNCHED = ("forward", "d2h", "recompute", "h2d", "backward")


def steps(count: int):
    """Return planes of steps of 1,000 us, in the form of JAX on CUDA, with a derived line.

    ::

        us            0    100   200   300   400   500   600   700   800   900
        execution     [      90)
        compute            [forward)   [recompute)             [backward)
        D2H                      [d2h        )
        H2D                                  [h2d        )
    """
    compute, down, up, host, python = [], [], [], [], []
    for number in range(count):
        at = 1_000 * number + 50
        fwd, d2h, rec, h2d, bwd = (5 * number + place for place in range(1, 6))

        def span(start, end, at=at):
            return at + start, at + end

        compute += [
            kernel("gemm_f", span(100, 300), fwd, "jvp()/dot_general", "fusion.1"),
            kernel(
                "gemm_f",
                span(300, 400),
                rec,
                "transpose(jvp())/checkpoint/rematted_computation/dot_general",
                "fusion.2",
            ),
            kernel("gemm_b", span(700, 900), bwd, "transpose(jvp())/dot_general", "fusion.3"),
        ]
        down.append(
            copy(
                "D2H",
                span(200, 400),
                d2h,
                size_bytes=4_000_000,
                kinds="device pinned",
                op_name="jvp()/block_in",
                hlo_op="copy-start.1",
            )
        )
        up.append(
            copy(
                "H2D",
                span(400, 600),
                h2d,
                size_bytes=4_000_000,
                kinds="pinned device",
                op_name="transpose(jvp())/block_in",
                hlo_op="copy-start.2",
            )
        )
        host.append(Event("jit_train_step:XLA GPU module", span(0, 90)))
        launches = zip((fwd, d2h, rec, h2d, bwd), range(10, 60, 10), strict=True)
        host += [call(_api(number), span(start, start + 2), number) for number, start in launches]
        python.append(Event("train_step", span(-10, 950), {"_r": 1, "step_num": number}))
    streams = {
        "Stream #13(Compute)": compute,
        "Stream #20(MemcpyD2H)": down,
        "Stream #21(MemcpyH2D)": up,
    }
    derived = {"XLA Ops": compute, "Steps": [Event("0", (0, 1_000 * count))]}
    return {
        "/device:GPU:0": streams | derived,
        "/host:CPU": {"py_xla_execute/-14725": host, "python": python},
    }


def _api(number: int) -> str:
    return {2: "cuMemcpyDtoHAsync_v2", 4: "cuMemcpyHtoDAsync_v2"}.get(number % 5, "cuLaunchKernel")


@pytest.fixture
def report(tmp_path):
    stats = {"/device:GPU:0": {"gpu_device_name": "NVIDIA H200"}}
    return nsysoffload.analyze(write_profile(tmp_path / "run.xplane.pb", steps(4), stats))
