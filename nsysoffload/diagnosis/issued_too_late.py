"""Cause: the copy starts only when the previous kernel has ended, and the next one waits for it.

Evidence: its call was made, or it began, when compute had run dry; or its start waits for a kernel:
proven by an event, or seen in that a kernel ends within 20 us before. Owns: the stall.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.overlap.stalls import PAUSE_NS

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls whose copies begin behind a kernel on another stream."""
    head = m.head[m.blocker]
    begin = m.spans[head, 0]
    called_late = m.transfer_calls.start_ns[head] >= m.stall_spans[:, 0]
    began_late = begin >= m.stall_spans[:, 0]
    at = np.searchsorted(m.kernel_ends, begin, side="right") - 1
    ended = np.append(m.kernel_ends, np.iinfo(np.int64).min // 2)[at]
    behind = begin - ended <= PAUSE_NS
    told = np.zeros(len(m.spans), dtype=bool)
    told[m.waits.waiting] = True
    follows = m.stall["previous"].to_numpy() >= 0
    late = follows & m.beside_stream & (called_late | began_late | behind | told[head])
    yield from m.of_stalls(
        "issued_too_late",
        late,
        lambda rows: {"waits_for_kernel_proven": int(told[head[rows]].sum())},
    )
