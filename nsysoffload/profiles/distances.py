"""A compiled module -> how much work stands between the start and the end of each host copy."""

from collections.abc import Sequence
from dataclasses import dataclass

from nsysoffload.profiles.instructions import Instructions, Role
from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Program, Start
from nsysoffload.recorders.predict.schedule import program

__all__ = ["Distance", "distances"]

_PRODUCTS = (Kind.GEMM, Kind.ATTENTION)

_Items = Sequence[Item | Start | Done | Loop]


@dataclass(frozen=True)
class Distance:
    """What the compute stream runs between the start and the end of a host copy.

    Attributes
    ----------
    name : str
        The copy, as a profile calls it.
    direction : str
        ``h2d`` or ``d2h``.
    loop : str
        The while loop whose body holds it; empty outside of loops.
    kernels, products : int
        Operations between, and those of them that are matrix products or attention.
    """

    name: str
    direction: str
    loop: str
    kernels: int
    products: int


def distances(text: str, module: Instructions) -> tuple[Distance, ...]:
    """Return the distance of each host copy that runs beside compute, in the order of their starts.

    Parameters
    ----------
    text : str
        Of the compiled module.
    module : Instructions
        Its instructions.
    """
    found: list[Distance] = []
    _of_sequence(program(parse(text)).items, module, found)
    return tuple(found)


def _of_sequence(items: _Items, module: Instructions, found: list[Distance]) -> None:
    ends = {item.start: at for at, item in enumerate(items) if isinstance(item, Done)}
    for at, item in enumerate(items):
        if isinstance(item, Loop):
            _of_sequence(item.body, module, found)
        elif isinstance(item, Start) and at in ends:
            costed = module.by_name[item.op.name]
            if costed.role in (Role.H2D, Role.D2H):
                counts = _counts(items[at + 1 : ends[at]])
                found.append(Distance(costed.name, costed.role, costed.loop, *counts))


def _counts(items: _Items) -> tuple[int, int]:
    """Count what the compute stream runs, and the products in it; loops count with their trips."""
    own = tuple(item for item in items if isinstance(item, Item | Loop))
    ops = [(op, times) for op, times in Program("", own).ops() if op.is_kernel]
    products = (times for op, times in ops if op.kind in _PRODUCTS)
    return sum(times for _, times in ops), sum(products)
