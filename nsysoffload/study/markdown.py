"""A study as GitHub-flavoured Markdown that fits into one comment."""

from collections.abc import Iterator

from nsysoffload.report import format as fmt
from nsysoffload.report.gfm import LIMIT, Block, code, fitted, prose, table
from nsysoffload.report.predicted import BANNER
from nsysoffload.study import wording
from nsysoffload.study.model import Group, Row, StudyReport

__all__ = ["render"]


def render(report: StudyReport) -> str:
    """Write the report as Markdown.

    Returns
    -------
    str
        GitHub-flavoured Markdown, ending in a newline; links are relative to the study's folder.
    """
    return fitted(list(_blocks(report)), LIMIT)


def _blocks(report: StudyReport) -> Iterator[str | Block]:
    mark, _ = wording.OUTCOMES[report.verdict.outcome]
    yield f"## {prose(wording.heading(report))}"
    yield f"> {mark} **{prose(report.verdict.text)}**"
    yield f"> [!IMPORTANT]\n> {BANNER}"
    yield "; ".join(map(prose, wording.facts(report))) + "."
    yield _published(report)
    for group in report.groups:
        yield from _group(report, group)
    yield Block(
        ["### How it was made", ""], [f"- *{t}*: {_said(s)}" for t, s in wording.method(report)]
    )
    yield Block([], [f"- {prose(note)}" for note in report.notes])
    yield f"```sh\n{fmt.shorten(wording.command(report), 2_000)}\n```"


def _said(sentence: str) -> str:
    return prose(sentence, 1_200)


def _published(report: StudyReport) -> Block:
    titles = {group.model: group.title for group in report.groups}
    rows = [
        [
            prose(f"{titles[one.model]}, batch {one.batch}, {one.text}"),
            ": ".join(filter(None, [wording.agreement(one), prose(one.remark or "")])),
            wording.published(one),
            wording.predicted(one),
        ]
        for one in report.published
    ]
    columns = ["Published", "Predicted, and its range"]
    return table("Published and predicted", ["Figure", "Agrees?"], columns, rows)


def _group(report: StudyReport, group: Group) -> Iterator[str | Block]:
    rows = report.of_group(group)
    yield f"### {prose(wording.subject(group))}"
    yield "; ".join(map(prose, wording.group_facts(report, group))) + "."
    speed = [[_name(row, group), *wording.speed(row)] for row in rows]
    yield table("", ["Variant"], wording.SPEED, speed)
    yield Block([], [f"- {prose(row.title)}: {prose(row.failed)}" for row in rows if row.failed])
    there = [row for row in rows if row.figures]
    split = [[prose(row.title), *map(prose, wording.figures(row))] for row in there]
    yield table("Where the time goes", ["Variant"], wording.FIGURES, split, folded=True)
    needs = [
        [prose(r.title), code(r.policy or "", 200), _listed(r.need.environment, r.need.flags)]
        for r in there
        if r.need
    ]
    names = ["Variant", "Policy", "Environment and flags"]
    yield table("What it takes to run", names, [], needs, folded=True)


def _listed(environment: tuple[str, ...], flags: tuple[str, ...]) -> str:
    return " ".join(code(word, 120) for word in (*environment, *flags)) or fmt.UNKNOWN


def _name(row: Row, group: Group) -> str:
    """Name of a run, with a link to its own report."""
    name = prose(row.title)
    linked = f"[{name}]({row.report})" if row.report else name
    return f"**{linked}** (best)" if row.variant == group.best else linked
