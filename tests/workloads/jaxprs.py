"""What a traced program does, and how often."""

from collections.abc import Iterator
from typing import Any

__all__ = ["equations"]


def equations(jaxpr: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield each equation, those of inner programs too, and how often loops run it."""
    for equation in jaxpr.eqns:
        yield equation, times
        trips = equation.params["length"] if equation.primitive.name == "scan" else 1
        for inner in equation.params.values():
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from equations(inner, times * trips)
