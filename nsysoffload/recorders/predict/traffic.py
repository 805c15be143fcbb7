"""Bytes that an instruction reads and writes, in device and in host memory.

A kernel that takes a slice of an operand reads the slice only, and one that updates a slice in
place writes the slice only. Caches are ignored: what two kernels read counts twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nsysoffload.recorders.predict.hlo import Computation, Instruction, Module
from nsysoffload.recorders.predict.shapes import HOST, Shape

__all__ = ["Traffic", "traffic"]

_SLICES = ("dynamic-slice", "gather", "slice")
_UPDATES = ("dynamic-update-slice", "scatter")

_Part = tuple[int, int]  # bytes, and the memory space they are in


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written; those in host memory are also counted alone."""

    read: int
    written: int
    host_read: int
    host_written: int


def traffic(instruction: Instruction, computation: Computation, module: Module) -> Traffic:
    """Bytes that one instruction moves, its fused computation taken into account.

    Parameters
    ----------
    instruction : Instruction
        Anything but control flow and asynchronous starts.
    computation : Computation
        The one that holds it.
    module : Module
        For the computations that it calls.

    Returns
    -------
    Traffic
        Operands and results that could not be read count nothing.
    """
    fused = module.called(instruction) if instruction.opcode == "fusion" else None
    if fused is None:
        reads = _operand_reads(instruction, computation)
        writes = _writes(instruction, computation)
    else:
        outputs = tuple(_outputs(fused.root, fused))
        reads = (
            (_read_bytes(each, fused, module, outputs), each.shape.memory_space)
            for each in fused.instructions
            if each.opcode == "parameter"
        )
        writes = (part for output in outputs for part in _writes(output, fused))
    read, host_read = _sum(reads)
    written, host_written = _sum(writes)
    return Traffic(read, written, host_read, host_written)


def _sum(parts: Iterable[_Part]) -> tuple[int, int]:
    """All bytes, and those in host memory."""
    sizes = list(parts)
    return sum(size for size, _ in sizes), sum(size for size, space in sizes if space == HOST)


def _operand_reads(instruction: Instruction, computation: Computation) -> Iterator[_Part]:
    """Yield what an instruction that is not a fusion reads of each of its operands."""
    for index, shape in enumerate(computation.shapes(instruction)):
        size_bytes = shape.size_bytes
        if index == 0 and instruction.opcode in _SLICES:
            size_bytes = instruction.shape.size_bytes
        elif index == 0 and instruction.opcode in _UPDATES:
            size_bytes = 0
        yield size_bytes, shape.memory_space


def _read_bytes(
    value: Instruction, fused: Computation, module: Module, outputs: tuple[Instruction, ...]
) -> int:
    """Bytes that a fused computation reads of a parameter or of what is the same memory."""
    total = 0
    for user in fused.users.get(value.name, ()):
        is_first = user.operands[0] == value.name
        nested = module.called(user) if user.opcode == "fusion" else None
        if user.opcode == "bitcast":
            total += _read_bytes(user, fused, module, outputs)
        elif nested is not None:
            ends = tuple(_outputs(nested.root, nested))
            total += sum(
                _read_bytes(parameter, nested, module, ends)
                for parameter in _parameters(nested, user, value)
            )
        elif is_first and user.opcode in _SLICES:
            total += user.shape.size_bytes
        elif not (is_first and user.opcode in _UPDATES and user in outputs):
            return value.shape.size_bytes
    return min(total, value.shape.size_bytes)


def _parameters(
    nested: Computation, caller: Instruction, value: Instruction
) -> Iterator[Instruction]:
    """Yield the parameters of a nested computation that stand for a value of its caller."""
    for each in nested.instructions:
        if each.opcode == "parameter" and caller.operands[int(each.operands[0])] == value.name:
            yield each


def _outputs(root: Instruction | None, fused: Computation) -> Iterator[Instruction]:
    """Yield the instructions that compute what a fused computation returns."""
    if root is None:
        return
    if root.opcode not in ("tuple", "bitcast"):
        yield root
        return
    for name in root.operands:
        yield from _outputs(fused.by_name.get(name), fused)


def _writes(instruction: Instruction, computation: Computation) -> Iterator[_Part]:
    """Yield what an instruction writes of each of its results."""
    if instruction.opcode in _UPDATES:
        shapes = computation.shapes(instruction)
        update = shapes[1 if instruction.opcode == "dynamic-update-slice" else -1]
        yield update.size_bytes, instruction.shape.memory_space
    elif instruction.opcode == "custom-call":
        for leaf in _results(instruction):
            yield leaf.size_bytes, leaf.memory_space
    elif not _is_workspace(instruction, computation):
        for leaf in instruction.shape.leaves:
            yield leaf.size_bytes, leaf.memory_space


def _results(call: Instruction) -> tuple[Shape, ...]:
    """Results of a custom call, without the workspace that libraries return behind them."""
    leaves = tuple(call.shape.leaves)
    has_workspace = len(leaves) > 1 and leaves[-1].dtype in ("s8", "u8") and call.target[:2] == "__"
    return leaves[:-1] if has_workspace else leaves


def _is_workspace(instruction: Instruction, computation: Computation) -> bool:
    """Whether it takes the workspace out of a custom call's results."""
    if instruction.opcode != "get-tuple-element":
        return False
    call = computation.by_name.get(instruction.operands[0])
    if call is None or call.opcode != "custom-call":
        return False
    return instruction.numbers("index")[0] >= len(_results(call))
