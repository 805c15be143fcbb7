"""A pair of runs as the page shows it: cards, parts, differences, findings and transfers.

Figures are elements with their path in the JSON; what the JSON has not, such as the change of an
operation, stands as text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from nsysoffload.comparison.model import Account, Comparison, Difference, OperationChange, Pair
from nsysoffload.comparison.verdict import signed
from nsysoffload.comparison.wording import PARTS, amount, change, row, signed_time
from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.metrics import METRICS
from nsysoffload.report.page import Numbers

__all__ = ["Card", "Row", "Section", "Transfer", "name", "section"]

_CARDS = (
    ("Stall per step", "stall_ms"),
    ("Exposed per step", "exposed_ms"),
    ("Overlap", "overlap"),
    ("Recompute per step", "recompute_ms"),
)
_TONES = {"better": "good", "worse": "bad"}
_WORDS = {"good": "better", "bad": "worse"}
_COSTS = ("lost_ms.", "excess_ms.")  # their labels say what they are
_MEMORY = (("Device memory", "device_bytes"), ("Host memory", "host_bytes"))
_NONE = Markup('<span class="null">–</span>')
_ARROW = Markup('<span class="arrow">→</span>')


@dataclass(frozen=True)
class Card:
    """A headline figure of both runs, and what changed."""

    title: str
    value: Markup
    note: Markup | str
    tone: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table: a figure of both runs. ``word`` says what the change is.

    ``code`` is the name for scripts, ``meaning`` what the figure is.
    """

    title: str
    base: Markup
    new: Markup
    change: Markup | str
    tone: str
    word: str = ""
    between: str = ""
    code: str = ""
    meaning: str = ""
    direction: str = ""


@dataclass(frozen=True)
class Transfer:
    """An operation of both runs: bytes, busy, hidden and stall of each, and what stall changed."""

    op: str
    direction: str
    phase: str
    cells: tuple[Markup | str, ...]
    change: str
    tone: str


@dataclass(frozen=True)
class Section:
    """A pair on the page; ``*_left`` count what is in the JSON alone."""

    number: int
    name: str
    title: str
    pair: Pair
    cards: tuple[Card, ...]
    waterfall: str
    parts: tuple[Row, ...]
    whole: Row | None
    rows: tuple[Row, ...]
    rows_left: int
    findings: tuple[Row, ...]
    operations: tuple[Transfer, ...]
    operations_left: int


def section(comparison: Comparison, show: Numbers, number: int, rows: int, most: int) -> Section:
    """Return a pair as the page shows it.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    show : Numbers
        Its figures.
    number : int
        Position of the pair.
    rows, most : int
        How many differences and operations are shown.
    """
    pair = comparison.pairs[number]
    new = comparison.new[number]
    found = {d.metric: (n, d) for n, d in enumerate(comparison.differences) if d.run == number}
    moved = [
        _transfer(operation, show, f"pairs.{number}.operations.{n}")
        for n, operation in enumerate(pair.operations[:most])
    ]
    return Section(
        number=number,
        name=name(new.name),
        title=f"{name(new.name)} against {name(comparison.base.name)}",
        pair=pair,
        cards=tuple(_cards(comparison, show, number, found)),
        waterfall=f"waterfall_{number}" if pair.account else "",
        parts=tuple(_parts(pair.account, show, number)) if pair.account else (),
        whole=_whole(pair.account, show, number) if pair.account else None,
        rows=tuple(_row(show, n, d) for n, d in list(found.values())[:rows]),
        rows_left=max(0, len(found) - rows),
        findings=tuple(_findings(pair, show, number)),
        operations=tuple(moved),
        operations_left=max(0, len(pair.operations) - most),
    )


def name(text: str) -> str:
    """Return the name of a run, as long as it may be on the page."""
    return fmt.shorten(fmt.plain(text), 60)


# --- Cards ---


def _cards(
    comparison: Comparison,
    show: Numbers,
    number: int,
    found: Mapping[str, tuple[int, Difference]],
) -> Iterator[Card]:
    yield _step(comparison, show, number)
    for title, metric in _CARDS:
        if metric in found:
            yield _card(title, show, *found[metric])
    if "bytes.h2d" in found and "bytes.d2h" in found:
        back = _between(show, *found["bytes.d2h"])
        note = Markup("H2D; D2H {}").format(back)
        yield Card("Bytes per step", _between(show, *found["bytes.h2d"]), note)
    for title, metric in _MEMORY:
        if metric in found:
            yield _card(title, show, *found[metric])


