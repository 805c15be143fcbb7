"""Cause: there is no compute left to hide behind; only fewer bytes help.

Evidence: what another schedule could hide is under 5 % of the exposed time of the direction, and it
is compute that sets this bound: not all of the stall could be hidden. Owns: the stalls of that
direction. Also, where no other cause does, the stalls whose run of copies was under way before
compute ran dry: begun in time, it lasts longer than the compute beside it.
"""

from collections.abc import Iterator
from dataclasses import replace

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["HIDEABLE_SHARE", "claim", "outlasting"]

HIDEABLE_SHARE = 0.05  # of the exposed time


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls of each direction that has next to nothing to hide behind."""
    if not len(m.compute):
        return
    for way, direction in enumerate(DIRECTIONS):
        hideable, exposed = m.hideable_ns[direction], m.exposed_ns[direction]
        mine = m.way[m.blocker] == way
        if hideable < HIDEABLE_SHARE * exposed and hideable < m.stall_ns[mine].sum():
            evidence = {"hideable_ns": hideable, "exposed_ns": exposed}
            for claim_ in m.of_stalls("transfer_bound", mine):
                yield replace(claim_, evidence={**(claim_.evidence or {}), **evidence})


def outlasting(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls whose copies began under compute, which ended before them."""
    in_time = m.spans[m.head[m.blocker], 0] < m.stall_spans[:, 0]
    yield from m.of_stalls("transfer_bound", m.beside_stream & in_time)
