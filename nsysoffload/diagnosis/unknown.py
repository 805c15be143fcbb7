"""Cause: none that the trace shows. Owns: what no other cause does."""

from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import intersection, length_ns

__all__ = ["claim"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield all time outside compute."""
    lost = m.stalls.lost
    if len(lost):
        evidence = {
            "under_transfers_ns": length_ns(intersection(lost, m.moving)),
            "under_copies_on_the_device_and_memsets_ns": length_ns(intersection(lost, m.other)),
            "under_graphs_traced_whole_ns": length_ns(intersection(lost, m.graphs)),
        }
        yield Claim("unknown", lost, evidence=evidence)
