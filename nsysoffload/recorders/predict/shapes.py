"""Shapes as HLO text writes them: element type, dimensions, memory space; tuples of these."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["HOST", "Shape", "read_shape"]

HOST = 5  # XLA's memory space for pinned host memory, printed as S(5) in a layout

_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_NOISE = re.compile(r"/\*.*?\*/|\s+")
_SPACE = re.compile(r"S\((\d+)\)")
_BITS = {"pred": 8, "token": 0, "opaque": 0}


@dataclass(frozen=True)
class Shape:
    """An array, or a tuple of shapes.

    Attributes
    ----------
    dtype : str
        Element type, such as ``bf16``; empty for a tuple.
    dims : tuple of int
        Dimensions; the upper bound of those that are dynamic.
    memory_space : int
        Where it lives: 0 is device memory, `HOST` pinned host memory.
    parts : tuple of Shape
        What a tuple holds; empty for an array.
    minor_to_major : tuple of int
        Positions of the dimensions, the one whose elements are neighbours in memory first; empty
        where it is not written.
    """

    dtype: str = ""
    dims: tuple[int, ...] = ()
    memory_space: int = 0
    parts: tuple["Shape", ...] = ()
    minor_to_major: tuple[int, ...] = ()

    @property
    def leaves(self) -> Iterator["Shape"]:
        """The arrays in it, from left to right."""
        if self.dtype:
            yield self
        for part in self.parts:
            yield from part.leaves

    @property
    def size(self) -> int:
        """Number of elements, of all arrays in it."""
        return sum(math.prod(leaf.dims) for leaf in self.leaves)

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays in it; elements of less than a byte are packed."""
        return sum(-(-math.prod(leaf.dims) * _bits(leaf.dtype) // 8) for leaf in self.leaves)

    def is_contiguous_in(self, whole: "Shape") -> bool:
        """Whether a slice of this shape is one piece of memory, wherever in ``whole`` it begins.

        ::

            [4, 8, 16]  sliced to  [1, 2, 16]: one piece    [2, 8, 4]: one piece for each row
        """
        if len(self.dims) != len(whole.dims):
            return False
        is_cut = False
        for dim in self.minor_to_major or reversed(range(len(self.dims))):
            if is_cut and self.dims[dim] > 1:
                return False
            is_cut = is_cut or self.dims[dim] < whole.dims[dim]
        return True


@lru_cache(maxsize=1 << 16)
def read_shape(text: str) -> Shape:
    """Read a shape, such as ``(bf16[6,8]{1,0:S(5)}, s32[])``.

    Raises
    ------
    ValueError
        If it is not one.
    """
    text = _NOISE.sub("", text)
    shape, end = _read(text, 0)
    if end != len(text):
        raise ValueError(f"not a shape: {text[:80]}")
    return shape


def _read(text: str, at: int) -> tuple[Shape, int]:
    """Read the shape at a position; return it and where it ends."""
    if text.startswith("(", at):
        return _read_tuple(text, at + 1)
    match = _ARRAY.match(text, at)
    if match is None:
        raise ValueError(f"not a shape: {text[at : at + 80]}")
    dtype, dims, layout = match.groups()
    _bits(dtype)
    order, _, rest = (layout or "").partition(":")
    space = _SPACE.search(rest)
    return Shape(
        dtype,
        tuple(int(dim.removeprefix("<=")) for dim in dims.split(",") if dim),
        int(space[1]) if space else 0,
        minor_to_major=tuple(int(dim) for dim in order.split(",") if dim),
    ), match.end()


def _read_tuple(text: str, at: int) -> tuple[Shape, int]:
    """Read the rest of a tuple, from behind its opening parenthesis."""
    parts = []
    while not text.startswith(")", at):
        part, at = _read(text, at)
        parts.append(part)
        if text.startswith(",", at):
            at += 1
    return Shape(parts=tuple(parts)), at + 1


def _bits(dtype: str) -> int:
    """Bits of an element: the first number in the name of its type."""
    if dtype in _BITS:
        return _BITS[dtype]
    number = re.match(r"[a-z]+?(\d+)", dtype)
    if number is None:
        raise ValueError(f"not an element type: {dtype}")
    return int(number[1])
