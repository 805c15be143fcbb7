"""Whether a recording is what it seems: GPU rows, whole steps and offloaded bytes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nsysoffload.analysis import analyze
from nsysoffload.errors import TraceError, UsageError
from nsysoffload.recorders.measured.failures import Failure
from nsysoffload.recorders.measured.request import Request
from nsysoffload.recorders.variants import ALONE, Variant
from nsysoffload.report.expected import judged_report
from nsysoffload.report.model import Report
from nsysoffload.trace.workload import is_offload

__all__ = ["Unfit", "analyzed", "expected_bytes", "notes_on", "read_manifest"]

_HOLE = "process_without_gpu_rows"
_NO_MARKS = "window"
_BLIND = (
    "see nsysoffload doctor for what is in the way: another profiler, or an nsys and a driver of "
    "different age."
)


class Unfit(Exception):
    """A trace is not what it seems; says why."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.text)


def analyzed(export: Path, request: Request) -> Report:
    """Analyse what was recorded.

    Raises
    ------
    Unfit
        If there is no kernel in it, no step where some are named, or a process whose launches left
        no GPU row.
    """
    try:
        # Every step counts here, warm-up or not: they are to be there.
        report = analyze(
            export,
            step_range=request.step_range,
            step_kernel=request.step_kernel,
            skip_steps=0,
        )
    except UsageError as error:  # no step is marked as the patterns say
        raise Unfit(Failure("steps_missing", _small(str(error)))) from error
    except TraceError as error:
        held = str(error).partition(", only ")[2].partition(";")[0] or "nothing of CUDA"
        lacks = "launches but no kernels" if "CUDA API" in held else "no GPU work"
        text = f"the recording holds {lacks} ({held}); {_BLIND}"
        raise Unfit(Failure("no_kernels", text)) from error
    if not report.total.kernels:
        text = f"the recording holds GPU work but no kernels; {_BLIND}"
        raise Unfit(Failure("no_kernels", text))
    for warning in report.trace.warnings:
        if warning.code == _HOLE:
            text = (
                f"a process was not recorded: {warning.message.rstrip('.')}; start workers by "
                "spawn instead of fork, or try --nsys-args --trace-fork-before-exec=true."
            )
            raise Unfit(Failure("hole", text))  # which no other way of tracing fills
    return report


def _small(sentence: str) -> str:
    """Return a sentence as one that goes on after a colon."""
    first, rest = sentence[:1], sentence[1:]
    return sentence if rest[:1].isupper() else first.lower() + rest


def notes_on(
    report: Report, request: Request, variant: Variant, manifest: Mapping[str, Any]
) -> list[str]:
    """Check steps and bytes; return what is to be noted although it passes.

    Parameters
    ----------
    report : Report
        Of `analyzed`.
    request : Request
        What was asked for.
    variant : Variant
        What was recorded.
    manifest : mapping
        What the workload wrote; empty for another command.

    Raises
    ------
    Unfit
        If whole steps are missing, or what is to be offloaded is not.
    """
    return [*_steps(report, request), *_bytes(report, request, variant, manifest)]


def _steps(report: Report, request: Request) -> list[str]:
    unmarked = report.window.steps_found_by == _NO_MARKS
    if unmarked and request.workload is None:
        return [
            "The command marks no steps, so it is not checked how many were recorded; name their "
            "NVTX range with --step-range."
        ]
    whole = 0 if unmarked else min(len(device.steps) for device in report.devices)
    if whole < request.steps:
        text = (
            f"the recording holds {whole} whole steps instead of {request.steps}; record from a "
            "wait before the first to a wait after the last of them."
        )
        raise Unfit(Failure("steps_missing", text))
    return []


def _bytes(
    report: Report, request: Request, variant: Variant, manifest: Mapping[str, Any]
) -> list[str]:
    offload = manifest.get("offload") or {}
    if offload.get("in_effect") is False:
        where = "on the CPU there is none, so run it on a GPU"
        if manifest.get("backend") != "cpu":
            where = "see whether its policy names values that the model has"
        text = f"offload is not in effect, for the compiled step uses no host memory; {where}."
        raise Unfit(Failure("offload_missing", text))
    declared = sum((offload.get("declared_bytes") or {}).values())
    expected = expected_bytes(request, variant, manifest) or declared
    if not expected:
        return []
    found = judged_report(report, expected)
    if found.state == "problem":
        raise Unfit(Failure("offload_missing", found.text))
    return [found.text] if found.state == "warning" else []


def expected_bytes(request: Request, variant: Variant, manifest: Mapping[str, Any]) -> int | None:
    """Return the bytes that were asked to be offloaded; None for a variant that is to offload none.

    Parameters
    ----------
    request, variant, manifest
        As for `notes_on`.
    """
    offloads = is_offload(variant.name) or variant.name.startswith(ALONE)
    if manifest:
        offloads = manifest.get("offload") is not None
    return request.expect_offload if offloads else None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest that a workload wrote into a folder; empty if there is none."""
    path = folder / "manifest.json"
    if not path.is_file():
        return {}
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return manifest
