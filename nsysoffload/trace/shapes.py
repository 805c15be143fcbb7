"""The shape of a kernel's launch, its grid and block, as one integer.

What the integer is has no meaning beyond this: launches of one shape have the same. In 62 bits the
limits of CUDA do not all fit beside each other, so grids with a y or z can share the integer of a
grid with an x of 65,536 or more. A launch of one thread is UNSET, as is one that is not known.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nsysoffload.trace.tables import UNSET

__all__ = ["SHAPE_BITS", "launch_of", "shape_of"]

SHAPE_BITS: Mapping[str, int] = {
    "blockX": 0,  # at most 1,024
    "blockY": 10,  # at most 1,024
    "blockZ": 20,  # at most 64
    "gridX": 26,  # less than 2**31
    "gridY": 42,  # less than 2**16
    "gridZ": 46,  # less than 2**16
}
"""By how many bits each column of an export, less 1, is shifted in the sum that is the shape."""

_BLOCK = {"blockX": 10, "blockY": 10, "blockZ": 6}


def shape_of(grid: tuple[int, int, int], block: tuple[int, int, int] = (1, 1, 1)) -> int:
    """Return the shape of a launch.

    Examples
    --------
    >>> shape_of((1, 1, 1)), shape_of((2, 1, 1)) == shape_of((2, 1, 1), (32, 1, 1))
    (-1, False)
    """
    sizes = zip("XYZXYZ", ("grid",) * 3 + ("block",) * 3, (*grid, *block), strict=True)
    return UNSET + sum((size - 1) << SHAPE_BITS[name + axis] for axis, name, size in sizes)


def launch_of(shape: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the columns of launches that have these shapes; the grid is all in x."""
    packed = shape - UNSET
    block = {
        name: 1 + (packed >> SHAPE_BITS[name] & (1 << bits) - 1) for name, bits in _BLOCK.items()
    }
    one = np.ones_like(packed)
    return {"gridX": 1 + (packed >> SHAPE_BITS["gridX"]), "gridY": one, "gridZ": one, **block}
