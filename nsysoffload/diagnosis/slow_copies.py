"""Causes: copies that are hidden by time and not in effect, for something slowed them down.

`starved`: kernels that use device memory at full speed leave a copy little of it.
`bidirectional_contention`: the other direction of the link ran for most of the copy.
Evidence: bandwidth against three or more lone copies of the same direction and size class. Both own
no time outside compute; their cost is excess time.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import empty

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield, per cause, direction and operation, the copies that were slowed down."""
    slow = m.slow
    for cause, chosen in (
        ("starved", ~slow.against),
        ("bidirectional_contention", slow.against),
    ):
        places = np.flatnonzero(chosen)
        for direction, op, mine in m.by_op(slow.row[places], places):
            mine = mine[np.argsort(-slow.excess_ns[mine], kind="stable")]
            rows = slow.row[mine]
            evidence = {
                "copies": len(rows),
                "bytes": int(m.size_bytes[rows].sum()),
                "gbps": float(m.size_bytes[rows].sum() / m.length_ns[rows].sum()),
                "lone_gbps": float(np.median(slow.lone_gbps[mine])),
                "copy_row_ids": m.row_ids(rows[:10]),
            }
            if cause == "starved":
                evidence |= {"beside": _beside(m, rows[:10])}
            yield Claim(
                cause,
                empty(),
                direction,
                op,
                evidence,
                int(slow.excess_ns[mine].sum()),
                m.spans[rows[:10]],
            )


def _beside(m: Measurements, rows: np.ndarray) -> list[str]:
    """Names of the kernels that ran longest beside the worst copies."""
    names: dict[str, int] = {}
    start, end = m.kernel_spans.T
    reach = np.maximum.accumulate(end) if len(end) else end
    kinds = m.kernels["kind"].cat.codes.to_numpy()
    name_of = m.kernels["name"].cat
    codes = name_of.codes.to_numpy()
    for row in rows:
        first = np.searchsorted(reach, m.spans[row, 0], side="right")
        last = np.searchsorted(start, m.spans[row, 1], side="left")
        for kernel in range(first, min(last, first + 1_000)):
            shared = min(end[kernel], m.spans[row, 1]) - max(start[kernel], m.spans[row, 0])
            if shared > 0 and kinds[kernel] < 2:
                name = str(name_of.categories[codes[kernel]])
                names[name] = names.get(name, 0) + int(shared)
    return sorted(names, key=lambda name: (-names[name], name))[:3]
