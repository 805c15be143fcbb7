"""The recompute-offload-keep plot in a terminal: the time of a step against device memory."""

import string
from collections.abc import Sequence

from nsysoffload.planning.model import Candidate, Plan
from nsysoffload.report.format import duration, size

__all__ = ["BEST", "marks", "plot"]

BEST = "*"
_LETTERS = string.ascii_lowercase + string.ascii_uppercase
_WIDTH, _HEIGHT = 78, 15
_MARGIN = 10
_NEAR = 1.5  # times what is needed: a limit farther off would squeeze the points together
_LIMIT, _BEYOND = "|", "+"


def marks(plan: Plan) -> list[str]:
    """Return the mark of each candidate: a letter, and for the best one a star."""
    letters = iter(_LETTERS)
    return [BEST if c is plan.best else next(letters, _BEYOND) for c in plan.candidates]


def plot(plan: Plan) -> list[str]:
    """Draw all candidates that were compiled; nothing where that are fewer than two.

    Parameters
    ----------
    plan : Plan
        The plan.

    Returns
    -------
    list of str
        Lines of at most 90 characters.
    """
    shown = [(c, mark) for c, mark in zip(plan.candidates, marks(plan), strict=True) if _known(c)]
    if len(shown) < 2:
        return []
    limit = plan.limits.device_bytes
    is_near = limit <= _NEAR * max(_bytes(c) for c, _ in shown)
    across = _ends([*(_bytes(c) for c, _ in shown), *([limit] if is_near else [])])
    up = _ends([c.step_ns for c, _ in shown])
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    if is_near:
        for line in grid:
            line[_place(limit, across, _WIDTH)] = _LIMIT
    for candidate, mark in sorted(shown, key=lambda pair: pair[1] == BEST):  # the best is on top
        row = _HEIGHT - 1 - _place(candidate.step_ns, up, _HEIGHT)
        grid[row][_place(_bytes(candidate), across, _WIDTH)] = mark
    where = f"{_LIMIT} = limit of {size(limit)}" if is_near else f"limit: {size(limit)}, beyond"
    return [
        f"step against device memory; {BEST} = best; {where}",
        *_framed(grid, up),
        f"{'':{_MARGIN}} +{'-' * _WIDTH}",
        f"{'':{_MARGIN}}  {_axis(across)}",
    ]


def _known(candidate: Candidate) -> bool:
    return candidate.prediction is not None and candidate.prediction.memory is not None


def _bytes(candidate: Candidate) -> float:
    assert candidate.prediction
    assert candidate.prediction.memory
    return candidate.prediction.memory.device_bytes


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (0.9 * low, 1.1 * high)


def _place(value: float, ends: tuple[float, float], cells: int) -> int:
    return round((value - ends[0]) / (ends[1] - ends[0]) * (cells - 1))


def _framed(grid: list[list[str]], up: tuple[float, float]) -> list[str]:
    """Return the rows with the highest and the lowest time beside them."""
    labels = {0: duration(round(up[1])), len(grid) - 1: duration(round(up[0]))}
    return [
        f"{labels.get(at, ''):>{_MARGIN}} |{''.join(row)}".rstrip() for at, row in enumerate(grid)
    ]


def _axis(across: tuple[float, float]) -> str:
    left, right = (size(round(end)) for end in across)
    return f"{left}{right:>{_WIDTH - len(left)}}"
