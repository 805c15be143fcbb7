"""A study as one HTML page that works offline; see `report.html`.

Figures are elements with their path in the JSON, from which they are taken. Links lead to the
reports of the runs beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from nsysoffload.comparison.tradeoff import tradeoff
from nsysoffload.comparison.verdict import signed
from nsysoffload.report import causes, predicted
from nsysoffload.report import format as fmt
from nsysoffload.report.figures import Figure
from nsysoffload.report.lane_figure import marks_of
from nsysoffload.report.page import Numbers, environment, inlined
from nsysoffload.study import wording
from nsysoffload.study.cases import BASE
from nsysoffload.study.figures import parts, throughput
from nsysoffload.study.json import to_dict
from nsysoffload.study.model import Group, Judged, Row, StudyReport

__all__ = ["render"]

_PACKAGE = "nsysoffload.study"
_UNKNOWN = {
    "recompute_ns": "the trace names no XLA operation",
    "recompute_share": "the trace names no XLA operation",
    "h2d_bytes": "the trace has no sizes",
    "d2h_bytes": "the trace has no sizes",
}
_THREE = ("expected", "low", "high")


@dataclass(frozen=True)
class _Run:
    """A run as the page shows it; cells are those of the columns of the tables."""

    row: Row
    best: bool
    speed: tuple[Markup | str, ...]
    figures: tuple[Markup | str, ...]
    lost: tuple[tuple[str, Markup], ...]
    cost: Markup | str


@dataclass(frozen=True)
class _Section:
    """A group as the page shows it; ``plot`` and ``split`` name its figures."""

    key: str
    title: str
    facts: tuple[str, ...]
    runs: tuple[_Run, ...]
    plot: str
    split: str


@dataclass(frozen=True)
class _Line:
    """A published figure as the page shows it."""

    one: Judged
    what: str
    published: Markup | str
    cells: tuple[Markup | str, ...]
    agreement: str
    tone: str


@dataclass(frozen=True)
class _Card:
    """The headline of a group: its fastest run that fits."""

    title: str
    value: Markup | str
    note: Markup | str


def render(report: StudyReport) -> str:
    """Write the report as an HTML page.

    Parameters
    ----------
    report : StudyReport
        The report.

    Returns
    -------
    str
        A whole page; stylesheet, script, figures and the JSON report are in it. It is to lie in
        the folder of the study.
    """
    data = to_dict(report)
    show = Numbers(data, _UNKNOWN)
    icon, outcome = wording.OUTCOMES[report.verdict.outcome]
    sections = list(_sections(report, show))
    return (
        environment(_PACKAGE)
        .get_template("study.html.j2")
        .render(
            study=report,
            document="study",
            embedded=data,
            show=show,
            heading=wording.heading(report),
            facts=list(wording.facts(report)),
            icon=icon,
            outcome=outcome,
            banner=predicted.BANNER,
            cards=[_card(report, show, group) for group in report.groups],
            published=[_line(report, show, n) for n in range(len(report.published))],
            charts=_charts(report),
            sections=sections,
            speed=wording.SPEED,
            split=wording.FIGURES,
            method=wording.method(report),
            command=fmt.shorten(wording.command(report), 2_000),
            figures=_figures(report, sections),
            lanes=marks_of((), {}),
            causes={},
            titles=causes.title,
            style=inlined("style.css")
            + inlined("comparison.css", "nsysoffload.comparison")
            + inlined("study.css", _PACKAGE),
        )
    )


def _charts(report: StudyReport) -> list[tuple[str, str]]:
    """Return name and title of the chart of each model."""
    titles = {group.model: group.title for group in report.groups}
    return [(f"throughput_{n}", title) for n, title in enumerate(titles.values())]


def _figures(report: StudyReport, sections: list[_Section]) -> dict[str, Figure]:
    """Return the figures of the page by name; those without data are left out."""
    models = dict.fromkeys(group.model for group in report.groups)
    made = {f"throughput_{n}": throughput(report, model) for n, model in enumerate(models)}
    for group, section in zip(report.groups, sections, strict=True):
        compared = report.comparisons.get(section.key)
        made[section.plot] = tradeoff(compared) if compared else None
        made[section.split] = parts(report, group)
    return {name: figure for name, figure in made.items() if figure}


# --- Headlines ---


def _card(report: StudyReport, show: Numbers, group: Group) -> _Card:
    title, (value, note) = wording.subject(group), wording.headline(report, group)
    at = _position(report, group.best, group)
    if at is None:
        return _Card(title, value, note)
    rate, won = (f"rows.{at}.{key}." for key in ("tflops", "gain"))
    row = report.rows[at]
    shown = Markup("{} to {}").format(show(f"{rate}low"), show(f"{rate}high"))
    note = Markup("{}: {}").format(row.title, shown)
    if row.gain:
        gain = show.shown(f"{won}expected", signed(row.gain.expected))
        note += Markup("; {} over rematerialising").format(gain)
    return _Card(title, Markup("{} <small>TFLOP/s</small>").format(show(f"{rate}expected")), note)


def _position(report: StudyReport, variant: str | None, group: Group) -> int | None:
    """Return the position of a group's run among all rows."""
    key = (group.model, group.batch, variant)
    found = [n for n, r in enumerate(report.rows) if (r.model, r.batch, r.variant) == key]
    return found[0] if found and report.rows[found[0]].tflops else None


