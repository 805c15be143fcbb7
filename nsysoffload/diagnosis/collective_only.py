"""Cause: only collectives run; no compute is left to run beside them.

Evidence: the collective kernels outside compute. Owns: the time under them.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import length_ns

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the time outside compute under collectives."""
    spans = m.lost_in(m.collective)
    if len(spans):
        evidence = {"collective_ns": length_ns(m.collective)}
        yield Claim("collective_only", spans, evidence=evidence)
