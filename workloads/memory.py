"""Memory of a compiled step, and the bytes that its policy says it offloads."""

from collections.abc import Iterable
from math import prod
from typing import Any

import jax

from nsysoffload.recorders.predict.memory import Memory
from workloads.names import named_bytes
from workloads.policies import is_offload
from workloads.sharding import batch_shards
from workloads.step import Step

__all__ = ["declared_offload", "memory", "peak_bytes"]

_SPLIT_BY_TENSOR = {"query", "key", "value", "attention_out", "mlp_gate", "mlp_up"}


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

    Values are split as their axes are: all by the batch, those with heads or an MLP's inner width
    by ``tensor`` as well.

    Returns
    -------
    dict of str to int, or None
        Empty for a policy that offloads nothing; None for one that offloads values without names.
    """
    if not is_offload(step.policy):
        return {}
    kind, _, chosen = step.policy.partition(":")
    if kind != "offload":
        return None
    sizes = named_bytes(step.config, step.batch, step.seq, attention=step.attention)
    names = [name.strip() for name in chosen.split(",")] if chosen else list(sizes)
    return {name: sizes[name].total // _parts(step, name) for name in names}


def _parts(step: Step, name: str) -> int:
    tensor = step.mesh.shape.get("tensor", 1) if name in _SPLIT_BY_TENSOR else 1
    return prod((batch_shards(step.mesh), tensor))
