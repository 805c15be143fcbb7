"""What a report of a predicted trace says beside its figures, in words that all formats share."""

from nsysoffload.report.format import count, duration, size
from nsysoffload.report.model import Memory, Prediction, Range

__all__ = ["BANNER", "HONESTY", "fits", "made", "need", "step", "summary", "what"]

BANNER = "Predicted, not measured: the times come from a model."
HONESTY = (
    "The order of operations, the bytes and the memory are the compiler's own; the times are"
    " modelled. The order rests on what the compiler itself reckons that operations cost, without"
    " autotuning on a GPU, so that a real run may be ordered otherwise."
)


def summary(prediction: Prediction) -> list[str]:
    """Return sentences on what ran, the time of a step, and the memory."""
    memory = prediction.memory
    needs = [f"{need(memory)}; {fits(memory)}."] if memory else []
    return [f"{what(prediction)}.", f"Step: {step(prediction.step)}.", *needs]


def what(prediction: Prediction) -> str:
    """Return what ran where: the program, its policy and the GPUs."""
    devices = prediction.devices
    gpus = f"{count(devices)} × " if devices > 1 else ""
    policy = f", policy {prediction.variant}" if prediction.variant else ""
    return f"{prediction.program}{policy}, on {gpus}{prediction.target.upper()}"


def step(time: Range) -> str:
    """Return the time of a step with its range."""
    low, high = duration(time.low_ns), duration(time.high_ns)
    return f"{duration(time.expected_ns)} expected, {low} to {high} in the model's range"


def need(memory: Memory) -> str:
    """Return what a device needs of its own memory and of the host's."""
    return (
        f"Memory per GPU: {size(memory.device_bytes)} of {size(memory.device_limit_bytes)} on the"
        f" device, {size(memory.host_bytes)} pinned on the host"
    )


def fits(memory: Memory) -> str:
    """Say whether the step fits where it is to run."""
    if memory.device_bytes > memory.device_limit_bytes:
        return "it does not fit"
    parts = []
    if memory.device_bytes > memory.default_limit_bytes:
        share = memory.default_limit_bytes / max(1, memory.device_limit_bytes)
        parts.append(f"only with XLA_PYTHON_CLIENT_MEM_FRACTION above {share:.2f}")
    if memory.host_bytes > memory.host_limit_bytes:
        limit = memory.host_limit_bytes >> 30
        parts.append(f"only with XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB above its default of {limit}")
    return f"it fits, but {' and '.join(parts)}" if parts else "it fits"


def made(prediction: Prediction) -> str:
    """Return what was compiled, for what, and with which compiler."""
    return (
        f"{what(prediction)}, compiled by jax {prediction.jax_version}, preset {prediction.preset}"
    )
