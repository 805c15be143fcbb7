"""What a profiler sees of a run: ranges on the host, and a switch that says when to record.

::

    data | train_step                | data | train_step                |
         |   dispatch | wait         |      |   dispatch | wait         |

Ranges of the `nvtx` package show in Nsight Systems, those of `jax.profiler` in profiles of its own,
so there are both. Each carries the step's index: nsysoffload finds steps by ranges named `STEP`,
all by the same name.
"""

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import nvtx
from jax.profiler import StepTraceAnnotation, TraceAnnotation

__all__ = ["DATA", "DISPATCH", "STEP", "WAIT", "CudaSwitch", "Switch", "cuda_runtime", "span"]

STEP = "train_step"
DATA = "data"
DISPATCH = "dispatch"
WAIT = "wait"

_MAPS = Path("/proc/self/maps")


@contextmanager
def span(name: str, step: int) -> Iterator[None]:
    """Context that is one range; it costs next to nothing where nobody listens."""
    annotation = StepTraceAnnotation if name == STEP else TraceAnnotation
    with nvtx.annotate(name, payload=step), annotation(name, step_num=step):
        yield


class Switch(Protocol):
    """Tells a profiler when to record."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """Stop recording."""


@dataclass(frozen=True)
class CudaSwitch:
    """Tells a profiler that waits for it, such as ``nsys profile -c cudaProfilerApi``.

    Attributes
    ----------
    runtime : ctypes.CDLL or None
        The CUDA runtime; without one nothing is switched.
    note : function
        Takes a sentence when CUDA refuses.
    """

    runtime: ctypes.CDLL | None
    note: Callable[[str], None]

    def start(self) -> None:
        """Begin to record."""
        self._call("cudaProfilerStart")

    def stop(self) -> None:
        """Stop recording."""
        self._call("cudaProfilerStop")

    def _call(self, name: str) -> None:
        error = getattr(self.runtime, name)() if self.runtime else 0
        if error:
            self.note(
                f"{name} failed with CUDA error {error}, so a profiler that waits for it does not "
                "see it; record the whole run instead."
            )


def cuda_runtime() -> ctypes.CDLL | None:
    """Return the CUDA runtime that JAX has loaded, else an installed one, else None."""
    system = ctypes.util.find_library("cudart")
    for library in (*_loaded(), *_wheels(), *filter(None, [system])):
        try:
            return ctypes.CDLL(library)
        except OSError:
            continue
    return None


def _loaded() -> list[str]:
    if not _MAPS.exists():
        return []
    lines = _MAPS.read_text().splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if "/libcudart.so" in line]


def _wheels() -> list[str]:
    """Return the runtimes of NVIDIA's packages on PyPI, the newest first."""
    spec = find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else None
    found = [path for root in roots or () for path in Path(root).glob("*/lib/libcudart.so.*")]
    return [str(path) for path in sorted(found, key=lambda path: path.name, reverse=True)]
