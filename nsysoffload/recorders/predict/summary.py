"""Predicted runs side by side: step, exposed transfers and memory of each, and which is faster."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nsysoffload.comparison.ranking import Order, Ranking, ranking
from nsysoffload.report.format import duration, plain, shorten, size
from nsysoffload.report.predicted import BANNER, fits
from nsysoffload.trace.prediction import Corner, Prediction, Range

__all__ = ["ORDER", "render"]

ORDER = "The range is that of the model's constants; a real run may also be ordered otherwise."
"""What a ranking rests on beside the constants."""

_WIDTH = 100


def render(predictions: Sequence[Prediction]) -> str:
    """Write a table of predictions for one target, and how each ranks against the first.

    Parameters
    ----------
    predictions : sequence of Prediction
        At least one, all with the same constants.
    """
    console = Console()
    console.width = min(max(console.width, 80), _WIDTH)
    with console.capture() as captured:
        console.print(Text(BANNER, "bold yellow"))
        console.print(_table(predictions))
        for sentence in _sentences(predictions):
            console.print(Text(sentence))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _table(predictions: Sequence[Prediction]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("Variant", overflow="fold")
    for name in ("Step", "in the range", "H2D exposed", "D2H exposed", "Device", "Host"):
        table.add_column(name, justify="right", no_wrap=True)
    for made in predictions:
        expected, memory = made.corners[0], made.memory
        table.add_row(
            Text(shorten(plain(made.variant), 30)),
            duration(expected.step_ns),
            _span(made.step),
            *_exposed(expected),
            size(memory.device_bytes if memory else None),
            size(memory.host_bytes if memory else None),
        )
    return table


def _span(step: Range) -> str:
    return f"{duration(step.low_ns)} to {duration(step.high_ns)}"


def _exposed(corner: Corner) -> tuple[str, str]:
    return duration(corner.h2d_exposed_ns), duration(corner.d2h_exposed_ns)


def _sentences(predictions: Sequence[Prediction]) -> Iterator[str]:
    base, *others = predictions
    for made in predictions:
        if made.memory and fits(made.memory) != "it fits":
            limit = size(made.memory.device_limit_bytes)
            yield f"{made.variant} on {made.target} ({limit}): {fits(made.memory)}."
    for made in others:
        yield _ranked(base.variant, made.variant, ranking(base, made))
    if others:
        yield ORDER


def _ranked(base: str, variant: str, rank: Ranking) -> str:
    span = f"{_change(rank.expected)} expected, {_change(rank.low)} to {_change(rank.high)}"
    if rank.order is Order.CANNOT_TELL:
        return (
            f"Cannot tell whether {variant} or {base} is faster: step of {variant} against {base}"
            f" {span} in the model's range, which turns the ranking around."
        )
    if rank.order is Order.SAME:
        return f"{variant} takes as long as {base}."
    return f"{variant} is {rank.order} than {base}: step {span} in the model's range."


def _change(change: float) -> str:
    return f"{100 * change:+.1f} %"
