"""Record a run, make a profile of it, record it again with the profile, and compare the two.

::

    DIR/before ──> DIR/profile ──> DIR/after        DIR/before, DIR/after ──> the better one
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from nsysoffload.comparison.files import compare
from nsysoffload.comparison.model import Comparison, Pair, StepChange
from nsysoffload.comparison.verdict import percent, signed
from nsysoffload.profiles.check import UNMOVED
from nsysoffload.profiles.costs import Copies
from nsysoffload.profiles.distances import distances
from nsysoffload.profiles.files import Written, read, write
from nsysoffload.profiles.guided import (
    Use,
    accepting,
    refuse_measured,
    refuse_predicted,
    use_in,
)
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.profile import COPIES, Profile, profile
from nsysoffload.profiles.run import module_text
from nsysoffload.recorders.measured import request as measured
from nsysoffload.recorders.measured.capture import Capture
from nsysoffload.recorders.predict import capture as predicted
from nsysoffload.recorders.predict.kept import predicted_run
from nsysoffload.recorders.variants import Variant

__all__ = [
    "AFTER",
    "BEFORE",
    "COMPARE",
    "PROFILE",
    "Measuring",
    "Predicting",
    "Recording",
    "Tuned",
    "tune",
]

BEFORE, PROFILE, AFTER, COMPARE = "before", "profile", "after", "compare"
"""Names of the folders: the two runs, the profile, and their comparison."""


class Recording(Protocol):
    """Records one program, without a profile and with one."""

    def record(self, folder: Path, given: Written | None) -> Use | None:
        """Record a run into a folder; return what XLA made of the profile where that is new."""

    def flags(self, given: Written | None) -> tuple[str, ...]:
        """Return XLA's flags of such a run."""


@dataclass(frozen=True)
class Predicting:
    """Records by predicting; a run that an earlier call left in the folder is taken as it is.

    Attributes
    ----------
    request, variant
        As for `nsysoffload.recorders.predict.capture.recorded`.
    say : callable
        Takes a sentence on how it goes.
    """

    request: predicted.Request
    variant: str
    say: Callable[[str], None] = lambda text: None

    def record(self, folder: Path, given: Written | None) -> None:
        """Predict a run into a folder, see `Recording`."""
        request = self._request(given)
        if given:
            refuse_predicted(given, request, [self.variant])
            accept = accepting(given, self.say)
            _, was_kept = predicted_run(request, self.variant, folder, self.say, accept=accept)
        else:
            _, was_kept = predicted_run(request, self.variant, folder, self.say)
        if was_kept:
            self.say(f"{folder.name}: there already")

    def flags(self, given: Written | None) -> tuple[str, ...]:
        """Return XLA's flags, see `Recording`."""
        return predicted.flags_of(self._request(given))

    def _request(self, given: Written | None) -> predicted.Request:
        return replace(self.request, profile=given.path if given else None)


@dataclass(frozen=True)
class Measuring:
    """Records by measuring, each run anew: two runs are to be of one machine in one state.

    Attributes
    ----------
    capture : Capture
        What records it.
    variant : Variant
        What is recorded.
    """

    capture: Capture
    variant: Variant

    def record(self, folder: Path, given: Written | None) -> Use | None:
        """Measure a run into a folder, see `Recording`."""
        request = self._request(given)
        if given:
            refuse_measured(given, request, [self.variant], self.capture.environment)
        capture = replace(self.capture, request=request, directory=folder.parent)
        capture.runs([replace(self.variant, place=folder.name)])
        return use_in(given, folder) if given else None

    def flags(self, given: Written | None) -> tuple[str, ...]:
        """Return XLA's flags, see `Recording`."""
        return measured.flags_of(self._request(given), self.variant, self.capture.environment)

    def _request(self, given: Written | None) -> measured.Request:
        return replace(self.capture.request, profile=given.path if given else None)


@dataclass(frozen=True)
class Tuned:
    """What came of tuning.

    Attributes
    ----------
    profile : Profile
        The profile.
    use : Use or None
        What XLA made of it, where that is not told before.
    comparison : Comparison
        The run with the profile against the one without.
    kept : Path
        Folder of the better run; where no difference can be told, that without the profile.
    flags : tuple of str
        XLA's flags of the better run, the profile included if it is used.
    """

    profile: Profile
    use: Use | None
    comparison: Comparison
    kept: Path
    flags: tuple[str, ...]

    @property
    def pays(self) -> bool:
        """Tell whether the run with the profile is the better one."""
        return self.kept.name == AFTER

    @property
    def text(self) -> str:
        """Say in a sentence which run is kept, and why."""
        (pair,) = self.comparison.pairs
        with_it = "with" if self.pays else "without"
        return f"Kept: {self.kept}, {with_it} the profile; {_reason(pair)}."


def tune(
    recording: Recording,
    directory: Path,
    *,
    copies: Copies = COPIES,
    noted: Callable[[str], None] = lambda text: None,
) -> Tuned:
    """Record a run, make a profile of it, and record it again with the profile.

    Parameters
    ----------
    recording : Recording
        What records it.
    directory : Path
        For `BEFORE`, `PROFILE` and `AFTER`.
    copies : Copies
        What the profile is to say of host copies.
    noted : callable, optional
        Called with sentences on what to keep in mind.

    Raises
    ------
    OffloadError
        If a run cannot be recorded or compared, or there is no profile of it.
    """
    before, after = directory / BEFORE, directory / AFTER
    recording.record(before, None)
    made = profile([before], copies=copies).profile
    for note in made.notes:
        noted(note)
    write(made, directory / PROFILE, replacing=True)
    given = read(directory / PROFILE)
    use = recording.record(after, given)
    if _unmoved(before, after):
        noted(UNMOVED)
    comparison = compare(before, after)
    (pair,) = comparison.pairs
    pays = pair.verdict.outcome == "better"
    kept, flags = (after, recording.flags(given)) if pays else (before, recording.flags(None))
    return Tuned(made, use, comparison, kept, flags)


def _unmoved(*folders: Path) -> bool:
    """Tell whether two runs have host copies, and all of them at the same places."""
    texts = [module_text(folder / "trace.sqlite") for folder in folders]
    before, after = (distances(text, instructions(text)) for text in texts)
    return before == after != ()


# --- What to say ---


def _reason(pair: Pair) -> str:
    outcome = pair.verdict.outcome
    if outcome == "not_comparable":
        return "; ".join(reason.text for reason in pair.verdict.reasons)
    if outcome == "identical_input":
        return "both runs are the same"
    times = _times(pair.step) if pair.step else "the time of a step is not known"
    if outcome == "cannot_tell":
        return f"whether the profile gains anything cannot be told: {times}"
    if outcome == "no_difference":
        return f"the profile makes no difference: {times}"
    return times


def _times(step: StepChange) -> str:
    less = "less" if step.relative < 0 else "more"
    span = ""
    if step.low is not None and step.high is not None:
        between = f"{signed(step.low)} to {signed(step.high)}"
        is_model = step.noise_from == "model"
        span = f" ({between} in the model's range)" if is_model else f" (95 % interval {between})"
    return f"a step with it takes {percent(abs(step.relative))} {less}{span}"
