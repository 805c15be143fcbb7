"""Other profilers: in this environment, and running on this machine."""

from collections.abc import Mapping
from pathlib import Path

from nsysoffload.recorders.machine.proc import text

__all__ = ["injected", "running"]

# What nsys, ncu and older profilers set for the programs they watch, and what asks for one.
_VARIABLES = (
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
    "NVPROF_ID",
    "COMPUTE_PROFILE",
    "CUDA_PROFILE",
    "KINETO_USE_DAEMON",
)
_PROGRAMS = ("nsys", "nsys-launcher", "ncu", "nvprof", "nv-hostengine", "dcgm-exporter")


def injected(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that bring a profiler into every program started here."""
    return tuple(name for name in _VARIABLES if environment.get(name, "0") not in ("", "0"))


def running(root: Path) -> tuple[str, ...]:
    """Return the names of profilers that run, of any user."""
    names = {text(path).strip() for path in (root / "proc").glob("[0-9]*/comm")}
    return tuple(name for name in _PROGRAMS if name in names)