# --- What was published ---


def _line(report: StudyReport, show: Numbers, number: int) -> _Line:
    one, at = report.published[number], f"published.{number}."
    title = next(group.title for group in report.groups if group.model == one.model)
    cells: tuple[Markup | str, ...]
    if one.kind == "fits":
        said: Markup | str = wording.published(one)
        cells = (wording.predicted(one), "", "")
    else:
        said = show.shown(f"{at}value", wording.published(one))
        cells = tuple(_amount(show, one, f"{at}{key}", getattr(one, key)) for key in _THREE)
    tone = {True: "good", False: "bad", None: "unknown"}[one.agrees]
    what = f"{title}, batch {fmt.count(one.batch)}, {one.text}"
    return _Line(one, what, said, cells, wording.agreement(one), tone)


def _amount(show: Numbers, one: Judged, path: str, value: float | None) -> Markup:
    if value is None:
        return show.unknown(path, one.remark or "there is no such run")
    text = signed(value) if one.kind == "gain" else wording.tflops(value)
    return show.shown(path, text)


# --- Groups ---


def _sections(report: StudyReport, show: Numbers) -> Iterator[_Section]:
    for number, group in enumerate(report.groups):
        positions = [
            n for n, r in enumerate(report.rows) if (r.model, r.batch) == (group.model, group.batch)
        ]
        yield _Section(
            key=f"{group.model}/b{group.batch}",
            title=wording.subject(group),
            facts=tuple(wording.group_facts(report, group)),
            runs=tuple(_run(report.rows[n], show, f"rows.{n}.", group) for n in positions),
            plot=f"tradeoff_{number}",
            split=f"parts_{number}",
        )


def _run(row: Row, show: Numbers, at: str, group: Group) -> _Run:
    return _Run(
        row=row,
        best=row.variant == group.best,
        speed=tuple(_speed(row, show, at)),
        figures=tuple(_split(row, show, at)) if row.figures else (),
        lost=tuple(_lost(row, show, at)),
        cost=_cost(row, show, at),
    )


def _speed(row: Row, show: Numbers, at: str) -> Iterator[Markup | str]:
    """Yield the cells on speed and memory."""
    if row.need is None or row.step is None or row.tflops is None:
        return
    yield show(f"{at}need.device_bytes")
    yield show(f"{at}need.host_bytes")
    yield wording.fits(row)
    yield from (show(f"{at}step.{key}_ns") for key in _THREE)
    yield from (show(f"{at}tflops.{key}") for key in _THREE)
    if row.gain:
        shares = {key: getattr(row.gain, key) for key in _THREE}
        yield from (show.shown(f"{at}gain.{k}", signed(share)) for k, share in shares.items())
    else:
        yield from ("base" if row.variant == BASE else fmt.UNKNOWN, "", "")


def _split(row: Row, show: Numbers, at: str) -> Iterator[Markup | str]:
    """Yield the cells on where the time goes, but for the causes and the finding."""
    yield show(f"{at}figures.overlap")
    for key in ("exposed_ns", "stall_ns", "collectives_alone_ns", "recompute_ns"):
        yield show(f"{at}figures.{key}")
    yield show(f"{at}figures.recompute_share")
    yield show(f"{at}figures.h2d_bytes")
    yield show(f"{at}figures.d2h_bytes")


def _lost(row: Row, show: Numbers, at: str) -> Iterator[tuple[str, Markup]]:
    if row.figures:
        for title, time, cause in wording.lost(row.figures):
            yield title, show.shown(f"{at}figures.lost.{cause}", time)


def _cost(row: Row, show: Numbers, at: str) -> Markup | str:
    """Return what the first finding costs per step."""
    if row.finding is None:
        return ""
    key = "lost" if row.finding.lost_ns_per_step else "excess"
    time = show(f"{at}finding.{key}_ns_per_step", "_ns")
    longer = "" if key == "lost" else " longer than alone"
    return Markup("{}{}").format(time, longer)
