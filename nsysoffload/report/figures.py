"""Charts of the HTML report, as Plotly figures in plain dicts.

They are dicts because importing plotly costs more than the rest of a report. Every figure is in
the colours of the light theme; the page swaps each for its partner of the dark one. A trace's
``meta`` holds its colour's role and the kind of mark, from which the page makes the legend.
"""

import math
from collections.abc import Iterator
from html import escape
from typing import Any

from nsysoffload.report import format as fmt
from nsysoffload.report.cards import shared_link
from nsysoffload.report.model import Device, Direction, Link, Report, SizeClass
from nsysoffload.report.wording import PARTS, parts_ns

__all__ = [
    "BAR_MARKS",
    "COLOURS",
    "Figure",
    "MOST_STEPS",
    "THEMES",
    "axis",
    "axis_unit",
    "bandwidth",
    "class_name",
    "filled",
    "label",
    "layout",
    "size_classes",
    "size_unit",
    "step_split",
    "time_split",
]

Figure = dict[str, Any]

THEMES = {
    "light": {
        "paper": "#ffffff",
        "panel": "#f5f7f9",
        "ink": "#18202b",
        "muted": "#55606e",
        "line": "#d9dfe6",
        "accent": "#0b62a8",
        "compute": "#8492a4",
        "collective": "#7a5cab",
        "hidden": "#0f72bd",
        "exposed": "#c84a06",
        "unknown": "#86690a",
        "idle": "#e4e8ed",
        "h2d": "#0a7a6c",
        "d2h": "#a1348d",
        "h2d_range": "#cdeae5",
        "d2h_range": "#f2d8ed",
        "good": "#166f3f",
        "cause_1": "#b3261e",
        "cause_2": "#8a5f00",
        "cause_3": "#5b4bb5",
        "cause_4": "#00707a",
        "cause_5": "#a82a66",
        "cause_6": "#56681a",
    },
    "dark": {
        "paper": "#12161c",
        "panel": "#1a2028",
        "ink": "#e7ebf0",
        "muted": "#a0acba",
        "line": "#323c48",
        "accent": "#7cc0f8",
        "compute": "#6c7c90",
        "collective": "#b79df0",
        "hidden": "#4fadf0",
        "exposed": "#ff8d4a",
        "unknown": "#dcc04e",
        "idle": "#29313b",
        "h2d": "#3fcab5",
        "d2h": "#ea90d8",
        "h2d_range": "#173f3a",
        "d2h_range": "#43253d",
        "good": "#5fcf8f",
        "cause_1": "#ff7a6e",
        "cause_2": "#e0b04a",
        "cause_3": "#a99cf5",
        "cause_4": "#4cc8d4",
        "cause_5": "#f58ab4",
        "cause_6": "#b9cc6a",
    },
}
"""Colours by role, the same roles in each theme and no colour twice in one."""

COLOURS = THEMES["light"]

_WAYS = ("h2d", "d2h")
_SYMBOLS = {"h2d": "circle", "d2h": "diamond"}
_HATCHES = {"h2d": "", "d2h": "/"}
BAR_MARKS = {"": "bar", "/": "hatched", "\\": "hatched-back", ".": "dotted"}
_TIME_UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))
_DATA_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))
_SPLIT = (  # colour role, hatch, name
    ("compute", "", "compute alone"),
    ("hidden", "", "transfers behind compute"),
    ("collective", "", "collectives and other device work"),
    ("h2d", "\\", "transfers behind collectives"),
    ("exposed", "/", "transfers alone"),
    ("unknown", ".", "transfers, cannot tell"),
    ("idle", "", "idle"),
)


_PART_STYLES = (
    ("compute", ""),
    ("hidden", ""),
    ("collective", ""),
    ("exposed", "/"),
    ("muted", ""),
)
MOST_STEPS = 120
"""Steps that the chart shows, the first."""


def label(text: str, width: int) -> str:
    """Text that a figure shows as it is: on one line, not too long, and no markup."""
    return escape(fmt.shorten(fmt.plain(text), width), quote=False)


