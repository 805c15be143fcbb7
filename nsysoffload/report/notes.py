"""What the trace cannot tell, as warnings of the report."""

import re
from collections.abc import Sequence

import pandas as pd

from nsysoffload.diagnosis.examine import Examined
from nsysoffload.hardware import gpu_named
from nsysoffload.overlap.transfers import DeviceOverlap
from nsysoffload.report.model import Warning_
from nsysoffload.timeline.coverage import names_matching
from nsysoffload.timeline.steps import OUTSIDE
from nsysoffload.timeline.timeline import Timeline
from nsysoffload.trace.schema import CopyKind
from nsysoffload.trace.tables import Trace

__all__ = ["step_warnings", "warnings_of"]

_PAGE_LOCKING = re.compile(
    r"cu(?:da)?(?:MemHostAlloc|MemAllocHost|HostAlloc|MallocHost|MemHostRegister|HostRegister)\w*"
)
_COHERENT = "NVLink-C2C"
_STEPS_NAMED = 8


def warnings_of(
    timeline: Timeline, overlaps: Sequence[DeviceOverlap], window: tuple[int, int] | None
) -> tuple[Warning_, ...]:
    """Collect the warnings of reading and ordering, and add what is absent from the trace."""
    said = [Warning_(w.code, w.message) for w in (*timeline.trace.warnings, *timeline.warnings)]
    trace = timeline.trace
    return tuple(
        [
            *said,
            *_prediction(trace),
            *_missing_rows(trace),
            *_direct_access(trace, overlaps),
            *_unknown_copies(trace),
            *_devices(timeline),
            *_clamped(overlaps, window),
        ]
    )


def _prediction(trace: Trace) -> list[Warning_]:
    made = trace.source.prediction
    return [Warning_("prediction", message) for message in made.warnings] if made else []


def _missing_rows(trace: Trace) -> list[Warning_]:
    texts = {
        "kernels": (
            "no_kernels",
            "No kernel was recorded, so it cannot be told what ran beside the transfers.",
        ),
        "calls": (
            "no_api_calls",
            "No CUDA API call was recorded, so GPU rows cannot be checked against their calls.",
        ),
        "nvtx_ranges": (
            "no_step_markers",
            "No NVTX range was recorded: there are no step markers, the whole window is analysed.",
        ),
    }
    return [Warning_(*texts[name]) for name in texts if name in trace.absent]


def _direct_access(trace: Trace, overlaps: Sequence[DeviceOverlap]) -> list[Warning_]:
    """Say that no copies is not no traffic: kernels can read host memory themselves."""
    copies = sum(len(o.device.transfers) for o in overlaps)
    kernels = sum(o.kernel_count for o in overlaps)
    if copies or not kernels or trace.source.kind == "predicted":
        return []
    locked = int(names_matching(trace.calls["name"], _PAGE_LOCKING).sum())
    gpus = [gpu_named(name) for name in trace.gpus["name"]]
    reasons = []
    if locked:
        reasons.append(f"{locked:,} calls page-locked host memory")
    if any(gpu and gpu.link.name == _COHERENT for gpu in gpus):
        reasons.append(f"the GPU reaches host memory coherently over {_COHERENT}")
    because = f" ({' and '.join(reasons)})" if reasons else ""
    message = (
        "No host copy was recorded, which does not mean that no data moved: kernels that access"
        f" host memory directly{because} leave no copy in a trace; GPU metrics of the link"
        " (--gpu-metrics-devices) would show that traffic."
    )
    return [Warning_("no_transfers", message)]


def _unknown_copies(trace: Trace) -> list[Warning_]:
    known = [int(kind) for kind in CopyKind if kind is not CopyKind.UNKNOWN]
    unknown = int((~trace.copies["copy_kind"].isin(known)).sum())
    if not unknown:
        return []
    message = (
        f"{unknown:,} copies are of an unknown kind and are counted as neither host-to-device nor"
        " device-to-host."
    )
    return [Warning_("unknown_copy_kinds", message)]


def _devices(timeline: Timeline) -> list[Warning_]:
    notes = []
    for device in timeline.devices:
        label = _label(timeline.trace.gpus, device.number)
        if device.doubt:
            notes.append(Warning_("doubtful_clocks", f"{label}: {device.doubt}."))
        if not device.kernels.empty and not (device.kernels["kind"] == "compute").any():
            message = f"{label}: no kernel counts as compute, so nothing can be hidden."
            notes.append(Warning_("no_compute", message))
        engines = timeline.trace.gpus["copy_engines"][device.number]
        if engines == 1 and len(set(device.transfers["direction"])) > 1:
            message = (
                f"{label} has one copy engine: its two directions cannot run at the same time."
            )
            notes.append(Warning_("one_copy_engine", message))
    return notes


def _label(gpus: pd.DataFrame, number: int) -> str:
    ordinal = gpus["ordinal"][number]
    shared = (gpus["ordinal"] == ordinal).sum() > 1
    return f"GPU {ordinal} (pid {gpus['pid'][number]})" if shared else f"GPU {ordinal}"


def _clamped(overlaps: Sequence[DeviceOverlap], window: tuple[int, int] | None) -> list[Warning_]:
    if window is None or all(overlap.window == window for overlap in overlaps):
        return []
    message = (
        "The window was cut on each device to what was recorded there: time before the first row"
        " and after the last was not observed."
    )
    return [Warning_("window_clamped", message)]


def step_warnings(devices: Sequence[tuple[str, Examined]]) -> tuple[Warning_, ...]:
    """Say which steps were left out and why, once for devices of which the same is to be said."""
    said: dict[str, Warning_] = {}
    for _, device in devices:
        steps = device.steps
        if not len(steps):
            cut = all(reason == OUTSIDE for _, reason in steps.left_out)
            remedy = "widen --window" if cut else "record whole steps, or lower --skip-steps"
            message = (
                f"Steps were found and none counts ({_reasons(steps.left_out)}), so nothing is said"
                f" per step; {remedy}."
                if steps.left_out
                else "Step markers were found and no GPU row belongs to any, so there are 0 whole"
                " steps; record while steps run."
            )
            said.setdefault(message, Warning_("no_whole_step", message))
            continue
        reasons: dict[str, list[int]] = {}
        for number, reason in steps.left_out:
            reasons.setdefault(reason, []).append(number)
        for reason, numbers in reasons.items():
            message = f"{_steps(numbers)} left out: {reason}."
            said.setdefault(message, Warning_("steps_left_out", message))
    return tuple(said.values())


def _reasons(left_out: Sequence[tuple[int, str]]) -> str:
    return ", ".join(dict.fromkeys(reason for _, reason in left_out))


def _steps(numbers: Sequence[int]) -> str:
    """Name steps by number, a few at most."""
    named = ", ".join(str(number) for number in numbers[:_STEPS_NAMED])
    more = f" and {len(numbers) - _STEPS_NAMED} more" if len(numbers) > _STEPS_NAMED else ""
    return f"Step{'s' * (len(numbers) > 1)} {named}{more} {'were' if len(numbers) > 1 else 'was'}"
