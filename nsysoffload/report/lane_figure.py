"""The timeline of the HTML pages: its axes as a Plotly figure, its marks as compact columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.figures import COLOURS, Figure, axis, axis_unit, label, layout
from nsysoffload.report.lanes import Lane, Marks
from nsysoffload.report.model import Device, Report, Stall
from nsysoffload.report.wording import drawn

__all__ = [
    "LANES",
    "MAX_DRAWN",
    "MAX_STALLS",
    "Track",
    "cause_styles",
    "columns",
    "hidden_stalls",
    "marks",
    "marks_of",
    "timeline",
    "timeline_of",
    "track",
]

LANES = {
    "compute": "Compute",
    "collectives": "Collectives",
    "h2d": "H2D",
    "d2h": "D2H",
    "stalls": "Stalls",
}
"""Names of the lanes, as shown."""

MAX_DRAWN = 2_000
"""Marks of one lane that are drawn at once; above, the page shows the coarse ones."""

MAX_STALLS = 500
"""Stalls of one device that the page carries, the longest."""

_PATHS = (  # colour role, hatch; what is hidden is drawn over the whole transfer
    ("compute", ""),
    ("collective", ""),
    ("exposed", "/"),
    ("hidden", ""),
    ("unknown", "."),
)
_LANE_PX = 26
_TOP_PX = 8
_BOTTOM_PX = 54
_TITLE_LANES = 1.2  # height of a device's title
_MAX_NAMES = 2_000
_NAME_WIDTH = 90
_CAUSES = 6  # colours of causes
_CAUSE_HATCHES = ("", "/", ".")


@dataclass(frozen=True)
class Track:
    """A device on the timeline: its median step, from the step's start.

    ``title`` names it, ``heading`` is what stands above its lanes.
    """

    title: str
    heading: str
    device: Device
    start_ns: int
    end_ns: int
    lanes: tuple[Lane, ...]
    stalls: tuple[Stall, ...]


def track(report: Report, device: Device, title: str, heading: str) -> Track:
    """Return what the timeline draws of a device; of its stalls the longest.

    Parameters
    ----------
    report : Report
        The report.
    device : Device
        One of its devices.
    title, heading : str
        What it is called.
    """
    start_ns, end_ns = drawn(report, device)
    lanes = tuple(lane for lane in report.lanes if lane.device == device.id)
    stalls = tuple(_stalls(report, device))
    return Track(title, heading, device, start_ns, end_ns, lanes, stalls)


def timeline(report: Report) -> Figure:
    """Draw axes and styles of the timeline of a report, see `timeline_of`."""
    of = "window" if report.window.steps_found_by == "window" else "step"
    return timeline_of(_tracks(report), cause_styles(report), of)


def timeline_of(
    tracks: Sequence[Track], styles: Mapping[str, tuple[str, str]], of: str = "step"
) -> Figure:
    """Draw axes and styles of a timeline; the page fills in the marks that fit the view.

    All marks of one meaning are one path, since thousands of elements would make a page slow; the
    path's ``meta`` names their meaning. Lanes are centred on the ticks of the y axis, in order. All
    devices start at 0.

    Parameters
    ----------
    tracks : sequence of Track
        Devices from top to bottom.
    styles : mapping of str to tuple of str
        Styles of the causes of stalls, see `cause_styles`.
    of : str
        What is drawn of a device.
    """
    ticks: list[tuple[float, str]] = []
    titles = []
    top = 0.0
    for shown in tracks:
        titles.append(_title(shown.heading, shown.device.name, top + _TITLE_LANES / 2))
        top += _TITLE_LANES
        names = [lane.name for lane in shown.lanes] + ["stalls"] * bool(shown.stalls)
        ticks += [(top + at + 0.5, LANES[name]) for at, name in enumerate(names)]
        top += len(names)
    unit, unit_ns = axis_unit(_drawn_ns(tracks))
    return {
        "data": [
            *(_path(role, role, hatch) for role, hatch in _PATHS),
            *(_path(f"stall {cause}", *style) for cause, style in styles.items()),
            *(_waits(name, dash) for name, dash in (("proven", "solid"), ("inferred", "dash"))),
        ],
        "layout": layout(
            height=round(_TOP_PX + _BOTTOM_PX + _LANE_PX * top),
            margin={"l": 92, "r": 14, "t": _TOP_PX, "b": _BOTTOM_PX},
            hovermode=False,
            dragmode="zoom",
            annotations=titles,
            xaxis=axis(
                f"{unit} since the start of the {of}",
                range=[0, _drawn_ns(tracks) / unit_ns],
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
    """List the marks of all lanes of a report, see `marks_of`."""
    return marks_of(_tracks(report), cause_styles(report), fine=fine)


def marks_of(
    tracks: Sequence[Track], causes_drawn: Iterable[str], *, fine: bool = True
) -> dict[str, Any]:
    """List the marks of all lanes, in the order of the ticks, with the names they share.

    Times count from the start of what is drawn of a device. ``known`` says whether the trace can
    tell what of a lane's transfers is hidden.

    Parameters
    ----------
    tracks : sequence of Track
        Devices from top to bottom.
    causes_drawn : iterable of str
        Causes of their stalls.
    fine : bool
        Whether to list all marks; else coarse marks stand in for the fine ones.
    """
    names: dict[str, int] = {}
    unit, unit_ns = axis_unit(_drawn_ns(tracks))
    lanes: list[dict[str, Any]] = []
    for number, shown in enumerate(tracks):
        for lane in shown.lanes:
            finest = lane.fine if fine else lane.coarse
            coarse = fine and len(lane.fine) > MAX_DRAWN
            lanes.append(
                {
                    "kind": lane.name,
                    "title": f"{shown.title}, {LANES[lane.name]}",
                    "device": number,
                    "known": _known(shown.device, lane),
                    "fine": columns(finest, shown.start_ns, _interned(lane, names)),
                    "coarse": columns(lane.coarse, shown.start_ns, _interned(lane, names))
                    if coarse
                    else None,
                }
            )
        if shown.stalls:
            lanes.append(
                {
                    "kind": "stalls",
                    "title": f"{shown.title}, {LANES['stalls']}",
                    "device": number,
                    "known": True,
                    "stalls": [_stall(stall, shown.start_ns, names) for stall in shown.stalls],
                }
            )
    return {
        "unit": unit,
        "unit_ns": unit_ns,
        "max_drawn": MAX_DRAWN,
        "names": [fmt.shorten(fmt.plain(name), _NAME_WIDTH) for name in names],
        "causes": {cause: causes.title(cause) for cause in causes_drawn},
        "lanes": lanes,
    }


def cause_styles(*reports: Report) -> dict[str, tuple[str, str]]:
    """Return colour role and hatch of each cause that owns time, the most costly first."""
    total: Counter[str] = Counter()
    for report in reports:
        for stall in report.stalls:
            total[stall.cause] += stall.end_ns - stall.start_ns
        for device in report.devices:
            total.update(device.per_step.lost if device.per_step else {})
    order = sorted(total, key=lambda cause: (-total[cause], cause))
    return {
        cause: (f"cause_{number % _CAUSES + 1}", _CAUSE_HATCHES[number // _CAUSES % 3])
        for number, cause in enumerate(order)
    }


def hidden_stalls(report: Report) -> int:
    """Return how many stalls are too many to be drawn."""
    return sum(max(0, len(found) - MAX_STALLS) for found in _stalls_of(report).values())


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


def _tracks(report: Report) -> list[Track]:
    """Return the devices of a report that have lanes, in the order they are drawn."""
    names = {device: f"GPU {label}" for device, label in fmt.labels(report.devices).items()}
    made = [
        track(report, device, names[device.id], f"{names[device.id]}{_step_drawn(report, device)}")
        for device in report.devices
    ]
    return [shown for shown in made if shown.lanes]


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


def _path(name: str, role: str, hatch: str) -> dict[str, Any]:
    """All marks of one meaning as one outline; what costs time is hatched as well as coloured."""
    return {
        "type": "scatter",
        "mode": "none",
        "name": name,
        "meta": name,
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


def _waits(name: str, dash: str) -> dict[str, Any]:
    """Lines from copies to the kernels that waited for them."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"wait {name}",
        "meta": f"wait {name}",
        "x": [],
        "y": [],
        "line": {"color": COLOURS["ink"], "width": 1.5, "dash": dash},
        "hoverinfo": "skip",
    }


