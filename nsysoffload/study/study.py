"""From a study to its report, in files."""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from nsysoffload.errors import UsageError
from nsysoffload.report.write import write as write_files
from nsysoffload.study.cases import Study
from nsysoffload.study.compose import compose
from nsysoffload.study.model import StudyReport
from nsysoffload.study.runs import Say, runs

__all__ = ["FORMATS", "render", "study", "write"]

_RENDERERS = {"html": "html", "md": "markdown", "json": "json"}  # imported when they are asked for
FORMATS = tuple(_RENDERERS)


def study(
    asked: Study,
    directory: str | os.PathLike[str],
    *,
    reports: bool = True,
    options: Mapping[str, Any] | None = None,
    progress: Say = lambda text: None,
) -> StudyReport:
    """Predict and analyse all runs of a study.

    Parameters
    ----------
    asked : Study
        What to run, such as `nsysoffload.study.cases.GB200`.
    directory : path
        Where the run folders go; finished runs in it are taken as they are.
    reports : bool
        Whether to write the report of each run beside it.
    options : mapping, optional
        Options that were given, for the reader to repeat.
    progress : callable, optional
        Called with a sentence when something is done.

    Raises
    ------
    UsageError
        If the folder cannot be made. A run that fails is told in the report.
    """
    outcomes, searches = runs(asked, Path(directory), reports=reports, progress=progress)
    return compose(asked, outcomes, searches, options or {})


def render(report: StudyReport, suffix: str) -> str:
    """Render the report in one of `FORMATS`.

    Raises
    ------
    UsageError
        If there is no such format.
    """
    if suffix not in _RENDERERS:
        raise UsageError(f"Format '{suffix}' is not known; choose from {', '.join(FORMATS)}.")
    return str(import_module(f"nsysoffload.study.{_RENDERERS[suffix]}").render(report))


def write(
    report: StudyReport,
    directory: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``report.json``; old ones stay until all are whole.

    Parameters
    ----------
    report : StudyReport
        What to write.
    directory : path
        The folder of the study, to which the report's links are relative.
    formats : sequence of str
        Which of `FORMATS` to write.

    Raises
    ------
    UsageError
        If they cannot be written; then nothing is changed.
    """
    files = {f"report.{suffix}": render(report, suffix) for suffix in formats}
    return write_files(files, Path(directory))
