"""A compiled train step as the runtime will issue it: operations in order, with their work.

`Program` is what the compiler's schedule is read into and what the simulator runs. It holds no
times: these come from a cost model. Everything is per device.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Done", "Item", "Kind", "Loop", "Op", "Program", "Start"]


class Kind(StrEnum):
    """What an operation does, which decides how its time is modelled."""

    GEMM = "gemm"
    ATTENTION = "attention"
    FUSION = "fusion"
    COPY = "copy"  # within device memory, slices included
    COLLECTIVE = "collective"
    H2D = "h2d"
    D2H = "d2h"
    UNKNOWN = "unknown"  # not understood: timed by its bytes, counted and listed


@dataclass(frozen=True)
class Op:
    """One operation on a device.

    Attributes
    ----------
    name : str
        Name of the HLO instruction.
    kind : Kind
        What it does.
    op_name : str
        JAX's path, such as ``jit(train_step)/jvp()/while/body/dot_general``; may be empty.
    size_bytes : int
        Bytes moved: through device memory, reads and writes added, for kernels and copies within
        it; the payload for H2D and D2H; what one device sends for collectives.
    flops : int
        Multiplications and additions of matrix products; 0 where there are none.
    dtype : str
        Element type of the product's operands, such as ``bf16``; empty without products.
    collective : str
        HLO opcode without ``-start``, such as ``all-gather``; empty for other kinds.
    ranks : int
        Devices in a group of the collective; 1 for other kinds.
    backward : bool
        Whether it is an attention kernel of the backward pass.
    is_kernel : bool
        Whether a kernel does it. False for what the driver copies: a COPY, H2D or D2H of memory
        that is contiguous, and memsets.
    """

    name: str
    kind: Kind
    op_name: str = ""
    size_bytes: int = 0
    flops: int = 0
    dtype: str = ""
    collective: str = ""
    ranks: int = 1
    backward: bool = False
    is_kernel: bool = True


@dataclass(frozen=True)
class Item:
    """An operation issued to the compute stream.

    ``needs`` are positions, within the same sequence, of the earlier items whose results it uses
    or that a control edge puts before it.
    """

    op: Op
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Start:
    """An operation issued to another stream: it waits for all that the compute stream has got.

    ``stream`` is ``d2h``, ``h2d``, ``comm`` or ``compute.N`` with N from 1.
    """

    op: Op
    stream: str
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Done:
    """The compute stream waits for the `Start` at position ``start`` of the same sequence."""

    start: int


@dataclass(frozen=True)
class Loop:
    """A sequence run ``trips`` times, one after the other.

    Without ``trips`` the count depends on data: the host reads the condition back each time.
    """

    name: str
    body: tuple["Item | Start | Done | Loop", ...]
    trips: int | None
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """A train step on one device.

    Attributes
    ----------
    name : str
        Name of the module, such as ``jit_train_step``.
    items : tuple
        What is issued, in this order.
    notes : tuple of str
        Sentences on what could not be read as written, or rests on an assumption.
    """

    name: str
    items: tuple[Item | Start | Done | Loop, ...]
    notes: tuple[str, ...] = field(default=())

    def ops(self) -> Iterator[tuple[Op, int]]:
        """Yield each operation and how often a step runs it; unknown trip counts count once."""
        yield from _ops(self.items, 1)


def _ops(items: tuple[Item | Start | Done | Loop, ...], times: int) -> Iterator[tuple[Op, int]]:
    for item in items:
        if isinstance(item, Loop):
            yield from _ops(item.body, times * (1 if item.trips is None else item.trips))
        elif not isinstance(item, Done):
            yield item.op, times
