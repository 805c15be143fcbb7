"""The report as one HTML page that works offline.

Figures on the page are looked up in the JSON report by their path, so that the two can't differ,
and each stands in an element with that path and its unrounded value.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nsysoffload.report import figures, predicted
from nsysoffload.report import format as fmt
from nsysoffload.report.json import to_dict
from nsysoffload.report.lane_figure import marks, timeline
from nsysoffload.report.model import Report
from nsysoffload.report.remarks import remarks

__all__ = ["render"]

_MAX_MARKS_BYTES = 1_350_000
_TOP_KERNELS = 30
_MOST_KERNELS = 300
_OUTCOMES = {
    "hidden": ("✓", "Hidden"),
    "partly_hidden": ("◐", "Partly hidden"),
    "exposed": ("!", "Exposed"),
    "no_transfers": ("–", "No transfers"),
    "cannot_tell": ("?", "Cannot tell"),
}
_UNKNOWN = {
    "bytes": "the trace has no sizes",
    "burst_gbps": "no run of copies of one device to take it from",
    "lone_gbps": "no pinned copy of 16 MiB or more ran with nothing beside it",
}


def render(report: Report) -> str:
    """Write the report as an HTML page.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        A whole page; stylesheet, script, figures and the JSON report are in it.
    """
    data = to_dict(report)
    show = _Numbers(data)
    labels = {device: f"GPU {label}" for device, label in fmt.labels(report.devices).items()}
    icon, outcome = _OUTCOMES[report.verdict.outcome]
    link = figures.shared_link(report)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=data,
            show=show,
            meter=show.meter,
            heading=f"Host transfers in {fmt.shorten(fmt.plain(_subject(report)), 120)}",
            facts=list(_facts(report)),
            icon=icon,
            outcome=outcome,
            cards=list(_cards(report, show)),
            labels=list(labels.values()),
            copy_labels=[labels.get(copy.device, "") for copy in report.worst_copies],
            links=any(device.link for device in report.devices),
            link_sources=list(_link_sources(report)),
            remarks=remarks(report),
            predicted=predicted,
            prediction=report.prediction,
            timeline_text=_timeline_text(report),
            bandwidth_text=_bandwidth_text(link.name if link else None),
            figures=_figures(report),
            lanes=_marks(report),
            themes=figures.THEMES,
            command=fmt.shorten(fmt.command(report), 2_000),
            top=_TOP_KERNELS,
            most=_MOST_KERNELS,
            style=_inlined("style.css"),
            plotly=_inlined("plotly-basic.min.js"),
            script=_inlined("report.js"),
            policy=_policy(),
        )
    )


def _subject(report: Report) -> str:
    """Return what ran, where that is known; else the file."""
    return predicted.what(report.prediction) if report.prediction else report.trace.file


class _Numbers:
    """Figures of the JSON report by path, as elements of the page."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __call__(self, path: str) -> Markup:
        """Return the figure in its unit; where the trace can't tell, a dash and the reason."""
        value, key = self._value(path), path.rpartition(".")[2]
        if value is None:
            dash = '<abbr class="null" title="{}" data-path="{}">{}</abbr>'
            return Markup(dash).format(self._reason(path, key), path, fmt.UNKNOWN)
        figure = '<data value="{}" data-path="{}">{}</data>'
        return Markup(figure).format(value, path, _text(key, value))

    def meter(self, path: str) -> Markup:
        """Return a bar for a share, nothing where it's unknown."""
        value = self._value(path)
        if value is None:
            return Markup("")
        return Markup('<i class="meter" style="--part: {:.1f}%"></i>').format(100 * value)

    def _value(self, path: str) -> Any:
        value: Any = self._data
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    def _reason(self, path: str, key: str) -> str:
        if key == "overlap":
            return fmt.shorten(fmt.plain(str(self._value(f"{path}_null_reason"))), 300)
        return _UNKNOWN.get(key, "the trace doesn't have it")


def _text(key: str, value: Any) -> str:
    """Write a figure in the unit that the end of its name states."""
    if key in ("start_ns", "end_ns"):
        return fmt.moment(value)
    if key in ("row_id", "stream"):
        return str(value)
    for unit, text in (
        ("_ns", fmt.duration),
        ("gbps", fmt.bandwidth),
        ("bytes", fmt.size),
        ("overlap", fmt.share),
    ):
        if key.endswith(unit):
            return text(value)
    return fmt.count(value)


def _facts(report: Report) -> Iterator[str]:
    """Yield what the reader must know of the trace, in few words."""
    trace, devices = report.trace, report.devices
    yield f"{trace.kind}, {fmt.shorten(fmt.plain(trace.recorder), 40)}" + (
        f" {fmt.shorten(fmt.plain(trace.nsys_version), 40)}" if trace.nsys_version else ""
    )
    names = {fmt.shorten(fmt.plain(device.name or "unnamed GPU"), 60) for device in devices}
    yield f"{len(devices)} × {' and '.join(sorted(names))}"
    yield f"window of {fmt.duration(report.window.end_ns - report.window.start_ns)}"
    if report.ranks:
        yield f"slowest of {len(report.ranks)} ranks"


@dataclass(frozen=True)
class _Card:
    """One headline figure and what to read it against."""

    title: str
    value: Markup | str
    note: Markup | str


