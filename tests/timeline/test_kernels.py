import re

import pytest

from nsysoffload.timeline.kernels import KINDS, is_copy_like, kinds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "collective",
        ),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "collective"),
        ("nvshmemi_barrier_on_stream", "collective"),
        ("void stream_executor::gpu::AllReduceKernelImpl<float, 1>(int)", "collective"),
        ("void stream_executor::gpu::RaggedAllToAllKernelImpl<8l>(void*)", "collective"),
        ("MultiGpuBarrierKernel", "collective"),
        ("all_reduce_fusion_12", "compute"),
        ("input_reduce_fusion", "compute"),
        ("void cutlass::Kernel2<gemm>", "compute"),
        ("loop_dynamic_slice_fusion", "compute"),
        ("wrapped_transpose", "compute"),
        ("CUDA memcpy HtoD", "other"),
        ("[CUDA memcpy DtoH]", "other"),
        ("[CUDA memset]", "other"),
        ("__amd_rocclr_copyBuffer", "other"),
        ("my CUDA memcpy HtoD kernel", "compute"),
        ("", "compute"),
    ],
)
def test_a_kernel_is_classified_by_its_name(name, kind):
    assert [KINDS[i] for i in kinds([name])] == [kind]


def test_a_user_corrects_compute_and_never_makes_a_collective_vanish():
    names = ["deep_ep_dispatch", "wrapped_copy", "ncclDevKernel_AllGather"]
    found = kinds(names, re.compile("deep_ep"), re.compile("copy|nccl|deep"))
    assert [KINDS[i] for i in found] == ["collective", "other", "collective"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("loop_dynamic_update_slice_fusion", True), ("wrapped_copy", True), ("gemm", False)],
)
def test_names_that_suggest_moving_data_are_marked(name, expected):
    assert is_copy_like(name) == expected
