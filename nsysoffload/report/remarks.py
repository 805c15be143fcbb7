"""Sentences below the table of transfers: why an overlap is unknown, and what is counted apart."""

from collections import defaultdict
from collections.abc import Iterator

from nsysoffload.report.format import count, duration, labels, size
from nsysoffload.report.model import Migrations, Report

__all__ = ["remarks", "steps_text"]

_FOUND_BY = {
    "step_range": "by the NVTX ranges that were asked for",
    "train_step": "by NVTX ranges named train_step",
    "xla_module": "as runs of the XLA module with the most GPU time",
    "step_kernel": "by the kernel that opens a step",
}


def remarks(report: Report) -> list[str]:
    """Say what the figures of the devices need beside them.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    list of str
        Sentences; text from the trace is in them as it is there.
    """
    return [*_unknown(report), *_migrations(report)]


def steps_text(report: Report) -> str:
    """Say how training steps were found, and what was left out.

    Parameters
    ----------
    report : Report
        The report.
    """
    window = report.window
    if window.steps_found_by == "window":
        return "No training step was found: the whole window counts as one."
    skipped = window.skipped_steps
    left_out = (
        "none was left out"
        if not skipped
        else (
            f"{count(skipped)} {'was' if skipped == 1 else 'were'} left out, as warm-up or not"
            " recorded whole"
        )
    )
    return f"Steps were found {_FOUND_BY[window.steps_found_by]}; {left_out}."


def _unknown(report: Report) -> Iterator[str]:
    """Yield, for each reason, the devices and directions whose overlap is unknown."""
    label = labels(report.devices)
    where: dict[str, list[str]] = defaultdict(list)
    for device in report.devices:
        for way, figures in (("H2D", device.trace.h2d), ("D2H", device.trace.d2h)):
            if figures.copies and figures.overlap_null_reason is not None:
                part = figures.undetermined_ns
                doubt = f" ({duration(part)} undetermined)" if part else ""
                where[figures.overlap_null_reason].append(f"GPU {label[device.id]} {way}{doubt}")
    for reason, names in where.items():
        yield f"Overlap unknown for {', '.join(names)}: {reason.removesuffix('.')}."


def _migrations(report: Report) -> Iterator[str]:
    """Yield the unified-memory migrations of each device that has any."""
    label = labels(report.devices)
    for device in report.devices:
        h2d, d2h = device.trace.um_h2d, device.trace.um_d2h
        if h2d.copies or d2h.copies:
            yield (
                f"Unified memory on GPU {label[device.id]}, counted apart: "
                f"H2D {_migrated(h2d)}, D2H {_migrated(d2h)}."
            )


def _migrated(way: Migrations) -> str:
    if not way.copies:
        return "none"
    return f"{count(way.copies)} migration{'s' * (way.copies > 1)} ({size(way.bytes)})"
