"""Planted faults: train steps in which one thing goes wrong, with what it truly costs.

`PLANTS` makes the trace of a fault by the name of its cause; `matrix` lists settings for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nsysoffload.recorders.predict.faults import excess, lost
from nsysoffload.recorders.predict.faults.planted import Plant, Planted

__all__ = ["PLANTS", "Planted", "Setting", "matrix"]

PLANTS: Mapping[str, Plant] = {
    **{name: getattr(lost, name) for name in lost.__all__},
    **{name: getattr(excess, name) for name in excess.__all__},
}
"""Functions that plant a fault, by the name of its cause."""

_SETTINGS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "pageable_memory": (
        {"direction": "d2h", "size_mib": 64},
        {"direction": "h2d", "size_mib": 128, "layers": 2},
        {"direction": "d2h", "size_mib": 32, "layers": 8, "gbps": 10.0},
        {"direction": "h2d", "size_mib": 64, "early_call": False},
    ),
    "same_stream": (
        {"direction": "d2h", "size_mib": 64},
        {"direction": "h2d", "size_mib": 128, "layers": 2},
        {"direction": "d2h", "size_mib": 256, "layers": 8},
    ),
    "shared_copy_stream": (
        {"phase": "backward", "ahead_mib": 256, "size_mib": 64},
        {"phase": "forward", "ahead_mib": 128, "size_mib": 128, "layers": 2},
        {"phase": "backward", "ahead_mib": 512, "size_mib": 32, "layers": 6},
    ),
    "queued_behind_copy": (
        {"copies": 8, "ahead_mib": 32, "size_kib": 4},
        {"copies": 4, "ahead_mib": 128, "size_kib": 1024, "layers": 2},
        {"phase": "forward", "copies": 16, "ahead_mib": 32, "size_kib": 16, "layers": 6},
    ),
    "small_copies": (
        {"copies": 200, "size_kib": 8},
        {"copies": 100, "size_kib": 16, "layers": 4},
        {"phase": "forward", "copies": 300, "size_kib": 4, "launch_ns": 4_000},
    ),
    "staging_gaps": (
        {"direction": "d2h", "copies": 8, "size_mib": 64, "gap_ns": 15_000_000},
        {"direction": "h2d", "copies": 5, "size_mib": 128, "gap_ns": 30_000_000},
        {"direction": "d2h", "copies": 12, "size_mib": 32, "gap_ns": 8_000_000, "layers": 2},
    ),
    "transfer_bound": (
        {"direction": "h2d", "size_mib": 256},
        {"direction": "d2h", "size_mib": 512, "layers": 8},
        {"direction": "h2d", "size_mib": 192, "layers": 32},
    ),
    "step_boundary": (
        {"where": "before", "size_mib": 256},
        {"where": "after", "size_mib": 256},
        {"where": "before", "size_mib": 1024, "layers": 8},
        {"where": "after", "size_mib": 64, "layers": 2},
    ),
    "issued_too_late": (
        {"direction": "h2d", "size_mib": 64},
        {"direction": "h2d", "size_mib": 64, "has_events": False},
        {"direction": "h2d", "size_mib": 256, "layers": 2},
        {"direction": "d2h", "size_mib": 128, "layers": 8},
    ),
    "collective_only": (
        {"phase": "forward", "duration_ns": 500_000},
        {"phase": "backward", "duration_ns": 1_500_000, "layers": 2},
        {"phase": "forward", "duration_ns": 200_000, "layers": 8, "stream": "compute"},
    ),
    "pinned_allocation": (
        {"call": "cuMemHostAlloc", "duration_ns": 800_000},
        {"call": "cudaHostAlloc", "duration_ns": 3_000_000, "layers": 2},
        {"call": "cudaMallocHost", "phase": "backward", "duration_ns": 500_000},
        {"call": "cudaHostRegister", "duration_ns": 1_200_000, "layers": 8},
        {"call": "cuMemFreeHost", "phase": "backward", "duration_ns": 600_000},
    ),
    "host_callback": (
        {"phase": "forward", "duration_ns": 500_000},
        {"phase": "backward", "duration_ns": 2_000_000, "layers": 2},
        {"phase": "forward", "duration_ns": 150_000, "layers": 8},
    ),
    "host_sync": (
        {"call": "cuStreamSynchronize", "direction": "d2h", "wake_up_ns": 800_000},
        {"call": "cuStreamSynchronize", "direction": "h2d", "wake_up_ns": 2_000_000, "layers": 2},
        {"call": "cudaStreamSynchronize", "direction": "d2h", "wake_up_ns": 500_000, "layers": 8},
    ),
    "host_gap": (
        {"phase": "forward", "late_ns": 500_000},
        {"phase": "backward", "late_ns": 2_000_000, "layers": 2},
        {"phase": "forward", "late_ns": 200_000, "layers": 8},
    ),
    "remote_numa": (
        {"directions": ("h2d", "d2h"), "gbps": 100.0},
        {"directions": ("h2d",), "gbps": 80.0, "size_mib": 256},
        {"directions": ("d2h",), "gbps": 60.0, "count": 4},
        {"directions": ("h2d", "d2h"), "gbps": 115.0, "size_mib": 1024, "count": 1},
        {"directions": ("h2d",), "gbps": 120.0, "size_mib": 512, "gpu": "NVIDIA GH200 120GB"},
    ),
    "starved": (
        {"direction": "d2h", "size_mib": 64, "slowdown": 5.0},
        {"direction": "h2d", "size_mib": 128, "slowdown": 10.0, "layers": 2},
        {"direction": "h2d", "size_mib": 64, "slowdown": 3.0, "layers": 8},
    ),
    "compute_contention": (
        {"direction": "d2h", "stretch": 1.4},
        {"direction": "h2d", "stretch": 2.0, "kernels": 3},
        {"direction": "d2h", "stretch": 1.25, "kernels": 6, "layers": 4},
    ),
    "bidirectional_contention": (
        {"size_mib": 128, "both_ways": 0.6},
        {"size_mib": 256, "both_ways": 0.5, "layers": 4},
        {"size_mib": 64, "both_ways": 0.7, "layers": 8},
    ),
}


@dataclass(frozen=True)
class Setting:
    """A fault and how to plant it; ``str`` of it is short and names it."""

    cause: str
    parameters: Mapping[str, Any]

    def plant(self) -> Planted:
        """Return the planted fault."""
        return PLANTS[self.cause](**self.parameters)

    def __str__(self) -> str:
        """Show the cause and the parameters."""
        return "-".join([self.cause, *(str(value) for value in self.parameters.values())])


def matrix() -> list[Setting]:
    """Return settings of all faults, three or more of each; nothing is planted yet."""
    return [
        Setting(cause, parameters)
        for cause, settings in _SETTINGS.items()
        for parameters in settings
    ]
