"""Whether two runs compute the same: their losses and gradient norms, step by step.

Rematerialised and offloaded steps do the same operations, so they differ by rounding alone. A value
in bfloat16 has 8 significant bits: rounded once more or once less, a gradient, and with it the norm
of all gradients, may change by 2**-8, or 0.4 %. A step lowers the loss by its rate times the norm
squared, some 1e-2, of which 0.4 % is 1e-4 at most. A wrong slice that the backward pass reads back
changes gradients by a good part of themselves, and the next losses by several percent. `TOLERANCE`
and the ten times wider one of norms lie between the two.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = [
    "TOLERANCE",
    "Curve",
    "Losses",
    "Numerics",
    "StepLine",
    "compare",
    "from_log",
    "from_manifest",
    "step_lines",
]

TOLERANCE = 1e-3
"""Largest relative difference of equal losses; gradient norms may differ by ten times that."""

_NORM = 10

_NUMBER = r"([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf)|not finite)"
_IS = r"['\"]?(?:\s*[:=]\s*|\s+)"
_STEP = re.compile(r"(?:\b|_)step['\"]?\W{1,8}(\d+)", re.IGNORECASE)
_LOSS = re.compile(rf"\bloss{_IS}{_NUMBER}", re.IGNORECASE)
_GRAD_NORM = re.compile(rf"\bgrad(?:ient)?[ _-]?norm{_IS}{_NUMBER}", re.IGNORECASE)
_TIME = re.compile(rf"\bseconds{_IS}(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*ms\b", re.IGNORECASE)
_EVALUATION = re.compile(r"\b(?:eval|validation)", re.IGNORECASE)


@dataclass(frozen=True)
class StepLine:
    """What a line of a log tells of a step; None where it does not, or it is not finite."""

    index: int
    loss: float | None
    grad_norm: float | None
    ms: float | None


@dataclass(frozen=True)
class Curve:
    """A quantity of the steps of a run.

    Attributes
    ----------
    values : mapping of int to (float or None)
        By index of the step; None where it was not finite.
    unit : float
        Of the last digit that is known; 0 where all are.
    """

    values: Mapping[int, float | None]
    unit: float = 0.0


@dataclass(frozen=True)
class Losses:
    """Losses and gradient norms of a run; a curve without values where they are not known."""

    loss: Curve
    grad_norm: Curve


@dataclass(frozen=True)
class Numerics:
    """Whether two runs agree; ``agree`` is None where there is nothing to compare."""

    agree: bool | None
    text: str


def compare(base: Losses, other: Losses, tolerance: float = TOLERANCE) -> Numerics:
    """Compare the steps that both runs have.

    Parameters
    ----------
    base, other : Losses
        Of the two runs.
    tolerance : float
        See `TOLERANCE`. What was printed with few digits may differ by the last of them as well.

    Returns
    -------
    Numerics
        With the first step that differs, if one does.
    """
    steps = sorted({*base.loss.values} & {*other.loss.values})
    if not steps:
        return Numerics(None, "there are no losses to compare, so it is not known if they agree")
    pairs = (
        ("loss", tolerance, base.loss, other.loss),
        ("gradient norm", _NORM * tolerance, base.grad_norm, other.grad_norm),
    )
    for position, index in enumerate(steps, 1):
        for what, limit, ours, theirs in pairs:
            if _differ(ours, theirs, index, limit):
                return Numerics(
                    False,
                    f"numerics differ from step {position} of {len(steps)} (index {index}): {what} "
                    f"{_written(theirs.values[index])} instead of {_written(ours.values[index])}",
                )
    return Numerics(True, _agreement(steps, base.loss))


def _differ(one: Curve, other: Curve, index: int, limit: float) -> bool:
    if index not in one.values or index not in other.values:
        return False
    ours, theirs = one.values[index], other.values[index]
    if ours is None or theirs is None:
        return ours is not theirs
    rounding = max(one.unit, other.unit)
    return abs(ours - theirs) > limit * max(abs(ours), abs(theirs)) + rounding


def _written(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


def _agreement(steps: list[int], loss: Curve) -> str:
    text = f"numerics agree over {len(steps)} step{'s' * (len(steps) > 1)}"
    lost = [index for index in steps if loss.values[index] is None]
    return f"{text}, but from index {lost[0]} on losses are not finite" if lost else text


def from_manifest(manifest: Mapping[str, Any]) -> Losses:
    """Return what the manifest of a workload's run tells; it has to be ours."""
    steps = manifest.get("steps", ())
    return Losses(
        Curve({step["index"]: step["loss"] for step in steps}),
        Curve({step["index"]: step["grad_norm"] for step in steps}),
    )


def from_log(text: str) -> Losses:
    """Return what a log tells, see `step_lines`."""
    lines = step_lines(text)
    norms = {line.index: line.grad_norm for line in lines}
    told = any(norm is not None for norm in norms.values())
    return Losses(
        _printed({line.index: line.loss for line in lines}), _printed(norms if told else {})
    )


def _printed(values: Mapping[int, float | None]) -> Curve:
    """Return a curve from a log, where a number with more digits shows how many there are."""
    exponents = [_exponent(value) for value in values.values() if value is not None]
    return Curve(values, 10.0 ** min(exponents) if exponents else 0.0)


def _exponent(value: float) -> int:
    exponent = Decimal(repr(value)).as_tuple().exponent
    assert isinstance(exponent, int)  # others are of what is not finite
    return exponent


def step_lines(text: str) -> list[StepLine]:
    """Read the lines of a log that tell the loss of a training step.

    A line has to have ``step N`` and ``loss X``, and may have ``grad norm X``, ``X ms`` or
    ``seconds X``, with blanks, ``:`` or ``=`` between them. So it is with the workloads and with
    MaxText. Lines on evaluations are passed over.

    Returns
    -------
    list of StepLine
        By index; of several lines on a step, the last.

    Examples
    --------
    >>> step_lines("completed step: 3, seconds: 1.25, TFLOP/s/device: 9.1, loss: 2.345")
    [StepLine(index=3, loss=2.345, grad_norm=None, ms=1250.0)]
    """
    read = {line.index: line for line in _read(text.splitlines())}
    return [read[index] for index in sorted(read)]


def _read(lines: Iterable[str]) -> Iterable[StepLine]:
    for line in lines:
        step, loss = _STEP.search(line), _LOSS.search(line)
        if step and loss and not _EVALUATION.search(line):
            norm = _GRAD_NORM.search(line)
            yield StepLine(
                int(step[1]), _finite(loss[1]), _finite(norm[1]) if norm else None, _ms(line)
            )


def _finite(text: str) -> float | None:
    return float(text) if text.lstrip("+-")[0].isdigit() else None


def _ms(line: str) -> float | None:
    found = _TIME.search(line)
    if not found:
        return None
    return float(found[1]) * 1e3 if found[1] else float(found[2])
