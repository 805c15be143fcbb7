"""A comparison: dataclasses whose fields are the JSON keys of schema ``nsysoffload-compare/1``.

The first run is the base, all others are held against it. Of a run with several devices the slowest
speaks, which holds the others up. Times are integer nanoseconds, sizes are bytes; ``None`` means
that it cannot be told, and a field beside it says why. A change is new - base.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nsysoffload.report.model import Report, Tool, Warning_
from nsysoffload.trace.workload import Workload

__all__ = [
    "OUTCOMES",
    "SCHEMA",
    "Account",
    "Comparison",
    "Difference",
    "FindingChange",
    "Gate",
    "Moved",
    "Note",
    "OperationChange",
    "Pair",
    "Part",
    "Reason",
    "Run",
    "StepChange",
    "Verdict",
]

SCHEMA = "nsysoffload-compare/1"

OUTCOMES = (
    "better",
    "worse",
    "no_difference",
    "cannot_tell",
    "identical_input",
    "not_comparable",
)
"""What may come out for a new run against the base."""


@dataclass(frozen=True)
class Reason:
    """Why two runs cannot be compared, or what speaks against it; ``code`` is for scripts."""

    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, as one of `OUTCOMES`, and what it rests on.

    ``reasons`` say why runs are not comparable, why it cannot be told, or what speaks against a
    comparison that was made all the same.
    """

    outcome: str
    text: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Run:
    """One of the runs, by its slowest device.

    Attributes
    ----------
    name : str
        What it is called here; no two runs have the same.
    kind, recorder, nsys_version, export_schema, file
        As in a report's ``trace``.
    variant : str or None
        Policy it was recorded or predicted under.
    gpu : str or None
        Name of its GPUs.
    device : str or None
        Id of the device that speaks for it; None without steps.
    steps, outliers : int
        Steps of that device that count, and how many of them are far off.
    step_ns : int or None
        Median duration.
    step_low_ns, step_high_ns : int or None
        What the step lies between: a quarter of the steps is below and a quarter above; of a
        predicted run the range of the model.
    tokens_per_s : float or None
        Over all devices, from ``step_ns``.
    device_bytes, host_bytes : int or None
        Memory that a step needs on a device, and pinned on the host for it, by the compiler.
    device_peak_bytes : int or None
        Most that was in use on a device, where that was counted.
    device_limit_bytes : int or None
        Memory of the GPU.
    fits : bool or None
        Whether the step fits where it is to run.
    best : bool
        Whether no run that fits is faster, beyond noise where it is measured. At most one run is.
    """

    name: str
    kind: str
    recorder: str
    nsys_version: str | None
    export_schema: str | None
    file: str
    variant: str | None
    workload: Workload | None
    devices: int
    gpu: str | None
    device: str | None
    steps: int
    outliers: int
    step_ns: int | None
    step_low_ns: int | None
    step_high_ns: int | None
    tokens_per_s: float | None
    device_bytes: int | None
    host_bytes: int | None
    device_peak_bytes: int | None
    device_limit_bytes: int | None
    fits: bool | None
    best: bool
    warnings: tuple[Warning_, ...]


@dataclass(frozen=True)
class Difference:
    """A metric of one new run against the base, of the device that speaks for each.

    Attributes
    ----------
    run : int
        Position of the new run in `Comparison.new`.
    metric, unit : str
        As in the list of metrics that can be limited.
    base, new, change : float or None
        Values in the unit; None where a trace cannot tell, with ``null_reason``.
    relative : float or None
        Change over base; None where the base is 0.
    noise : tuple of float or None
        What the change lies between, in the unit: 95 % interval over the steps, of a predicted run
        the range of the model; None where there are too few steps to tell, or none to ask.
    beyond_noise : bool or None
        Whether it is a change and no noise; None where that is not known.
    better : bool or None
        Whether the change is to the good; None for no change, and for what is neither.
    """

    run: int
    metric: str
    unit: str
    base: float | None
    new: float | None
    change: float | None
    relative: float | None
    noise: tuple[float, float] | None
    beyond_noise: bool | None
    better: bool | None
    null_reason: str | None = None


