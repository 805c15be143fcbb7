"""The whole way from trace files to a report."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nsysoffload.diagnosis.examine import examine
from nsysoffload.errors import OffloadError, TraceError, UsageError
from nsysoffload.hardware import LINKS, HostLink, gpu_named
from nsysoffload.overlap.transfers import DeviceOverlap, measure
from nsysoffload.private.learning import private_words
from nsysoffload.private.masked import cleaned, masked
from nsysoffload.private.names import Names
from nsysoffload.processes import Progress, each
from nsysoffload.report.amounts import parse_size
from nsysoffload.report.compose import compose
from nsysoffload.report.expected import judged_report, warned
from nsysoffload.report.format import moment
from nsysoffload.report.gates import checked, parse_gates
from nsysoffload.report.model import Report
from nsysoffload.report.ranks import ranked
from nsysoffload.timeline.steps import StepRule, find_steps
from nsysoffload.timeline.timeline import DeviceTimeline, Timeline, build
from nsysoffload.trace import run_folder
from nsysoffload.trace.export import Export
from nsysoffload.trace.files import export_of, located, public
from nsysoffload.trace.reader import GPU_TABLES, read
from nsysoffload.trace.tables import Trace
from nsysoffload.window import parse_window

__all__ = [
    "NEEDED_COLUMNS",
    "NEEDED_TABLES",
    "Options",
    "analyze",
    "gated",
    "load",
    "pattern_of",
]

# What the measures need; the rest of an export is left unread.
NEEDED_TABLES = (*GPU_TABLES, "calls", "nvtx_ranges", "syncs", "events")
NEEDED_COLUMNS = {
    "calls": ("process", "correlation", "start_ns", "end_ns", "name"),
    "nvtx_ranges": ("process", "start_ns", "end_ns", "text"),
    "syncs": ("process", "context", "stream", "correlation", "event", "event_sync"),
    "events": ("process", "context", "stream", "correlation", "event", "event_sync"),
}


@dataclass(frozen=True)
class Options:
    """What was asked for beyond the defaults; see `analyze` for each."""

    window: str | None = None
    device: tuple[str, ...] = ()
    collective: str | None = None
    not_compute: str | None = None
    link: str | None = None
    step_range: str | None = None
    step_kernel: str | None = None
    skip_steps: int | None = None
    expect_offload: str | None = None
    fail_under: tuple[str, ...] = ()
    fail_over: tuple[str, ...] = ()

    def given(self) -> dict[str, object]:
        """Return the options that differ from their defaults."""
        return {name: value for name, value in vars(self).items() if value not in (None, ())}


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace into typed tables.

    Parameters
    ----------
    path : path
        SQLite export, ``.nsys-rep`` or ``.qdrep`` report (exported with nsys), or run folder.

    Raises
    ------
    TraceError
        If it cannot be read or holds no GPU activity.
    """
    trace = located(Path(path))
    with export_of(trace) as export:
        return _named(read(export), trace)