def layout(**settings: Any) -> dict[str, Any]:
    """Layout of a figure on the page's own background."""
    return {
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": COLOURS["ink"]},
        "showlegend": False,
        "paper_bgcolor": COLOURS["paper"],
        "plot_bgcolor": COLOURS["paper"],
        "hoverlabel": {
            "bgcolor": COLOURS["panel"],
            "bordercolor": COLOURS["line"],
            "font": {"color": COLOURS["ink"]},
            "align": "left",
        },
        **settings,
    }


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """Axis without lines of its own; ask for a grid with ``showgrid``."""
    return {
        "title": {"text": title, "font": {"color": COLOURS["muted"]}, "standoff": 8},
        "ticklabelstandoff": 4,
        "showgrid": False,
        "zeroline": False,
        "gridcolor": COLOURS["line"],
        "tickfont": {"color": COLOURS["muted"]},
        **settings,
    }


def axis_unit(window_ns: int) -> tuple[str, int]:
    """Choose the unit of the time axis that suits a window, and its nanoseconds.

    Examples
    --------
    >>> axis_unit(90_000_000_000), axis_unit(350_000_000), axis_unit(40_000)
    (('s', 1000000000), ('ms', 1000000), ('µs', 1000))
    """
    return next((unit for unit in _TIME_UNITS if window_ns >= 2 * unit[1]), _TIME_UNITS[-1])


def size_unit(size_bytes: int) -> tuple[str, int]:
    """Choose the unit of an axis of sizes up to that one, and its bytes.

    Examples
    --------
    >>> size_unit(7_250_000_000), size_unit(0)
    (('GB', 1000000000), ('bytes', 1))
    """
    return next((unit for unit in _DATA_UNITS if size_bytes >= unit[1]), _DATA_UNITS[-1])


def filled(role: str, hatch: str) -> dict[str, Any]:
    """Fill of a bar, hatched so that it's told apart without colour."""
    pattern = {
        "shape": hatch,
        "bgcolor": COLOURS[role],
        "fgcolor": COLOURS["paper"],
        "size": 6,
        "solidity": 0.25,
    }
    return {"color": COLOURS[role], "pattern": pattern, "line": {"width": 0}}


def bandwidth(report: Report) -> Figure | None:
    """Draw bandwidth against size per direction, over all devices, and the link if they share one.

    Filled marks are bytes over the sum of durations of a size class, open marks its fastest copy;
    a class stands at its mean size. ``None`` if no copy has both a size and a length.
    """
    classes = {way: _timed(_direction(report, way)) for way in _WAYS}
    sizes = [c.bytes / c.copies for timed in classes.values() for c in timed]
    if not sizes:
        return None
    span = [min(sizes) / 2, max(sizes) * 2]
    link = shared_link(report)
    data = list(_link_lines(link, span)) if link else []
    for way in _WAYS:
        data += _points(way, classes[way])
    rates = [rate for trace in data for rate in trace["y"]]
    size_ticks, rate_ticks = _powers_of_two(*span), _round_rates(min(rates), max(rates))
    return {
        "data": data,
        "layout": layout(
            height=340,
            margin={"l": 62, "r": 14, "t": 8, "b": 56},
            hovermode="closest",
            xaxis=axis(
                "mean size of the copies of a class",
                type="log",
                tickvals=size_ticks,
                ticktext=[fmt.limit(size) for size in size_ticks],
                showgrid=True,
            ),
            yaxis=axis(
                "GB/s",
                type="log",
                tickvals=rate_ticks,
                ticktext=[f"{rate:g}" for rate in rate_ticks],
                range=[math.log10(rate_ticks[0]) - 0.03, math.log10(rate_ticks[-1]) + 0.03],
                showgrid=True,
            ),
        ),
    }


def size_classes(report: Report) -> Figure | None:
    """Draw copies and bytes of each size class per direction; ``None`` if no size is known."""
    classes = {way: {c.upto_bytes: c for c in _direction(report, way).sizes} for way in _WAYS}
    order = sorted({*classes["h2d"], *classes["d2h"]}, key=lambda upto: (upto is None, upto))
    if not order:
        return None
    names = [class_name(upto) for upto in order]
    most = max(c.bytes for ends in classes.values() for c in ends.values())
    spare = max(0, 4 - len(names)) / 2  # so that few bars aren't wide ones
    unit, factor = size_unit(most)
    data = []
    for way in _WAYS:
        found = [classes[way].get(upto) for upto in order]
        hover = [_class_text(way, c) if c else "" for c in found]
        data += [
            _bars(way, names, [c.copies if c else 0 for c in found], hover, "y"),
            _bars(way, names, [c.bytes / factor if c else 0 for c in found], hover, "y2"),
        ]
    return {
        "data": data,
        "layout": layout(
            height=340,
            margin={"l": 62, "r": 14, "t": 8, "b": 56},
            barmode="group",
            bargap=0.25,
            hovermode="closest",
            xaxis=axis(
                "size of a copy",
                type="category",
                categoryarray=names,
                anchor="y2",
                range=[-0.5 - spare, len(names) - 0.5 + spare],
            ),
            yaxis=axis("copies", domain=[0.55, 1], showgrid=True, rangemode="tozero"),
            yaxis2=axis(unit, domain=[0, 0.45], showgrid=True, rangemode="tozero"),
        ),
    }


