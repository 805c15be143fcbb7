"""How much slower a step is under the profiler than without it."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nsysoffload.recorders.measured.child import Ended
from nsysoffload.recorders.measured.recorder import Recorded
from nsysoffload.trace.numerics import step_lines

__all__ = ["Overhead", "overhead"]


@dataclass(frozen=True)
class Overhead:
    """Times of a step without and with the profiler.

    Attributes
    ----------
    bare_step_ms, profiled_step_ms : float or None
        Medians.
    null_reason : str or None
        Why there is no factor.
    """

    bare_step_ms: float | None = None
    profiled_step_ms: float | None = None
    null_reason: str | None = None

    @property
    def factor(self) -> float | None:
        """By how much of itself a step takes longer."""
        if self.null_reason or not self.bare_step_ms or self.profiled_step_ms is None:
            return None
        return round(self.profiled_step_ms / self.bare_step_ms - 1, 6)

    def as_manifest(self) -> dict[str, float | str | None]:
        """Return the entries of a run's manifest."""
        return {
            "bare_step_ms": self.bare_step_ms,
            "profiled_step_ms": self.profiled_step_ms,
            "overhead": self.factor,
            "overhead_null_reason": self.null_reason,
        }

    def __str__(self) -> str:
        """Return the end of a sentence."""
        if self.factor is None:
            return ""
        return (
            f", step {self.profiled_step_ms:.2f} ms ({self.factor:+.1%} of "
            f"{self.bare_step_ms:.2f} ms without the profiler)"
        )


def overhead(
    bare: Ended | None,
    bare_manifest: Mapping[str, Any],
    recorded: Recorded,
    manifest: Mapping[str, Any],
) -> Overhead:
    """Compare a run without the profiler with the recorded one.

    Parameters
    ----------
    bare : Ended or None
        How the run without it ended; None if there was none.
    bare_manifest, manifest : mapping
        What the workload wrote in either; empty for another command, whose log then tells.
    recorded : Recorded
        The recorded run.
    """
    if bare is None:
        return Overhead(null_reason="the step was not timed without the profiler")
    if manifest:
        before = [step["ms"] for step in bare_manifest["steps"] if step["warm"]]
        after = [step["ms"] for step in manifest["steps"] if step["profiled"]]
    elif recorded.capture_range != "whole":
        return Overhead(null_reason="its log does not tell which steps were recorded")
    else:
        before = _logged(bare.printed)
        after = _logged(recorded.ended.printed)
    if not before or not after:
        return Overhead(null_reason="its log tells no times of steps")
    return Overhead(statistics.median(before), statistics.median(after))


def _logged(printed: str) -> list[float]:
    """Return the times of the steps in a log, without the first, in which XLA compiles."""
    return [line.ms for line in step_lines(printed)[1:] if line.ms is not None]
