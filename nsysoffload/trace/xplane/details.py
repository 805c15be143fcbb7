"""What XLA's texts about GPU events say: launch shapes, sizes, kinds of memory.

The forms, by `cupti_buffer_events.h` and `cupti_collector.cc` of XLA since 2020::

    kernel_details   regs:38 static_shared:0 dynamic_shared:0 grid:160,1,1 block:1024,1,1 occ_pct:50
    memcpy_details   kind_src:pinned kind_dst:device size:4096 dest:0 async:1
    memcpy_details   size:4096 dest:0 async:1
    Memset_details   kind:device num_bytes:4096 async:1
"""

import re
from functools import lru_cache

from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.shapes import shape_of
from nsysoffload.trace.tables import UNSET

__all__ = ["COPY_KINDS", "MIGRATION_KINDS", "launch_shape", "memory_kinds", "size_bytes"]

COPY_KINDS = {
    "MemcpyH2D": CopyKind.HOST_TO_DEVICE,
    "MemcpyD2H": CopyKind.DEVICE_TO_HOST,
    "MemcpyD2D": CopyKind.DEVICE_TO_DEVICE,
    "MemcpyP2P": CopyKind.PEER_TO_PEER,
    "MemcpyOther": CopyKind.UNKNOWN,
}
"""By the name of an event."""

MIGRATION_KINDS = {
    "UM_BYTES_TRANSFER_HTOD": CopyKind.UNIFIED_HOST_TO_DEVICE,
    "UM_BYTES_TRANSFER_DTOH": CopyKind.UNIFIED_DEVICE_TO_HOST,
    "UM_BYTES_TRANSFER_DTOD": CopyKind.UNIFIED_DEVICE_TO_DEVICE,
}
"""By the name of an event; XLA leaves the sizes of these out."""

_MEMORY_KINDS = {kind.name.lower(): kind for kind in MemKind}
_SIZE = re.compile(r"(?:^| )(?:size|num_bytes):(\d{1,18})\b")
_KINDS = re.compile(r"(?:^| )kind_src:(\w+) kind_dst:(\w+)")
_SHAPE = re.compile(r" grid:(\d+),(\d+),(\d+) block:(\d+),(\d+),(\d+)")
_LARGEST = (2**31 - 1, 65_535, 65_535, 1_024, 1_024, 64)  # grid and block, by CUDA
_TEXTS = 1 << 16  # distinct ones are few


@lru_cache(_TEXTS)
def launch_shape(details: str) -> int:
    """Return the shape of a launch, see `nsysoffload.trace.shapes`; UNSET if it is not said.

    Examples
    --------
    >>> launch_shape("regs:38 shm:0 grid:2,1,1 block:1,1,1") == shape_of((2, 1, 1))
    True
    """
    found = _SHAPE.search(details)
    sizes = [int(size[:10]) for size in found.groups()] if found else [0]
    if any(not 1 <= size <= most for size, most in zip(sizes, _LARGEST, strict=False)):
        return UNSET
    gx, gy, gz, bx, by, bz = sizes
    return shape_of((gx, gy, gz), (bx, by, bz))


@lru_cache(_TEXTS)
def size_bytes(details: str) -> int:
    """Return the bytes that were copied or set, UNSET if they are not said."""
    found = _SIZE.search(details)
    return int(found[1]) if found else UNSET


@lru_cache(_TEXTS)
def memory_kinds(details: str) -> tuple[int, int]:
    """Return the kinds of memory of source and target, UNSET where they are not said.

    Examples
    --------
    >>> memory_kinds("kind_src:device kind_dst:pinned size:8 dest:0 async:1")
    (<MemKind.DEVICE: 2>, <MemKind.PINNED: 1>)
    """
    found = _KINDS.search(details)
    source, target = (
        (_MEMORY_KINDS.get(kind, UNSET) for kind in found.groups())
        if found
        else (
            UNSET,
            UNSET,
        )
    )
    return source, target
