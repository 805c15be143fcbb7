"""What JAX sees of the GPU, or how fast its host link is, printed as JSON.

``python -m benchmarks.gpu_check.device facts|link`` is a process of its own, that the memory it
takes is given back.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

__all__ = ["SIZES", "facts", "link"]

SIZES = tuple(size << 20 for size in (64, 128, 256, 512, 1024))
"""Bytes of the copies."""

REPEATS = 5
_SHARE = 4  # of the memory; two copies of the data are in it at a time


def facts() -> dict[str, Any]:
    """Return the first device's name and platform, and how much memory JAX may use."""
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    return {
        "name": device.device_kind,
        "platform": device.platform,
        "memory_bytes": stats.get("bytes_limit"),
    }


def link(sizes: Sequence[int], memory_bytes: int | None) -> list[dict[str, Any]]:
    """Time copies of arrays between the device and pinned host memory, each the best of several.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of the arrays; those that take too much of the memory are left out.
    memory_bytes : int or None
        Memory that JAX may use.
    """
    device = jax.devices()[0]
    near, far = (
        SingleDeviceSharding(device, memory_kind=kind) for kind in ("device", "pinned_host")
    )
    fitting = [size for size in sizes if memory_bytes is None or size <= memory_bytes // _SHARE]
    measured = []
    for size in fitting:
        here = jax.block_until_ready(jax.device_put(np.zeros(size, np.uint8), near))
        there = jax.block_until_ready(jax.device_put(here, far))
        measured.append(
            {
                "bytes": size,
                "h2d_gbps": round(size / _best_ns(there, near), 2),
                "d2h_gbps": round(size / _best_ns(here, far), 2),
            }
        )
    return measured


def _best_ns(array: jax.Array, to: SingleDeviceSharding) -> int:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter_ns()
        jax.block_until_ready(jax.device_put(array, to))
        times.append(time.perf_counter_ns() - began)
    return min(times)


def main(what: str) -> None:
    """Print ``facts``, or the rates of the ``link``."""
    found = facts()
    print(json.dumps(found if what == "facts" else link(SIZES, found["memory_bytes"])))


if __name__ == "__main__":
    main(sys.argv[1])