def _cards(report: Report, show: _Numbers) -> Iterator[_Card]:
    """Yield the headline figures over all devices."""
    over = f" of {len(report.devices)} GPUs" if len(report.devices) > 1 else ""
    both = report.total.both
    yield _Card(
        "Overlap",
        show("total.both.overlap"),
        fmt.shorten(fmt.plain(both.overlap_null_reason), 120)
        if both.overlap_null_reason
        else Markup("{} hidden behind compute").format(show("total.both.hidden_ns")),
    )
    yield _Card(
        ("Exposed, or cannot tell" if both.busy_ns and both.overlap is None else "Exposed") + over,
        show("total.both.exposed_ns"),
        Markup("{} of it behind collectives").format(show("total.both.hidden_by_collectives_ns")),
    )
    yield _Card(
        f"Transfers busy{over}",
        show("total.both.busy_ns"),
        Markup("both directions at once for {}").format(show("total.both.concurrent_ns")),
    )
    yield _Card(
        f"Bytes H2D / D2H{over}",
        Markup("{} <small>/</small> {}").format(show("total.h2d.bytes"), show("total.d2h.bytes")),
        Markup("{} and {} copies").format(show("total.h2d.copies"), show("total.d2h.copies")),
    )
    for way in ("h2d", "d2h"):
        yield _Card(
            f"{way.upper()} bandwidth", show(f"total.{way}.gbps"), _speed(report, way, show)
        )
    yield _Card(
        f"Compute busy{over}",
        show("total.compute_busy_ns"),
        Markup("{} kernels, collectives {}").format(
            show("total.kernels"), show("total.collective_busy_ns")
        ),
    )
    windows = sum(device.trace.window_ns for device in report.devices)
    idle = sum(device.trace.idle_ns for device in report.devices)
    yield _Card(
        f"Idle{over}",
        fmt.share(idle / windows if windows else None),
        f"{fmt.duration(idle)} of {fmt.duration(windows)}",
    )


def _speed(report: Report, way: str, show: _Numbers) -> Markup:
    """Put the fastest lone copy of a direction beside the link, where all devices share it."""
    lone = Markup("fastest lone copy {}").format(show(f"total.{way}.lone_gbps"))
    link = figures.shared_link(report)
    if link is None:
        return lone
    measured = fmt.span(link.h2d_gbps if way == "h2d" else link.d2h_gbps)
    name = fmt.shorten(fmt.plain(link.name), 40)
    return lone + Markup("; {}: {} measured elsewhere").format(name, measured)


def _link_sources(report: Report) -> Iterator[str]:
    """Yield peak and origin of each kind of link."""
    for link in dict.fromkeys(device.link for device in report.devices if device.link):
        yield fmt.shorten(
            fmt.plain(
                f"{link.name}: peak {fmt.bandwidth(link.peak_gbps)} per direction. {link.source}"
            ),
            1_000,
        )


def _timeline_text(report: Report) -> str:
    """Say how true to the rows the timeline is."""
    drawn = len({lane.device for lane in report.lanes})
    some = f" The first {drawn} devices are drawn." if 0 < drawn < len(report.devices) else ""
    height = " The filled height of a transfer is the share of it that is hidden."
    if all(lane.exact for lane in report.lanes):
        return f"Every row is a mark of its own.{height}{some}"
    return (
        "Rows that start in one pixel column are merged into one mark, as high as the share of "
        "its time in which a row ran; zooming in splits marks as far as the page has them. The "
        f"copies with the most exposed time are never merged.{height}{some}"
    )


def _bandwidth_text(link: str | None) -> str:
    """Say what the marks and lines of the bandwidth figure are."""
    marks = (
        "Filled: bytes over the sum of durations of all copies of a size class. Open: its fastest "
        "copy. "
    )
    if link is None:
        return marks + "The link is not known or not the same for all GPUs, so none is drawn."
    return marks + "Bands: what others measured on this link. Dashed: its peak, never reached."


def _marks(report: Report) -> dict[str, Any]:
    """List marks as fine as they fit into 3 MB with plotly.js; times of long windows are long."""
    fine = marks(report)
    return fine if len(json.dumps(fine)) <= _MAX_MARKS_BYTES else marks(report, fine=False)


def _figures(report: Report) -> dict[str, figures.Figure]:
    """Figures of the page by name; those without data are left out."""
    made = {
        "timeline": timeline(report),
        "time_split": figures.time_split(report),
        "bandwidth": figures.bandwidth(report),
        "size_classes": figures.size_classes(report),
    }
    return {name: figure for name, figure in made.items() if figure}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nsysoffload.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {
        "class_name": figures.class_name,
        "count": fmt.count,
        "duration": fmt.duration,
        "shorten": lambda text, width: fmt.shorten(fmt.plain(text), width),
        "span": fmt.span,
    }
    return environment


@cache
def _inlined(name: str) -> Markup:
    """Read a file of the page that is ours or plotly's, so that it needs no escaping."""
    file = resources.files("nsysoffload.report") / "templates" / name
    return Markup(file.read_text(encoding="utf-8"))


@cache
def _policy() -> str:
    """State what the page may do: run these two scripts and nothing else, load nothing."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(_inlined(name).encode()).digest()).decode()}'"
        for name in ("plotly-basic.min.js", "report.js")
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
