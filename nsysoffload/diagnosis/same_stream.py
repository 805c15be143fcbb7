"""Cause: the copies are on the stream of the kernels around them, so nothing can overlap.

Evidence: the stream of the copy and of the kernels before and after. Owns: the stall, if copies on
that stream make up most of its transfers; a small copy behind a burst on another stream is not the
cause of the wait.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import covered_ns, union

__all__ = ["MOSTLY", "claim"]

MOSTLY = 0.5  # of the stall's transfer time


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls that copies on the kernels' own stream end."""
    same = ~m.beside_stream
    if not same.any():
        return
    inline = np.isin(m.transfer_stream, m.compute_streams)
    own = covered_ns(m.stall_spans, union(m.spans[inline]))
    every = covered_ns(m.stall_spans, m.moving)
    yield from m.of_stalls(
        "same_stream",
        same & (own >= MOSTLY * every),
        lambda rows: {"stream": int(m.transfers["stream"].to_numpy()[m.blocker[rows[0]]])},
    )
