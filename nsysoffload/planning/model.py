"""What a plan says: the policies that were compiled, which of them fit, and which is best."""

from dataclasses import dataclass
from pathlib import Path

from nsysoffload.comparison.ranking import Order, ranking
from nsysoffload.recorders.predict.capture import Request
from nsysoffload.trace.prediction import Prediction

__all__ = ["Candidate", "Limits", "Plan"]


@dataclass(frozen=True)
class Limits:
    """Memory that a step may take: of each device, and of the host for each device, in bytes."""

    device_bytes: int
    host_bytes: int

    def admit(self, prediction: Prediction) -> bool:
        """Tell whether a compiled program stays within them."""
        return self.excess(prediction) <= 1

    def excess(self, prediction: Prediction) -> float:
        """Return how many times a limit a program needs, of the two the one that it breaks most."""
        memory = prediction.memory
        if memory is None:
            return float("inf")
        return max(memory.device_bytes / self.device_bytes, memory.host_bytes / self.host_bytes)


@dataclass(frozen=True)
class Candidate:
    """A policy that was compiled with the flags of a preset, or should have been.

    Attributes
    ----------
    policy, preset, flags : str
        See `workloads.policies` and `nsysoffload.recorders.flags.PRESETS`; flags beside these.
    folder : Path
        Its run folder.
    prediction : Prediction or None
        None where it could not be compiled.
    fits : bool
        Whether the compiled program stays within the limits.
    recompute_flops : int
        Floating-point operations that are run again in a step, over all devices.
    is_fixed : bool
        Whether it is one of the policies that are always compiled, not one that was found.
    error : str or None
        Why it could not be compiled.
    """

    policy: str
    preset: str
    flags: str
    folder: Path
    prediction: Prediction | None
    fits: bool
    recompute_flops: int
    is_fixed: bool
    error: str | None = None

    @property
    def step_ns(self) -> float:
        """Expected time of a step; infinite where it is not known."""
        return self.prediction.step.expected_ns if self.prediction else float("inf")


@dataclass(frozen=True)
class Plan:
    """The result of a search.

    Attributes
    ----------
    request : Request
        What is trained, and for which GPU.
    limits : Limits
        Memory that it may take.
    names : tuple of str
        Values that could be kept or offloaded; all others are recomputed.
    placements : int
        How many ways there are to place them.
    candidates : tuple of Candidate
        All that was compiled, in that order.
    best : Candidate or None
        The one with the shortest expected step of those that fit; None where none does.
    rivals : tuple of Candidate
        Those that fit and that the model's ranges do not tell apart from the best, fastest first.
    nearest : Candidate or None
        Where none fits, the one that breaks the limits least.
    """

    request: Request
    limits: Limits
    names: tuple[str, ...]
    placements: int
    candidates: tuple[Candidate, ...]
    best: Candidate | None
    rivals: tuple[Candidate, ...]
    nearest: Candidate | None


def judged(
    request: Request,
    limits: Limits,
    names: tuple[str, ...],
    placements: int,
    candidates: tuple[Candidate, ...],
) -> Plan:
    """Make a plan of what was compiled: which fits, and of those which is best."""
    fitting = sorted((c for c in candidates if c.fits), key=lambda c: c.step_ns)
    best = fitting[0] if fitting else None
    known = [c for c in candidates if c.prediction]
    return Plan(
        request=request,
        limits=limits,
        names=names,
        placements=placements,
        candidates=candidates,
        best=best,
        rivals=tuple(c for c in fitting[1:] if best and _is_rival(best, c)),
        nearest=None if best else min(known, key=lambda c: _excess(limits, c), default=None),
    )


def _is_rival(best: Candidate, other: Candidate) -> bool:
    assert best.prediction
    assert other.prediction
    return ranking(best.prediction, other.prediction).order is Order.CANNOT_TELL


def _excess(limits: Limits, candidate: Candidate) -> float:
    return limits.excess(candidate.prediction) if candidate.prediction else float("inf")
