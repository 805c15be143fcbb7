"""Plan: compile the fixed policies, search for better ones, try presets of flags on the best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.planning.model import Candidate, Limits, Plan, judged
from nsysoffload.planning.search import search
from nsysoffload.planning.space import space
from nsysoffload.recorders.flags import PRESETS
from nsysoffload.recorders.predict.capture import Request, options_of
from nsysoffload.recorders.predict.kept import Asked, Outcome, predicted_runs
from nsysoffload.recorders.predict.memory import SLOP, planned_bytes, roomy_slop, slop_of
from nsysoffload.recorders.variants import folder_name
from nsysoffload.trace.prediction import Prediction
from workloads.config import model
from workloads.recompute import recompute_under

__all__ = ["COMPILES", "FIXED", "TRIED_PRESETS", "plan"]

COMPILES = 8
FIXED = ("remat", "none", "dots", "offload", "offload-dots")
"""Policies that are always compiled: what a plan has to be better than."""

TRIED_PRESETS = ("default", "pipelined", "pipelined+double-buffering")
_BEST = 2  # policies that are tried under all presets

Say = Callable[[str], None]


def plan(
    request: Request,
    directory: Path,
    *,
    device_limit_bytes: int | None = None,
    host_limit_bytes: int | None = None,
    compiles: int = COMPILES,
    names: Sequence[str] | None = None,
    presets: Sequence[str] = TRIED_PRESETS,
    progress: Say = lambda text: None,
) -> Plan:
    """Search which named values of a train step to keep, to offload and to recompute.

    Parameters
    ----------
    request : Request
        What is trained and for which GPU; its preset gives way to `presets`.
    directory : Path
        Folder for the runs. Finished ones in it are used again.
    device_limit_bytes : int, optional
        Memory of a device that a step may take; the whole of the target's where none is given.
    host_limit_bytes : int, optional
        Host memory that it may take for each device; the target's where none is given.
    compiles : int
        How many policies to compile at most, beside the fixed ones and the presets of the best.
    names : sequence of str, optional
        Values that may be kept or offloaded; all that the model names where none are given.
    presets : sequence of str
        Presets of XLA flags: the search is made with the first, the best policies are tried with
        the others as well.
    progress : callable, optional
        Called with a sentence when a run is there, from several threads.

    Returns
    -------
    Plan
        What fits is judged by the compiled programs. Expected steps decide which is best.

    Raises
    ------
    OffloadError
        If a limit, a name or a preset makes no sense, or not even ``remat`` can be compiled.
    """
    target = TARGETS[request.target]
    limits = Limits(
        _positive(device_limit_bytes, target.memory_bytes, "device"),
        _positive(host_limit_bytes, target.host_memory_bytes, "host"),
    )
    _check(presets, compiles)
    placements = space(request, names)
    runs = _Runs(replace(request, preset=presets[0]), directory, limits, progress)
    fixed = runs.compiled(FIXED)
    if "remat" not in fixed:
        raise runs.errors["remat"]
    search(placements, limits, runs.compiled, fixed, compiles)
    best = _best(runs.candidates, presets[0])
    for preset in presets[1:]:
        runs.under(preset, best)
    return judged(request, limits, placements.names, len(placements), tuple(runs.candidates))


def _positive(given: int | None, default: int, whose: str) -> int:
    if given is not None and given < 1:
        raise UsageError(f"A {whose} limit of {given} bytes holds nothing; give 1 or more.")
    return default if given is None else given


def _check(presets: Sequence[str], compiles: int) -> None:
    if not presets:
        raise UsageError("There is no preset to compile with; name one, such as default.")
    for preset in presets:
        if preset not in PRESETS:
            raise UsageError(
                f"There is no XLA preset '{preset}'; choose from {', '.join(PRESETS)}."
            )
    if compiles < 0:
        raise UsageError(f"Nothing can be compiled {compiles} times; give 0 or more.")


def _best(candidates: Sequence[Candidate], preset: str) -> list[str]:
    fitting = sorted((c for c in candidates if c.fits), key=lambda c: c.step_ns)
    policies = dict.fromkeys(c.policy for c in fitting if c.preset == preset)
    return list(policies)[:_BEST]


class _Runs:
    """Compiles policies into a folder, and notes all that was compiled."""

    def __init__(self, request: Request, directory: Path, limits: Limits, progress: Say) -> None:
        self.candidates: list[Candidate] = []
        self.errors: dict[str, OffloadError] = {}
        self._told: set[str] = set()  # errors: what is wrong with one may be with all
        self._request, self._directory, self._limits = request, directory, limits
        self._progress, self._lock = progress, Lock()
        workload = options_of(request).workload
        assert workload
        self._workload = workload

    def compiled(self, policies: Sequence[str]) -> Mapping[str, Prediction]:
        """Return the predictions of those that can be compiled with the preset of the search."""
        return self._run(self._request, policies, "")

    def under(self, preset: str, policies: Sequence[str]) -> None:
        """Compile policies with the flags of another preset."""
        self._run(replace(self._request, preset=preset), policies, f"+{preset}")

    def _run(
        self, request: Request, policies: Sequence[str], suffix: str
    ) -> Mapping[str, Prediction]:
        asked = [
            Asked(request, policy, self._directory / f"{folder_name(policy)}{suffix}")
            for policy in policies
        ]
        outcomes = predicted_runs(asked, self._tell)
        self.errors |= {o.asked.variant: o.error for o in outcomes if o.error}
        outcomes += predicted_runs([*self._roomier(outcomes)], self._tell)
        found = [self._candidate(outcome) for outcome in outcomes]
        self.candidates += found
        best: dict[str, Candidate] = {}
        for candidate in sorted(found, key=lambda c: (not c.fits, c.step_ns)):
            best.setdefault(candidate.policy, candidate)
        return {policy: c.prediction for policy, c in best.items() if c.prediction}

    def _roomier(self, outcomes: Sequence[Outcome]) -> Iterator[Asked]:
        """Yield what fits, but was ordered for memory, with flags that let XLA plan with all."""
        for outcome in outcomes:
            made, request = outcome.prediction, outcome.asked.request
            if made is None or made.memory is None or not self._limits.admit(made):
                continue
            target, memory = TARGETS[request.target], made.memory
            lasting = memory.device_bytes - memory.temp_bytes
            slop = slop_of(made.flags)
            roomy = roomy_slop(lasting, target, self._limits.device_bytes)
            if memory.temp_bytes <= planned_bytes(lasting, target, slop) or roomy <= slop:
                continue
            flags = f"{request.flags} {SLOP}{roomy}".strip()
            folder = outcome.asked.folder
            yield replace(
                outcome.asked,
                request=replace(request, flags=flags),
                folder=folder.with_name(f"{folder.name}+slop{roomy}"),
            )

    def _candidate(self, outcome: Outcome) -> Candidate:
        asked, made = outcome.asked, outcome.prediction
        config = model(asked.request.model, asked.request.layers)
        size = (self._workload.batch, self._workload.seq)
        return Candidate(
            policy=asked.variant,
            preset=asked.request.preset,
            flags=asked.request.flags,
            folder=asked.folder,
            prediction=made,
            fits=made is not None and self._limits.admit(made),
            recompute_flops=recompute_under(asked.variant, config, *size),
            is_fixed=asked.variant in FIXED,
            error=str(outcome.error) if outcome.error else None,
        )

    def _tell(self, outcome: Outcome) -> None:
        request = outcome.asked.request
        flags = f", {request.flags}" if request.flags != self._request.flags else ""
        what = f"{outcome.asked.variant} ({request.preset}{flags})"
        how = "found" if outcome.was_kept else "compiled"
        with self._lock:
            error = str(outcome.error or "")
            self._progress(f"{what}: {'the same' if error in self._told else error or how}")
            self._told |= {error} - {""}
