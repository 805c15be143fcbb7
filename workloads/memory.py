"""Memory of a compiled step, and the bytes that its policy says it offloads."""

from collections.abc import Iterable
from typing import Any

import jax

from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.trace.workload import is_offload
from workloads.names import named_bytes, parts
from workloads.placement import is_placement, placement
from workloads.step import Step

__all__ = ["declared_offload", "memory", "peak_bytes"]


def memory(compiled: Any) -> Memory:
    """Bytes that a compiled program needs of each device and its host, by the compiler's count."""
    stats = compiled.memory_analysis()
    return Memory(
        argument_bytes=stats.argument_size_in_bytes,
        output_bytes=stats.output_size_in_bytes,
        alias_bytes=stats.alias_size_in_bytes,
        temp_bytes=stats.temp_size_in_bytes,
        host_argument_bytes=stats.host_argument_size_in_bytes,
        host_output_bytes=stats.host_output_size_in_bytes,
        host_alias_bytes=stats.host_alias_size_in_bytes,
        host_temp_bytes=stats.host_temp_size_in_bytes,
    )


def peak_bytes(devices: Iterable[jax.Device]) -> int | None:
    """Most memory that was in use on any of the devices; None where the backend does not count."""
    stats = [device.memory_stats() for device in devices]
    peaks = [each["peak_bytes_in_use"] for each in stats if each and "peak_bytes_in_use" in each]
    return max(peaks, default=None)


def declared_offload(step: Step) -> dict[str, int] | None:
    """Bytes that a step moves to the host and back, by name, for one device and direction.

    Returns
    -------
    dict of str to int, or None
        Empty for a policy that offloads nothing; None for one that offloads values without names.
    """
    if not is_offload(step.policy):
        return {}
    if step.policy == "offload-dots":
        return None
    sizes = named_bytes(step.config, step.batch, step.seq, attention=step.attention)
    names = list(sizes)
    if is_placement(step.policy):
        names = list(placement(step.policy, sizes).offloaded)
    return {name: sizes[name].total // parts(name, step.mesh.shape) for name in names}
