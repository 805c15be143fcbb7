"""Headline figures, in words and figures that all outputs share.

Where training steps are known they are medians per step of the slowest device, which holds the
others up; else they are of the whole window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from string import Formatter
from typing import Any

from nsysoffload.report import format as fmt
from nsysoffload.report.model import Device, Link, Report
from nsysoffload.report.verdict import slowest

__all__ = ["Card", "Figure", "Words", "by_steps", "cards", "lookup", "shared_link", "unit", "words"]


@dataclass(frozen=True)
class Figure:
    """A figure of the report: its path in the JSON, and how it's shown."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


Words = tuple[str | Figure, ...]


@dataclass(frozen=True)
class Card:
    """One headline figure and what to read it against."""

    title: str
    value: Words
    note: Words


def by_steps(report: Report) -> bool:
    """Whether figures are per step: steps were looked for, found, and recorded whole."""
    return report.window.steps_found_by != "window" and slowest(report.devices) is not None


def unit(report: Report) -> str:
    """Return what costs are counted by."""
    return "in the window" if report.window.steps_found_by == "window" else "per step"


def lookup(report: Report, path: str) -> Any:
    """Return the value at a path of the JSON, such as ``devices.0.trace.idle_ns``."""
    value: Any = report
    for key in path.split("."):
        if isinstance(value, tuple | list):
            value = value[int(key)]
        elif isinstance(value, dict):
            value = value[key]
        else:
            value = getattr(value, key)
    return value


def words(report: Report, template: str, at: str = "") -> Words:
    """Fill figures of the report into a template.

    Parameters
    ----------
    report : Report
        The report.
    template : str
        Words with paths in braces; never text from a trace.
    at : str
        What to put before each path.
    """
    parts: list[str | Figure] = []
    for literal, key, _, _ in Formatter().parse(template):
        parts += [literal] * bool(literal)
        if key:
            path = at + key
            value = lookup(report, path)
            parts.append(Figure(path, fmt.figure(path.rpartition(".")[2], value)))
    return tuple(parts)


def cards(report: Report) -> list[Card]:
    """Return the headline figures.

    Parameters
    ----------
    report : Report
        The report.
    """
    return list(_of_step(report) if by_steps(report) else _of_window(report))


def shared_link(report: Report) -> Link | None:
    """Return the link of all devices, if it's one and the same."""
    links = {(d.link.name, d.link.peak_gbps) if d.link else None for d in report.devices}
    return report.devices[0].link if len(links) == 1 else None


def _of_step(report: Report) -> Iterator[Card]:
    """Yield the medians of the slowest device."""
    device, at = _slowest(report)
    step = device.per_step
    assert step is not None
    link = device.link

    def say(template: str) -> Words:
        return words(report, template, at)

    others = f"GPU {fmt.labels(report.devices)[device.id]}, the slowest of {len(report.devices)}; "
    outliers = f", {len(step.outliers)} of them far off" if step.outliers else ""
    yield Card(
        "Step time",
        say("{duration_ns}"),
        (others * (len(report.devices) > 1), *say("median of {steps} steps"), outliers)
        if step.steps > 1
        else (others * (len(report.devices) > 1), "one step"),
    )
    yield _overlap(report, f"{at}both")
    part = fmt.share(step.stall_ns / step.duration_ns if step.duration_ns else None)
    yield Card(
        "Stall per step",
        say("{stall_ns}"),
        (f"compute waits for transfers: {part} of the step",),
    )
    yield Card(
        "Exposed per step",
        say("{both.exposed_ns}"),
        say("{both.hidden_by_collectives_ns} of it behind collectives"),
    )
    for way in ("h2d", "d2h"):
        yield Card(f"{way.upper()} bandwidth", say(f"{{{way}.gbps}}"), _against(link, way))
    yield Card(
        "Bytes per step",
        say("{h2d.bytes} / {d2h.bytes}"),
        say("H2D and D2H, in {h2d.copies} and {d2h.copies} copies"),
    )
    yield Card("Best step", say("{best_ns}"), say("{hideable_ns} of stall could be hidden"))


def _of_window(report: Report) -> Iterator[Card]:
    """Yield the figures over all devices; what waits is of the one that waits longest."""
    over = f" of {len(report.devices)} GPUs" if len(report.devices) > 1 else ""
    both = report.total.both

    def say(template: str) -> Words:
        return words(report, template)

    span_ns = report.window.end_ns - report.window.start_ns
    yield Card(
        "Window",
        (fmt.duration(span_ns),),
        ("no step marker was found",)
        if report.window.steps_found_by == "window"
        else ("no step was recorded whole",),
    )
    yield _overlap(report, "total.both")
    if slowest(report.devices) is None:
        yield Card("Stall", (fmt.UNKNOWN,), ("no step was recorded whole",))
    else:
        device, at = _slowest(report)
        where = f" on GPU {fmt.labels(report.devices)[device.id]}" if over else ""
        yield Card(
            "Stall",
            words(report, "{stall_ns}", at),
            (f"compute waits for transfers{where}",),
        )
    unknown = both.busy_ns and both.overlap is None
    yield Card(
        "Exposed, or cannot tell" if unknown else f"Exposed{over}",
        say("{total.both.exposed_ns}"),
        say("{total.both.hidden_by_collectives_ns} of it behind collectives"),
    )
    link = shared_link(report)
    for way in ("h2d", "d2h"):
        value = say(f"{{total.{way}.gbps}}")
        yield Card(f"{way.upper()} bandwidth", value, _against(link, way))
    yield Card(
        f"Bytes{over}",
        say("{total.h2d.bytes} / {total.d2h.bytes}"),
        say("H2D and D2H, in {total.h2d.copies} and {total.d2h.copies} copies"),
    )
    yield Card(
        f"Transfers busy{over}",
        say("{total.both.busy_ns}"),
        say("both directions at once for {total.both.concurrent_ns}"),
    )


def _slowest(report: Report) -> tuple[Device, str]:
    """Return the slowest device and the path of its medians."""
    device = slowest(report.devices)
    assert device is not None
    return device, f"devices.{report.devices.index(device)}.per_step."


def _overlap(report: Report, path: str) -> Card:
    """Return the overlap of both directions, or why it's unknown."""
    both = lookup(report, path)
    note: Words = (
        (fmt.shorten(fmt.plain(both.overlap_null_reason), 120),)
        if both.overlap_null_reason
        else words(report, "{hidden_ns} of {busy_ns} hidden", f"{path}.")
    )
    return Card("Overlap", words(report, "{overlap}", f"{path}."), note)


def _against(link: Link | None, way: str) -> Words:
    """Return what others measured of a link."""
    if link is None:
        return ("link not known, or not one",)
    measured = fmt.span(link.h2d_gbps if way == "h2d" else link.d2h_gbps)
    return (f"{fmt.shorten(fmt.plain(link.name), 40)}: {measured} measured elsewhere",)
