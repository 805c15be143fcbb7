"""Cause: transfers use device memory's bandwidth, and kernels beside them run longer.

Evidence: kernels of one name and launch shape, at least three under transfers and three without.
Owns no time outside compute; its cost is excess time.
"""

from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import empty

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield one claim for all kernels that transfers slow down."""
    if m.stretched.empty:
        return
    worst = m.stretched.iloc[0]
    longest = np.asarray(worst["rows"])
    longest = longest[np.argsort(-(m.kernel_spans[longest, 1] - m.kernel_spans[longest, 0]))]
    evidence = {
        "kernels": len(m.stretched),
        "launches": int(m.stretched["covered_count"].sum()),
        "worst_kernel": str(worst["name"]),
        "worst_lone_ns": int(worst["lone_ns"]),
        "worst_covered_ns": int(worst["covered_ns"]),
    }
    yield Claim(
        "compute_contention",
        empty(),
        evidence=evidence,
        excess_ns=int(m.stretched["excess_ns"].sum()),
        places=m.kernel_spans[longest[:10]],
    )