def analyze(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    window: str | tuple[int, int] | None = None,
    device: str | int | Sequence[str | int] = (),
    collective: str | None = None,
    not_compute: str | None = None,
    link: str | None = None,
    step_range: str | None = None,
    step_kernel: str | None = None,
    skip_steps: int | None = None,
    expect_offload: str | int | None = None,
    fail_under: str | Sequence[str] = (),
    fail_over: str | Sequence[str] = (),
    processes: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Measure how far transfers hide behind compute, and say why they do not.

    Parameters
    ----------
    traces : path or iterable of path
        One trace, or one per rank, or a folder that holds those of ranks, ``rank0`` and so on: then
        the report details the slowest, that is the one with the longest median step, or without
        steps the longest window, and lists all.
    window : str or tuple of int, optional
        ``A..B`` with units, or start and end in nanoseconds, on the trace's own clock; by default
        all that was recorded.
    device : str, int or sequence of them, optional
        Devices by ordinal, uuid or id; by default all.
    collective, not_compute : str, optional
        Regular expressions for kernels to count as collectives, or not as compute, as well.
    link : str, optional
        Key of `nsysoffload.hardware.LINKS`; by default the link follows from the GPU's name.
    step_range : str, optional
        Regular expression for whole names of NVTX ranges, each of which is a training step; by
        default ranges named ``train_step``, else executions of XLA's busiest module.
    step_kernel : str, optional
        Regular expression for the name of a kernel that opens each step.
    skip_steps : int, optional
        How many leading steps to leave out; by default those that are clearly warm-up.
    expect_offload : str or int, optional
        Bytes that each device should move to the host and back in a step, such as ``16GiB``; under
        half of it in either direction fails as a gate. By default what the run folder says, which
        only gives a warning.
    fail_under, fail_over : str or sequence of str, optional
        Gates, ``NAME=NUMBER``; see `nsysoffload.report.gates`. What became of them is in
        ``report.gates``.
    processes : int, optional
        How many processes share several traces; with more than one, a script guards its main
        module, as `multiprocessing` demands.
    progress : callable, optional
        Called with how much is done and how much there is to do.

    Raises
    ------
    TraceError
        If no trace can be used.
    UsageError
        If an option cannot be read or does not fit the trace.
    """
    named = [traces] if isinstance(traces, str | os.PathLike) else list(traces)
    paths = [located(trace) for path in named for trace in run_folder.rank_traces(Path(path))]
    devices = [device] if isinstance(device, str | int) else device
    options = Options(
        window=_written(window),
        device=tuple(map(str, devices)),
        collective=collective,
        not_compute=not_compute,
        link=link,
        step_range=step_range,
        step_kernel=step_kernel,
        skip_steps=skip_steps,
        expect_offload=None if expect_offload is None else str(expect_offload),
        fail_under=_several(fail_under),
        fail_over=_several(fail_over),
    )
    _check(options)
    parse_gates(options.fail_under, options.fail_over)
    if not paths:
        raise UsageError("No trace was given; name at least one.")
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("A trace is given twice; name each rank's trace once.")
    report = (
        _analyzed(paths[0], options, progress)
        if len(paths) == 1
        else ranked(paths, each(partial(_attempt, options=options), paths, processes, progress))
    )
    return gated(
        report,
        expect_offload=expect_offload,
        fail_under=options.fail_under,
        fail_over=options.fail_over,
    )


def gated(
    report: Report,
    *,
    expect_offload: str | int | None = None,
    fail_under: str | Sequence[str] = (),
    fail_over: str | Sequence[str] = (),
) -> Report:
    """Return a report with its gates, see `analyze`.

    Raises
    ------
    UsageError
        If a limit cannot be read.
    """
    limits = parse_gates(_several(fail_under), _several(fail_over))
    if expect_offload is None:
        return checked(report, limits)
    expected = judged_report(report, parse_size(str(expect_offload)))
    if expected.state == "warning":
        report = warned(report, expected)
    return checked(report, limits, expected)


# --- One trace ---


def _written(window: str | tuple[int, int] | None) -> str | None:
    if window is None or isinstance(window, str):
        return window
    start, end = window
    return f"{int(start)}ns..{int(end)}ns"


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _check(options: Options) -> None:
    """Fail on options that fit no trace, before anything is read."""
    if options.window:
        parse_window(options.window)
    for pattern in (
        options.collective,
        options.not_compute,
        options.step_range,
        options.step_kernel,
    ):
        pattern_of(pattern)
    if options.skip_steps is not None and options.skip_steps < 0:
        raise UsageError(f"{options.skip_steps} steps cannot be skipped; give 0 or more.")
    if options.expect_offload is not None:
        parse_size(options.expect_offload)
    if options.link and options.link not in LINKS:
        raise UsageError(f"Link '{options.link}' is not known; choose from {', '.join(LINKS)}.")


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    """Compile a regular expression that an option gives.

    Raises
    ------
    UsageError
        If it is none.
    """
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"'{text}' is no regular expression ({error}); correct it.") from error


def _analyzed(path: Path, options: Options, progress: Progress | None = None) -> Report:
    with export_of(path) as export:
        trace = _named(read(export, NEEDED_TABLES, NEEDED_COLUMNS, progress), path)
        names = Names(private_words(Export.open(export)))
    trace = masked(trace, names)
    timeline = build(trace, pattern_of(options.collective), pattern_of(options.not_compute))
    if not timeline.devices:
        raise TraceError(f"{path.name} holds no GPU row that can be believed; {_why(timeline)}")
    window = parse_window(options.window) if options.window else None
    overlaps = _recorded(
        [measure(device, window) for device in _chosen(timeline, options.device)], options.window
    )
    rule = StepRule(
        pattern_of(options.step_range),
        pattern_of(options.step_kernel),
        options.skip_steps,
        names.part,
    )
    examined = [
        examine(
            timeline,
            overlap,
            find_steps(timeline, overlap.device, overlap.window, rule),
            _link(timeline, overlap, options.link),
        )
        for overlap in overlaps
    ]
    run = _told(run_folder.read(path), names)
    report = compose(timeline, examined, window, options.given(), run)
    expected_bytes = run.recording and run.recording.expect_offload_bytes
    if options.expect_offload is None and expected_bytes:
        return warned(report, judged_report(report, expected_bytes))
    return report


def _told(run: run_folder.RunFolder, names: Names) -> run_folder.RunFolder:
    """Return what a folder says without private parts; its variant is the user's own name."""
    told: run_folder.RunFolder = cleaned(run, names)
    if told.recording is None or run.recording is None:
        return told
    return replace(told, recording=replace(told.recording, variant=run.recording.variant))


def _link(timeline: Timeline, overlap: DeviceOverlap, name: str | None) -> HostLink | None:
    if name:
        return LINKS[name]
    gpu = gpu_named(timeline.trace.gpus["name"].iloc[overlap.device.number])
    return gpu.link if gpu else None


def _named(trace: Trace, path: Path) -> Trace:
    return replace(trace, source=replace(trace.source, path=public(path)))


def _why(timeline: Timeline) -> str:
    reasons = [w.message for w in timeline.warnings if w.code == "rows_not_believed"]
    return reasons[0] if reasons else "record again."


def _chosen(timeline: Timeline, wanted: Sequence[str]) -> list[DeviceTimeline]:
    if not wanted:
        return list(timeline.devices)
    gpus = timeline.trace.gpus
    names = {
        device.number: device.ordinals | {gpus["id"][device.number]} for device in timeline.devices
    }
    for name in wanted:
        if not any(name.removeprefix("GPU-") in known for known in names.values()):
            present = ", ".join(dict.fromkeys(str(gpus["ordinal"][number]) for number in names))
            raise UsageError(f"Device '{name}' is not in the trace; present: {present}.")
    asked = {name.removeprefix("GPU-") for name in wanted}
    return [device for device in timeline.devices if names[device.number] & asked]


def _recorded(overlaps: Sequence[DeviceOverlap], window: str | None) -> list[DeviceOverlap]:
    """Leave out devices that were not recorded in the window; fail if nothing happened in it."""
    if window is None:
        return list(overlaps)
    if all(overlap.is_empty for overlap in overlaps):
        start = min(o.device.recorded[0] for o in overlaps)
        end = max(o.device.recorded[1] for o in overlaps)
        raise UsageError(
            f"Window {window} holds no GPU activity; the trace was recorded from"
            f" {moment(start)} to {moment(end)}."
        )
    return [o for o in overlaps if o.window[0] < o.window[1] or not o.is_empty]


def _attempt(path: Path, options: Options) -> Report | OffloadError:
    """Analyse one of several traces; what fails is returned as its error."""
    try:
        return _analyzed(path, options)
    except OffloadError as error:
        return error
