"""The timeline of the HTML report: its axes as a Plotly figure, its marks as compact columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsysoffload.report import format as fmt
from nsysoffload.report.figures import COLOURS, Figure, axis, label, layout
from nsysoffload.report.lanes import Lane, Marks
from nsysoffload.report.model import Device, Report

__all__ = ["LANES", "MAX_DRAWN", "axis_unit", "columns", "marks", "timeline"]

LANES = {"compute": "Compute", "collectives": "Collectives", "h2d": "H2D", "d2h": "D2H"}
"""Names of the lanes, as shown."""

MAX_DRAWN = 2_000
"""Marks of one lane that are drawn at once; above, the page shows the coarse ones."""

_PATHS = (  # colour role, hatch; what is hidden is drawn over the whole transfer
    ("compute", ""),
    ("collective", ""),
    ("exposed", "/"),
    ("hidden", ""),
    ("unknown", "."),
)
_TIME_UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))
_LANE_PX = 26
_TOP_PX = 8
_BOTTOM_PX = 54
_TITLE_LANES = 1.2  # height of a device's title
_MAX_NAMES = 2_000
_NAME_WIDTH = 90


def axis_unit(window_ns: int) -> tuple[str, int]:
    """Choose the unit of the time axis that suits a window, and its nanoseconds.

    Examples
    --------
    >>> axis_unit(90_000_000_000), axis_unit(350_000_000), axis_unit(40_000)
    (('s', 1000000000), ('ms', 1000000), ('µs', 1000))
    """
    return next((unit for unit in _TIME_UNITS if window_ns >= 2 * unit[1]), _TIME_UNITS[-1])


def timeline(report: Report) -> Figure:
    """Draw axes and styles of the timeline; the page fills in the marks that fit the view.

    All marks of one meaning are one path, since thousands of elements would make a page slow; the
    path's ``meta`` names their meaning. Lanes are centred on the ticks of the y axis, in order.
    """
    names = fmt.labels(report.devices)
    ticks: list[tuple[float, str]] = []
    titles = []
    top = 0.0
    for device, lanes in _by_device(report):
        titles.append(_title(f"GPU {names[device.id]}", device.name, top + _TITLE_LANES / 2))
        top += _TITLE_LANES
        ticks += [(top + at + 0.5, LANES[lane.name]) for at, lane in enumerate(lanes)]
        top += len(lanes)
    window_ns = report.window.end_ns - report.window.start_ns
    unit, unit_ns = axis_unit(window_ns)
    return {
        "data": [_path(role, hatch) for role, hatch in _PATHS],
        "layout": layout(
            height=round(_TOP_PX + _BOTTOM_PX + _LANE_PX * top),
            margin={"l": 92, "r": 14, "t": _TOP_PX, "b": _BOTTOM_PX},
            hovermode=False,
            dragmode="zoom",
            annotations=titles,
            xaxis=axis(
                f"{unit} since the start of the window",
                range=[0, window_ns / unit_ns],
                showgrid=True,
            ),
            yaxis=axis(
                "",
                range=[top, 0],
                fixedrange=True,
                tickvals=[at for at, _ in ticks],
                ticktext=[text for _, text in ticks],
            ),
        ),
    }


def marks(report: Report, *, fine: bool = True) -> dict[str, Any]:
    """List the marks of all lanes, in the order of the ticks, with the names they share.

    Times count from the start of the window. ``known`` says whether the trace can tell what of
    a lane's transfers is hidden. Without `fine`, coarse marks stand in for the fine ones.
    """
    names: dict[str, int] = {}
    labels = fmt.labels(report.devices)
    start_ns = report.window.start_ns
    unit, unit_ns = axis_unit(report.window.end_ns - start_ns)
    lanes = [
        {
            "kind": lane.name,
            "title": f"GPU {labels[device.id]}, {LANES[lane.name]}",
            "known": _known(device, lane.name),
            "fine": columns(lane.fine if fine else lane.coarse, start_ns, _interned(lane, names)),
            "coarse": columns(lane.coarse, start_ns, _interned(lane, names))
            if fine and len(lane.fine) > MAX_DRAWN
            else None,
        }
        for device, lanes in _by_device(report)
        for lane in lanes
    ]
    return {
        "unit": unit,
        "unit_ns": unit_ns,
        "max_drawn": MAX_DRAWN,
        "names": [fmt.shorten(fmt.plain(name), _NAME_WIDTH) for name in names],
        "lanes": lanes,
    }


def columns(marks: Marks, start_ns: int, names: NDArray[np.int64]) -> dict[str, Any]:
    """Write marks as lists of small integers, which are short in JSON.

    ``gap`` is the time since the end of the mark before, ``length`` the mark's own, ``pause`` the
    part of it in which no row ran. A column is ``None`` where all its values are the usual one.
    """
    if not len(marks):
        return {"gap": []}
    length = marks.end_ns - marks.start_ns
    gap = np.diff(marks.end_ns - length, prepend=start_ns) - np.r_[0, length[:-1]]
    name = np.where(marks.name < 0, -1, names[marks.name] if len(names) else -1)
    return {
        "gap": gap.tolist(),
        "length": length.tolist(),
        "pause": _unless(0, length - marks.busy_ns),
        "rows": _unless(1, marks.rows),
        "bytes": _unless(0, marks.size_bytes),
        "hidden": _unless(0, marks.hidden_ns),
        "name": _unless(-1, name),
    }


def _by_device(report: Report) -> list[tuple[Device, list[Lane]]]:
    """Lanes of each device that has any, in the order they are drawn."""
    lanes = {
        device.id: [lane for lane in report.lanes if lane.device == device.id]
        for device in report.devices
    }
    return [(device, lanes[device.id]) for device in report.devices if lanes[device.id]]


def _title(name: str, product: str | None, y: float) -> dict[str, Any]:
    """Name of a device above its lanes, at the left edge of the plot."""
    return {
        "text": f"<b>{name}</b>" + (f" · {label(product, 60)}" if product else ""),
        "x": 0,
        "y": y,
        "xref": "paper",
        "yref": "y",
        "xanchor": "left",
        "yanchor": "middle",
        "showarrow": False,
        "font": {"color": COLOURS["ink"]},
    }


def _path(role: str, hatch: str) -> dict[str, Any]:
    """All marks of one meaning as one outline; what is exposed is hatched as well as coloured."""
    return {
        "type": "scatter",
        "mode": "none",
        "name": role,
        "meta": role,
        "x": [],
        "y": [],
        "fill": "toself",
        "fillcolor": COLOURS[role],
        "fillpattern": {
            "shape": hatch,
            "bgcolor": COLOURS[role],
            "fgcolor": COLOURS["paper"],
            "fillmode": "replace",
            "size": 5,
            "solidity": 0.25,
        },
        "hoverinfo": "skip",
    }


def _known(device: Device, lane: str) -> bool:
    """Whether overlap of that lane's transfers is known; of kernels there is nothing to know."""
    direction = {"h2d": device.trace.h2d, "d2h": device.trace.d2h}.get(lane)
    return direction is None or direction.overlap is not None


def _interned(lane: Lane, names: dict[str, int]) -> NDArray[np.int64]:
    """Numbers of a lane's names on the page; past the page's limit a name is left out."""
    for name in lane.names:
        if len(names) < _MAX_NAMES:
            names.setdefault(name, len(names))
    return np.array([names.get(name, -1) for name in lane.names], dtype=np.int64)


def _unless(usual: int, values: NDArray[np.int64]) -> list[int] | None:
    """Return the values as a list, or ``None`` if there is nothing but the usual one."""
    found: list[int] | None = values.tolist() if (values != usual).any() else None
    return found