def time_split(report: Report) -> Figure:
    """Draw where each device's window went; the parts of a device add up to its window."""
    names = [f"GPU {label}" for label in fmt.labels(report.devices).values()]
    splits = [_split_ns(device) for device in report.devices]
    windows = [max(1, device.trace.window_ns) for device in report.devices]
    data = []
    for part, (role, hatch, name) in enumerate(_SPLIT):
        times = [split[part] for split in splits]
        shares = [time / window for time, window in zip(times, windows, strict=True)]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": names,
                "x": [100 * share for share in shares],
                "hovertext": [
                    f"{device}: {name}<br>{fmt.duration(time)}, {fmt.share(share)} of its window"
                    for device, time, share in zip(names, times, shares, strict=True)
                ],
                "hoverinfo": "text",
                "visible": any(times),
                "meta": {"role": role, "mark": BAR_MARKS[hatch]},
                "marker": filled(role, hatch),
            }
        )
    return {
        "data": data,
        "layout": layout(
            height=70 + 34 * len(names),
            margin={"l": 92, "r": 14, "t": 8, "b": 56},
            barmode="stack",
            bargap=0.3,
            hovermode="closest",
            xaxis=axis("% of the window", range=[0, 100], showgrid=True),
            yaxis=axis("", type="category", categoryarray=names[::-1], fixedrange=True),
        ),
    }


def step_split(device: Device) -> Figure | None:
    """Draw where the time of each step of a device went; ``None`` for less than two steps.

    The parts of a step add up to its duration; steps that are far off are marked.
    """
    steps = device.steps[:MOST_STEPS]
    if len(steps) < 2:
        return None
    longest_ns = max(step.duration_ns for step in steps)
    unit, unit_ns = axis_unit(longest_ns)
    names = [str(step.index) for step in steps]
    splits = [parts_ns(step) for step in steps]
    data = []
    for part, (name, (role, hatch)) in enumerate(zip(PARTS, _PART_STYLES, strict=True)):
        times = [split[part] for split in splits]
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": names,
                "y": [time / unit_ns for time in times],
                "hovertext": [
                    f"step {step.index}: {name}<br>{fmt.duration(time)} of "
                    f"{fmt.duration(step.duration_ns)}"
                    for step, time in zip(steps, times, strict=True)
                ],
                "hoverinfo": "text",
                "visible": any(times),
                "meta": {"role": role, "mark": BAR_MARKS[hatch]},
                "marker": filled(role, hatch),
            }
        )
    far = [step for step in steps if step.outlier]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "far from the median",
            "x": [str(step.index) for step in far],
            "y": [(step.duration_ns + longest_ns * 0.05) / unit_ns for step in far],
            "hovertext": [f"step {step.index}: {fmt.duration(step.duration_ns)}" for step in far],
            "hoverinfo": "text",
            "visible": bool(far),
            "meta": {"role": "ink", "mark": "diamond"},
            "marker": {"color": COLOURS["ink"], "symbol": "diamond", "size": 9},
        }
    )
    spare = max(0, 8 - len(names)) / 2  # so that few bars aren't wide ones
    return {
        "data": data,
        "layout": layout(
            height=300,
            margin={"l": 62, "r": 14, "t": 8, "b": 56},
            barmode="stack",
            bargap=0.3,
            hovermode="closest",
            xaxis=axis(
                "step",
                type="category",
                categoryarray=names,
                range=[-0.5 - spare, len(names) - 0.5 + spare],
            ),
            yaxis=axis(unit, showgrid=True, rangemode="tozero"),
        ),
    }


def _direction(report: Report, way: str) -> Direction:
    """All transfers of one direction."""
    return report.total.h2d if way == "h2d" else report.total.d2h


def _timed(direction: Direction) -> list[SizeClass]:
    """Size classes whose bandwidth is known and above zero, as a logarithm needs it."""
    return [c for c in direction.sizes if c.gbps and c.best_gbps and c.bytes]


