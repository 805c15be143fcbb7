"""Collectives: who takes part, and the bytes that one device sends.

Bytes are those of ring algorithms, the least that any algorithm needs on a ring; links and the
algorithms that NCCL really picks are matters of a cost model.
"""

import math
import re

from nsysoffload.recorders.predict.hlo import Computation, Instruction, Module

__all__ = ["COLLECTIVES", "collective_ranks", "sent_bytes"]

COLLECTIVES = frozenset(
    {
        "all-gather",
        "all-reduce",
        "all-to-all",
        "collective-broadcast",
        "collective-permute",
        "ragged-all-to-all",
        "reduce-scatter",
    }
)

_MESH = re.compile(r"mesh\[(.*?)\]\s*\{(.*)\}")
_AXIS = re.compile(r"'([^']*)'(?:=|:\(\d+\))?(\d+)?")
_IOTA = re.compile(r"\[\d+,(\d+)\]<=")
_GROUP = re.compile(r"\{([\d,\s]+)\}")


def collective_ranks(instruction: Instruction, module: Module) -> int:
    """Devices in a group of a collective.

    Groups are written as lists ``{{0,1},{2,3}}``, as numbering ``[2,2]<=[4]`` (groups, then size),
    or as axes of a mesh ``mesh['data'=2,'fsdp'=4] {'fsdp'}``. Without groups all devices of the
    module are in one. Of a permutation, all devices that send or receive count.
    """
    groups = instruction.attributes.get("replica_groups", "")
    if instruction.opcode == "collective-permute":
        return len(set(instruction.numbers("source_target_pairs"))) or _devices(module)
    if mesh := _MESH.search(groups):
        return _mesh_ranks(mesh[1], mesh[2])
    if iota := _IOTA.search(groups):
        return int(iota[1])
    sizes = [group.count(",") + 1 for group in _GROUP.findall(groups)]
    return max(sizes, default=_devices(module))


def sent_bytes(instruction: Instruction, computation: Computation, ranks: int) -> int:
    """Bytes that one device sends in a collective over ``ranks`` devices.

    ::

        all-gather, each holding b    (n - 1) b             all-to-all of b    b (n - 1) / n
        reduce-scatter of b           b (n - 1) / n         permute of b       b
        all-reduce of b               2 b (n - 1) / n       broadcast of b     b

    A ragged all-to-all depends on data; its whole input counts.
    """
    shapes = computation.shapes(instruction)
    if instruction.opcode == "ragged-all-to-all":
        shapes = shapes[:1]  # then come the output, offsets and sizes
    size_bytes = sum(shape.size_bytes for shape in shapes)
    match instruction.opcode:
        case "all-gather":
            return size_bytes * (ranks - 1)
        case "all-reduce":
            return 2 * size_bytes * (ranks - 1) // ranks
        case "reduce-scatter" | "all-to-all" | "ragged-all-to-all":
            return size_bytes * (ranks - 1) // ranks
        case _:
            return size_bytes


def _devices(module: Module) -> int:
    """All devices that run the module."""
    counts = (module.attributes.get(name, "1") for name in ("num_partitions", "replica_count"))
    return math.prod(int(count) for count in counts)


def _mesh_ranks(mesh: str, axes: str) -> int:
    """Product of the axes' sizes; part of an axis is written ``'x':(before)size``."""
    sizes = {name: int(size) for name, size in _AXIS.findall(mesh) if size}
    return math.prod(int(size or sizes.get(name, 1)) for name, size in _AXIS.findall(axes))
