"""The report: dataclasses whose fields are the JSON keys of schema ``nsysoffload/1``.

Every renderer draws from this model and computes nothing, so HTML, Markdown, JSON and terminal
cannot disagree. Times are integer nanoseconds on the trace's own clock, sizes are bytes,
bandwidths are decimal GB/s, which is bytes per nanosecond. ``None`` means that the trace cannot
tell, and the field beside it says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nsysoffload.overlap.link import SizeClass
from nsysoffload.report.lanes import Lane
from nsysoffload.trace.prediction import Constant, Corner, Memory, Prediction, Range

__all__ = [
    "SCHEMA",
    "Both",
    "Constant",
    "Copy",
    "Corner",
    "Device",
    "DeviceTrace",
    "Direction",
    "Kernel",
    "Link",
    "Memory",
    "Migrations",
    "Prediction",
    "Range",
    "Rank",
    "Report",
    "SizeClass",
    "Tool",
    "Total",
    "TraceInfo",
    "Verdict",
    "Warning_",
    "Window",
]

SCHEMA = "nsysoffload/1"


@dataclass(frozen=True)
class Tool:
    """What wrote the report, and the options that were not left at their defaults."""

    name: str
    version: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, and as a word for scripts.

    ``outcome`` is ``hidden`` (overlap of 95 % or more), ``partly_hidden``, ``exposed`` (under
    5 %), ``no_transfers`` or ``cannot_tell``.
    """

    text: str
    outcome: str


@dataclass(frozen=True)
class Warning_:
    """Something the trace cannot tell, or a reason to doubt it."""

    code: str
    message: str


@dataclass(frozen=True)
class TraceInfo:
    """Where the rows came from. ``file`` is a base name."""

    file: str
    kind: str
    recorder: str
    nsys_version: str | None
    export_schema: str | None
    warnings: tuple[Warning_, ...]


@dataclass(frozen=True)
class Window:
    """The part of the recording that was analysed; the hull over all devices."""

    source: str
    start_ns: int
    end_ns: int
    steps_found_by: str | None = None
    skipped_steps: int | None = None


@dataclass(frozen=True)
class Direction:
    """Transfers of one direction on one device: ``hidden_ns + exposed_ns == busy_ns``.

    ``sum_ns`` adds durations, ``busy_ns`` is the length of their union.
    ``hidden_by_collectives_ns`` and ``undetermined_ns`` (under a CUDA graph traced as a whole) are
    parts of ``exposed_ns``. ``gbps`` is bytes over ``sum_ns``, ``burst_gbps`` bytes over the time
    from the first to the last copy of each run without a kernel start in it, ``lone_gbps`` the
    fastest pinned copy of at least 16 MiB that ran with nothing beside it.
    """

    copies: int
    bytes: int | None
    sum_ns: int
    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    hidden_by_collectives_ns: int
    undetermined_ns: int
    overlap: float | None
    overlap_null_reason: str | None
    gbps: float | None
    burst_gbps: float | None
    lone_gbps: float | None
    sizes: tuple[SizeClass, ...]


@dataclass(frozen=True)
class Both:
    """Both directions together: the union, not the sum. ``concurrent_ns``: both ran at once."""

    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    hidden_by_collectives_ns: int
    undetermined_ns: int
    concurrent_ns: int
    overlap: float | None
    overlap_null_reason: str | None


@dataclass(frozen=True)
class Migrations:
    """Unified-memory migrations of one direction, counted apart from transfers."""

    copies: int
    bytes: int


@dataclass(frozen=True)
class DeviceTrace:
    """What one device did in the window. ``other_busy_ns``: memsets and copies on the device."""

    window_start_ns: int
    window_end_ns: int
    window_ns: int
    kernels: int
    compute_busy_ns: int
    collective_busy_ns: int
    other_busy_ns: int
    idle_ns: int
    h2d: Direction
    d2h: Direction
    both: Both
    um_h2d: Migrations
    um_d2h: Migrations


@dataclass(frozen=True)
class Link:
    """The host link of a device: its peak, and what others measured, per direction.

    ``h2d_gbps`` and ``d2h_gbps`` are ``(low, high)``. ``h2d_verdict`` and ``d2h_verdict`` place
    ``lone_gbps`` against that range: ``below`` three quarters of its low end, ``above`` its high
    end, ``within`` between, or ``None`` where the trace has no such copy.
    """

    name: str
    peak_gbps: float
    h2d_gbps: tuple[float, float]
    d2h_gbps: tuple[float, float]
    h2d_verdict: str | None
    d2h_verdict: str | None
    source: str


@dataclass(frozen=True)
class Device:
    """One GPU. ``steps`` and ``per_step`` are ``None`` where no training step was looked for."""

    id: str
    ordinal: int
    pid: int | None
    name: str | None
    uuid: str | None
    copy_engines: int | None
    link: Link | None
    trace: DeviceTrace
    steps: None = None
    per_step: None = None


@dataclass(frozen=True)
class Total:
    """All devices: integers are added over devices, ``overlap`` is hidden over busy of the sums."""

    devices: int
    kernels: int
    compute_busy_ns: int
    collective_busy_ns: int
    h2d: Direction
    d2h: Direction
    both: Both


@dataclass(frozen=True)
class Copy:
    """One transfer, named by its row in the export, so that it can be looked up.

    ``gbps`` is ``None`` for a copy without length. ``host`` is ``pinned``, ``pageable`` or
    ``unknown``.
    """

    device: str
    direction: str
    row_id: int | None
    stream: int | None
    host: str
    start_ns: int
    end_ns: int
    bytes: int | None
    hidden_ns: int
    exposed_ns: int
    gbps: float | None


@dataclass(frozen=True)
class Kernel:
    """All kernels of one name, over all devices.

    ``class_`` is ``compute``, ``collective`` or ``other`` (explicit copies by name). ``busy_ns``
    adds the union of its rows on each device. ``copy_like`` marks compute kernels whose names
    suggest that they move data.
    """

    name: str
    class_: str
    count: int
    busy_ns: int
    copy_like: bool


@dataclass(frozen=True)
class Rank:
    """One of several traces: its figures over all its devices. The report details the slowest."""

    file: str
    window_ns: int
    devices: int
    kernels: int
    compute_busy_ns: int
    busy_ns: int
    exposed_ns: int
    overlap: float | None
    overlap_null_reason: str | None
    warnings: int


@dataclass(frozen=True)
class Report:
    """The whole report. Fields that later measurements fill are ``None``."""

    tool: Tool
    verdict: Verdict
    trace: TraceInfo
    window: Window
    devices: tuple[Device, ...]
    total: Total
    worst_copies: tuple[Copy, ...]
    kernels: tuple[Kernel, ...]
    ranks: tuple[Rank, ...] | None = None
    transfers: None = None
    findings: None = None
    contention: None = None
    memory: Memory | None = None
    range: Range | None = None
    prediction: Prediction | None = None
    gates: None = None
    schema: str = SCHEMA
    lanes: tuple[Lane, ...] = field(default=(), metadata={"json": False}, compare=False)
    """Marks of the timeline, for the HTML page only; not part of the JSON."""
