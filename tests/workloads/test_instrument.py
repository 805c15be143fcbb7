from types import SimpleNamespace

import pytest

nvtx = pytest.importorskip("nvtx", reason="ranges need nvtx: install nsysoffload[workloads]")

from workloads.instrument import STEP, CudaSwitch, cuda_runtime, span  # noqa: E402  needs nvtx


def test_a_range_has_the_name_that_finds_steps_and_the_index_as_payload(monkeypatch):
    made = []

    class Spy(nvtx.annotate):
        def __init__(self, *args, **options):
            made.append((args, options))
            super().__init__(*args, **options)

    monkeypatch.setattr(nvtx, "annotate", Spy)
    with span(STEP, 7):
        pass
    assert made == [(("train_step",), {"payload": 7})]


def test_the_switch_calls_the_cuda_runtime():
    calls, notes = [], []
    runtime = SimpleNamespace(
        cudaProfilerStart=lambda: calls.append("start") or 0,
        cudaProfilerStop=lambda: calls.append("stop") or 0,
    )
    switch = CudaSwitch(runtime, notes.append)
    switch.start()
    switch.stop()
    assert (calls, notes) == (["start", "stop"], [])


def test_the_switch_says_what_cuda_refused():
    notes = []
    CudaSwitch(SimpleNamespace(cudaProfilerStart=lambda: 35), notes.append).start()
    assert notes == [
        "cudaProfilerStart failed with CUDA error 35, so a profiler that waits for it does not "
        "see it; record the whole run instead."
    ]


def test_without_a_cuda_runtime_nothing_is_switched():
    notes = []
    switch = CudaSwitch(None, notes.append)
    switch.start()
    switch.stop()
    assert notes == []


def test_the_installed_cuda_runtime_has_the_functions_of_the_switch():
    runtime = cuda_runtime()
    if runtime is None:
        pytest.skip("no libcudart is installed")
    assert runtime.cudaProfilerStart
    assert runtime.cudaProfilerStop
