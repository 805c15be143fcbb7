"""Charts of a study's page, as Plotly figures in plain dicts; see `report.figures`."""

from collections.abc import Iterator, Sequence
from typing import Any

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
)
from nsysoffload.study.cases import BASE
from nsysoffload.study.model import Figures, Group, Row, StudyReport
from nsysoffload.study.wording import fits, tflops

__all__ = ["parts", "throughput"]

_ROW_PX = 27
_NAME_WIDTH = 30
_HEADROOM = 1.06
_PARTS = (  # of a step, and the colour role and hatch of each
    ("compute", "compute", ""),
    ("recompute", "cause_2", ""),
    ("stall", "exposed", "/"),
    ("collectives alone", "collective", ""),
    ("other", "muted", "."),
)
_STYLES = (  # what a run is, its colour role and hatch, in the order of the legend
    ("rematerialise", "compute", ""),
    ("other runs", "hidden", ""),
    ("fastest that fits", "good", ""),
    ("does not fit", "exposed", "/"),
)


def throughput(report: StudyReport, model: str) -> Figure | None:
    """Draw TFLOP/s/device of the runs of a model, with ranges, beside what was published.

    ``None`` where no run has figures.

    Parameters
    ----------
    report : StudyReport
        The report.
    model : str
        Key of the model.
    """
    lines = list(_lines([group for group in report.groups if group.model == model], report))
    rated = [(at, row, kind) for at, (_, row, kind) in enumerate(lines) if row and row.tflops]
    if not rated:
        return None
    marks = _published(report, lines, model)
    ends = [row.tflops.high for _, row, _ in rated if row.tflops] + [value for _, value in marks]
    bars = [_bars(*style, [(at, row) for at, row, kind in rated if kind == n])
            for n, style in enumerate(_STYLES)]  # fmt: skip
    return {
        "data": [*bars, _marks(marks)],
        "layout": layout(
            height=62 + _ROW_PX * len(lines),
            margin={"l": 186, "r": 16, "t": 4, "b": 50},
            barmode="overlay",
            hovermode="closest",
            xaxis=axis("TFLOP/s/device", range=[0, max(ends) * _HEADROOM], showgrid=True),
            yaxis=_names([name for name, _, _ in lines]),
        ),
    }


def _lines(
    groups: Sequence[Group], report: StudyReport
) -> Iterator[tuple[str, Row | None, int | None]]:
    """Yield name, run and style of each line: of each group a heading, then its runs."""
    for group in groups:
        yield f"<b>batch {group.batch}</b>", None, None
        for row in report.of_group(group):
            best = row.variant == group.best
            kind = 3 if not row.fits else 2 if best else 0 if row.variant == BASE else 1
            yield label(row.title, _NAME_WIDTH), row, kind


def _published(
    report: StudyReport, lines: Sequence[tuple[str, Row | None, int | None]], model: str
) -> list[tuple[int, float]]:
    """Return line and figure of each published throughput."""
    at = {(row.batch, row.variant): n for n, (_, row, _) in enumerate(lines) if row}
    return [
        (at[one.batch, one.variant], one.value)
        for one in report.published
        if one.kind == "tflops" and one.model == model and one.value is not None
        if (one.batch, one.variant) in at
    ]


def _bars(name: str, role: str, hatch: str, rows: Sequence[tuple[int, Row]]) -> dict[str, Any]:
    """Bars of one kind of runs, with the range of the model."""
    found = [(at, row, row.tflops) for at, row in rows if row.tflops]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [at for at, _, _ in found],
        "x": [rate.expected for _, _, rate in found],
        "width": 0.66,
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [rate.high - rate.expected for _, _, rate in found],
            "arrayminus": [rate.expected - rate.low for _, _, rate in found],
            "color": COLOURS["ink"],
            "thickness": 1.2,
            "width": 4,
        },
        "hovertext": [
            f"<b>{label(row.title, 60)}</b>, batch {row.batch}<br>{tflops(rate.expected)}"
            f" TFLOP/s/device, {tflops(rate.low)} to {tflops(rate.high)}<br>fits: {fits(row)}"
            for _, row, rate in found
        ],
        "hoverinfo": "text",
        "visible": bool(found),
        "meta": {"role": role, "mark": BAR_MARKS[hatch]},
        "marker": filled(role, hatch),
    }


def _marks(marks: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """Mark where published figures lie."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "published",
        "x": [value for _, value in marks],
        "y": [at for at, _ in marks],
        "hovertext": [f"published: {value:g} TFLOP/s/device" for _, value in marks],
        "hoverinfo": "text",
        "visible": bool(marks),
        "meta": {"role": "cause_5", "mark": "diamond"},
        "marker": {
            "color": COLOURS["cause_5"],
            "symbol": "diamond",
            "size": 12,
            "line": {"width": 1.5, "color": COLOURS["paper"]},
        },
    }


# --- Where the time goes ---


def parts(report: StudyReport, group: Group) -> Figure | None:
    """Draw what the step of each run of a group consists of; ``None`` where no run has figures.

    Parameters
    ----------
    report : StudyReport
        The report.
    group : Group
        One of its groups.
    """
    rows = [row for row in report.of_group(group) if row.figures]
    if not rows:
        return None
    splits = [_parts_ns(row.figures) for row in rows if row.figures]
    longest_ns = max(map(sum, splits))
    unit, unit_ns = axis_unit(longest_ns)
    data = []
    for part, (name, role, hatch) in enumerate(_PARTS):
        times = [split[part] for split in splits]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": list(range(len(rows))),
                "x": [time / unit_ns for time in times],
                "width": 0.66,
                "hovertext": [
                    f"<b>{label(row.title, 60)}</b><br>{name}: {fmt.duration(time)}"
                    for row, time in zip(rows, times, strict=True)
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
            height=370,
            margin={"l": 186, "r": 16, "t": 8, "b": 56},
            barmode="stack",
            hovermode="closest",
            xaxis=axis(f"{unit} of a step", range=[0, longest_ns * 1.03 / unit_ns], showgrid=True),
            yaxis=_names([label(row.title, _NAME_WIDTH) for row in rows]),
        ),
    }


def _parts_ns(found: Figures) -> tuple[int, ...]:
    """Return the lengths of the parts of a step."""
    recompute_ns = found.recompute_ns or 0
    rest_ns = sum(found.lost.values()) - found.stall_ns - found.collectives_alone_ns
    return (
        found.compute_ns - recompute_ns,
        recompute_ns,
        found.stall_ns,
        found.collectives_alone_ns,
        max(0, rest_ns),
    )


def _names(names: Sequence[str]) -> dict[str, Any]:
    """Axis of rows, from top to bottom."""
    return axis(
        "",
        range=[len(names) - 0.5, -0.5],
        fixedrange=True,
        tickvals=list(range(len(names))),
        ticktext=list(names),
    )
