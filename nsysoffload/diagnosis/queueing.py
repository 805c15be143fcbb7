"""Copies that were issued in time and started late, because others held the link or the stream."""

import numpy as np
from numpy.typing import NDArray

from nsysoffload.diagnosis.measurements import Measurements
from nsysoffload.timeline.intervals import covered_ns, intervals, union

__all__ = ["MOSTLY", "held_up"]

MOSTLY = 0.5  # of the wait, and of the stall


def held_up(m: Measurements, *, same_stream: bool) -> NDArray[np.bool_]:
    """Tell which stalls are mostly the wait of a copy for other copies.

    The copy is the first of the back-to-back run that ends the stall. It could have begun when it
    was issued and what it waits for had ended; from then until it began, others were running.

    Parameters
    ----------
    m : Measurements
        The device.
    same_stream : bool
        Whether the others are of the other direction on the same stream; else they are of the same
        direction on other streams.
    """
    head = m.head[m.blocker]
    waited = intervals(m.ready_ns[head], np.maximum(m.spans[head, 0], m.ready_ns[head]))
    stream, way = m.transfer_stream[head], m.way[head]
    held = np.zeros(len(head), dtype=np.int64)
    for code in np.unique(stream * 2 + way):
        mine = stream * 2 + way == code
        on, along = divmod(int(code), 2)
        others = (
            (m.transfer_stream == on) & (m.way != along)
            if same_stream
            else (m.transfer_stream != on) & (m.way == along)
        )
        held[mine] = covered_ns(waited[mine], union(m.spans[others]))
    wait_ns = waited[:, 1] - waited[:, 0]
    # Without the others it would have begun that much earlier, and the stall been as much shorter.
    mostly: NDArray[np.bool_] = (held > 0) & (held >= MOSTLY * np.maximum(wait_ns, m.stall_ns))
    return mostly
