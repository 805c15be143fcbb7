"""Which axis of an array lies on which axis of the device mesh, decided by the axes' names.

::

    batch              data, fsdp, expert     every device of these has its own sequences
    embed, ..._rank    fsdp, expert           of weights: gathered for use, layer by layer
    heads, ffw, vocab  tensor                 products with them stay split
    experts            expert                 tokens travel there and back: all-to-all

An axis takes the mesh axes that no earlier axis of the array has taken, so the embed axis of a
routed expert's weights lies on fsdp alone.
"""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from nsysoffload.errors import UsageError

if TYPE_CHECKING:
    import jax
    from jax.sharding import Mesh, NamedSharding

__all__ = [
    "AXES",
    "MOST_DEVICES",
    "RULES",
    "batch_shards",
    "make_mesh",
    "named_sharding",
    "parse_mesh",
    "place",
]

AXES = ("data", "fsdp", "expert", "tensor")

MOST_DEVICES = 1 << 17
"""Of a mesh; larger than any machine, and no slip of the pen."""

RULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "batch": ("data", "fsdp", "expert"),
        "groups": ("data", "fsdp"),  # the batch while tokens are at their experts
        "embed": ("fsdp", "expert"),
        "heads": ("tensor",),
        "kv_heads": ("tensor",),
        "ffw": ("tensor",),
        "vocab": ("tensor",),
        "query_rank": ("fsdp", "expert"),
        "key_value_rank": ("fsdp", "expert"),
        "experts": ("expert",),
    }
)


def parse_mesh(text: str) -> dict[str, int]:
    """Axes of a mesh and their lengths, in the order of the text.

    Examples
    --------
    >>> parse_mesh("fsdp=8,tensor=2")
    {'fsdp': 8, 'tensor': 2}

    Raises
    ------
    UsageError
        If the text is not ``AXIS=N,...`` with known axes, each once, and N of 1 or more, or there
        are more than `MOST_DEVICES`.
    """
    axes: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        axis, _, length = part.partition("=")
        if axis not in AXES or axis in axes or not length.isdecimal() or int(length) < 1:
            raise UsageError(
                f"'{part}' is no part of a mesh; write AXIS=N,... with the axes "
                f"{', '.join(AXES)}, each once, such as fsdp=8,tensor=2."
            )
        axes[axis] = int(length)
    if prod(axes.values()) > MOST_DEVICES:
        raise UsageError(f"Mesh {text} is of more than {MOST_DEVICES:,} devices; make it smaller.")
    return axes


def make_mesh(devices: Sequence["jax.Device"], axes: Mapping[str, int]) -> "Mesh":
    """Arrange devices in a mesh; without axes, all along ``fsdp``.

    Raises
    ------
    UsageError
        If the mesh needs another number of devices.
    """
    import numpy as np
    from jax.sharding import AxisType, Mesh

    axes = axes or {"fsdp": len(devices)}
    if prod(axes.values()) != len(devices):
        text = ",".join(f"{axis}={length}" for axis, length in axes.items())
        raise UsageError(
            f"Mesh {text} needs {prod(axes.values())} devices and there are {len(devices)}; "
            "change its lengths."
        )
    grid = np.array(devices).reshape(tuple(axes.values()))
    return Mesh(grid, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def batch_shards(mesh: "Mesh") -> int:
    """Devices that have sequences of their own."""
    return prod(mesh.shape.get(axis, 1) for axis in RULES["batch"])


def named_sharding(
    mesh: "Mesh", axes: Sequence[str | None], shape: Sequence[int]
) -> "NamedSharding":
    """Sharding of an array whose axes have these names; None and unknown names are not sharded.

    Raises
    ------
    UsageError
        If an axis cannot be divided evenly.
    """
    from jax.sharding import NamedSharding, PartitionSpec

    spec: list[tuple[str, ...] | None] = []
    taken: set[str] = set()
    for axis, length in zip(axes, shape, strict=True):
        rule = RULES.get(axis, ()) if axis else ()
        own = tuple(name for name in rule if name in mesh.shape and name not in taken)
        parts = prod(mesh.shape[name] for name in own)
        if length % parts:
            raise UsageError(
                f"The {axis} axis of length {length} cannot be split over {parts} devices "
                f"({', '.join(f'{name}={mesh.shape[name]}' for name in own)}); "
                "choose a mesh that divides it."
            )
        taken.update(own)
        spec.append(own or None)
    return NamedSharding(mesh, PartitionSpec(*spec))


def place(x: "jax.Array", mesh: "Mesh", *axes: str | None) -> "jax.Array":
    """Tell the compiler how an activation lies on the mesh."""
    import jax

    placed: jax.Array = jax.lax.with_sharding_constraint(x, named_sharding(mesh, axes, x.shape))
    return placed
