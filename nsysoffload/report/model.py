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
from nsysoffload.trace.numerics import Curve, Losses
from nsysoffload.trace.prediction import Constant, Corner, Memory, Prediction, Range
from nsysoffload.trace.run_folder import Numerics, Recording, RunMemory
from nsysoffload.trace.workload import Workload

__all__ = [
    "SCHEMA",
    "Both",
    "Constant",
    "Contention",
    "Copy",
    "Corner",
    "Curve",
    "Device",
    "DeviceTrace",
    "Direction",
    "Finding",
    "Gate",
    "Kernel",
    "Layer",
    "Link",
    "Losses",
    "Memory",
    "Migrations",
    "Numerics",
    "PerStep",
    "Prediction",
    "Range",
    "Rank",
    "Recording",
    "Report",
    "RunMemory",
    "SizeClass",
    "Stall",
    "Step",
    "StepBoth",
    "StepDirection",
    "Tool",
    "Total",
    "TraceInfo",
    "Transfers",
    "Verdict",
    "Warning_",
    "WhatIf",
    "Window",
    "Workload",
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

    ``outcome`` is ``hidden`` (overlap of 95 % or more, and no copy starves under kernels),
    ``partly_hidden``, ``exposed`` (under 5 %), ``no_transfers``, ``cannot_tell``, or
    ``not_usable``: the run does not compute what it should, whatever it hides.
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
    """The part of the recording that was analysed; the hull over all devices.

    ``steps_found_by`` is ``step_range``, ``train_step``, ``xla_module``, ``step_kernel`` or
    ``window`` (no step marker: the whole window counts as one step). ``skipped_steps`` are warm-up
    steps and steps that were not recorded whole, which no median counts.
    """

    source: str
    start_ns: int
    end_ns: int
    steps_found_by: str
    skipped_steps: int


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
class StepDirection:
    """Transfers of one direction that were issued in one step; fields as in `Direction`.

    ``stall_ns`` is the time for which copies of this direction held compute up, ``hideable_ns``
    how much of it another schedule could hide.
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
    stall_ns: int
    hideable_ns: int


@dataclass(frozen=True)
class StepBoth:
    """Both directions together in one step: the union, not the sum."""

    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    hidden_by_collectives_ns: int
    undetermined_ns: int
    overlap: float | None
    overlap_null_reason: str | None


@dataclass(frozen=True)
class Step:
    """One training step on a device, from its first GPU row to its last.

    ``compute_busy_ns + lost_ns == duration_ns``, and the values of ``lost``, one per owner, add up
    to ``lost_ns``; its keys are the causes that own any, in the order of the causes. ``phases`` is
    compute time by phase: ``forward``, ``backward``, ``recompute`` and ``other``; several may run
    at once.
    ``stall_proven_ns`` is the part of ``stall_ns`` whose wait an event proves. ``best_ns`` is the
    duration without what another schedule could hide.
    """

    index: int
    start_ns: int
    end_ns: int
    duration_ns: int
    period_ns: int | None
    outlier: bool
    kernels: int
    compute_busy_ns: int
    collective_busy_ns: int
    idle_ns: int
    recompute_ns: int | None
    phases: Mapping[str, int] | None
    lost_ns: int
    lost: Mapping[str, int]
    stall_ns: int
    stall_proven_ns: int
    hideable_ns: int
    best_ns: int
    h2d: StepDirection
    d2h: StepDirection
    both: StepBoth


@dataclass(frozen=True)
class WhatIf:
    """What a step would save under an assumption; ``None`` where the trace cannot tell."""

    name: str
    saving_ns: int | None
    assumption: str


@dataclass(frozen=True)
class PerStep:
    """Medians over the chosen steps of a device, each of its own: they need not add up.

    ``steps`` is how many were chosen. ``phases`` and ``recompute_ns`` are ``None`` where the trace
    names no XLA operation. ``unattributed`` is the share of the steps' GPU rows of which no XLA
    operation is known, ``None`` without any.
    """

    steps: int
    duration_ns: int
    period_ns: int | None
    kernels: int
    compute_busy_ns: int
    collective_busy_ns: int
    idle_ns: int
    recompute_ns: int | None
    phases: Mapping[str, int] | None
    lost_ns: int
    lost: Mapping[str, int]
    stall_ns: int
    stall_proven_ns: int
    hideable_ns: int
    best_ns: int
    h2d: StepDirection
    d2h: StepDirection
    both: StepBoth
    outliers: tuple[int, ...]
    unattributed: float | None
    what_if: tuple[WhatIf, ...]


@dataclass(frozen=True)
class Device:
    """One GPU.

    ``steps`` are the chosen steps, none where markers were found but no whole step; ``per_step``
    is ``None`` then. ``median_step`` is the index of the step whose duration is the median, which
    the timeline shows.
    """

    id: str
    ordinal: int
    pid: int | None
    name: str | None
    uuid: str | None
    copy_engines: int | None
    link: Link | None
    trace: DeviceTrace
    steps: tuple[Step, ...] = ()
    per_step: PerStep | None = None
    median_step: int | None = None


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
    ``unknown``. ``queue_ns`` is the time from the start of its API call to its own, ``call_ns`` how
    long that call lasted; both ``None`` where the call was not recorded.
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
    queue_ns: int | None
    call_ns: int | None


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
class Layer:
    """The part of a group of transfers in one layer: the nth run of its op within a step."""

    layer: int
    copies: int
    busy_ns: int
    hidden_ns: int
    stall_ns: int


@dataclass(frozen=True)
class Transfers:
    """Transfers of one XLA op; figures are means over the chosen steps, rounded down.

    Without XLA names, ``op`` says direction, size class and stream, and ``phase`` is ``None``.
    Which checkpoint name is moved is not told: JAX leaves it out of what it compiles. ``layer`` is
    the only layer there is, else ``None``, and ``layers`` has each. ``stall_ns`` is the time for
    which these copies held compute up: they were the last of a chain that the next kernel waited
    for.
    """

    device: str
    op: str
    op_name: str | None
    layer: int | None
    phase: str | None
    direction: str
    copies: int
    bytes: int | None
    busy_ns: int
    hidden_ns: int
    stall_ns: int
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One cause on one device, what it costs per step, and what to change.

    ``severity`` is ``finding`` if something is lost, else ``note``. ``lost_ns_per_step`` is time
    outside compute that this cause owns; ``excess_ns_per_step`` is time by which kernels or copies
    took longer than alone, which is not lost time and never added to it. ``evidence`` are
    numbers, and lists of row ids, of names, or of names with their times; its ``spans`` are
    ``[start_ns, end_ns]`` of the costliest places, on the trace's clock, for the timeline.
    """

    cause: str
    severity: str
    device: str
    direction: str | None
    op: str | None
    lost_ns_per_step: int
    excess_ns_per_step: int
    evidence: Mapping[str, Any]
    message: str
    advice: str


@dataclass(frozen=True)
class Stall:
    """A gap between compute kernels that transfers own, in the median step of its device.

    ``blocker_row_id`` is the copy that ended last before ``kernel`` began (``None``: the step
    ended), which started at ``blocker_start_ns``; ``proven`` by an event that the kernel's stream
    waited for, else inferred from times.
    """

    device: str
    step: int
    start_ns: int
    end_ns: int
    cause: str
    direction: str
    op: str | None
    transfers: int
    blocker_row_id: int | None
    blocker_start_ns: int
    blocker_end_ns: int
    kernel: str | None
    proven: bool


@dataclass(frozen=True)
class Contention:
    """Kernels of one name and launch shape that run longer under transfers than without."""

    device: str
    kernel: str
    lone_ns: int
    covered_ns: int
    lone_count: int
    covered_count: int
    excess_ns_per_step: int


@dataclass(frozen=True)
class Gate:
    """A limit on a metric of the report.

    ``kind`` is ``under`` (fails below the limit) or ``over`` (fails above it). A ``value`` of
    ``None`` fails, and ``reason`` says why there is none. A ``check`` is no limit, and has neither
    limit nor value: ``reason`` says what was found.
    """

    name: str
    kind: str
    limit: float | None
    value: float | None
    passed: bool
    reason: str | None = None


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
    step_ns: int | None = None
    stall_ns: int | None = None


@dataclass(frozen=True)
class Report:
    """The whole report. ``findings`` come worst first.

    ``recording`` is how a run was recorded, where its folder says so. ``memory`` is a `Memory` of a
    predicted step, a `RunMemory` of a measured one.
    """

    tool: Tool
    verdict: Verdict
    trace: TraceInfo
    window: Window
    devices: tuple[Device, ...]
    total: Total
    worst_copies: tuple[Copy, ...]
    kernels: tuple[Kernel, ...]
    ranks: tuple[Rank, ...] | None = None
    transfers: tuple[Transfers, ...] = ()
    findings: tuple[Finding, ...] = ()
    stalls: tuple[Stall, ...] = ()
    contention: tuple[Contention, ...] = ()
    recording: Recording | None = None
    memory: Memory | RunMemory | None = None
    range: Range | None = None
    prediction: Prediction | None = None
    gates: tuple[Gate, ...] = ()
    schema: str = SCHEMA
    lanes: tuple[Lane, ...] = field(default=(), metadata={"json": False}, compare=False)
    """Marks of the timeline, for the HTML page only; not part of the JSON."""
