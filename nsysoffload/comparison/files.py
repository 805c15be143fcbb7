"""From what a user names, traces, run folders or reports, to a comparison."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from nsysoffload.analysis import analyze, gated
from nsysoffload.comparison.compare import compare as compare_reports
from nsysoffload.comparison.gates import parse_regressions
from nsysoffload.comparison.model import Comparison
from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.processes import Progress, each
from nsysoffload.report.load import is_report, load
from nsysoffload.report.model import Report
from nsysoffload.trace import files
from nsysoffload.trace.run_folder import rank_traces

__all__ = ["AnalyzeOptions", "compare", "run_names", "runs_of"]

_TRACE, _REPORT = "trace.sqlite", "report.json"
_FIRST = ("remat", "none")  # what an offloaded run is held against, where a folder has it
_OF_NEW = ("expect_offload", "fail_under", "fail_over")


class AnalyzeOptions(TypedDict, total=False):
    """Options of `nsysoffload.analyze`, which is made of each trace."""

    window: str | tuple[int, int] | None
    device: str | int | Sequence[str | int]
    collective: str | None
    not_compute: str | None
    link: str | None
    step_range: str | None
    step_kernel: str | None
    skip_steps: int | None
    expect_offload: str | int | None
    fail_under: str | Sequence[str]
    fail_over: str | Sequence[str]


@dataclass(frozen=True)
class _Failed:
    """An error on its way out of a process."""

    error: OffloadError


def compare(
    *runs: str | os.PathLike[str],
    max_regression: str | Sequence[str] = (),
    anyway: bool = False,
    processes: int = 1,
    progress: Progress | None = None,
    **options: Unpack[AnalyzeOptions],
) -> Comparison:
    """Hold runs against a base: which is faster, by how much, why, and at which memory.

    Parameters
    ----------
    *runs : path
        The base and one new run or more: each a trace, a run folder, a folder of ranks, or the
        ``report.json`` of an earlier analysis. A folder of run folders stands for them all, the
        rematerialised one first.
    max_regression : str or sequence of str
        Gates, ``NAME=NUMBER``: by how much a metric may get worse, in its unit (``overlap=2``) or
        in percent of the base (``step_ms=3%``).
    anyway : bool
        Whether to compare runs that are no pair, such as of two GPUs; not if numerics differ.
    processes : int
        How many processes share the traces.
    progress : callable, optional
        Called with how many runs are done, and how many there are.
    **options
        As for `nsysoffload.analyze`; gates are for the new runs alone.

    Raises
    ------
    TraceError
        If a run cannot be used.
    UsageError
        If an option cannot be read, does not fit, or there are fewer than two runs.
    """
    regressions = parse_regressions(_several(max_regression))
    paths = [path for run in runs for path in runs_of(Path(run))]
    given: dict[str, Any] = {k: v for k, v in options.items() if v not in (None, (), [])}
    of_all: Any = {name: value for name, value in given.items() if name not in _OF_NEW}
    of_new = {name: given[name] for name in _OF_NEW if name in given}
    found = each(partial(_attempt, options=of_all), paths, processes, progress)
    reports = [_unless_failed(report) for report in found]
    reports[1:] = [gated(report, **of_new) for report in reports[1:]]
    given |= {"max_regression": _several(max_regression), "anyway": anyway}
    return compare_reports(
        dict(zip(run_names(paths), reports, strict=True)),
        regressions,
        {name: value for name, value in given.items() if value not in ((), False)},
        anyway=anyway,
    )


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _attempt(path: Path, options: AnalyzeOptions) -> Report | _Failed:
    try:
        return _report(path, options)
    except OffloadError as error:
        return _Failed(error)


def _unless_failed(found: Report | _Failed) -> Report:
    if isinstance(found, _Failed):
        raise found.error
    return found


def _report(path: Path, options: AnalyzeOptions) -> Report:
    if not is_report(path):
        return analyze(path, **options)
    if options:
        first = next(iter(options)).replace("_", "-")
        raise UsageError(
            f"{path.name} is a finished report, on which --{first} has no effect; name its trace"
            " instead."
        )
    return load(path)


# --- Which runs are meant ---


def runs_of(path: Path) -> list[Path]:
    """Return the runs that a path names: itself, or the run folders in it.

    Parameters
    ----------
    path : Path
        A file or folder. Of a folder without a trace but with a report that is taken.
    """
    if not path.is_dir() or _is_run(path):
        return [path]
    if (path / _REPORT).is_file():
        return [path / _REPORT]
    inside = [folder for folder in path.iterdir() if folder.is_dir() and _is_run(folder)]
    return sorted(inside, key=_order) or [path]


def _is_run(folder: Path) -> bool:
    return (folder / _TRACE).is_file() or rank_traces(folder) != [folder]


def _order(folder: Path) -> tuple[int, str]:
    name = folder.name
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def run_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each run: the end of its path by which it differs from the others.

    Examples
    --------
    >>> run_names([Path("old/offload/trace.sqlite"), Path("new/offload/trace.sqlite")])
    ['old/offload', 'new/offload']
    """
    parts = [_parts(path) for path in paths]
    longest = max(map(len, parts), default=1)
    for length in range(1, longest + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    seen: Counter[str] = Counter()
    names = [part[-1] for part in parts]
    for at, name in enumerate(names):
        seen[name] += 1
        names[at] = f"{name} ({seen[name]})" if seen[name] > 1 else name
    return names


def _parts(path: Path) -> tuple[str, ...]:
    place = path.resolve()
    if place.name in (_TRACE, _REPORT):
        place = place.parent
    elif not place.is_dir():
        place = place.with_name(files.report_name(path))
    # A name that is no UTF-8 could not be printed.
    names = (os.fsencode(name).decode(errors="replace") for name in place.parts[1:])
    return tuple(names) or ("run",)
