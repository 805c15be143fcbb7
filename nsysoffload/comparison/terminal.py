"""A comparison as a summary for the terminal, 80 columns wide where there is no more room."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from nsysoffload.comparison import wording
from nsysoffload.comparison.gates import sentence
from nsysoffload.comparison.model import Comparison, Pair, Run
from nsysoffload.report import format as fmt
from nsysoffload.report.predicted import BANNER
from nsysoffload.report.terminal import empty_table, printed, text

__all__ = ["render"]

_NAME = 14  # columns
_FINDINGS = 5
_OUTCOMES = {"better": "green", "worse": "red", "not_comparable": "red"}
_TONES = {"good": "green", "bad": "red"}


def render(comparison: Comparison, console: Console | None = None) -> str:
    """Write the summary.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    console : rich.console.Console, optional
        Where it will be shown; if left out, standard output, at least 80 columns wide.

    Returns
    -------
    str
        Lines of text, with escape sequences only where the console is a terminal.
    """
    return printed(_parts(comparison), console)


def _parts(comparison: Comparison) -> Iterator[RenderableType]:
    verdict = comparison.verdict
    colour = _OUTCOMES.get(verdict.outcome, "")
    yield text(verdict.text, f"bold {colour}".rstrip())
    if comparison.base.kind == "predicted":
        yield text(BANNER, "bold yellow")
    names = [run.name for run in comparison.new]
    for gate in comparison.gates:
        yield text(sentence(gate, names), "green" if gate.passed else "bold red")
    if len(names) > 1:
        yield ""
        yield _runs(comparison)
    best = next((n for n, run in enumerate(comparison.new) if run.best), 0)
    yield from _pair(comparison, comparison.pairs[best])


def _pair(comparison: Comparison, pair: Pair) -> Iterator[RenderableType]:
    names = [_name(run) for run in (comparison.base, comparison.new[pair.run])]
    yield ""
    table = empty_table([], ["", *names, "Change", "Between"])
    table.columns[0].justify = "left"
    table.columns[-1].no_wrap = False  # the one that gives way
    for row in wording.headlines(comparison, pair.run):
        change = Text(row.change, _TONES.get(row.tone, ""))
        beside = "" if row.tone == "unknown" else row.remark or row.between
        table.add_row(row.label, row.base, row.new, change, Text(beside, "dim"))
    yield table
    if pair.account:
        yield ""
        table = empty_table(["Part of the step"], [*names, "Change"])
        for part in wording.parts(pair.account):
            table.add_row(part.label, part.base, part.new, part.change)
        yield table
    yield text(wording.step_text(comparison, pair), "dim")
    yield from _findings(pair)
    for note in pair.notes:
        yield text(f"{note.text} {note.advice or ''}".rstrip())


def _findings(pair: Pair) -> Iterator[RenderableType]:
    changed = [found for found in pair.findings if found.state != "kept"]
    for found in changed[:_FINDINGS]:
        title, state, *_, change = wording.finding(found)
        yield text(f"Finding {state}: {title}, {change} per step ({found.cause})")
    if len(changed) > _FINDINGS:
        yield text(f"{len(changed) - _FINDINGS} more in the report.", "dim")


def _runs(comparison: Comparison) -> Table:
    columns: Sequence[str] = ["Step", "Tokens/s", "Device", "Host", "Fits", "Against the base"]
    table = empty_table(["Run"], columns)
    outcomes = [wording.OUTCOMES[pair.verdict.outcome][1].lower() for pair in comparison.pairs]
    for run, outcome in zip(comparison.runs, ["base", *outcomes], strict=True):
        tokens = fmt.UNKNOWN if run.tokens_per_s is None else fmt.count(round(run.tokens_per_s))
        step = fmt.UNKNOWN if run.step_ns is None else fmt.duration(run.step_ns)
        name = Text(f"{_name(run)}{' (best)' if run.best else ''}", "bold" if run.best else "")
        table.add_row(name, step, tokens, *wording.needs(run), outcome)
    return table


def _name(run: Run) -> str:
    name = fmt.plain(run.name)
    shortened = (fmt.shorten(name, width) for width in range(_NAME, 0, -1))
    return next(text for text in shortened if cell_len(text) <= _NAME) or fmt.UNKNOWN
