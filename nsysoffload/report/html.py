"""The report as one HTML page that works offline.

Figures on the page are looked up in the JSON report by their path, so that the two can't differ,
and each stands in an element with that path and its unrounded value.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nsysoffload.report import causes, figures, predicted
from nsysoffload.report import format as fmt
from nsysoffload.report.cards import by_steps, cards, shared_link, unit
from nsysoffload.report.json import to_dict
from nsysoffload.report.lane_figure import cause_styles, hidden_stalls, marks, timeline
from nsysoffload.report.model import Device, Report, RunMemory
from nsysoffload.report.page import Numbers, environment, inlined
from nsysoffload.report.recorded import summary
from nsysoffload.report.remarks import remarks, steps_text
from nsysoffload.report.verdict import slowest
from nsysoffload.report.wording import Told, drawn, firsts, gate, told

__all__ = ["render"]

_MAX_MARKS_BYTES = 1_500_000  # less what the JSON report takes
_SPANS = 5  # buttons of one finding
_MOST_STEPS = 100  # of the slowest device, and of all others together
_MOST_TRANSFERS = 60
_MOST_LAYERS = 400  # of all operations together
_MAX_JSON_BYTES = 600_000
_CUTS = (400, 100, 20)  # entries of long lists in the page's copy of the JSON report
_TOP_KERNELS = 30
_MOST_KERNELS = 300
_OUTCOMES = {
    "hidden": ("✓", "Hidden"),
    "partly_hidden": ("◐", "Partly hidden"),
    "exposed": ("!", "Exposed"),
    "no_transfers": ("–", "No transfers"),
    "cannot_tell": ("?", "Cannot tell"),
    "not_usable": ("✗", "Not to be used"),
}
_RANGES = {
    "profiler-api": "between the program's own start and stop of the profiler",
    "nvtx": "an NVTX range",
    "delay": "a part by the clock",
    "whole": "the whole run",
}
_UNKNOWN = {
    "bytes": "the trace has no sizes",
    "device_peak_bytes": "it was not counted",
    "burst_gbps": "no run of copies of one device to take it from",
    "gbps": "no copy with a size and a length",
    "saving_ns": "the trace cannot tell; see the assumption",
    "period_ns": "no step follows",
    "recompute_ns": "the trace names no XLA operation",
    "unattributed": "the trace names no XLA operation",
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
    embedded = _embedded(data)
    found, more = firsts(report)
    show = Numbers(data, _UNKNOWN)
    labels = {device: f"GPU {label}" for device, label in fmt.labels(report.devices).items()}
    icon, outcome = _OUTCOMES[report.verdict.outcome]
    link = shared_link(report)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=data,
            document="report",
            embedded=embedded,
            is_cut=embedded is not data,
            show=show,
            meter=show.meter,
            heading=f"Host transfers in {fmt.shorten(fmt.plain(_subject(report)), 120)}",
            facts=list(_facts(report)),
            icon=icon,
            outcome=outcome,
            cards=cards(report),
            fill=show.filled,
            gates=[(limit.passed, gate(limit)) for limit in report.gates],
            findings=[(finding, _spans(report, finding)) for finding in told(report)],
            device_labels=labels,
            unit=unit(report),
            by_steps=by_steps(report),
            what="window" if report.window.steps_found_by == "window" else "step",
            steps_text=steps_text(report),
            stepped=_stepped(report),
            medians=[_median(device) for device in report.devices],
            lost_rows=[_lost_rows(report, device) for device in report.devices],
            causes={cause: (causes.title(cause), *s) for cause, s in cause_styles(report).items()},
            phased=[n for n in _stepped(report) if data["devices"][n]["per_step"]["phases"]],
            transfers=_transfers(report, labels),
            copy_spans=_copy_spans(report),
            timeline_title=_timeline_title(report),
            most_steps=_MOST_STEPS,
            labels=list(labels.values()),
            copy_labels=[labels.get(copy.device, "") for copy in report.worst_copies],
            links=any(device.link for device in report.devices),
            link_sources=list(_link_sources(report)),
            remarks=remarks(report),
            recorded=summary(report),
            ranges=_RANGES,
            run_memory=isinstance(report.memory, RunMemory),
            predicted=predicted,
            prediction=report.prediction,
            timeline_text=_timeline_text(report),
            bandwidth_text=_bandwidth_text(link.name if link else None),
            figures=_figures(report),
            lanes=_marks(report, _MAX_MARKS_BYTES - len(json.dumps(embedded))),
            command=fmt.shorten(fmt.command(report), 2_000),
            firsts=[(finding, _spans(report, finding)[:1]) for finding in found],
            more=more,
            most_transfers=_MOST_TRANSFERS,
            top=_TOP_KERNELS,
            most=_MOST_KERNELS,
            style=inlined("style.css"),
        )
    )


def _subject(report: Report) -> str:
    """Return what ran, where that is known; else the file."""
    return predicted.what(report.prediction) if report.prediction else report.trace.file


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


def _spans(report: Report, finding: Told) -> list[tuple[int, int]]:
    """Return the places of a finding that the timeline draws, from the start of what it draws."""
    found = [device for device in report.devices if device.id == finding.device]
    if not found:
        return []
    start, end = drawn(report, found[0])
    inside = [span for span in finding.spans if start <= span[0] <= span[1] <= end]
    return [(a - start, b - start) for a, b in inside[:_SPANS]]


def _copy_spans(report: Report) -> list[tuple[int, int] | None]:
    """Return where the timeline draws each of the worst copies; ``None`` where it doesn't."""
    shown = {device.id: drawn(report, device) for device in report.devices}
    spans: list[tuple[int, int] | None] = []
    for copy in report.worst_copies:
        start, end = shown.get(copy.device, (0, -1))
        inside = start <= copy.start_ns <= copy.end_ns <= end
        spans.append((copy.start_ns - start, copy.end_ns - start) if inside else None)
    return spans


