"""A report as one run of a comparison."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysoffload.comparison.model import Run
from nsysoffload.report.model import Device, Memory, Report, Step
from nsysoffload.report.verdict import slowest
from nsysoffload.trace.workload import Workload

__all__ = ["Subject", "summary"]


@dataclass(frozen=True)
class Subject:
    """A report with the name that its run has here."""

    name: str
    report: Report

    @property
    def spoken(self) -> str:
        """Return its name as it stands in a sentence, in which the policy none is no word."""
        return f"'{self.name}'" if self.name == "none" else self.name

    @property
    def device(self) -> Device | None:
        """Return the device that speaks for the run: the slowest, where it has steps."""
        if self.report.window.steps_found_by == "window":
            return None
        return slowest(self.report.devices)

    @property
    def steps(self) -> Sequence[Step]:
        """Return the steps of that device that are not far off."""
        device = self.device
        return [step for step in device.steps if not step.outlier] if device else []

    @property
    def step_ns(self) -> int | None:
        """Return the median step of that device."""
        device = self.device
        return device.per_step.duration_ns if device and device.per_step else None

    @property
    def workload(self) -> Workload | None:
        """Return what was trained, where that is known."""
        said = self.report.prediction or self.report.recording
        return said.workload if said else None

    @property
    def variant(self) -> str | None:
        """Return the policy of the run, where that is known."""
        said = self.report.prediction or self.report.recording
        return (said.variant or None) if said else None

    @property
    def predicted(self) -> bool:
        """Tell whether its times are modelled."""
        return self.report.trace.kind == "predicted"


def summary(subject: Subject, *, best: bool) -> Run:
    """Return what a comparison shows of a run."""
    report, device, workload = subject.report, subject.device, subject.workload
    trace, memory, step_ns = report.trace, report.memory, subject.step_ns
    per_step = device.per_step if device else None
    low_ns, high_ns = _spread(subject)
    limit = memory.device_limit_bytes if isinstance(memory, Memory) else None
    tokens = workload.tokens if workload else None
    return Run(
        name=subject.name,
        kind=trace.kind,
        recorder=trace.recorder,
        nsys_version=trace.nsys_version,
        export_schema=trace.export_schema,
        file=trace.file,
        variant=subject.variant,
        workload=workload,
        devices=report.prediction.devices if report.prediction else len(report.devices),
        gpu=device.name if device else next((d.name for d in report.devices), None),
        device=device.id if device else None,
        steps=per_step.steps if per_step else 0,
        outliers=len(per_step.outliers) if per_step else 0,
        step_ns=step_ns,
        step_low_ns=low_ns,
        step_high_ns=high_ns,
        tokens_per_s=tokens * 1e9 / step_ns if tokens and step_ns else None,
        device_bytes=memory.device_bytes if memory else None,
        host_bytes=memory.host_bytes if memory else None,
        device_peak_bytes=getattr(memory, "device_peak_bytes", None),
        device_limit_bytes=limit,
        fits=memory.device_bytes <= limit if memory and limit else None,
        best=best,
        warnings=trace.warnings,
    )


def _spread(subject: Subject) -> tuple[int | None, int | None]:
    """Return quarters of the steps; of a predicted run the range of the model."""
    if subject.report.range:
        return subject.report.range.low_ns, subject.report.range.high_ns
    durations = [step.duration_ns for step in subject.device.steps] if subject.device else []
    if len(durations) < 2:
        return None, None
    low, high = np.percentile(durations, [25, 75])
    return int(low), int(high)
