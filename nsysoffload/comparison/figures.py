"""Charts of a comparison's page, as Plotly figures in plain dicts; see `report.figures`."""

from collections.abc import Sequence
from typing import Any

from nsysoffload.comparison.model import Account, Comparison, Run
from nsysoffload.comparison.wording import signed_time
from nsysoffload.report import format as fmt
from nsysoffload.report.figures import (
    BAR_MARKS,
    COLOURS,
    Figure,
    axis,
    axis_unit,
    filled,
    label,
    layout,
    size_unit,
)

__all__ = ["MOST_RUNS", "axis_start_ns", "memory", "waterfall"]

MOST_RUNS = 40
"""Runs of which the chart of memory has bars, the first."""

_ROW_PX = 34
_NAME_WIDTH = 20
_HALF = 0.31  # half the thickness of a bar, in rows
_ASIDE = 0.18  # of the bars of a run's two kinds of memory from its row
_FAR = 4  # times what is needed: a limit farther off would squeeze what is to be seen
_DEEP = 0.85  # share of a step below which nothing changes: drawn from farther up
_HEADROOM = 1.03
_MARGIN = {
    "l": 142,
    "r": 66,
    "t": 4,
    "b": 50,
}  # names on the left, figures beside bars on the right


# --- From the base's step to the new one's ---


