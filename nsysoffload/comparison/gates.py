"""Limits on how much worse a new run may be than the base.

Devices are held against each other one by one, in their order; the largest regression counts. What
cannot be told fails, and so does what was not compared: a limit that holds has been looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nsysoffload.comparison.differences import OF_WHOLE_STEPS
from nsysoffload.comparison.model import Comparison, Gate, Pair
from nsysoffload.comparison.runs import Subject
from nsysoffload.errors import GateFailed, UsageError, unknown_name
from nsysoffload.report import gates as limits
from nsysoffload.report.amounts import amount
from nsysoffload.report.metrics import METRICS, Measured
from nsysoffload.report.model import Gate as ReportGate
from nsysoffload.report.model import Report

__all__ = [
    "RELATIVE",
    "Regression",
    "checks",
    "of_report",
    "parse_regressions",
    "raise_failed",
    "sentence",
]

RELATIVE = "% of the base"
"""Unit of a regression that is a share of the base."""

_FROM_NOTHING = "the base is 0, of which every regression is more than any share"
_UNJUDGED = ("not_comparable", "identical_input")


@dataclass(frozen=True)
class Regression:
    """By how much a metric may get worse: in its unit, or ``relative``, in percent of the base."""

    name: str
    limit: float
    relative: bool


def parse_regressions(texts: Iterable[str]) -> tuple[Regression, ...]:
    """Read limits such as ``overlap=2`` (points) or ``step_ms=3%`` (of the base).

    Parameters
    ----------
    texts : iterable of str
        ``NAME=NUMBER`` each, or several separated by commas.

    Raises
    ------
    UsageError
        If a metric is not known or limited twice, or a number cannot be its limit.

    Examples
    --------
    >>> parse_regressions(["overlap=2,step_ms=3%"])[1]
    Regression(name='step_ms', limit=3.0, relative=True)
    """
    found = [_regression(text.strip()) for listed in texts for text in listed.split(",")]
    names = [regression.name for regression in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"--max-regression limits {twice} twice; give it once.")
    return tuple(found)


def _regression(text: str) -> Regression:
    name, equals, number = (part.strip() for part in text.partition("="))
    if not (name and equals and number):
        raise UsageError(
            f"Limit '{text}' is not of the form NAME=NUMBER; write it like overlap=2 or step_ms=3%."
        )
    if name not in METRICS:
        raise unknown_name("Metric", name, METRICS)
    written, unit = amount(number), METRICS[name].unit
    if not written:
        raise UsageError(f"'{number}' is no number to limit {name} by; write it like {name}=2.")
    relative = written.unit == "%" and unit != "%"
    units = [*limits.UNITS[unit], *["%"] * (unit != "%")]
    if written.unit and written.unit not in units:
        fitting = ", ".join(units)
        raise UsageError(f"{name} is in {fitting}, not in '{written.unit}'; correct {text}.")
    factor = 1 if relative or not written.unit else limits.UNITS[unit][written.unit]
    limit = float(written.times(factor))
    if not 0 <= limit < float("inf"):
        raise UsageError(
            f"{name} cannot be limited by {number}; give a finite number of 0 or more."
        )
    return Regression(name, limit, relative)


def checks(
    base: Subject, new: Subject, pair: Pair, regressions: Sequence[Regression]
) -> Iterator[Gate]:
    """Yield what became of each limit, and before these a gate that fails where numerics differ."""
    for reason in pair.verdict.reasons:
        if reason.code == "numerics_differ":
            yield Gate(pair.run, "numerics", "check", None, "", None, False, reason.text)
            break
    for regression in regressions:
        yield _gate(base, new, pair, regression)


def _gate(base: Subject, new: Subject, pair: Pair, regression: Regression) -> Gate:
    metric = METRICS[regression.name]
    unit = RELATIVE if regression.relative else metric.unit
    at = (pair.run, regression.name, "regression", regression.limit, unit)
    if pair.verdict.outcome in _UNJUDGED:
        return Gate(*at, None, False, pair.verdict.text.removesuffix("."))
    if regression.name in OF_WHOLE_STEPS and not (base.steps and new.steps):
        return Gate(*at, None, False, "no whole training step was found in both runs")
    ours, theirs = metric.values(base.report), metric.values(new.report)
    reason = _unknown(ours, "base") or _unknown(theirs, "new run")
    if not reason and len(ours) != len(theirs):
        reason = "the runs have different numbers of devices"
    sign = -1 if metric.higher_is_better else 1
    pairs = [
        (b.value or 0, sign * ((n.value or 0) - (b.value or 0)))
        for b, n in zip(ours, theirs, strict=False)
    ]
    if not reason and regression.relative and any(b == 0 and worse > 0 for b, worse in pairs):
        reason = _FROM_NOTHING
    if reason:
        return Gate(*at, None, False, reason)
    worst = max((_share(b, w) if regression.relative else w for b, w in pairs), default=0.0)
    worst = round(worst, 9)  # so that 3 % is 3 % and not a trace above
    return Gate(*at, worst, worst <= regression.limit)


def _share(base: float, worse: float) -> float:
    return 100 * worse / base if base else min(worse, 0.0)


def _unknown(values: Sequence[Measured], where: str) -> str | None:
    if not values:
        return f"the {where} has no device"
    found = next((m for m in values if m.value is None), None)
    if found is None:
        return None
    return f"{where}: {(found.reason or 'the trace cannot tell').removesuffix('.')}"


def of_report(report: Report, run: int) -> Iterator[Gate]:
    """Yield the gates that the report of a new run has of its own."""
    for gate in report.gates:
        unit = METRICS[gate.name].unit if gate.name in METRICS else ""
        yield Gate(
            run, gate.name, gate.kind, gate.limit, unit, gate.value, gate.passed, gate.reason
        )


def sentence(gate: Gate, runs: Sequence[str]) -> str:
    """Say what a gate found, and of which run where there are several new ones.

    Parameters
    ----------
    gate : Gate
        The gate.
    runs : sequence of str
        Names of the new runs.
    """
    where = f"{runs[gate.run]}: " if len(runs) > 1 else ""
    if gate.kind != "regression" or gate.limit is None:
        own = ReportGate(gate.name, gate.kind, gate.limit, gate.value, gate.passed, gate.reason)
        return f"{where}{limits.sentence(own)}"
    limit = f"{gate.limit:.12g} {gate.unit}".rstrip()
    if gate.value is None:
        known = "is worse" if gate.reason == _FROM_NOTHING else "is unknown"
        return f"{where}{gate.name} must not get worse by over {limit}, and {known}: {gate.reason}"
    if gate.value <= 0:
        return f"{where}{gate.name} does not get worse"
    value = f"{limits.told_apart(gate.value, gate.limit)} {gate.unit}".rstrip()
    how = "not over" if gate.passed else "over"
    return f"{where}{gate.name} gets worse by {value}, {how} {limit}"


def raise_failed(comparison: Comparison) -> None:
    """Raise an error if a new run breaks a limit.

    Raises
    ------
    GateFailed
        With a line for each limit that is broken.
    """
    names = [run.name for run in comparison.new]
    failed = [f"Gate failed: {sentence(g, names)}" for g in comparison.gates if not g.passed]
    if failed:
        raise GateFailed("\n".join(failed))
