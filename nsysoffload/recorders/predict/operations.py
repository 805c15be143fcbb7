"""What one instruction does on the device: its kind and its work."""

from collections.abc import Iterator
from dataclasses import replace

from nsysoffload.recorders.predict.collectives import COLLECTIVES, collective_ranks, sent_bytes
from nsysoffload.recorders.predict.hlo import Computation, Instruction, Module
from nsysoffload.recorders.predict.products import is_product, product
from nsysoffload.recorders.predict.program import Kind, Op
from nsysoffload.recorders.predict.traffic import Traffic, traffic

__all__ = ["operation"]

_FREE = frozenset(
    {
        "add-dependency",
        "after-all",
        "bitcast",
        "constant",
        "domain",
        "get-tuple-element",
        "opt-barrier",
        "parameter",
        "partition-id",
        "replica-id",
        "tuple",
    }
)
# Allocations and annotations: nothing runs on the device.
_FREE_TARGETS = (
    "AllocateBuffer",
    "MoveToDevice",
    "MoveToHost",
    "PinToDevice",
    "Sharding",
    "annotate_device_placement",
)
_MOVES = ("copy", "dynamic-slice", "dynamic-update-slice", "slice")
_KERNELS = ("fusion", "gather", "rng-bit-generator", "scatter", "sort", *_MOVES)
# Kernels of libraries whose time is that of their bytes.
_KERNEL_TARGETS = ("TopK", "__cub$DeviceRadixSort", "__cudnn$norm", "__gpu$TopK")

_Placed = tuple[Instruction, Computation]


def operation(instruction: Instruction, computation: Computation, module: Module) -> Op | None:
    """Kind and work of an instruction.

    Parameters
    ----------
    instruction : Instruction
        Anything but control flow and what ends an asynchronous operation. One that starts an
        asynchronous operation stands for all of it.
    computation : Computation
        The one that holds it.
    module : Module
        For the computations that it calls.

    Returns
    -------
    Op or None
        None where nothing runs on the device.
    """
    instruction = _launched(instruction)
    if instruction.opcode in _FREE or instruction.target.startswith(_FREE_TARGETS):
        return None
    parts = tuple(_parts(instruction, computation, module))
    moved = traffic(instruction, computation, module)
    op = Op(
        instruction.name,
        Kind.UNKNOWN,
        _op_name(instruction, parts),
        moved.read + moved.written,
    )
    if not all(_is_known(part) for part, _ in parts):
        return op
    if collective := next((part for part in parts if part[0].opcode in COLLECTIVES), None):
        return _collective(op, collective, module)
    if any(is_product(part) for part, _ in parts):
        return _product(op, parts)
    return _memory_op(op, moved, instruction, parts)


def _launched(instruction: Instruction) -> Instruction:
    """Return the operation that an instruction starts, or itself where it starts none.

    A start returns operands, then results, then what the runtime needs; a copy's results are first.
    """
    name, start, _ = instruction.opcode.rpartition("-start")
    if not start:
        return instruction
    parts = instruction.shape.parts
    shape = parts[0 if name == "copy" else 1] if len(parts) > 1 else instruction.shape
    return replace(instruction, opcode="fusion" if name == "async" else name, shape=shape)


def _parts(instruction: Instruction, computation: Computation, module: Module) -> Iterator[_Placed]:
    """Yield the instructions that run as one: itself, or all that a fusion holds."""
    fused = module.called(instruction) if instruction.opcode == "fusion" else None
    if fused is None:
        yield instruction, computation
        return
    for each in fused.instructions:
        yield from _parts(each, fused, module)


def _op_name(instruction: Instruction, parts: tuple[_Placed, ...]) -> str:
    """JAX's path, which some fusions carry inside only, best on what they return."""
    inside = (part.op_name for part, _ in reversed(parts))
    return instruction.op_name or next(filter(None, inside), "")


def _is_known(part: Instruction) -> bool:
    """Whether we know what the instruction costs, which of fused ones only calls can hide."""
    if part.opcode == "custom-call":
        return is_product(part) or part.target.startswith(_KERNEL_TARGETS)
    return True


def _collective(op: Op, placed: _Placed, module: Module) -> Op:
    """Fill in a collective, alone or as a kernel of XLA's own."""
    instruction, computation = placed
    ranks = collective_ranks(instruction, module)
    return replace(
        op,
        kind=Kind.COLLECTIVE,
        size_bytes=sent_bytes(instruction, computation, ranks),
        collective=instruction.opcode,
        ranks=ranks,
    )


def _product(op: Op, parts: tuple[_Placed, ...]) -> Op:
    """Fill in matrix products or attention; one that cannot be counted leaves it unknown."""
    products = [product(*part) for part in parts if is_product(part[0])]
    known = [each for each in products if each is not None]
    if len(known) < len(products):
        return op
    attention = any(each.is_attention for each in known)
    return replace(
        op,
        kind=Kind.ATTENTION if attention else Kind.GEMM,
        flops=sum(each.flops for each in known),
        dtype=known[0].dtype,
        backward=any(each.backward for each in known),
    )


def _memory_op(op: Op, moved: Traffic, instruction: Instruction, parts: tuple[_Placed, ...]) -> Op:
    """Fill in what is bound by memory: across the host link, or within the device's."""
    is_kernel = not _is_memcpy(instruction, parts)
    if moved.host_read and moved.host_written:
        return op  # within host memory: no copy that a step should have
    if moved.host_written:
        return replace(op, kind=Kind.D2H, size_bytes=moved.host_written, is_kernel=is_kernel)
    if moved.host_read:
        return replace(op, kind=Kind.H2D, size_bytes=moved.host_read, is_kernel=is_kernel)
    if instruction.opcode not in _KERNELS and instruction.opcode != "custom-call":
        return op
    kind = Kind.COPY if _is_copy(parts) else Kind.FUSION
    if not is_kernel:
        op = replace(op, size_bytes=2 * moved.written)  # the driver reads no offsets
    return replace(op, kind=kind, is_kernel=is_kernel)


def _work(parts: tuple[_Placed, ...]) -> list[_Placed]:
    """Instructions that touch arrays; scalars, such as the offsets of slices, are left out."""
    return [
        (part, computation)
        for part, computation in parts
        if part.opcode not in _FREE and (part.shape.size != 1 or part.opcode in _MOVES)
    ]


def _is_copy(parts: tuple[_Placed, ...]) -> bool:
    """Whether it only moves data."""
    work = _work(parts)
    return bool(work) and all(part.opcode in _MOVES for part, _ in work)


def _is_memcpy(instruction: Instruction, parts: tuple[_Placed, ...]) -> bool:
    """Whether the driver does it, instead of a kernel.

    It does whole copies, and one slice that is one piece of memory: at an offset that is fixed, or
    that the compiler could put as a function of the loop's counter, which it then writes beside the
    slice. Offsets that the device computes need a kernel; so do those of slices that are peeled off
    a pipelined loop, though they are constants.
    """
    if instruction.opcode == "copy":
        return True
    work = _work(parts)
    if len(work) != 1:
        return False
    slicing, computation = work[0]
    if slicing.opcode == "slice":
        return slicing.shape.is_contiguous_in(computation.shapes(slicing)[0])
    return "dynamic_slice_config" in slicing.config
