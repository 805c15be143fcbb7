"""Cause: the GPU has nothing to do because the next launch came late.

Evidence: the next kernel's call ended after the GPU had gone idle. Owns: the idle part of the gap.
"""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the idle time before late launches."""
    spans = m.idle_in(m.late_gaps)
    if len(spans):
        yield Claim("host_gap", spans, evidence={"gaps": len(spans)})
