"""Cause: a kernel seems to carry a transfer, of which the trace has no copy and no bytes.

Evidence: XLA started the operation beside the compute stream, and it is a slice or an update of
one. It owns nothing: that it moves data to or from the host cannot be seen.
"""

import re
from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import empty, length_ns, union

__all__ = ["claim"]

_SLICE = re.compile(r"dynamic[-_](?:update[-_])?slice")


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield one claim for all kernels that may be transfers."""
    ops = m.thunks["hlo_op"].tolist()
    suspect = [
        "-start" in op and bool(_SLICE.search(f"{op} {name}"))
        for op, name in zip(ops, m.thunks["op_name"], strict=True)
    ]
    of_thunk = np.array([*suspect, False], dtype=bool)
    compute = (m.kernels["kind"] == "compute").to_numpy()
    rows = np.flatnonzero(of_thunk[m.kernel_thunk] & compute & m.kernel_chosen)
    if len(rows):
        evidence = {
            "kernels": len(rows),
            "busy_ns": length_ns(union(m.kernel_spans[rows])),
            "ops": sorted({ops[thunk] for thunk in np.unique(m.kernel_thunk[rows])})[:5],
        }
        yield Claim("kernel_copy", empty(), evidence=evidence, places=m.kernel_spans[rows[:10]])
