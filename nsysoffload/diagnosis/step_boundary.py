"""Cause: the copy runs before the step's first compute kernel or after its last.

Evidence: its place in the step. Owns: the stall.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the stalls at the ends of steps."""
    at_start, at_end = (m.stall[name].to_numpy() for name in ("at_start", "at_end"))
    if not len(m.compute):
        return
    yield from m.of_stalls(
        "step_boundary",
        at_start | at_end,
        lambda rows: {
            "before_first_kernel": int(at_start[rows].sum()),
            "after_last_kernel": int(at_end[rows].sum()),
        },
    )
