"""Figures of a benchmark as a table of text and as plain values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Figure", "lines", "values"]


@dataclass(frozen=True)
class Figure:
    """One measured value, and the most it may be where there is a limit."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def verdict(self) -> str:
        """Say whether the value keeps to its limit; nothing where it has none."""
        if self.limit is None:
            return ""
        return "ok" if self.value <= self.limit else "over"


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Write a line per figure, under a line of titles."""
    yield f"{'':44} {'measured':>10}       {'limit':>8}"
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.limit:g}"
        line = f"{figure.name:44} {figure.value:10,.2f} {figure.unit:5} {limit:>8} {figure.verdict}"
        yield line.rstrip()


def values(figures: Iterable[Figure]) -> list[dict[str, str | float | None]]:
    """Return the figures for a JSON file."""
    return [{**vars(figure), "verdict": figure.verdict or None} for figure in figures]
