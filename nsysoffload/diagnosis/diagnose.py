"""Every nanosecond outside compute gets one owner: the first rule, in order, that claims it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nsysoffload.diagnosis import (
    collective_only,
    compute_contention,
    host_callback,
    host_gap,
    host_sync,
    issued_too_late,
    kernel_copy,
    pageable_memory,
    pinned_allocation,
    queued_behind_copy,
    remote_numa,
    same_stream,
    shared_copy_stream,
    slow_copies,
    small_copies,
    staging_gaps,
    step_boundary,
    transfer_bound,
    unknown,
)
from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import Intervals, difference, empty, intersection, union

__all__ = ["OWNERS", "RULES", "Diagnosis", "Owned", "diagnose"]

Rule = Callable[[Measurements], Iterator[Claim]]

RULES: tuple[Rule, ...] = (
    collective_only.claim,
    pageable_memory.claim,
    same_stream.claim,
    pinned_allocation.claim,
    host_callback.claim,
    host_sync.claim,
    queued_behind_copy.claim,
    shared_copy_stream.claim,
    small_copies.claim,
    staging_gaps.claim,
    transfer_bound.claim,
    step_boundary.claim,
    issued_too_late.claim,
    transfer_bound.outlasting,  # what is left of those that could not have begun earlier
    host_gap.claim,
    unknown.claim,
    # Without lost time of their own:
    slow_copies.claim,
    compute_contention.claim,
    remote_numa.claim,
    kernel_copy.claim,
)
"""All rules; the first to claim a nanosecond owns it."""

OWNERS = (
    "collective_only",
    "pageable_memory",
    "same_stream",
    "pinned_allocation",
    "host_callback",
    "host_sync",
    "queued_behind_copy",
    "shared_copy_stream",
    "small_copies",
    "staging_gaps",
    "transfer_bound",
    "step_boundary",
    "issued_too_late",
    "host_gap",
    "unknown",
)
"""Causes that can own time outside compute, in the order of their rules."""


@dataclass(frozen=True)
class Owned:
    """A claim, and the time outside compute that it got."""

    claim: Claim
    spans: Intervals


@dataclass(frozen=True)
class Diagnosis:
    """All claims of one device, in the order of the rules.

    The time of ``owned`` is disjoint and adds up to the time of the steps outside compute.
    """

    owned: tuple[Owned, ...]

    def by_cause(self) -> Mapping[str, Intervals]:
        """Return the union of the time that each cause owns; causes without any are left out."""
        spans: dict[str, list[Intervals]] = {}
        for owned in self.owned:
            if len(owned.spans):
                spans.setdefault(owned.claim.cause, []).append(owned.spans)
        return {cause: union(*spans[cause]) for cause in OWNERS if cause in spans}


def diagnose(m: Measurements) -> Diagnosis:
    """Hand the time outside compute to the rules, in order.

    Parameters
    ----------
    m : Measurements
        One device.
    """
    rest = m.stalls.lost
    owned = []
    for rule in RULES:
        claims = list(rule(m))
        # Of what the rule gets, its own claims take in order: far less than all that is left.
        left = intersection(union(*(claim.spans for claim in claims)), rest)
        rest = difference(rest, left)
        for claim in claims:
            mine = intersection(claim.spans, left) if len(claim.spans) else empty()
            left = difference(left, mine)
            owned.append(Owned(claim, mine))
    return Diagnosis(tuple(owned))
