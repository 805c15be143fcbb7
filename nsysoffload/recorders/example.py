"""An example trace: three training steps of four layers that offload their activations.

Forward, each layer's activation leaves while the next layer computes. Backward, it comes back while
the layer above computes, but the first reload of a step has nothing to hide behind, and the last
layer's offload has half a layer only. Gradients are reduced beside the backward pass.
"""

from nsysoffload.trace.builder import TraceBuilder

__all__ = ["example"]

LAYERS = 4
STEPS = 3
FORWARD_MS = 2.0
BACKWARD_MS = 4.0
ACTIVATION_BYTES = 512 << 20
OFFLOAD_MS = 1.9  # 283 GB/s
RELOAD_MS = 1.4  # 383 GB/s
OPTIMIZER_MS = 1.5
GAP_MS = 0.02
COMPUTE, OFFLOAD, RELOAD, COLLECTIVE = 7, 20, 21, 22


def example() -> TraceBuilder:
    """Return the example trace, as if recorded on one GH200."""
    trace = TraceBuilder(gpu="NVIDIA GH200 120GB")
    time = 1000.0
    for _ in range(STEPS):
        start = time
        time = _forward(trace, time)
        time = _backward(trace, time)
        trace.kernel((time, time + OPTIMIZER_MS), "fused_adamw", stream=COMPUTE)
        time += OPTIMIZER_MS
        trace.nvtx("train_step", (start - 0.5, time))
        time += 0.6  # the host prepares the next batch
    return trace


def _forward(trace: TraceBuilder, time: float) -> float:
    for layer in range(LAYERS):
        half = FORWARD_MS / 2
        trace.kernel((time, time + half), f"flash_attention_forward_{layer}", stream=COMPUTE)
        trace.kernel((time + half, time + FORWARD_MS - GAP_MS), f"gemm_mlp_{layer}", stream=COMPUTE)
        time += FORWARD_MS
        _copy(trace, "d2h", time, OFFLOAD_MS, OFFLOAD)
    return time


def _backward(trace: TraceBuilder, time: float) -> float:
    _copy(trace, "h2d", time, RELOAD_MS, RELOAD)  # nothing computes yet
    time += RELOAD_MS
    for layer in reversed(range(LAYERS)):
        half = BACKWARD_MS / 2
        trace.kernel((time, time + half), f"flash_attention_backward_{layer}", stream=COMPUTE)
        trace.kernel((time + half, time + BACKWARD_MS - GAP_MS), f"gemm_grad_{layer}", stream=COMPUTE)
        if layer:
            _copy(trace, "h2d", time + 0.3, RELOAD_MS, RELOAD)
        time += BACKWARD_MS
        trace.kernel((time, time + 1.2), "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", stream=COLLECTIVE)
    return time + 1.2


def _copy(trace: TraceBuilder, direction: str, time: float, length: float, stream: int) -> None:
    trace.copy(
        direction,
        (round(time, 6), round(time + length, 6)),
        size_bytes=ACTIVATION_BYTES,
        host="pinned",
        stream=stream,
        call=(round(time - 0.3, 6), round(time - 0.28, 6)),
    )
