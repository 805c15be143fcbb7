"""Gates: limits on metrics of a report.

A limit must hold on every device, so a gate shows the device that is worst for it: the lowest value
for a limit from below, the highest for one from above. If the trace cannot tell the value of any
device, the gate fails and says why.

Two gates are no limits: ``expect_offload``, where bytes were said to be expected, and ``numerics``,
which is there, and fails, where the run does not compute what it should.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from nsysoffload.errors import GateFailed, UsageError, unknown_name
from nsysoffload.report.amounts import SIZES, TIMES, amount
from nsysoffload.report.expected import Judgement
from nsysoffload.report.format import labels
from nsysoffload.report.metrics import METRICS, Measured
from nsysoffload.report.model import Gate, Report
from nsysoffload.report.recorded import numerics_differ

__all__ = [
    "METRICS",
    "UNITS",
    "Limit",
    "checked",
    "parse_gates",
    "raise_failed",
    "sentence",
    "told_apart",
]

UNITS: Mapping[str, Mapping[str, Decimal | int]] = {
    "%": {"%": 1},
    "ms": TIMES,
    "GB/s": {"GB/s": 1},
    "B": SIZES,
    "": {},
}
"""Units that a limit may be written in, by the unit of the metric, and what each is of that."""


@dataclass(frozen=True)
class Limit:
    """What is asked of a metric: ``kind`` is ``under`` or ``over``, where it then fails."""

    name: str
    kind: str
    limit: float


# --- Limits as users write them ---


def parse_gates(fail_under: Iterable[str], fail_over: Iterable[str]) -> tuple[Limit, ...]:
    """Read limits such as ``overlap=80`` or ``stall_ms=5ms``.

    Parameters
    ----------
    fail_under, fail_over : iterable of str
        ``NAME=NUMBER`` each, or several separated by commas; the number may carry a unit that fits
        the metric.

    Raises
    ------
    UsageError
        If a metric is not known or limited twice from one side, or a number cannot be its limit.

    Examples
    --------
    >>> parse_gates([], ["stall_ms=500us"])
    (Limit(name='stall_ms', kind='over', limit=0.5),)
    """
    limits = [
        _limit(text.strip(), kind)
        for kind, texts in (("under", fail_under), ("over", fail_over))
        for listed in texts
        for text in listed.split(",")
    ]
    seen: set[tuple[str, str]] = set()
    for limit in limits:
        if (limit.name, limit.kind) in seen:
            raise UsageError(f"--fail-{limit.kind} limits {limit.name} twice; give it once.")
        seen.add((limit.name, limit.kind))
    return tuple(limits)


def _limit(text: str, kind: str) -> Limit:
    name, equals, number = (part.strip() for part in text.partition("="))
    if not (name and equals and number):
        example = "overlap=80" if kind == "under" else "stall_ms=5"
        raise UsageError(f"Limit '{text}' is not of the form NAME=NUMBER; write it like {example}.")
    if name not in METRICS:
        raise unknown_name("Metric", name, METRICS)
    return Limit(name, kind, _number(number, name))


def _number(text: str, name: str) -> float:
    unit = METRICS[name].unit
    written = amount(text)
    if not written:
        raise UsageError(f"'{text}' is no number to limit {name} by; write it like {name}=5.")
    suffix = written.unit
    if suffix and suffix not in UNITS[unit]:
        fitting = f"is in {', '.join(UNITS[unit])}" if unit else "has no unit"
        raise UsageError(f"{name} {fitting}, not in '{suffix}'; correct {name}={text}.")
    value = float(written.times(UNITS[unit][suffix] if suffix else 1))
    if not 0 <= value < math.inf or (unit == "%" and value > 100):
        raise UsageError(
            f"{name} is never {written.number}{suffix}, so that is no limit; correct it."
        )
    if unit == "%" and not suffix and 0 < value <= 1:
        raise UsageError(
            f"{name} is in percent, and {text} is next to nothing; write {name}=80, or"
            f" {name}={text}% if that is meant."
        )
    return value


# --- Gates ---


def checked(report: Report, limits: Sequence[Limit], expected: Judgement | None = None) -> Report:
    """Return the report with a gate for each limit, and before these the gates that are none.

    Parameters
    ----------
    report : Report
        The report.
    limits : sequence of Limit
        What is asked of its metrics.
    expected : Judgement, optional
        Of the bytes that were expected to be offloaded.
    """
    gates = [_gate(report, limit) for limit in limits]
    if expected:
        text = expected.text.removesuffix(".")
        passed = expected.state != "problem"
        gates.insert(0, Gate("expect_offload", "check", None, None, passed, text))
    if differing := numerics_differ(report):
        gates.insert(0, Gate("numerics", "check", None, None, False, differing))
    return replace(report, gates=tuple(gates))


def _gate(report: Report, limit: Limit) -> Gate:
    measured = METRICS[limit.name].values(report)
    reason = _reason(report, measured)
    known = [value for value, _ in measured if value is not None]
    if reason or not known:
        reason = reason or "the report has no device"
        return Gate(limit.name, limit.kind, limit.limit, None, False, reason)
    worst = min(known) if limit.kind == "under" else max(known)
    passed = worst >= limit.limit if limit.kind == "under" else worst <= limit.limit
    return Gate(limit.name, limit.kind, limit.limit, worst, passed)


def _reason(report: Report, measured: Sequence[Measured]) -> str | None:
    """Why the metric is unknown on the first device where it is; None if it is known on all."""
    at = next((i for i, (value, _) in enumerate(measured) if value is None), None)
    if at is None:
        return None
    reason = (measured[at].reason or "the trace cannot tell").removesuffix(".")
    if len(measured) == 1:
        return reason
    return f"GPU {labels(report.devices)[report.devices[at].id]}: {reason}"


def sentence(gate: Gate) -> str:
    """Say what a gate found.

    Examples
    --------
    >>> sentence(Gate("overlap", "under", 80.0, 61.234, False))
    'overlap 61.2 % is under 80 %'
    >>> sentence(Gate("stall_ms", "over", 5.0, 5.0, True))
    'stall_ms 5 ms is not over 5 ms'
    >>> sentence(Gate("overlap.h2d", "under", 80.0, None, False, "no kernel was recorded"))
    'overlap.h2d is unknown, and must not be under 80 %: no kernel was recorded'
    >>> sentence(Gate("numerics", "check", None, None, False, "numerics differ from step 1"))
    'numerics differ from step 1'
    """
    if gate.limit is None:
        return gate.reason or gate.name
    limit = _amount(gate.name, f"{gate.limit:.12g}")
    if gate.value is None:
        return f"{gate.name} is unknown, and must not be {gate.kind} {limit}: {gate.reason}"
    value = _amount(gate.name, told_apart(gate.value, gate.limit))
    return f"{gate.name} {value} is {'not ' if gate.passed else ''}{gate.kind} {limit}"


def _amount(name: str, number: str) -> str:
    return f"{number} {METRICS[name].unit}".rstrip()


def told_apart(value: float, limit: float) -> str:
    """Three digits of a value, or as many more as it takes to show that it is not the limit."""
    if value == limit or value == int(value):
        return f"{value:.15g}"
    digits = (f"{value:.{count}g}" for count in range(3, 18))
    return next(text for text in digits if "e+" not in text and float(text) != limit)


def raise_failed(report: Report) -> None:
    """Raise an error if the report breaks a limit.

    Raises
    ------
    GateFailed
        With a line for each limit that is broken.
    """
    failed = [f"Gate failed: {sentence(gate)}" for gate in report.gates if not gate.passed]
    if failed:
        raise GateFailed("\n".join(failed))