def _step(comparison: Comparison, show: Numbers, number: int) -> Card:
    step = comparison.pairs[number].step
    if step is None:
        value = _arrow(show("base.step_ns"), show(f"new.{number}.step_ns"))
        return Card("Step time", value, "not compared")
    at = f"pairs.{number}.step."
    value = _arrow(show(f"{at}base_ns"), show(f"{at}new_ns"))
    per = " per token" if step.per_token else ""
    note = show.shown(f"{at}relative", signed(step.relative))
    if step.low is None or step.high is None:
        return Card("Step time", value, note + per)
    between = Markup("{}{}; {} to {} {}").format(
        note,
        per,
        show.shown(f"{at}low", signed(step.low)),
        show.shown(f"{at}high", signed(step.high)),
        "in the model's range" if step.noise_from == "model" else "at 95 %",
    )
    outcome = comparison.pairs[number].verdict.outcome
    return Card("Step time", value, between, _TONES.get(outcome, ""))


def _card(title: str, show: Numbers, number: int, difference: Difference) -> Card:
    told = row(difference)
    note = told.remark if difference.change is None else _change(show, number, difference)
    return Card(title, _between(show, number, difference), note, told.tone)


def _between(show: Numbers, number: int, difference: Difference) -> Markup:
    return _arrow(*(_value(show, number, difference, side) for side in ("base", "new")))


def _arrow(base: Markup, new: Markup) -> Markup:
    return Markup("{} {} {}").format(base, _ARROW, new)


# --- Differences ---


def _row(show: Numbers, number: int, difference: Difference) -> Row:
    told, metric = row(difference), difference.metric
    return Row(
        title=told.label,
        code=metric,
        meaning="" if metric.startswith(_COSTS) else METRICS[metric].meaning,
        base=_value(show, number, difference, "base"),
        new=_value(show, number, difference, "new"),
        change="" if difference.change is None else _change(show, number, difference),
        between=told.between,
        tone=told.tone,
        word="the same" if difference.change == 0 else _WORDS.get(told.tone, told.remark),
    )


def _value(show: Numbers, number: int, difference: Difference, side: str) -> Markup:
    value, path = getattr(difference, side), f"differences.{number}.{side}"
    if value is None:
        return show.unknown(path, row(difference).remark)
    return show.shown(path, amount(difference.unit, value))


def _change(show: Numbers, number: int, difference: Difference) -> Markup:
    assert difference.change is not None
    at = f"differences.{number}."
    moved = show.shown(f"{at}change", change(difference.unit, difference.change))
    if not difference.relative or difference.unit == "%":
        return moved
    relative = show.shown(f"{at}relative", signed(difference.relative))
    return Markup("{} ({})").format(moved, relative)


# --- Parts ---


def _parts(account: Account, show: Numbers, number: int) -> Iterator[Row]:
    for n, part in enumerate(account.parts):
        if not part.base_ns and not part.new_ns:
            continue
        at = f"pairs.{number}.account.parts.{n}."
        moved = show.shown(f"{at}change_ns", signed_time(part.change_ns))
        base, new = show(f"{at}base_ns"), show(f"{at}new_ns")
        yield Row(PARTS[part.name], base, new, moved, _costs(part.change_ns))


def _whole(account: Account, show: Numbers, number: int) -> Row:
    at, change_ns = f"pairs.{number}.account.", account.new_ns - account.base_ns
    base, new = show(f"{at}base_ns"), show(f"{at}new_ns")
    return Row("whole step", base, new, signed_time(change_ns), _costs(change_ns))


def _costs(change_ns: int) -> str:
    return "neutral" if change_ns == 0 else "bad" if change_ns > 0 else "good"


# --- Findings and transfers ---


def _findings(pair: Pair, show: Numbers, number: int) -> Iterator[Row]:
    for n, finding in enumerate(pair.findings):
        at = f"pairs.{number}.findings.{n}."
        yield Row(
            title=causes.title(finding.cause),
            code=finding.cause,
            direction=(finding.direction or fmt.UNKNOWN).upper(),
            base=show(f"{at}base_ns"),
            new=show(f"{at}new_ns"),
            change=show.shown(f"{at}change_ns", signed_time(finding.change_ns)),
            tone=_costs(finding.change_ns),
            word=finding.state,
        )


def _transfer(moved: OperationChange, show: Numbers, at: str) -> Transfer:
    cells = [
        show(f"{at}.{side}.{key}") if getattr(moved, side) else _NONE
        for key in ("bytes", "busy_ns", "hidden_ns", "stall_ns")
        for side in ("base", "new")
    ]
    before, after = (side.stall_ns if side else 0 for side in (moved.base, moved.new))
    stall_ns = after - before
    return Transfer(
        op=moved.op,
        direction=moved.direction.upper(),
        phase=moved.phase or fmt.UNKNOWN,
        cells=tuple(cells),
        change=signed_time(stall_ns) if stall_ns else "",
        tone=_costs(stall_ns),
    )
