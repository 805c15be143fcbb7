"""A recorded trace put in order, with the steps of its GPU."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nsysoffload.analysis import load
from nsysoffload.errors import TraceError
from nsysoffload.timeline.steps import StepRule, Steps, find_steps
from nsysoffload.timeline.timeline import DeviceTimeline, Timeline, build
from nsysoffload.trace.tables import Trace

__all__ = ["Measured", "measured"]


@dataclass(frozen=True)
class Measured:
    """What one GPU did, step by step; the check uses one."""

    timeline: Timeline
    device: DeviceTimeline
    steps: Steps

    def gpu_rows(self) -> pd.DataFrame:
        """Return where and when of everything that ran on the GPU."""
        frames = [self.device.kernels, self.device.transfers, self.device.rest]
        columns = ["process", "context", "stream", "start_ns", "end_ns", "call"]
        return pd.concat([frame[columns] for frame in frames], ignore_index=True)


def measured(trace: Path | Trace) -> Measured:
    """Put a trace or the one in a run folder in order.

    Raises
    ------
    TraceError
        If it holds no row of a GPU that can be believed.
    """
    timeline = build(trace if isinstance(trace, Trace) else load(trace))
    if not timeline.devices:
        raise TraceError("The trace holds no GPU row that can be believed; record again.")
    device = timeline.devices[0]
    return Measured(timeline, device, find_steps(timeline, device, device.recorded, StepRule()))
