"""A train step without a fault: every transfer hidden, every launch made long before its turn.

A fault is planted into it: its operations stand at the end of the body of the forward or of the
backward loop, where nothing else is moving, between two kernels::

    forward    attention  mlp              [fault]  norm
    d2h                   save activation
    backward   mlp        recompute        [fault]  attention
    h2d        load activation

Times are no model of any GPU. A kernel takes as many nanoseconds as it has flops, a copy moves at
the rate given for its direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Program, Start

__all__ = [
    "MIB",
    "OPTIMIZER",
    "PATHS",
    "PRECEDING",
    "Await",
    "Parts",
    "body",
    "collective",
    "copy",
    "kernel",
    "train_step",
]

_FORWARD = "jit(train_step)/jvp()/while/body/checkpoint"
_BACKWARD = "jit(train_step)/transpose(jvp())/while/body/checkpoint"
PATHS = {"forward": _FORWARD, "backward": _BACKWARD}
"""JAX's path of what a loop does, by phase."""

MIB = 1 << 20


@dataclass(frozen=True)
class Await:
    """The compute stream waits for the operation started before in the same sequence."""

    op: Op


Parts = Sequence[Op | Start | Await | Loop]
"""What a sequence is made of; an operation by itself runs on the compute stream."""


def body(*parts: Op | Start | Await | Loop) -> tuple[Item | Start | Done | Loop, ...]:
    """Return the parts as items of a program."""
    started = {part.op: place for place, part in enumerate(parts) if isinstance(part, Start)}
    return tuple(
        Done(started[part.op])
        if isinstance(part, Await)
        else Item(part)
        if isinstance(part, Op)
        else part
        for part in parts
    )


def kernel(name: str, op_name: str, duration_ns: int) -> Op:
    """Return a kernel that takes a time."""
    return Op(name, Kind.FUSION, op_name, flops=duration_ns)


def collective(op_name: str, duration_ns: int) -> Op:
    """Return an all-gather that takes a time."""
    return Op(
        "all-gather-start.7",
        Kind.COLLECTIVE,
        op_name,
        flops=duration_ns,
        dtype="bf16",
        collective="all-gather",
        ranks=8,
    )


def copy(name: str, direction: str, size_bytes: int, op_name: str = "") -> Op:
    """Return a copy by the driver, ``h2d`` or ``d2h``, between device and pinned host memory."""
    return Op(name, Kind(direction), op_name, size_bytes=size_bytes, is_kernel=False)


_EMBED = kernel("gather_fusion.1", "jit(train_step)/jvp()/embed/gather", 500_000)
_ATTENTION = kernel("attention_fusion.2", f"{_FORWARD}/attention/dot_general", 1_000_000)
_MLP = kernel("mlp_fusion.3", f"{_FORWARD}/mlp/dot_general", 1_000_000)
_NORM = kernel("norm_fusion.4", f"{_FORWARD}/norm/mul", 300_000)
_SAVE = copy("copy-start.5", "d2h", 32 * MIB, f"{_FORWARD}/block_in")
_LOSS = kernel("loss_fusion.6", "jit(train_step)/jvp()/loss/reduce_sum", 500_000)
_LOAD = copy("copy-start.8", "h2d", 32 * MIB, f"{_BACKWARD}/block_in")
_MLP_GRAD = kernel("mlp_fusion.9", f"{_BACKWARD}/mlp/dot_general", 1_000_000)
_RECOMPUTE = kernel("norm_fusion.10", f"{_BACKWARD}/rematted_computation/norm/mul", 300_000)
_ATTENTION_GRAD = kernel("attention_fusion.11", f"{_BACKWARD}/attention/dot_general", 1_000_000)

OPTIMIZER = kernel("optimizer_fusion.12", "jit(train_step)/optimizer/add", 1_000_000)
"""The last kernel of the step."""

PRECEDING = {"forward": _MLP.name, "backward": _RECOMPUTE.name}
"""The kernel before what is planted, by phase."""


def train_step(
    layers: int,
    *,
    forward: Parts = (),
    backward: Parts = (),
    before: Parts = (),
    after: Parts = (),
) -> Program:
    """Return the step.

    Parameters
    ----------
    layers : int
        Iterations of the loops.
    forward, backward : sequence, optional
        What is planted into the body of each loop.
    before, after : sequence, optional
        What is planted at the beginning and the end of the step.
    """
    saved = (_ATTENTION, Start(_SAVE, "d2h"), _MLP, Await(_SAVE))
    loaded = (Start(_LOAD, "h2d"), _MLP_GRAD, Await(_LOAD), _RECOMPUTE)
    items = body(
        *before,
        _EMBED,
        Loop("while.1", body(*saved, *forward, _NORM), layers),
        _LOSS,
        Loop("while.2", body(*loaded, *backward, _ATTENTION_GRAD), layers),
        OPTIMIZER,
        *after,
    )
    return Program("jit_train_step", items)
