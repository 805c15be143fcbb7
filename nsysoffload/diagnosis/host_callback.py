"""Cause: a host function is queued between two kernels, and the stream waits until it has run.

Evidence: a call that queues one, made between the launches of the kernels around a gap. Owns: the
gap, where no transfer runs.
"""

import re
from collections.abc import Iterator

import numpy as np

from nsysoffload.diagnosis.measurements import Claim, Measurements
from nsysoffload.timeline.intervals import spans_of

__all__ = ["claim"]

_CALLBACK = re.compile(r"cu(?:da)?(?:LaunchHostFunc|StreamAddCallback)(?:_ptsz)?(?:_v\d+)?")


def claim(m: Measurements) -> Iterator[Claim]:
    """Yield the gaps that a host function lies in."""
    calls = m.called(_CALLBACK)
    if calls.empty:
        return
    queued = np.sort(calls["start_ns"].to_numpy())
    gaps = m.stalls.gaps
    launched = np.append(m.kernel_calls.start_ns, -1)
    before, after = (launched[gaps[name].to_numpy()] for name in ("previous", "next"))
    known = (before >= 0) & (after >= 0)
    between = np.searchsorted(queued, after) - np.searchsorted(queued, before)
    spans = m.idle_in(spans_of(gaps[known & (between > 0)]))
    if len(spans):
        evidence = {"calls": int(between[known].clip(0).sum()), "gaps": len(spans)}
        yield Claim("host_callback", spans, evidence=evidence)
