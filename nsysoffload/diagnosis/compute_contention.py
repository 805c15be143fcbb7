"""Cause: transfers use device memory's bandwidth, and kernels beside them run longer.

Evidence: kernels of one name and launch shape, at least three under transfers and three without.
Owns no time outside compute; its cost is excess time.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import empty

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield one claim for all kernels that transfers slow down."""
    table = m.stretched.table
    if table.empty:
        return
    worst = table.iloc[0]
    evidence = {
        "kernels": len(table),
        "launches": int(table["covered_count"].sum()),
        "worst_kernel": str(worst["name"]),
        "worst_lone_ns": int(worst["lone_ns"]),
        "worst_covered_ns": int(worst["covered_ns"]),
    }
    yield Claim(
        "compute_contention",
        empty(),
        evidence=evidence,
        excess_ns=int(table["excess_ns"].sum()),
        places=m.kernel_spans[m.stretched.worst[:10]],
    )
