"""Seconds in which calls find the NVTX ranges around them, as a JSON list with one per round.

python -m benchmarks.attribution RANGES ROUNDS
"""

import json
import sys
import time

from benchmarks.generate import trace
from nsysoffload.timeline.attribution import attribute
from nsysoffload.timeline.calls import CallIndex

__all__ = ["seconds"]

RANGES_PER_KERNEL = 1.4


def seconds(ranges: int, rounds: int) -> list[float]:
    """Attribute as many calls as there are ranges, give or take those of steps."""
    made = trace(int(ranges / RANGES_PER_KERNEL))
    index = CallIndex.build(made.calls)
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        attribute(index, made.calls, made.nvtx_ranges)
        taken.append(time.perf_counter() - start)
    return taken


if __name__ == "__main__":
    print(json.dumps(seconds(*map(int, sys.argv[1:]))))
