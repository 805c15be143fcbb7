"""From a trace in memory to what is known of its devices, without a file in between."""

from nsysoffload.diagnosis.examine import Examined, examine
from nsysoffload.hardware import HostLink, gpu_named
from nsysoffload.overlap.transfers import measure
from nsysoffload.report.compose import compose
from nsysoffload.report.model import Report
from nsysoffload.timeline.steps import StepRule, find_steps
from nsysoffload.timeline.timeline import Timeline, build
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import Trace

ALL_STEPS = StepRule(skip=0)


def link_of(timeline: Timeline) -> HostLink | None:
    gpu = gpu_named(timeline.trace.gpus["name"].iloc[0])
    return gpu.link if gpu else None


def everything(trace: Trace, rule: StepRule = ALL_STEPS) -> tuple[Timeline, list[Examined]]:
    """Examine all devices of a trace over all that was recorded."""
    timeline = build(trace)
    overlaps = [measure(device, None) for device in timeline.devices]
    link = link_of(timeline)
    return timeline, [
        examine(timeline, o, find_steps(timeline, o.device, o.window, rule), link) for o in overlaps
    ]


def examined(trace: TraceBuilder, rule: StepRule = ALL_STEPS) -> Examined:
    """Examine the first device of a trace."""
    return everything(trace.build(), rule)[1][0]


def report_of(trace: Trace, rule: StepRule = ALL_STEPS) -> Report:
    """Return the report on a trace."""
    timeline, devices = everything(trace, rule)
    return compose(timeline, devices, None, {})
