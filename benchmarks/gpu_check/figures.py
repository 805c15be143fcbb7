"""Figures of a recorded run, and of a pair of them, ready for JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu_check.op_classes import compared
from benchmarks.gpu_check.privacy import without_paths
from benchmarks.gpu_check.seen import seen
from benchmarks.gpu_check.steps import Measured
from nsysoffload.hardware import gpu_named
from nsysoffload.report.model import Device, PerStep, Report
from nsysoffload.trace.numerics import compare, from_manifest

__all__ = ["Recording", "expected_link", "held_against", "numerics", "run_figures", "step_ratio"]

_STEP = ("steps", "duration_ns", "period_ns", "compute_busy_ns", "recompute_ns", "idle_ns")
_COST = ("lost_ns", "stall_ns", "stall_proven_ns", "hideable_ns")
_MOVED = ("copies", "bytes", "busy_ns", "hidden_ns", "exposed_ns", "stall_ns", "overlap", "gbps")
_OVERHEAD = ("bare_step_ms", "profiled_step_ms", "overhead")
_NEEDS = ("device_need_bytes", "host_need_bytes")
_WAYS = ("h2d", "d2h")


@dataclass(frozen=True)
class Recording:
    """A run, measured or predicted: its manifest, its analysis and its rows."""

    manifest: Mapping[str, Any]
    report: Report
    rows: Measured

    @property
    def device(self) -> Device:
        """The GPU; the check uses one."""
        return self.report.devices[0]

    @property
    def step(self) -> PerStep:
        """Medians over the steps, of which a recording has to have some."""
        assert self.device.per_step is not None
        return self.device.per_step


def run_figures(run: Recording) -> dict[str, Any]:
    """Return what was measured of a run.

    Times are medians over the steps, memory is by the compiler's count and, ``peak``, by the
    allocator's of the whole process.
    """
    recording = run.manifest["recording"]
    return {
        "verdict": run.report.verdict.text,
        "steps_found_by": run.report.window.steps_found_by,
        **_of(run.step, (*_STEP, *_COST)),
        **{way: _way(run, way) for way in _WAYS},
        **{key: recording[key] for key in _OVERHEAD},
        "memory": {
            **{key: run.manifest["memory"][key] for key in _NEEDS},
            "device_peak_bytes": run.manifest["device_peak_bytes"],
        },
        "offload": run.manifest["offload"],
        "findings": [
            _of(finding, ("cause", "direction", "lost_ns_per_step", "excess_ns_per_step"))
            for finding in run.report.findings
        ],
        "warnings": [warning.code for warning in run.report.trace.warnings],
        "notes": [without_paths(note) for note in recording["notes"]],
        "seen": seen(run.rows),
    }


def _of(values: object, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: getattr(values, key) for key in keys}


def _way(run: Recording, way: str) -> dict[str, Any]:
    """Figures of the transfers of a direction; rates of runs and of lone copies are of all."""
    all_of_it = getattr(run.device.trace, way)
    return {
        **_of(getattr(run.step, way), _MOVED),
        **_of(all_of_it, ("burst_gbps", "lone_gbps")),
    }


def step_ratio(runs: Mapping[str, Recording]) -> float | None:
    """Return how long an offloaded step takes, in steps that rematerialise; None without both."""
    if {"offload", "remat"} - runs.keys():
        return None
    return round(runs["offload"].step.duration_ns / runs["remat"].step.duration_ns, 4)


def numerics(runs: Mapping[str, Recording]) -> dict[str, Any]:
    """Return whether losses and gradient norms of the two runs agree."""
    if {"offload", "remat"} - runs.keys():
        return {"agree": None, "text": "there are no two runs to compare"}
    base, other = (from_manifest(runs[name].manifest) for name in ("remat", "offload"))
    found = compare(base, other)
    return {"agree": found.agree, "text": found.text}


def expected_link(gpu: str) -> dict[str, Any] | None:
    """Return what others measured on such a GPU's host link; None where it is not known."""
    known = gpu_named(gpu)
    if known is None:
        return None
    ranges = {way: getattr(known.link, way) for way in _WAYS}
    return {
        "name": known.link.name,
        "peak_gbps": known.link.peak_gbps,
        **{f"{way}_gbps": [each.low_gbps, each.high_gbps] for way, each in ranges.items()},
    }


def held_against(run: Recording, predicted: Recording) -> dict[str, Any]:
    """Hold the prediction of a run against it.

    Returns
    -------
    dict
        ``step``: the measured time and the predicted range; ``overlap`` by direction; ``memory``
        by either compiler; and what `op_classes.compared` returns.
    """
    span, memory = predicted.report.range, predicted.report.memory
    needs = run.manifest["memory"]
    return {
        "step": {
            "measured_ns": run.step.duration_ns,
            "predicted_ns": predicted.step.duration_ns,
            "low_ns": span.low_ns if span else None,
            "high_ns": span.high_ns if span else None,
        },
        "overlap": {
            way: {
                "measured": getattr(run.step, way).overlap,
                "predicted": getattr(predicted.step, way).overlap,
            }
            for way in _WAYS
        },
        "memory": {
            "measured": {key: needs[key] for key in _NEEDS},
            "predicted": {
                "device_need_bytes": memory.device_bytes if memory else None,
                "host_need_bytes": memory.host_bytes if memory else None,
            },
        },
        **compared(run.rows, predicted.rows),
    }
