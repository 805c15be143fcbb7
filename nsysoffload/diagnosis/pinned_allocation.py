"""Cause: host memory is page-locked or freed inside the step, which can hold up the whole GPU.

Evidence: the calls. Owns: time outside compute under them.
"""

import re
from collections.abc import Iterator

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import covered_ns, spans_of, union

__all__ = ["claim"]

_PAGE_LOCKING = re.compile(
    r"cu(?:da)?(?:HostAlloc|MallocHost|FreeHost|HostRegister|HostUnregister"
    r"|MemHostAlloc|MemAllocHost|MemFreeHost|MemHostRegister|MemHostUnregister)\w*"
)


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the time outside compute under page-locking calls."""
    calls = m.called(_PAGE_LOCKING)
    spans = m.lost_in(union(spans_of(calls)))
    if len(spans):
        inside = covered_ns(spans_of(calls), m.stalls.lost) > 0
        calls = calls[inside]
        evidence = {
            "calls": len(calls),
            "call_ns": int((calls["end_ns"] - calls["start_ns"]).sum()),
            "functions": sorted(set(calls["name"])),
        }
        yield Claim("pinned_allocation", spans, evidence=evidence)