def _step_drawn(report: Report, device: Device) -> str:
    """Say which step of a device is drawn, where there are steps."""
    if report.window.steps_found_by == "window" or device.median_step is None:
        return ""
    return f", step {device.median_step}"


def _drawn_ns(tracks: Sequence[Track]) -> int:
    """Return the longest time that is drawn of a device."""
    return max((shown.end_ns - shown.start_ns for shown in tracks), default=1)


def _stalls_of(report: Report) -> dict[str, list[Stall]]:
    """Return the stalls of each device, the longest first."""
    found: dict[str, list[Stall]] = defaultdict(list)
    for stall in sorted(report.stalls, key=lambda s: s.start_ns - s.end_ns):
        found[stall.device].append(stall)
    return found


def _stalls(report: Report, device: Device) -> list[Stall]:
    """Return the stalls of a device that are drawn, in order of time."""
    longest = _stalls_of(report)[device.id][:MAX_STALLS]
    return sorted(longest, key=lambda stall: stall.start_ns)


def _stall(stall: Stall, start_ns: int, names: dict[str, int]) -> list[Any]:
    """Write a stall as a row: times from the start of what is drawn, names by number."""
    name = [_number(text, names) for text in (stall.op, stall.kernel)]
    times = (stall.start_ns, stall.end_ns, stall.blocker_start_ns, stall.blocker_end_ns)
    proven = int(stall.proven)
    return [*(time - start_ns for time in times), stall.cause, stall.direction, *name,
            stall.transfers, proven]  # fmt: skip


def _number(name: str | None, names: dict[str, int]) -> int:
    """Return the number of a name on the page, -1 for none or where the page has too many."""
    if name is None:
        return -1
    if len(names) < _MAX_NAMES:
        names.setdefault(name, len(names))
    return names.get(name, -1)


def _known(device: Device, lane: Lane) -> bool:
    """Whether overlap of a lane's transfers is known; without any there is nothing to know."""
    direction = {"h2d": device.trace.h2d, "d2h": device.trace.d2h}.get(lane.name)
    return direction is None or direction.overlap is not None or not len(lane.fine)


def _interned(lane: Lane, names: dict[str, int]) -> NDArray[np.int64]:
    """Numbers of a lane's names on the page; past the page's limit a name is left out."""
    return np.array([_number(name, names) for name in lane.names], dtype=np.int64)


def _unless(usual: int, values: NDArray[np.int64]) -> list[int] | None:
    """Return the values as a list, or ``None`` if there is nothing but the usual one."""
    found: list[int] | None = values.tolist() if (values != usual).any() else None
    return found
