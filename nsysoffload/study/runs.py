"""Predict and analyse the runs of a study; what is finished is kept, what fails is told.

A group's folder ``MODEL/bBATCH`` holds a run folder for each variant and, in ``plan``, what the
search for the best policy compiled, of which the variants make use.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from nsysoffload.analysis import analyze
from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.output import write
from nsysoffload.planning import Plan, plan
from nsysoffload.processes import each
from nsysoffload.recorders.predict.capture import Request
from nsysoffload.recorders.predict.kept import Asked, kept, predicted_runs
from nsysoffload.recorders.predict.kept import Outcome as Made
from nsysoffload.report.format import size
from nsysoffload.report.model import Report
from nsysoffload.study.cases import Case, Study
from nsysoffload.study.compose import Outcome, Search

__all__ = ["Say", "runs"]

Say = Callable[[str], None]
"""Called with a sentence on what was done."""

_PLAN = "plan"
_PAGE = "report.html"
_NONE_FITS = "no policy was found that fits on the device and on the host"


def runs(
    study: Study, directory: Path, *, reports: bool, progress: Say
) -> tuple[list[Outcome], dict[str, Search]]:
    """Predict and analyse all runs of a study.

    Parameters
    ----------
    study : Study
        What to run.
    directory : Path
        Its folder. Finished runs in it are taken as they are.
    reports : bool
        Whether to write the report of each run into its folder.
    progress : callable
        Called with a sentence when something is done.

    Returns
    -------
    list of Outcome
        What became of each case, in their order.
    dict of str to Search
        What the searches for the best policy found, by the folder of the group.

    Raises
    ------
    UsageError
        If the folder cannot be made.
    """
    _make(directory)
    cases = list(study.cases())
    told = _Progress(len(cases), progress)
    outcomes: list[Outcome] = []
    searches: dict[str, Search] = {}
    for group in dict.fromkeys(case.group for case in cases):
        members = [case for case in cases if case.group == group]
        found = _search(study, members, directory, told)
        if found.search:
            searches[group] = found.search
        outcomes += _predicted(study, members, directory, found, told)
    return _analysed(outcomes, directory, reports=reports, told=told), searches


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The study cannot be written to {directory}: {error.strerror}; name another folder."
        ) from error


class _Progress:
    """Says what is done, how many of how many runs, and how long it took so far."""

    def __init__(self, total: int, say: Say) -> None:
        self._total, self._tell = total, say
        self._done = 0
        self._start = time.monotonic()
        self._lock = Lock()

    def say(self, text: str, *, runs: int = 0) -> None:
        """Say something, which finishes so many runs."""
        with self._lock:
            self._done += runs
            minutes, seconds = divmod(round(time.monotonic() - self._start), 60)
            self._tell(f"[{self._done} of {self._total}, {minutes}:{seconds:02d}] {text}")


# --- The best policy ---


@dataclass(frozen=True)
class _Found:
    """What a search found, and the folders of what it compiled, by policy, preset and flags.

    ``flags`` are those beside the preset that the best policy was found with.
    """

    search: Search | None = None
    compiled: Mapping[tuple[str, str, str], Path] = field(default_factory=dict)
    flags: str = ""

    @property
    def policy(self) -> str | None:
        """Return the best policy."""
        return self.search.policy if self.search else None

    @property
    def why(self) -> str | None:
        """Return why there is none."""
        return self.search.note if self.search else None


def _search(study: Study, cases: Sequence[Case], directory: Path, told: _Progress) -> _Found:
    """Search the best policy of a group, where one of its variants asks for it."""
    if all(case.variant.policy for case in cases):
        return _Found()
    name = f"{cases[0].subject.model}, batch {cases[0].batch}"
    told.say(f"{name}: searching the best policy")
    try:
        made = plan(
            _request(study, cases[0], "default", ""),
            directory / cases[0].group / _PLAN,
            compiles=study.compiles,
            presets=("default",),
            progress=lambda text: told.say(f"{name}: {text}"),
        )
    except OffloadError as error:
        return _Found(Search(None, str(error)))
    compiled = {(c.policy, c.preset, c.flags): c.folder for c in made.candidates if c.prediction}
    return _Found(_searched(made), compiled, made.best.flags if made.best else "")


def _searched(made: Plan) -> Search:
    """Return the best policy and those that cannot be told from it, or why there is none."""
    if made.best:
        rivals = ", ".join(rival.policy for rival in made.rivals)
        note = f"the model's range does not tell it apart from {rivals}" if rivals else None
        return Search(made.best.policy, note)
    memory = made.nearest.prediction.memory if made.nearest and made.nearest.prediction else None
    if made.nearest is None or memory is None:
        return Search(None, _NONE_FITS)
    needs = f"{size(memory.device_bytes)} and {size(memory.host_bytes)}"
    return Search(None, f"{_NONE_FITS}; {made.nearest.policy} comes nearest with {needs}")


# --- Predictions ---


def _request(study: Study, case: Case, preset: str, flags: str) -> Request:
    return Request(
        model=case.subject.model,
        target=study.target,
        mesh=case.subject.mesh,
        batch=case.batch,
        seq=study.seq,
        layers=study.layers,
        preset=preset,
        flags=flags,
    )


def _predicted(
    study: Study, cases: Sequence[Case], directory: Path, found: _Found, told: _Progress
) -> list[Outcome]:
    """Predict the runs of a group, or take them as they are."""
    policies = {case: case.variant.policy or found.policy for case in cases}
    asked: dict[Path, tuple[Case, Asked]] = {}
    for case, policy in policies.items():
        if policy is None:
            told.say(f"{case.text}: not run; {found.why}", runs=1)
            continue
        preset, folder = case.variant.preset, directory / case.folder
        flags = "" if case.variant.policy else found.flags
        wanted = Asked(_request(study, case, preset, flags), policy, folder)
        _adopt(found.compiled.get((policy, preset, flags)), wanted)
        asked[folder] = (case, wanted)

    def say(made: Made) -> None:
        end = f"failed; {made.error}" if made.error else "kept" if made.was_kept else "predicted"
        told.say(f"{asked[made.asked.folder][0].text}: {end}", runs=1)

    made = predicted_runs([run for _, run in asked.values()], say)
    failed = {asked[m.asked.folder][0]: str(m.error) if m.error else None for m in made}
    return [
        Outcome(case, policy, failed=failed[case] if policy else found.why)
        for case, policy in policies.items()
    ]


def _adopt(compiled: Path | None, wanted: Asked) -> None:
    """Copy a run that the search compiled, where it is not there yet; the manifest makes it one."""
    if compiled is None or kept(wanted.request, wanted.variant, wanted.folder):
        return
    wanted.folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(compiled.iterdir(), key=lambda file: file.name == "manifest.json"):
        shutil.copyfile(file, wanted.folder / file.name)


# --- Reports ---


def _analysed(
    outcomes: Sequence[Outcome], directory: Path, *, reports: bool, told: _Progress
) -> list[Outcome]:
    """Analyse the runs that are there, and write their reports."""
    there = [outcome for outcome in outcomes if not outcome.failed]
    told.say(f"analysing {len(there)} runs")
    folders = [directory / outcome.case.folder for outcome in there]
    work = partial(_report, writing=reports)
    found = dict(zip(folders, each(work, folders, os.cpu_count() or 1), strict=True))
    return [_with_report(o, found.get(directory / o.case.folder), reports) for o in outcomes]


def _report(folder: Path, *, writing: bool) -> Report | str:
    """Return the report of a run, or why there is none."""
    try:
        report = analyze(folder)
        if writing:
            write(report, folder)
    except OffloadError as error:
        return str(error)
    return report


def _with_report(outcome: Outcome, found: Report | str | None, written: bool) -> Outcome:
    if found is None:
        return outcome
    case, policy = outcome.case, outcome.policy
    if isinstance(found, str):
        return Outcome(case, policy, failed=found)
    return Outcome(case, policy, found, page=f"{case.folder}/{_PAGE}" if written else None)
