"""An example trace: three training steps of four layers that offload their activations.

Each step waits for its batch. Forward, each layer's activation leaves while the next layer
computes. Backward, it comes back while the layer above computes, but the first reload of a step has
nothing to hide behind, and the last layer's offload has no next layer either. Gradients are reduced
beside the backward pass, and at the end the host reads the loss into ordinary memory. After the
last step a checkpoint is saved.
"""

from pathlib import Path

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import Source

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
BATCH_BYTES = 64 << 20
BATCH_MS = 0.165  # 407 GB/s
CHECKPOINT_BYTES = 1 << 30
CHECKPOINT_MS = 3.65  # 294 GB/s
REDUCE = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"
REDUCE_MS = 1.2
COMPUTE, OFFLOAD, RELOAD, COLLECTIVE = 7, 20, 21, 22


def example() -> TraceBuilder:
    """Return the example trace: a GH200 with times that suit one, made up and not measured."""
    made_up = Source(Path("example.sqlite"), kind="predicted", recorder="example")
    trace = TraceBuilder(gpu="NVIDIA GH200 120GB", source=made_up)
    time = 1000.0
    for _ in range(STEPS):
        start = time
        _copy(trace, "h2d", time, BATCH_MS, RELOAD, BATCH_BYTES)
        time = _forward(trace, time + BATCH_MS + GAP_MS)
        time = _backward(trace, time)
        _kernel(trace, "fused_adamw", time, OPTIMIZER_MS)
        time += OPTIMIZER_MS
        loss = _span(time + 0.01, 0.002)
        trace.copy("d2h", loss, size_bytes=4, host="pageable", stream=COMPUTE)
        trace.nvtx("train_step", _span(start - 0.5, time - start + 0.5))
        time += 0.6  # the host prepares the next batch
    _copy(trace, "d2h", time, CHECKPOINT_MS, OFFLOAD, CHECKPOINT_BYTES)
    return trace


def _forward(trace: TraceBuilder, time: float) -> float:
    for layer in range(LAYERS):
        _kernel(trace, f"flash_attention_forward_{layer}", time, FORWARD_MS / 2)
        _kernel(trace, f"gemm_mlp_{layer}", time + FORWARD_MS / 2, FORWARD_MS / 2)
        time += FORWARD_MS
        _copy(trace, "d2h", time, OFFLOAD_MS, OFFLOAD, ACTIVATION_BYTES)
    return time


def _backward(trace: TraceBuilder, time: float) -> float:
    _copy(trace, "h2d", time, RELOAD_MS, RELOAD, ACTIVATION_BYTES)  # nothing computes yet
    time += RELOAD_MS
    for layer in reversed(range(LAYERS)):
        _kernel(trace, f"flash_attention_backward_{layer}", time, BACKWARD_MS / 2)
        _kernel(trace, f"gemm_grad_{layer}", time + BACKWARD_MS / 2, BACKWARD_MS / 2)
        if layer:
            _copy(trace, "h2d", time + 0.3, RELOAD_MS, RELOAD, ACTIVATION_BYTES)
        time += BACKWARD_MS
        _kernel(trace, REDUCE, time, REDUCE_MS, COLLECTIVE)
    return time + REDUCE_MS


def _kernel(
    trace: TraceBuilder, name: str, time: float, length: float, stream: int = COMPUTE
) -> None:
    trace.kernel(_span(time, length - GAP_MS), name, stream=stream, call=_span(time - 0.1, 0.01))


def _copy(
    trace: TraceBuilder, direction: str, time: float, length: float, stream: int, size_bytes: int
) -> None:
    trace.copy(
        direction,
        _span(time, length),
        size_bytes=size_bytes,
        host="pinned",
        stream=stream,
        call=_span(time - 0.1, 0.01),
    )


def _span(time: float, length: float) -> tuple[float, float]:
    """Start and end in ms, free of the dust of binary fractions: whole nanoseconds."""
    return round(time, 6), round(time + length, 6)