def _powers_of_two(low: float, high: float) -> list[int]:
    """Up to six powers of two in a range, as ticks of a logarithmic axis."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first) / 5))
    return [2**power for power in range(max(0, first), last + 1, step)]


def _round_rates(low: float, high: float) -> list[float]:
    """Powers of ten that enclose a range; where it's narrow, twice and five times these as well."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    rates = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    below, above = (max(r for r in rates if r <= low), min(r for r in rates if r >= high))
    return [rate for rate in rates if below <= rate <= above]


def _points(way: str, classes: list[SizeClass]) -> Iterator[dict[str, Any]]:
    """Mean and best bandwidth of the size classes of one direction."""
    for best in (False, True) if classes else ():
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": f"{way.upper()}, {'fastest copy' if best else 'all copies'}",
            "x": [c.bytes / c.copies for c in classes],
            "y": [c.best_gbps if best else c.gbps for c in classes],
            "hovertext": [_class_text(way, c) for c in classes],
            "hoverinfo": "text",
            "meta": {"role": way, "mark": "open" if best else _SYMBOLS[way]},
            "marker": {
                "color": COLOURS[way],
                "symbol": _SYMBOLS[way] + ("-open" if best else ""),
                "size": 9,
            },
        }


def _link_lines(link: Link, span: list[float]) -> Iterator[dict[str, Any]]:
    """Yield what others measured of the link, per direction as a band, and its peak as a line."""
    for way, (low, high) in (("h2d", link.h2d_gbps), ("d2h", link.d2h_gbps)):
        yield {
            "type": "scatter",
            "mode": "lines",
            "name": f"{way.upper()} measured elsewhere, {low:g} to {high:g} GB/s",
            "x": [span[0], span[1], span[1], span[0], span[0]],
            "y": [low, low, high, high, low],
            "fill": "toself",
            "fillcolor": COLOURS[f"{way}_range"],
            "opacity": 0.7,  # the bands of the directions may overlap
            "line": {"color": COLOURS[f"{way}_range"], "width": 1},
            "meta": {"role": f"{way}_range", "mark": "bar"},
            "hoverinfo": "skip",
        }
    yield {
        "type": "scatter",
        "mode": "lines",
        "name": f"{label(link.name, 40)} peak, {link.peak_gbps:g} GB/s",
        "x": span,
        "y": [link.peak_gbps] * 2,
        "line": {"color": COLOURS["muted"], "width": 1.5, "dash": "dash"},
        "meta": {"role": "muted", "mark": "dash"},
        "hoverinfo": "skip",
    }


def _bars(way: str, x: list[str], y: list[float], hover: list[str], axis: str) -> dict[str, Any]:
    """Bars of one direction; D2H is hatched as well as coloured."""
    return {
        "type": "bar",
        "name": way.upper(),
        "showlegend": axis == "y",
        "x": x,
        "y": y,
        "yaxis": axis,
        "hovertext": hover,
        "hoverinfo": "text",
        "meta": {"role": way, "mark": BAR_MARKS[_HATCHES[way]]},
        "marker": filled(way, _HATCHES[way]),
    }


def class_name(upto_bytes: int | None) -> str:
    """Name of a size class by its upper end."""
    return "larger" if upto_bytes is None else f"≤ {fmt.limit(upto_bytes)}"


def _class_text(way: str, c: SizeClass) -> str:
    """Say what a size class holds."""
    return (
        f"{way.upper()}, {class_name(c.upto_bytes)}<br>{fmt.count(c.copies)} copies, "
        f"{fmt.size(c.bytes)}<br>{fmt.bandwidth(c.gbps)}, fastest {fmt.bandwidth(c.best_gbps)}"
    )


def _split_ns(device: Device) -> tuple[int, ...]:
    """Lengths of the parts in `_SPLIT`: disjoint, and the window in all."""
    trace, both = device.trace, device.trace.both
    known = both.overlap is not None
    used = trace.compute_busy_ns + both.exposed_ns + trace.idle_ns
    return (
        trace.compute_busy_ns - both.hidden_ns,
        both.hidden_ns,
        max(0, trace.window_ns - used),
        both.hidden_by_collectives_ns if known else 0,
        both.exposed_ns - both.hidden_by_collectives_ns if known else 0,
        0 if known else both.exposed_ns,
        trace.idle_ns,
    )