@dataclass(frozen=True)
class StepChange:
    """What the verdict rests on: the step time of a new run against the base.

    ``relative`` is the change over the base, ``low`` and ``high`` what it lies between: at 95 %
    over the steps (``noise_from`` is ``steps``), or in the range of the model (``model``), None
    where that is unknown. With ``per_token`` all three are of the time per token, because the runs
    have steps of different sizes.
    """

    base_ns: int
    new_ns: int
    relative: float
    low: float | None
    high: float | None
    noise_from: str | None
    per_token: bool


@dataclass(frozen=True)
class Part:
    """A part of a step in both runs.

    ``name`` is ``recompute``, ``contention`` (excess of kernels under copies), ``compute`` (the
    rest of it), ``stall``, ``collectives`` (alone), or ``other`` (host and unexplained).
    """

    name: str
    base_ns: int
    new_ns: int
    change_ns: int


@dataclass(frozen=True)
class Account:
    """From a step of the base to one of the new run, part by part.

    ``base_step`` and ``new_step`` are the indices of the median steps. The parts of each add up to
    its duration, and their changes to the difference, to the nanosecond.
    """

    base_step: int
    new_step: int
    base_ns: int
    new_ns: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class FindingChange:
    """A cause in both runs; its cost is lost and excess time per step, over all its findings.

    ``state`` is ``gained`` (only the new run has it), ``lost`` (only the base), or ``kept``.
    """

    cause: str
    direction: str | None
    state: str
    base_ns: int
    new_ns: int
    change_ns: int


@dataclass(frozen=True)
class Moved:
    """What an operation moves in a step of one run."""

    copies: int
    bytes: int | None
    busy_ns: int
    hidden_ns: int
    stall_ns: int


@dataclass(frozen=True)
class OperationChange:
    """Transfers of one XLA operation, or of one group where there are no names, in both runs.

    ``base`` or ``new`` is None where that run has no such transfers.
    """

    op: str
    direction: str
    phase: str | None
    base: Moved | None
    new: Moved | None


@dataclass(frozen=True)
class Note:
    """Something about the pair that a number does not tell.

    ``code`` is ``offload_not_in_effect``, ``no_memory_gain``, ``numerics_differ``,
    ``numerics_unknown``, ``other_clocks``... ``severity`` is ``finding`` if it makes offloading
    pointless or the run unusable, else ``note``.
    """

    code: str
    severity: str
    text: str
    advice: str | None


@dataclass(frozen=True)
class Pair:
    """One new run against the base.

    ``step`` is None where the step times cannot be compared, ``account`` where the steps are not of
    one size or not known; then the verdict says why.
    """

    run: int
    verdict: Verdict
    step: StepChange | None
    account: Account | None
    notes: tuple[Note, ...]
    findings: tuple[FindingChange, ...]
    operations: tuple[OperationChange, ...]


@dataclass(frozen=True)
class Gate:
    """A limit on a new run.

    ``kind`` is ``under``, ``over`` or ``check`` as in a report, or ``regression``: fails where the
    metric gets worse by more than ``limit``. ``unit`` is that of limit and value: the metric's, or
    ``relative %`` for a regression in percent of the base. ``reason`` says why there is no value.
    """

    run: int
    name: str
    kind: str
    limit: float | None
    unit: str
    value: float | None
    passed: bool
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The whole comparison.

    ``verdict`` is that of the best new run, ``differences`` are of all new runs in their order.
    """

    tool: Tool
    verdict: Verdict
    base: Run
    new: tuple[Run, ...]
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]
    gates: tuple[Gate, ...] = ()
    schema: str = SCHEMA
    reports: Mapping[str, Report] = field(
        default_factory=dict, metadata={"json": False}, compare=False
    )
    """The report of each run by name, for the HTML page only; not part of the JSON."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return all runs, the base first."""
        return (self.base, *self.new)
