"""Predictions that an earlier run left in its folder, so that none is compiled twice."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from nsysoffload.errors import OffloadError, TraceError
from nsysoffload.recorders.predict.capture import Accept, Request, made_of, options_of, recorded
from nsysoffload.recorders.predict.process import Cancelled
from nsysoffload.recorders.predict.run_folder import is_whole, read_manifest
from nsysoffload.recorders.predict.versions import VersionError
from nsysoffload.trace.export import Export
from nsysoffload.trace.metadata import source
from nsysoffload.trace.prediction import Prediction

__all__ = ["Asked", "Outcome", "kept", "predicted_run", "predicted_runs"]


@dataclass(frozen=True)
class Asked:
    """A run that is wanted, and the folder that it is or goes in."""

    request: Request
    variant: str
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a run: its prediction, made now or earlier, or why there is none."""

    asked: Asked
    prediction: Prediction | None
    was_kept: bool = False
    error: OffloadError | None = None


def kept(request: Request, variant: str, folder: Path) -> Prediction | None:
    """Return the prediction in a run folder, if it is the one that is asked for.

    Parameters
    ----------
    request, variant
        What is asked for, as for `nsysoffload.recorders.predict.capture.recorded`.
    folder : Path
        The run folder; it need not be there.

    Returns
    -------
    Prediction or None
        ``None`` where the run was made of anything else (arguments, target, flags, profile,
        constants, steps, other options, or release), or its files are not whole.

    Raises
    ------
    UsageError
        If there is no such model, or the measured constants make no sense.
    """
    manifest = read_manifest(folder)
    if manifest.get("made_of") != made_of(request, variant, options_of(request)):
        return None
    if not is_whole(folder, manifest):
        return None
    try:
        return source(Export.open(folder / "trace.sqlite")).prediction
    except TraceError:
        return None


def predicted_run(
    request: Request,
    variant: str,
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
    cancelled: Event | None = None,
    accept: Accept = lambda program, log: None,
) -> tuple[Prediction, bool]:
    """Return a prediction, and whether an earlier run had left it in the folder.

    Parameters
    ----------
    request, variant, folder, progress, cancelled, accept
        As for `nsysoffload.recorders.predict.capture.recorded`, which makes it where it is missing.

    Raises
    ------
    OffloadError
        If it can neither be found nor made.
    """
    found = kept(request, variant, folder)
    if found:
        return found, True
    run = recorded(request, variant, folder, progress, cancelled, accept)
    return run.predicted.prediction, False


def predicted_runs(
    asked: Sequence[Asked], progress: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Return what becomes of each run, compiling as many at once as there are processors.

    One that fails costs the others nothing.

    Parameters
    ----------
    asked : sequence of Asked
        The runs, each with a folder of its own.
    progress : callable, optional
        Called with each that is there, in the order in which they end, from several threads.

    Raises
    ------
    VersionError
        If a package that compiles is missing or of another release than the pinned one.
    """
    cancelled = Event()

    def outcome(run: Asked) -> Outcome:
        made = _outcome(run, cancelled)
        if not isinstance(made.error, Cancelled):
            progress(made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(pool.map(outcome, asked))
        except BaseException:
            cancelled.set()  # the others would be waited for
            raise


def _outcome(run: Asked, cancelled: Event) -> Outcome:
    try:
        made, was_kept = predicted_run(run.request, run.variant, run.folder, cancelled=cancelled)
    except VersionError:
        raise  # none of the others can be made, either
    except OffloadError as error:
        return Outcome(run, None, error=error)
    return Outcome(run, made, was_kept)
