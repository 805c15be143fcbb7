"""A comparison as GitHub-flavoured Markdown that fits into one comment.

The first screen is the verdict, the headline figures and why they changed; the rest is folded.
"""

from collections.abc import Iterator

from nsysoffload.comparison import wording
from nsysoffload.comparison.gates import sentence
from nsysoffload.comparison.model import Comparison, Pair, Run
from nsysoffload.report import format as fmt
from nsysoffload.report.gfm import LIMIT, Block, code, fitted, length, prose, table
from nsysoffload.report.predicted import BANNER

__all__ = ["render"]

_DETAILED = (8, 4, 2, 1)  # new runs, as many as fit; one always does, as all texts are shortened
_MARKS = {"good": "🟢", "bad": "🔴", "neutral": "", "unknown": ""}
_DEFINITIONS = """\
- Figures are medians over the training steps of each run, of its slowest device. A change is new
  less base; percentages change by points.
- *Exposed* is transfer time not behind compute, a *stall* the time for which compute waits for it.
  The parts of a step are those of the median step of each run, and add up to it exactly:
  *recompute* is compute that rematerialises, *contention* by how much kernels take longer under
  copies than alone, where the trace has both; *rest of compute* is what is left.
- A dash: the trace cannot tell."""


def render(comparison: Comparison) -> str:
    """Write the comparison as Markdown.

    Parameters
    ----------
    comparison : Comparison
        The comparison.

    Returns
    -------
    str
        GitHub-flavoured Markdown that fits a comment, ending in a newline.
    """
    texts = (fitted([*_blocks(comparison, detailed)], LIMIT) for detailed in _DETAILED)
    return next(text for text in texts if length(text) <= LIMIT)


def _blocks(comparison: Comparison, detailed: int) -> Iterator[str | Block]:
    base, new = comparison.base, comparison.new
    several = len(new) > 1
    others = f"{len(new)} runs" if several else _name(new[0])
    mark, _ = wording.OUTCOMES[comparison.verdict.outcome]
    yield f"## {others} against {_name(base)}"
    yield f"> {mark} **{prose(comparison.verdict.text, 1200)}**"
    if base.kind == "predicted":
        yield f"> [!IMPORTANT]\n> {BANNER}"
    yield Block([], [f"- {_gate(comparison, number)}" for number in range(len(comparison.gates))])
    if several:
        yield _runs(comparison)
    best = next((n for n, run in enumerate(new) if run.best), 0)
    shown = [best, *(n for n in range(len(new)) if n != best)][:detailed]
    for number in shown:
        yield from _pair(comparison, comparison.pairs[number], several=several)
    if len(shown) < len(new):
        yield f"*Runs whose figures are not shown: {len(new) - len(shown)}.*"
    yield Block(
        ["> [!WARNING]"],
        [f"> - {_name(r)}: {prose(w.message)}" for r in comparison.runs for w in r.warnings],
    )
    yield "### How it was compared"
    yield f"{_DEFINITIONS}\n- {prose(wording.rule(comparison))}"
    yield _origin(comparison)
    yield f"```sh\n{fmt.shorten(wording.command(comparison), 2_000)}\n```"


def _name(run: Run) -> str:
    return code(run.name)


def _gate(comparison: Comparison, number: int) -> str:
    gate = comparison.gates[number]
    text = prose(sentence(gate, [run.name for run in comparison.new]))
    return text if gate.passed else f"**{text}**"


def _runs(comparison: Comparison) -> Block:
    """Tabulate all runs, the fastest that fits in bold."""
    rows = [_run(comparison.base, "base")]
    for run, pair in zip(comparison.new, comparison.pairs, strict=True):
        rows.append(_run(run, wording.OUTCOMES[pair.verdict.outcome][1]))
    numbers = ["Step", "Between", "Tokens/s", "Device memory", "Host memory", "Fits"]
    return table("All runs", ["Run", "Against the base"], numbers, rows)


def _run(run: Run, outcome: str) -> list[str]:
    tokens = fmt.UNKNOWN if run.tokens_per_s is None else fmt.count(round(run.tokens_per_s))
    step = fmt.UNKNOWN if run.step_ns is None else fmt.duration(run.step_ns)
    name = f"**{_name(run)}** (best)" if run.best else _name(run)
    between = wording.time_range(run.step_low_ns, run.step_high_ns)
    return [name, outcome, step, between, tokens, *wording.needs(run)]


def _pair(comparison: Comparison, pair: Pair, *, several: bool) -> Iterator[str | Block]:
    run, base = comparison.new[pair.run], comparison.base
    if several:
        yield f"### {_name(run)} against {_name(base)}"
        yield prose(pair.verdict.text, 1200)
    columns = [_name(base), _name(run), "Change", "Between"]
    rows = [
        [prose(r.label), r.base, r.new, f"{_MARKS[r.tone]} {r.change}".strip(), _between(r)]
        for r in wording.headlines(comparison, pair.run)
    ]
    yield table("", [""], columns, rows).text(len(rows))
    if pair.account:
        changes = [[p.label, p.base, p.new, p.change] for p in wording.parts(pair.account)]
        *parts, whole = changes
        yield table(
            "Why", ["Part of the step"], columns[:3], parts, [[f"**{text}**" for text in whole]]
        )
    yield prose(wording.step_text(comparison, pair), 1200)
    yield Block([], [f"- {_note(note.text, note.advice)}" for note in pair.notes])
    yield from _folded(comparison, pair, columns)


def _between(row: wording.Row) -> str:
    return prose(", ".join(filter(None, [row.remark, row.between])))


def _note(text: str, advice: str | None) -> str:
    return f"{prose(text)} {prose(advice)}" if advice else prose(text)


def _folded(comparison: Comparison, pair: Pair, columns: list[str]) -> Iterator[Block]:
    found = [
        [prose(title), state, base, new, change]
        for title, state, base, new, change in map(wording.finding, pair.findings)
    ]
    title = f"Findings of either run ({len(found)})"
    yield table(title, ["Cause", ""], columns[:3], found, folded=True)
    moved = [
        [code(o.op), o.direction.upper(), o.phase or fmt.UNKNOWN, *map(wording.moved, sides)]
        for o in pair.operations
        for sides in [(o.base, o.new)]
    ]
    title = f"Transfers by operation ({len(moved)})"
    yield table(title, ["Operation", "", "Phase"], columns[:2], moved, folded=True)
    rows = [
        [prose(r.label), r.base, r.new, r.change, _between(r)]
        for r in map(wording.row, (d for d in comparison.differences if d.run == pair.run))
    ]
    yield table(f"All metrics ({len(rows)})", ["Metric"], columns, rows, folded=True)


def _origin(comparison: Comparison) -> str:
    made = {
        f"{run.kind}, {run.recorder} {run.nsys_version or ''}".rstrip() for run in comparison.runs
    }
    tool = comparison.tool
    parts = (f"{tool.name} {tool.version}", *sorted(made), *wording.setting(comparison))
    return prose(f"{'; '.join(parts)}.", 1000)
