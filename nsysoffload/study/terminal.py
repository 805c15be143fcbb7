"""A study as a summary for the terminal, 80 columns wide where there is no more room."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from nsysoffload.report.predicted import BANNER
from nsysoffload.report.terminal import empty_table, printed, text
from nsysoffload.study import wording
from nsysoffload.study.cases import BASE
from nsysoffload.study.model import Group, Row, StudyReport

__all__ = ["render"]

_OUTCOMES = {"agrees": "green", "partly": "yellow", "differs": "red"}
_AGREES = {True: "green", False: "red", None: "dim"}


def render(report: StudyReport, console: Console | None = None) -> str:
    """Write the summary.

    Parameters
    ----------
    report : StudyReport
        The report.
    console : rich.console.Console, optional
        Where it will be shown; if left out, standard output, at least 80 columns wide.

    Returns
    -------
    str
        Lines of text, with escape sequences only where the console is a terminal.
    """
    return printed(_parts(report), console)


def _parts(report: StudyReport) -> Iterator[RenderableType]:
    colour = _OUTCOMES.get(report.verdict.outcome, "")
    yield text(f"{wording.heading(report)}.", "bold")
    yield text(report.verdict.text, f"bold {colour}".rstrip())
    yield text(BANNER, "bold yellow")
    yield text("; ".join(wording.facts(report)), "dim")
    for group in report.groups:
        yield ""
        yield text(wording.subject(group), "bold")
        yield text("; ".join(wording.group_facts(report, group)), "dim")
        yield _runs(report, group)
    if report.published:
        yield ""
        yield from _published(report)


def _runs(report: StudyReport, group: Group) -> Table:
    columns = ["Device", "Host", "Fits", "Step", "TFLOP/s", "between", "Gain"]
    table = empty_table(["Variant"], columns)
    table.columns[3].no_wrap = False
    for row in report.of_group(group):
        name = Text(row.title, "bold" if row.variant == group.best else "")
        if row.variant == group.best:
            name.append(" (best)")
        table.add_row(name, *_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    device, host, fits, step, _, _, rate, low, high, gain, _, _ = wording.speed(row)
    if row.failed:
        return ["", "", "failed", "", "", "", ""]
    return [device, host, fits, step, rate, f"{low} to {high}", gain if row.variant != BASE else ""]


def _published(report: StudyReport) -> Iterator[RenderableType]:
    titles = {group.model: group.title for group in report.groups}
    table = empty_table(["Published"], ["", "predicted", ""])
    table.columns[2].no_wrap = False
    for one in report.published:
        what = f"{titles[one.model]}, batch {one.batch}, {one.text}"
        agrees = Text(wording.agreement(one), _AGREES[one.agrees])
        table.add_row(what, wording.published(one), wording.predicted(one), agrees)
    yield table
