"""A comparison in words and figures that all outputs share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nsysoffload.comparison.model import (
    Account,
    Comparison,
    Difference,
    FindingChange,
    Moved,
    Pair,
    Run,
)
from nsysoffload.comparison.noise import RULE, SMALLEST, SMALLEST_OF_FEW
from nsysoffload.comparison.verdict import signed
from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.metrics import METRICS

__all__ = [
    "HEADLINES",
    "OUTCOMES",
    "PARTS",
    "PartRow",
    "Row",
    "amount",
    "change",
    "command",
    "finding",
    "headlines",
    "label",
    "moved",
    "needs",
    "parts",
    "row",
    "rule",
    "signed_time",
    "step_text",
    "time_range",
]

OUTCOMES = {
    "better": ("✓", "Better"),
    "worse": ("✗", "Worse"),
    "no_difference": ("=", "No difference"),
    "cannot_tell": ("?", "Cannot tell"),
    "identical_input": ("=", "The same recording"),
    "not_comparable": ("≠", "Not comparable"),
}
"""A mark and words for each outcome."""

PARTS = {
    "recompute": "recompute",
    "contention": "contention with copies",
    "compute": "rest of compute",
    "stall": "waiting for transfers",
    "collectives": "collectives alone",
    "other": "host and others",
}
"""What the parts of a step are called."""

HEADLINES = (
    "step_ms",
    "stall_ms",
    "exposed_ms",
    "overlap",
    "recompute_ms",
    "compute_ms",
    "collective_ms",
    "bytes.h2d",
    "bytes.d2h",
    "gbps.h2d",
    "gbps.d2h",
    "device_bytes",
    "host_bytes",
)
"""Metrics that are told first, in this order."""

_LABELS = {
    "step_ms": "Step time",
    "stall_ms": "Stall",
    "exposed_ms": "Exposed",
    "overlap": "Overlap",
    "recompute_ms": "Recompute",
    "compute_ms": "Compute",
    "collective_ms": "Collectives",
    "idle_ms": "Idle",
    "lost_ms": "Lost",
    "best_ms": "Best step",
    "hideable_ms": "Hideable stall",
    "period_ms": "Period",
    "unattributed": "Rows of no XLA operation",
    "findings": "Findings",
    "device_bytes": "Device memory",
    "host_bytes": "Host memory",
    "gbps": "Bandwidth",
    "burst_gbps": "Burst bandwidth",
    "lone_gbps": "Lone bandwidth",
    "bytes": "Bytes",
    "copies": "Copies",
}
_COSTS = ("lost_ms.", "excess_ms.")  # of a cause; of these there is no spread over the steps
_MODEL_RULE = (
    "Both runs are timed with the same choices of the model's constants. The step time changes"
    f" where all choices agree on the sign, by {100 * SMALLEST:g} % of the base or more with the"
    " expected constants; a range with both signs counts as noise. The other figures are those of"
    f" the expected constants: they have no noise, and change by {100 * SMALLEST:g} % or more."
)
_NAME = 60  # characters in a sentence
_LEAST = 1e-9  # of a unit: below is what is left of rounding


@dataclass(frozen=True)
class Row:
    """A metric of both runs as finished text.

    ``between`` is what the change lies between, ``remark`` why it is none or unknown. ``tone`` is
    ``good``, ``bad``, ``neutral`` (a change to neither, or none beyond noise) or ``unknown``.
    """

    metric: str
    label: str
    base: str
    new: str
    change: str
    between: str
    remark: str
    tone: str


@dataclass(frozen=True)
class PartRow:
    """A part of the step in both runs, or the whole, as finished text."""

    label: str
    base: str
    new: str
    change: str


# --- Figures ---


def amount(unit: str, value: float | None) -> str:
    """Return a metric's value in its unit.

    Examples
    --------
    >>> amount("ms", 12.5), amount("%", 61.5), amount("B", None)
    ('12.5 ms', '61.5 %', '–')
    """
    if value is None:
        return fmt.UNKNOWN
    if unit == "ms":
        return fmt.duration(round(1e6 * value))
    if unit == "%":
        return fmt.share(value / 100)
    if unit == "GB/s":
        return fmt.bandwidth(value)
    return fmt.size(round(value)) if unit == "B" else fmt.count(round(value))


def change(unit: str, value: float) -> str:
    """Return the change of a metric with its sign; of percentages in points.

    Examples
    --------
    >>> change("ms", -12.5), change("%", 2.04), change("", 0)
    ('−12.5 ms', '+2.0 points', '0')
    """
    sign = "−" if value < 0 else "+" if value > 0 else ""
    if unit == "%":
        return f"{sign}{abs(value):.1f} points"
    return f"{sign}{amount(unit, abs(value))}"


def signed_time(time_ns: int) -> str:
    """Return a time with its sign.

    Examples
    --------
    >>> signed_time(-1_500_000)
    '−1.50 ms'
    """
    return change("ms", time_ns / 1e6)


def time_range(low_ns: int | None, high_ns: int | None) -> str:
    """Return what a step lies between."""
    if low_ns is None or high_ns is None:
        return fmt.UNKNOWN
    return f"{fmt.duration(low_ns)} to {fmt.duration(high_ns)}"


# --- Metrics ---


def label(metric: str) -> str:
    """Return what a metric is called.

    Examples
    --------
    >>> label("stall_ms.d2h"), label("lost_ms.host_gap")
    ('Stall, D2H', 'Lost: The host launches too late')
    """
    name, _, of = metric.partition(".")
    if metric.startswith(_COSTS):
        return f"{name.removesuffix('_ms').capitalize()}: {causes.title(of)}"
    words = _LABELS.get(name, METRICS[metric].meaning)
    return f"{words}, {of.upper()}" if of else words


def row(difference: Difference) -> Row:
    """Put a metric of both runs into words."""
    d = difference
    moved_by = fmt.UNKNOWN
    if d.change is not None:
        share = f" ({signed(d.relative)})" if d.relative and d.unit != "%" else ""
        moved_by = f"{change(d.unit, d.change)}{share}"
    return Row(
        metric=d.metric,
        label=label(d.metric),
        base=amount(d.unit, d.base),
        new=amount(d.unit, d.new),
        change=moved_by,
        between=_between(d),
        remark=_remark(d),
        tone=_tone(d),
    )


def _between(difference: Difference) -> str:
    if difference.noise is None:
        return ""
    low, high = difference.noise
    unit = difference.unit
    return f"{change(unit, low)} to {change(unit, high)}" if high - low > _LEAST else ""


def _remark(difference: Difference) -> str:
    d = difference
    if d.change is None:
        return fmt.shorten(fmt.plain(d.null_reason or "the trace cannot tell"), 200)
    if d.change and d.noise is None and d.beyond_noise is None:
        return "too few steps" if d.unit == "ms" and not d.metric.startswith(_COSTS) else ""
    if not d.change or d.beyond_noise is not False:
        return ""
    if d.noise and d.noise[0] <= 0 <= d.noise[1]:
        return "within noise"
    is_small = d.relative is not None and abs(d.relative) < SMALLEST
    return f"under {100 * (SMALLEST if is_small else SMALLEST_OF_FEW):g} %"


def _tone(difference: Difference) -> str:
    if difference.change is None:
        return "unknown"
    if difference.better is None or not difference.beyond_noise:
        return "neutral"
    return "good" if difference.better else "bad"


def headlines(comparison: Comparison, run: int) -> list[Row]:
    """Return the rows of a new run that are told first; what neither run has is left out."""
    found = {d.metric: d for d in comparison.differences if d.run == run}
    chosen = (found[name] for name in HEADLINES if name in found)
    return [row(d) for d in chosen if d.base or d.new]


# --- Parts of the step ---


def parts(account: Account) -> Iterator[PartRow]:
    """Yield the parts of both steps that are any, then the whole steps."""
    for part in account.parts:
        if part.base_ns or part.new_ns:
            yield _part(PARTS[part.name], part.base_ns, part.new_ns)
    yield _part("step", account.base_ns, account.new_ns)


def _part(name: str, base_ns: int, new_ns: int) -> PartRow:
    base, new = fmt.duration(base_ns), fmt.duration(new_ns)
    return PartRow(name, base, new, signed_time(new_ns - base_ns))


def step_text(comparison: Comparison, pair: Pair) -> str:
    """Say which steps were compared."""
    base, new = comparison.base, comparison.new[pair.run]
    counts = f"{_name(base)}: {_steps(base)}; {_name(new)}: {_steps(new)}."
    if pair.account is None:
        return counts
    return (
        f"{counts} The parts are of their median steps, {pair.account.base_step} and"
        f" {pair.account.new_step}, and add up to the nanosecond."
    )


def _name(run: Run) -> str:
    return fmt.shorten(fmt.plain(run.name), _NAME)


def _steps(run: Run) -> str:
    if run.step_ns is None:
        return "no whole step"
    outliers = f", {run.outliers} of them far off" if run.outliers else ""
    return f"{fmt.count(run.steps)} step{'s' * (run.steps != 1)}{outliers}"


# --- Findings, transfers, runs ---


def finding(found: FindingChange) -> tuple[str, str, str, str, str]:
    """Return title with direction, state, cost in both runs, and what changed."""
    way = f", {found.direction.upper()}" if found.direction else ""
    return (
        f"{causes.title(found.cause)}{way}",
        found.state,
        fmt.duration(found.base_ns) if found.state != "gained" else fmt.UNKNOWN,
        fmt.duration(found.new_ns) if found.state != "lost" else fmt.UNKNOWN,
        signed_time(found.change_ns),
    )


def moved(side: Moved | None) -> str:
    """Return what an operation moves in a run: bytes, how long, and what waits for it."""
    if side is None:
        return fmt.UNKNOWN
    hidden = fmt.share(side.hidden_ns / side.busy_ns) if side.busy_ns else fmt.UNKNOWN
    stall = f", stall {fmt.duration(side.stall_ns)}" if side.stall_ns else ""
    return f"{fmt.size(side.bytes)} in {fmt.duration(side.busy_ns)}, {hidden} hidden{stall}"


def needs(run: Run) -> tuple[str, str, str]:
    """Return device memory, host memory, and whether the run fits."""
    fits = {True: "fits", False: "does not fit", None: fmt.UNKNOWN}[run.fits]
    return (fmt.size(run.device_bytes), fmt.size(run.host_bytes), fits)


def setting(comparison: Comparison) -> list[str]:
    """Say what was trained and on which GPUs, each once."""
    trained = (
        f"{work.model}, {fmt.count(work.batch)} sequences of {fmt.count(work.seq)} tokens"
        + (f", {work.mesh}" if work.mesh else "")
        for work in (run.workload for run in comparison.runs)
        if work
    )
    gpus = (f"{run.devices} × {run.gpu or 'unnamed GPU'}" for run in comparison.runs)
    return list(dict.fromkeys((*trained, *gpus)))


def rule(comparison: Comparison) -> str:
    """Say when a change counts as one."""
    return _MODEL_RULE if comparison.base.kind == "predicted" else RULE


def command(comparison: Comparison) -> str:
    """Return the command line that makes this comparison again, but for the folders of the runs."""
    names: Sequence[str] = [run.name for run in comparison.runs]
    return fmt.command_line("compare", names, comparison.tool.options)