def _stepped(report: Report) -> list[int]:
    """Return positions of the devices with steps, the slowest first."""
    found = [(n, d.per_step.duration_ns) for n, d in enumerate(report.devices) if d.per_step]
    return [n for n, _ in sorted(found, key=lambda item: -item[1])]


def _median(device: Device) -> int | None:
    """Return the position of a device's median step among its steps."""
    found = [n for n, step in enumerate(device.steps) if step.index == device.median_step]
    return found[0] if found else None


def _lost_rows(report: Report, device: Device) -> list[str]:
    """Return the causes that own time of a device's steps, the most costly first."""
    median = _median(device)
    lost = dict(device.steps[median].lost) if median is not None else {}
    medians = device.per_step.lost if device.per_step else {}
    return sorted({*lost, *medians}, key=lambda c: (-lost.get(c, 0), -medians.get(c, 0), c))


def _link_sources(report: Report) -> Iterator[str]:
    """Yield peak and origin of each kind of link."""
    for link in dict.fromkeys(device.link for device in report.devices if device.link):
        yield fmt.shorten(
            fmt.plain(
                f"{link.name}: peak {fmt.bandwidth(link.peak_gbps)} per direction. {link.source}"
            ),
            1_000,
        )


def _transfers(report: Report, labels: Mapping[str, str]) -> list[tuple[int, str, int]]:
    """Return position, device and number of layers of the groups of transfers that are shown."""
    left, shown = _MOST_LAYERS, []
    for number, group in enumerate(report.transfers[:_MOST_TRANSFERS]):
        layers = min(left, len(group.layers))
        left -= layers
        shown.append((number, labels.get(group.device, fmt.UNKNOWN), layers))
    return shown


def _timeline_title(report: Report) -> str:
    """Say what the timeline shows."""
    found = {d.median_step for d in report.devices if d.median_step is not None}
    if report.window.steps_found_by == "window" or not found:
        return "Timeline"
    number = f"step {found.pop()}, the median" if len(found) == 1 else "the median step of each GPU"
    return f"Timeline of {number}"


def _timeline_text(report: Report) -> str:
    """Say how true to the rows the timeline is."""
    drawn = len({lane.device for lane in report.lanes})
    some = f" The first {drawn} devices are drawn." if 0 < drawn < len(report.devices) else ""
    height = " The filled height of a transfer is the share of it that is hidden."
    if report.stalls:
        height += (
            " Lines lead from a copy to the kernel that waited for it: solid where an event proves "
            "the wait, dashed where it follows from the times; drawn for the longest in view and "
            "for the one that is pointed at."
        )
    if left := hidden_stalls(report):
        height += f" The {fmt.count(left)} shortest stalls are left out."
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


def _embedded(data: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON report, its long lists cut where the page would not stay below 3 MB."""
    cut = data
    for most in _CUTS:
        if len(json.dumps(cut)) <= _MAX_JSON_BYTES:
            break
        cut = data | {
            "devices": [d | {"steps": d["steps"][:most]} for d in data["devices"]],
            "transfers": [t | {"layers": t["layers"][:most]} for t in data["transfers"][:most]],
            "stalls": data["stalls"][:most],
            "kernels": data["kernels"][:most],
        }
    return cut


def _marks(report: Report, room: int) -> dict[str, Any]:
    """List marks as fine as they fit into 3 MB with plotly.js; times of long windows are long."""
    fine = marks(report)
    return fine if len(json.dumps(fine)) <= room else marks(report, fine=False)


def _figures(report: Report) -> dict[str, figures.Figure]:
    """Figures of the page by name; those without data are left out."""
    slow = slowest(report.devices)
    made = {
        "timeline": timeline(report),
        "step_split": figures.step_split(slow) if slow else None,
        "time_split": figures.time_split(report),
        "bandwidth": figures.bandwidth(report),
        "size_classes": figures.size_classes(report),
    }
    return {name: figure for name, figure in made.items() if figure}
