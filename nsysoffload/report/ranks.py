"""Reports of several ranks -> one report: the slowest in detail, a table of all."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nsysoffload.errors import OffloadError
from nsysoffload.report.model import PerStep, Rank, Report, Warning_
from nsysoffload.report.recorded import numerics_differ
from nsysoffload.report.verdict import unusable

__all__ = ["ranked"]


def ranked(paths: Sequence[Path], results: Sequence[Report | OffloadError]) -> Report:
    """Detail the slowest rank, list all, and carry the other ranks' warnings along.

    The slowest has the longest median step, of several the one whose compute waits longest for
    transfers; where not all ranks have steps, the longest window, then the most exposed time.

    Parameters
    ----------
    paths : sequence of Path
        The traces.
    results : sequence of Report or OffloadError
        What became of each; one that failed becomes a warning.

    Raises
    ------
    OffloadError
        The first error, if all failed.
    """
    labels = _labels(paths)
    reports = [(n, r) for n, r in zip(labels, results, strict=True) if isinstance(r, Report)]
    errors = [(n, e) for n, e in zip(labels, results, strict=True) if isinstance(e, OffloadError)]
    if not reports:
        raise errors[0][1]
    stepped = all(_slowest_step(report) for _, report in reports)
    reports.sort(key=lambda item: _by_step(item[1]) if stepped else _by_window(item[1]))
    slowest = reports[0][1]
    warnings = (
        *slowest.trace.warnings,
        *_others(reports[1:]),
        *_absent(reports),
        *_strangers(reports),
        *(Warning_("trace_unusable", _naming(label, error)) for label, error in errors),
    )
    shown = replace(
        slowest,
        trace=replace(slowest.trace, file=reports[0][0], warnings=warnings),
        ranks=tuple(_rank(label, report) for label, report in reports),
    )
    differing = numerics_differ(shown)
    if differing and not numerics_differ(slowest):
        return replace(shown, verdict=unusable(shown.verdict, differing))
    return shown


def _absent(reports: Sequence[tuple[str, Report]]) -> list[Warning_]:
    """Say how many ranks ran and are not here, where their recordings know."""
    counts = [report.recording.ranks or 0 for _, report in reports if report.recording]
    if max(counts, default=0) <= len(reports):
        return []
    message = (
        f"{len(reports)} of {max(counts)} ranks are in this report; a slower one may be missing."
    )
    return [Warning_("ranks_missing", message)]


def _strangers(reports: Sequence[tuple[str, Report]]) -> list[Warning_]:
    """Say if the traces are of different policies, and so of different runs."""
    said = (report.prediction or report.recording for _, report in reports)
    variants = sorted({made.variant for made in said if made and made.variant})
    if len(variants) < 2:
        return []
    message = (
        f"The traces are of {', '.join(variants)}, and are taken for ranks of one run; hold runs"
        " against each other with 'nsysoffload compare'."
    )
    return [Warning_("ranks_differ", message)]


def _naming(label: str, error: OffloadError) -> str:
    message = str(error)
    return message if label.rpartition("/")[2] in message else f"{label}: {message}"


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return base names; where they are alike with the folder's, then with a number."""
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.resolve().parent.name}/{path.name}" for path in paths]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _length_ns(report: Report) -> int:
    return report.window.end_ns - report.window.start_ns


def _slowest_step(report: Report) -> PerStep | None:
    """Return the figures of the device with the longest median step; None without steps."""
    if report.window.steps_found_by == "window":
        return None
    found = [device.per_step for device in report.devices if device.per_step]
    return max(found, key=lambda step: (step.duration_ns, step.stall_ns), default=None)


def _by_step(report: Report) -> tuple[int, int]:
    step = _slowest_step(report)
    return (-step.duration_ns, -step.stall_ns) if step else (0, 0)


def _by_window(report: Report) -> tuple[int, int]:
    return -_length_ns(report), -report.total.both.exposed_ns


def _rank(label: str, report: Report) -> Rank:
    both = report.total.both
    step = _slowest_step(report)
    return Rank(
        file=label,
        window_ns=_length_ns(report),
        devices=len(report.devices),
        kernels=report.total.kernels,
        compute_busy_ns=report.total.compute_busy_ns,
        busy_ns=both.busy_ns,
        exposed_ns=both.exposed_ns,
        overlap=both.overlap,
        overlap_null_reason=both.overlap_null_reason,
        warnings=len(report.trace.warnings),
        step_ns=step.duration_ns if step else None,
        stall_ns=step.stall_ns if step else None,
    )


def _others(reports: Sequence[tuple[str, Report]]) -> list[Warning_]:
    """Merge the warnings of the ranks that are not detailed: one of each code."""
    by_code: dict[str, list[tuple[str, Warning_]]] = {}
    for label, report in reports:
        for warning in report.trace.warnings:
            by_code.setdefault(warning.code, []).append((label, warning))
    merged = []
    for code, found in by_code.items():
        label, warning = found[0]
        files = {name for name, _ in found}
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        merged.append(Warning_(code, f"{label}{more}: {warning.message}"))
    return merged
