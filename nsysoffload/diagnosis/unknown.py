"""Cause: none that the trace shows. Owns: what no other cause does."""

from collections.abc import Iterator, Mapping

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import Intervals, intersection, length_ns

__all__ = ["claim", "evidence"]


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield all time outside compute."""
    if len(m.stalls.lost):
        yield Claim("unknown", m.stalls.lost)


def evidence(m: Measurements, owned: Intervals) -> Mapping[str, int]:
    """Say what ran in the time that nothing explains."""
    return {
        "under_transfers_ns": length_ns(intersection(owned, m.moving)),
        "under_copies_on_the_device_and_memsets_ns": length_ns(intersection(owned, m.other)),
        "under_graphs_traced_whole_ns": length_ns(intersection(owned, m.graphs)),
    }