def axis_start_ns(account: Account) -> int:
    """Return where the time axis of the waterfall starts, so that small changes are seen.

    It is 0 where the changes are large enough beside the steps.
    """
    levels = _levels(account)
    low, high = min(levels), max(levels)
    if low < _DEEP * high:
        return 0
    span = max(high - low, high // 100)
    round_to: int = 10 ** (len(str(span)) - 1)
    start_ns = max(0, low - 2 * span)
    return start_ns - start_ns % round_to


def waterfall(account: Account, names: tuple[str, str], titles: Sequence[str]) -> Figure:
    """Draw how the base's step becomes the new one's, part by part.

    Parameters
    ----------
    account : Account
        The parts; those that did not change are left out.
    names : tuple of str
        Of the base and of the new run.
    titles : sequence of str
        Of the parts, in their order.
    """
    parts = [
        (title, part)
        for title, part in zip(titles, account.parts, strict=True)
        if part.change_ns != 0
    ]
    base, new = (label(name, _NAME_WIDTH) for name in names)
    levels, start_ns = _levels(account), axis_start_ns(account)
    unit, unit_ns = axis_unit(max(levels))
    bottom = len(parts) + 1
    whole = _bars(
        "whole step",
        "compute",
        "",
        rows=[0, bottom],
        spans=[(start_ns, account.base_ns), (start_ns, account.new_ns)],
        texts=[fmt.duration(account.base_ns), fmt.duration(account.new_ns)],
        hover=[
            f"{name}, step {step}<br>{fmt.duration(time)}"
            for name, step, time in (
                (base, account.base_step, account.base_ns),
                (new, account.new_step, account.new_ns),
            )
        ],
        unit=unit_ns,
    )
    data = [whole]
    for name, role, hatch, sign in (("saves", "good", "", -1), ("costs", "exposed", "/", 1)):
        found = [n for n, (_, part) in enumerate(parts) if sign * part.change_ns > 0]
        data.append(
            _bars(
                name,
                role,
                hatch,
                rows=[n + 1 for n in found],
                spans=[tuple(sorted(levels[n : n + 2])) for n in found],
                texts=[signed_time(parts[n][1].change_ns) for n in found],
                hover=[
                    f"{parts[n][0]}<br>{fmt.duration(parts[n][1].base_ns)} →"
                    f" {fmt.duration(parts[n][1].new_ns)}"
                    for n in found
                ],
                unit=unit_ns,
            )
        )
    data.append(_steps_between(levels, unit_ns))
    room = (max(levels) - start_ns) * _HEADROOM
    return {
        "data": data,
        "layout": layout(
            height=60 + _ROW_PX * (bottom + 1),
            margin=_MARGIN,
            barmode="overlay",
            hovermode="closest",
            xaxis=axis(
                f"{unit} of a step",
                range=[start_ns / unit_ns, (start_ns + room) / unit_ns],
                showgrid=True,
            ),
            yaxis=_rows([f"<b>{base}</b>", *(title for title, _ in parts), f"<b>{new}</b>"]),
        ),
    }


def _levels(account: Account) -> list[int]:
    """Return how long the step is after each change, the base's first."""
    levels = [account.base_ns]
    for part in account.parts:
        if part.change_ns:
            levels.append(levels[-1] + part.change_ns)
    return levels


def _steps_between(levels: Sequence[int], unit_ns: int) -> dict[str, Any]:
    """Lines from the end of each bar to the next."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, level in enumerate(levels):
        x += [level / unit_ns, level / unit_ns, None]
        y += [row + _HALF, row + 1 - _HALF, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "",
        "x": x,
        "y": y,
        "line": {"color": COLOURS["muted"], "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


# --- Memory ---


def memory(comparison: Comparison) -> Figure | None:
    """Draw what each run needs on the device and on the host; ``None`` if no run knows.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    """
    runs = [run for run in comparison.runs if run.device_bytes is not None][:MOST_RUNS]
    if not runs:
        return None
    most = max(max(run.device_bytes or 0, run.host_bytes or 0) for run in runs)
    limits = [run.device_limit_bytes for run in runs if run.device_limit_bytes]
    near = [limit for limit in limits if limit <= _FAR * most]
    unit, factor = size_unit(most)
    device, host = ([getattr(run, key) for run in runs] for key in ("device_bytes", "host_bytes"))
    data = [
        _sizes("device", "hidden", "", -_ASIDE, device, runs, factor),
        _sizes("pinned on the host", "d2h", "/", _ASIDE, host, runs, factor),
        _peaks(runs, factor),
        _limits(runs, set(near), factor),
    ]
    return {
        "data": data,
        "layout": layout(
            height=62 + 46 * len(runs),
            margin=_MARGIN,
            barmode="overlay",
            hovermode="closest",
            xaxis=axis(
                f"{unit} per GPU",
                range=[0, max([most, *near]) * _HEADROOM / factor],
                showgrid=True,
            ),
            yaxis=_rows([label(run.name, _NAME_WIDTH) for run in runs]),
        ),
    }


def _sizes(
    name: str,
    role: str,
    hatch: str,
    aside: float,
    sizes: Sequence[int | None],
    runs: Sequence[Run],
    factor: int,
) -> dict[str, Any]:
    """Bars of one kind of memory."""
    return _bars(
        name,
        role,
        hatch,
        rows=[row + aside for row in range(len(runs))],
        spans=[(0, size or 0) for size in sizes],
        texts=[fmt.size(size) for size in sizes],
        hover=[
            f"{label(run.name, 60)}<br>{name}: {fmt.size(size)}"
            for run, size in zip(runs, sizes, strict=True)
        ],
        unit=factor,
        thickness=2 * _ASIDE,
    )


def _peaks(runs: Sequence[Run], factor: int) -> dict[str, Any]:
    """Mark the most that was in use on a device."""
    found = [(n, run.device_peak_bytes) for n, run in enumerate(runs) if run.device_peak_bytes]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "in use at most",
        "x": [peak / factor for _, peak in found],
        "y": [row - _ASIDE for row, _ in found],
        "hovertext": [f"in use at most: {fmt.size(peak)}" for _, peak in found],
        "hoverinfo": "text",
        "visible": bool(found),
        "meta": {"role": "ink", "mark": "diamond"},
        "marker": {"color": COLOURS["ink"], "symbol": "diamond", "size": 9},
    }


def _limits(runs: Sequence[Run], drawn: set[int], factor: int) -> dict[str, Any]:
    """Lines where the memory of the GPUs ends."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, run in enumerate(runs):
        if run.device_limit_bytes in drawn:
            x += [run.device_limit_bytes / factor] * 2 + [None]
            y += [row - 0.45, row, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "memory of the GPU",
        "x": x,
        "y": y,
        "visible": bool(x),
        "meta": {"role": "cause_1", "mark": "dash"},
        "line": {"color": COLOURS["cause_1"], "width": 2, "dash": "dash"},
        "hoverinfo": "skip",
    }


# --- Rows of bars ---


def _rows(names: Sequence[str]) -> dict[str, Any]:
    """Axis of rows, from top to bottom; two of them may have one name."""
    return axis(
        "",
        range=[len(names) - 0.5, -0.5],
        fixedrange=True,
        tickvals=list(range(len(names))),
        ticktext=list(names),
    )


def _bars(
    name: str,
    role: str,
    hatch: str,
    *,
    rows: Sequence[float],
    spans: Sequence[tuple[int, ...]],
    texts: Sequence[str],
    hover: Sequence[str],
    unit: int,
    thickness: float = 2 * _HALF,
) -> dict[str, Any]:
    """Bars from start to end, with their figures beside them."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(rows),
        "base": [start / unit for start, _ in spans],
        "x": [(end - start) / unit for start, end in spans],
        "width": thickness,
        "text": list(texts),
        "textposition": "outside",
        "textangle": 0,
        "cliponaxis": False,
        "constraintext": "none",
        "hovertext": list(hover),
        "hoverinfo": "text",
        "visible": bool(rows),
        "meta": {"role": role, "mark": BAR_MARKS[hatch]},
        "marker": filled(role, hatch),
    }
