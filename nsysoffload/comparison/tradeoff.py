"""The recompute-offload-keep plot: the time of a step against the memory that it needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nsysoffload.comparison.model import Comparison, Run
from nsysoffload.report import format as fmt
from nsysoffload.report.figures import COLOURS, Figure, axis, axis_unit, label, layout, size_unit

__all__ = ["MOST_RUNS", "Point", "points", "tradeoff", "unbeaten"]

MOST_RUNS = 200
"""Runs that are drawn, the first."""

_NAME_WIDTH = 28
_NEAR = 1.5  # times what is needed: a limit farther off would squeeze the runs together
_PAD = 0.1  # of the range, on either side
_PLOT_PX = (480, 270)  # between a phone's and a screen's
_LETTER_PX, _LINE_PX, _MARK_PX = 6.4, 15, 9
_PLACES = (  # of a name beside its point: Plotly's word, and where it begins, in its own sizes
    ("top right", 0.0, 1.0),
    ("bottom right", 0.0, 0.0),
    ("top left", -1.0, 1.0),
    ("bottom left", -1.0, 0.0),
    ("top center", -0.5, 1.0),
    ("bottom center", -0.5, 0.0),
)
_STYLES = {  # how each kind of run is drawn: its name, colour role, Plotly's symbol and the page's
    "base": ("base", "ink", "square", "bar"),
    "best": ("best", "good", "star", "star"),
    "both": ("base, and the best", "good", "star", "star"),
    "other": ("other runs", "hidden", "circle", "circle"),
    "unfit": ("does not fit", "exposed", "circle-x-open", "crossed"),
}

_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """A run in the plot: its memory in bytes, and its time, low and high, in nanoseconds."""

    run: Run
    kind: str
    device_bytes: int
    time_ns: float
    low_ns: float
    high_ns: float


def per_token(runs: Sequence[Run]) -> bool:
    """Tell whether times are per token, because steps are of different sizes."""
    return len({run.workload.tokens for run in runs if run.workload}) > 1


def points(comparison: Comparison) -> list[Point]:
    """Return the runs whose step time and memory are both known, the base first, not too many.

    Where steps are of different sizes, times are per token, of the runs that know theirs.
    """
    by_token = per_token(comparison.runs)
    found = []
    for run in comparison.runs[:MOST_RUNS]:
        tokens = run.workload.tokens if run.workload else None
        if run.step_ns is None or run.device_bytes is None or (by_token and not tokens):
            continue
        divisor = tokens if by_token and tokens else 1
        times = (run.step_ns, run.step_low_ns or run.step_ns, run.step_high_ns or run.step_ns)
        time, low, high = (time / divisor for time in times)
        found.append(Point(run, _kind(comparison, run), run.device_bytes, time, low, high))
    return found


def unbeaten(found: Sequence[Point]) -> list[Point]:
    """Return the runs that fit and that no other one beats in both time and memory.

    Parameters
    ----------
    found : sequence of Point
        All runs.
    """
    fitting = [point for point in found if point.run.fits is not False]
    kept: list[Point] = []
    for point in sorted(fitting, key=lambda p: (p.device_bytes, p.time_ns)):
        if not kept or point.time_ns < kept[-1].time_ns:
            kept.append(point)
    return kept


def tradeoff(comparison: Comparison) -> Figure | None:
    """Draw time against memory; ``None`` where fewer than two runs know both.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    """
    found = points(comparison)
    if len(found) < 2:
        return None
    by_token = per_token(comparison.runs)
    unit, unit_ns = axis_unit(int(max(p.time_ns for p in found)))
    size, factor = size_unit(max(p.device_bytes for p in found))
    near, far = _limits(found)
    across = _range([*(p.device_bytes for p in found), *near])
    up = _range([end for p in found for end in (p.low_ns, p.high_ns)])
    places = _places(found, across, up)
    return {
        "data": [
            _staircase(unbeaten(found), factor, unit_ns),
            *(_limit(limit, up, factor, unit_ns) for limit in near),
            *_marks(found, places, (factor, unit_ns)),
        ],
        "layout": layout(
            height=370,
            margin={"l": 62, "r": 14, "t": 8, "b": 56},
            hovermode="closest",
            annotations=[_far_limit(limit) for limit in far[:1]],
            xaxis=axis(
                f"{size} on the device", range=[end / factor for end in across], showgrid=True
            ),
            yaxis=axis(
                f"{unit} per {'token' if by_token else 'step'}",
                range=[end / unit_ns for end in up],
                showgrid=True,
            ),
        ),
    }


def _kind(comparison: Comparison, run: Run) -> str:
    if run.fits is False:
        return "unfit"
    if run is comparison.base:
        return "both" if run.best else "base"
    return "best" if run.best else "other"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = _PAD * (high - low) or 0.05 * high or 1.0
    return low - pad, high + pad


def _limits(found: Sequence[Point]) -> tuple[list[int], list[int]]:
    """Return the memory of the GPUs, as far as it is near what is needed, and the others."""
    limits = sorted({p.run.device_limit_bytes for p in found if p.run.device_limit_bytes})
    reach = _NEAR * max(point.device_bytes for point in found)
    return [n for n in limits if n <= reach], [n for n in limits if n > reach]


def _places(
    found: Sequence[Point], across: tuple[float, float], up: tuple[float, float]
) -> list[str | None]:
    """Return where the name of each run stands; ``None`` where there is no room for it."""
    at = [
        (
            (p.device_bytes - across[0]) / (across[1] - across[0]) * _PLOT_PX[0],
            (p.time_ns - up[0]) / (up[1] - up[0]) * _PLOT_PX[1],
        )
        for p in found
    ]
    taken = [(x - _MARK_PX, y - _MARK_PX, x + _MARK_PX, y + _MARK_PX) for x, y in at]
    places: list[str | None] = []
    for point, (x, y) in zip(found, at, strict=True):
        width = _LETTER_PX * min(len(point.run.name), _NAME_WIDTH)
        own = (x - _MARK_PX, y - _MARK_PX, x + _MARK_PX, y + _MARK_PX)
        place = None
        for word, aside, above in _PLACES:
            left = x + aside * width + (_MARK_PX if aside == 0 else -_MARK_PX if aside == -1 else 0)
            low = y + (_MARK_PX if above else -_MARK_PX - _LINE_PX)
            box = (left, low, left + width, low + _LINE_PX)
            if _inside(box) and not any(_meet(box, other) for other in taken if other != own):
                place = word
                taken.append(box)
                break
        places.append(place)
    return places


def _inside(box: _Box) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= _PLOT_PX[0] and box[3] <= _PLOT_PX[1]


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _marks(
    found: Sequence[Point], places: Sequence[str | None], units: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """Yield the runs of each kind, with their names and ranges."""
    factor, unit_ns = units
    for kind, (name, role, symbol, mark) in _STYLES.items():
        shown = [(p, where) for p, where in zip(found, places, strict=True) if p.kind == kind]
        if not shown:
            continue
        yield {
            "type": "scatter",
            "mode": "markers+text",
            "name": name,
            "x": [p.device_bytes / factor for p, _ in shown],
            "y": [p.time_ns / unit_ns for p, _ in shown],
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [(p.high_ns - p.time_ns) / unit_ns for p, _ in shown],
                "arrayminus": [(p.time_ns - p.low_ns) / unit_ns for p, _ in shown],
                "color": COLOURS["muted"],
                "thickness": 1.2,
                "width": 4,
            },
            "text": [_named(p) if where else "" for p, where in shown],
            "textposition": [where or "top center" for _, where in shown],
            "hovertext": ["<br>".join(_said(p)) for p, _ in shown],
            "hoverinfo": "text",
            "cliponaxis": False,
            "meta": {"role": role, "mark": mark},
            "marker": {
                "color": COLOURS[role],
                "symbol": symbol,
                "size": 15 if kind in ("best", "both") else 11,
                "line": {"width": 2 if kind == "unfit" else 0, "color": COLOURS[role]},
            },
        }


def _named(point: Point) -> str:
    return label(point.run.name, _NAME_WIDTH)


def _said(point: Point) -> Iterator[str]:
    """Yield lines on a run."""
    run = point.run
    kind = "" if point.kind == "other" else f" ({_STYLES[point.kind][0]})"
    yield f"<b>{label(run.name, 80)}</b>{kind}"
    spread = ""
    if run.step_low_ns is not None and run.step_high_ns is not None:
        spread = f", {fmt.duration(run.step_low_ns)} to {fmt.duration(run.step_high_ns)}"
    yield f"step {fmt.duration(run.step_ns or 0)}{spread}"
    if run.tokens_per_s is not None:
        yield f"{fmt.count(round(run.tokens_per_s))} tokens/s"
    limit = run.device_limit_bytes
    of = f" of {fmt.size(limit)}" if limit else ""
    yield f"{fmt.size(run.device_bytes)}{of} on the device, {fmt.size(run.host_bytes)} on the host"


def _staircase(kept: Sequence[Point], factor: int, unit_ns: int) -> dict[str, Any]:
    """Line through the runs that none beats: how much time each amount of memory is worth."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "no run needs less of both",
        "x": [point.device_bytes / factor for point in kept],
        "y": [point.time_ns / unit_ns for point in kept],
        "visible": len(kept) > 1,
        "line": {"shape": "hv", "color": COLOURS["muted"], "width": 1.5},
        "meta": {"role": "muted", "mark": "line"},
        "hoverinfo": "skip",
    }


def _limit(limit_bytes: int, up: tuple[float, float], factor: int, unit_ns: int) -> dict[str, Any]:
    """Line where the memory of a GPU ends."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"memory of the GPU, {fmt.size(limit_bytes)}",
        "x": [limit_bytes / factor] * 2,
        "y": [end / unit_ns for end in up],
        "line": {"color": COLOURS["cause_1"], "width": 2, "dash": "dash"},
        "meta": {"role": "cause_1", "mark": "dash"},
        "hoverinfo": "skip",
    }


def _far_limit(limit_bytes: int) -> dict[str, Any]:
    """Say that the memory of the GPU ends far beyond the plot."""
    return {
        "text": f"memory of the GPU: {fmt.size(limit_bytes)} →",
        "x": 1,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "right",
        "yanchor": "top",
        "showarrow": False,
        "font": {"color": COLOURS["muted"]},
    }
