"""Run a compiled step again and again: when to wait, what to time, what to record.

::

    step      0   1 | 2   3   4 |
              warm- | recorded  |         each step is waited for: its own time
              up    | by nsys   |

With ``ahead`` steps are dispatched without a wait between them, as in training, except in the
warm-up and at the borders of the recorded steps. Then a step's time is the mean of its group.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from nsysoffload.errors import UsageError
from workloads.instrument import DATA, DISPATCH, STEP, WAIT, Switch, span

__all__ = ["Plan", "StepRecord", "plan", "run"]


@dataclass(frozen=True)
class Plan:
    """Which steps to run.

    Attributes
    ----------
    steps : int
        How many; they count from 0.
    warmup : int
        The first of them, which are not judged.
    profiled : range
        Those around which a profiler is switched on and off.
    ahead : bool
        Whether steps are dispatched without waiting for the one before.
    """

    steps: int
    warmup: int
    profiled: range
    ahead: bool

    def waits_after(self, index: int) -> bool:
        """Whether the host waits for a step before it dispatches the next one."""
        borders = (self.profiled.start, self.profiled.stop, self.steps)
        return not self.ahead or index < self.warmup or index + 1 in borders


@dataclass(frozen=True)
class StepRecord:
    """What one step gave.

    Attributes
    ----------
    loss, grad_norm : float or None
        Exactly the float32 values of the device; None where they are not finite.
    ms : float
        From its dispatch until its results were there; of steps that were dispatched ahead, the
        mean.
    warm : bool
        Whether it came after the warm-up.
    profiled : bool
        Whether the profiler was switched on.
    """

    index: int
    loss: float | None
    grad_norm: float | None
    ms: float
    warm: bool
    profiled: bool


def plan(steps: int, warmup: int | None, profile: str | None, *, ahead: bool) -> Plan:
    """Make a plan.

    Parameters
    ----------
    steps : int
        How many steps.
    warmup : int, optional
        How many of them are warm-up; else 2, or fewer where there are no more.
    profile : str, optional
        ``A..B``, both included, or ``N`` for the first N warm steps; else all warm steps.
    ahead : bool
        Whether steps are dispatched without waiting for the one before.

    Raises
    ------
    UsageError
        If no step would be warm, or steps to be profiled are none of the warm ones.
    """
    warmup = min(2, steps - 1) if warmup is None else warmup
    if warmup >= steps:
        raise UsageError(
            f"All {steps} steps would be warm-up; ask for more --steps or fewer --warmup."
        )
    return Plan(steps, warmup, _profiled(profile, range(warmup, steps)), ahead)


def _profiled(text: str | None, warm: range) -> range:
    if text is None:
        return warm
    first, dots, last = text.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()):
        raise UsageError(
            f"'{text}' names no steps; write A..B, such as {warm.start}..{warm[-1]}, or a number."
        )
    start, stop = (int(first), int(last) + 1) if dots else (warm.start, warm.start + int(first))
    if not warm.start <= start < stop <= warm.stop:
        raise UsageError(
            f"Steps {text} cannot be profiled; choose from the warm ones, {warm[0]}..{warm[-1]}."
        )
    return range(start, stop)


def run(
    compiled: Callable[[Any, jax.Array], tuple[Any, dict[str, jax.Array]]],
    state: Any,
    batch: Callable[[int], jax.Array],
    plan: Plan,
    switch: Switch,
    progress: Callable[[StepRecord], None],
) -> list[StepRecord]:
    """Run the steps of a plan.

    Parameters
    ----------
    compiled : function
        The step: state and tokens to the next state and its metrics. The state may be donated.
    state : pytree
        The first one.
    batch : function
        Step index to tokens on the devices.
    plan : Plan
        Which steps, and when to wait.
    switch : Switch
        Of a profiler, which is started and stopped while the devices are idle.
    progress : function
        Called with each step's record as soon as it is known.

    Returns
    -------
    list of StepRecord
        In the order of the steps.
    """
    records: list[StepRecord] = []
    flying: list[dict[str, jax.Array]] = []
    began = 0
    for index in range(plan.steps):
        if index == plan.profiled.start:
            switch.start()
        with span(DATA, index):
            tokens = batch(index)
        if not flying:
            began = time.perf_counter_ns()
        with span(STEP, index):
            with span(DISPATCH, index):
                state, metrics = compiled(state, tokens)
            flying.append(metrics)
            if plan.waits_after(index):
                with span(WAIT, index):
                    jax.block_until_ready((state, metrics))
        if plan.waits_after(index):
            landed = _records(plan, index, flying, time.perf_counter_ns() - began)
            for record in landed:
                progress(record)
            records += landed
            flying = []
        if index + 1 == plan.profiled.stop:
            switch.stop()
    return records


def _records(
    plan: Plan, last: int, metrics: list[dict[str, jax.Array]], took_ns: int
) -> list[StepRecord]:
    """Return the records of the steps up to the last, which took this time together."""
    return [
        StepRecord(
            index=index,
            loss=_finite(each["loss"]),
            grad_norm=_finite(each["grad_norm"]),
            ms=took_ns / len(metrics) / 1e6,
            warm=index >= plan.warmup,
            profiled=index in plan.profiled,
        )
        for index, each in enumerate(metrics, last + 1 - len(metrics))
    ]


def _finite(value: jax.Array) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
