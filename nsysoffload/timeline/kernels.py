"""What kind of work a kernel is: compute, a collective, or a copy in a kernel's clothes."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "is_copy_like", "kinds"]

KINDS = ("compute", "collective", "other")

# NCCL and NVSHMEM name themselves in every kernel; the rest are XLA's own collective kernels
# (xla/stream_executor/gpu: all_reduce_kernel, ragged_all_to_all_kernel, multi_gpu_barrier_kernel).
_COLLECTIVE = re.compile(
    r"nccl|nvshmem|\b(?:all_?reduce|ragged_?all_?to_?all|multi_?gpu_?barrier)_?kernel(?:_?impl)?\b",
    re.IGNORECASE,
)
# Copies and memsets that a recorder lists as kernels, by exact name.
_EXPLICIT = re.compile(
    r"\[?CUDA mem(?:cpy|set)(?: \w+)?\]?|__amd_rocclr_(?:copy|fill)Buffer\w*", re.IGNORECASE
)
_COPY_LIKE = re.compile(r"copy|memcpy|slice|transpose|concat|gather|scatter|\bpad", re.IGNORECASE)


def kinds(
    names: Sequence[str],
    collective: re.Pattern[str] | None = None,
    not_compute: re.Pattern[str] | None = None,
) -> NDArray[np.int8]:
    """Classify kernel names.

    Parameters
    ----------
    names : sequence of str
        Distinct names.
    collective : pattern, optional
        Names to take for collectives as well; searched for anywhere in the name.
    not_compute : pattern, optional
        Names to take for ``other`` that would be compute.

    Returns
    -------
    int8 array, shape (len(names),)
        Index into `KINDS`.
    """

    def kind(name: str) -> int:
        if _EXPLICIT.fullmatch(name):
            return 2
        if _COLLECTIVE.search(name) or (collective and collective.search(name)):
            return 1
        return 2 if not_compute and not_compute.search(name) else 0

    return np.array([kind(name) for name in names], dtype=np.int8)


def is_copy_like(name: str) -> bool:
    """Tell whether a name suggests that the kernel moves data rather than computes."""
    return bool(_COPY_LIKE.search(name))
