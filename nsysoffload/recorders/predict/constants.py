"""The numbers of the cost model: lowest, expected and highest, each with its origin.

A prediction runs the schedule once with what is expected, and once for each combination of slow
and fast compute, host link and collectives, so that its range covers what these numbers leave open.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

from nsysoffload.errors import UsageError
from nsysoffload.hardware import LINKS, Target
from nsysoffload.trace.prediction import Constant

__all__ = ["EXPECTED", "Sheet", "constants_for", "corners", "measured"]

EXPECTED = "expected"

# Which constants vary together, as they rest on the same piece of hardware.
_GROUPS = {
    "compute": (
        "gemm_efficiency",
        "attention_forward_efficiency",
        "attention_backward_efficiency",
        "hbm_efficiency",
        "kernel_floor",
        "kernel_gap",
        "wait",
        "launch",
    ),
    "host link": ("h2d", "d2h", "both_ways", "copy_latency"),
    "collectives": ("nvlink_efficiency", "network", "collective_latency"),
}
_SLOW_WHEN_HIGH = frozenset(
    {"kernel_floor", "kernel_gap", "wait", "launch", "copy_latency", "collective_latency"}
)

_ASSUMED = "assumed; no public measurement is known to us"
_COMMON = (
    Constant(
        "gemm_efficiency",
        "share of dense peak",
        0.60,
        0.72,
        0.84,
        "high: stas00/ml-engineering, best shapes, 80 % (H100) to 87 % (A100); expected and low: "
        "usual shapes, and Blackwell as Hopper, assumed",
    ),
    Constant(
        "attention_forward_efficiency",
        "share of dense peak",
        0.39,
        0.52,
        0.63,
        "Dao-AILab/flash-attention#2605: cuDNN 39 % (causal, head 64, 4096 tokens), #2280: "
        "63 % (causal, head 128, 8192 tokens), both on Blackwell",
    ),
    Constant(
        "attention_backward_efficiency",
        "share of dense peak",
        0.33,
        0.44,
        0.54,
        "high: Dao-AILab/flash-attention#2280, causal, head 128, 8192 tokens; else as much below "
        "the forward pass as there",
    ),
    Constant("hbm_efficiency", "share of peak", 0.75, 0.85, 0.92, _ASSUMED),
    Constant("kernel_floor", "us", 1.0, 1.8, 2.5, _ASSUMED),
    Constant("kernel_gap", "us", 0.7, 1.2, 2.5, _ASSUMED),
    Constant("wait", "us", 1.0, 2.0, 4.0, _ASSUMED),
    Constant("launch", "us", 2.0, 4.0, 8.0, _ASSUMED),
    Constant("copy_latency", "us", 1.0, 2.0, 5.0, _ASSUMED),
    Constant(
        "both_ways",
        "share of the rate alone",
        0.75,
        0.85,
        1.0,
        "expected: NVIDIA/Megatron-LM#6491, about 170 GB/s each way at once against 193 to 211 "
        "alone; low and high: assumed",
    ),
    Constant(
        "nvlink_efficiency",
        "share of peak",
        0.50,
        0.65,
        0.80,
        "expected: coreweave/nccl-tests#43, bus bandwidth of all-reduce on GB200 NVL72, 586 of 900 "
        "GB/s at 0.5 GB; high: 724 at 1 GB there; low: smaller messages, assumed",
    ),
    Constant(
        "network",
        "GB/s per GPU",
        40.0,
        46.0,
        49.0,
        "high: NVIDIA/nccl-tests#267, 48 to 49 GB/s on a 400 Gbit/s adapter; else assumed",
    ),
    Constant("collective_latency", "us", 12.0, 20.0, 40.0, _ASSUMED),
)

# Expected rates in GB/s, H2D and D2H, with all GPUs of the machine busy as in training.
_BUSY_MACHINE = {
    "gh200": (375.0, 170.0),
    "gb200": (190.0, 187.0),
    "gb300": (190.0, 187.0),
    "pcie5x16": (54.0, 54.0),
    "pcie4x16": (25.0, 25.0),
}

_TWO_GPUS_SHARE = frozenset({"gb200", "gb300"})  # the link of their Grace


@dataclass(frozen=True)
class Sheet:
    """One choice of constants; times are in microseconds, rates in GB/s."""

    name: str
    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        """Return a number of the sheet."""
        return self.values[name]

    def ns(self, name: str) -> int:
        """Return a time of the sheet in whole nanoseconds."""
        return round(self.values[name] * 1000)


def constants_for(target: Target, devices: int = 1) -> tuple[Constant, ...]:
    """Return the constants for so many GPUs of a target, those of their host link included."""
    link = LINKS[target.link]
    shared = devices > 1 and target.link in _TWO_GPUS_SHARE
    most = link.peak_gbps / 2 if shared else math.inf
    machine = "two GPUs share the link and its peak" if shared else "all GPUs busy"
    rates = [
        Constant(
            way,
            "GB/s",
            span.low_gbps,
            expected,
            min(span.high_gbps, most),
            f"{link.name}, {machine}; {span.source}",
        )
        for way, span, expected in zip(
            ("h2d", "d2h"), (link.h2d, link.d2h), _BUSY_MACHINE[target.link], strict=True
        )
    ]
    return (*_COMMON, *rates)


def measured(constants: tuple[Constant, ...], path: Path) -> tuple[Constant, ...]:
    """Replace constants by measured ones.

    Parameters
    ----------
    constants : tuple of Constant
        The constants of a target.
    path : Path
        JSON object from names to a number, or to an object of ``low``, ``expected`` and ``high``.

    Raises
    ------
    UsageError
        If the file cannot be read, or a name or a number in it makes no sense.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path.name} cannot be read as JSON ({error}); give an object such as"
            ' {"gemm_efficiency": 0.7}.'
        ) from error
    known = {constant.name: constant for constant in constants}
    if not isinstance(given, dict):
        raise UsageError(f'{path.name} holds no object such as {{"gemm_efficiency": 0.7}}.')
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{path.name} names '{name}'; choose from {', '.join(sorted(known))}.")
        low, expected, high = _three(value, name, path)
        share = "share" in known[name].unit
        least, most = (0.001, 1) if share else (0.001, 1e6)
        if not least <= low <= expected <= high <= most:
            raise UsageError(
                f"{path.name}: '{name}' has to be from {least} to {most:g}, low <= expected <="
                " high."
            )
        known[name] = replace(
            known[name], low=low, expected=expected, high=high, origin=f"measured: {path.name}"
        )
    return tuple(known.values())


def _three(value: object, name: str, path: Path) -> tuple[float, float, float]:
    keys = ("low", "expected", "high")
    numbers = [value] * 3 if not isinstance(value, dict) else [value.get(key) for key in keys]
    if (isinstance(value, dict) and set(value) - set(keys)) or not all(
        type(number) in (int, float) for number in numbers
    ):
        raise UsageError(
            f"{path.name}: '{name}' has to be a number, or an object of low, expected and high."
        )
    low, expected, high = (float(str(number)) for number in numbers)
    return low, expected, high


def corners(constants: tuple[Constant, ...]) -> tuple[Sheet, ...]:
    """Return the sheet of expected values, then one for each combination of slow and fast."""
    expected = Sheet(EXPECTED, MappingProxyType({c.name: c.expected for c in constants}))
    return (expected, *(_corner(constants, p) for p in product((True, False), repeat=len(_GROUPS))))


def _corner(constants: tuple[Constant, ...], slow: tuple[bool, ...]) -> Sheet:
    is_slow = {name: s for s, names in zip(slow, _GROUPS.values(), strict=True) for name in names}
    values = {
        c.name: c.high if is_slow[c.name] == (c.name in _SLOW_WHEN_HIGH) else c.low
        for c in constants
    }
    words = ("fast", "slow")
    title = ", ".join(f"{words[s]} {group}" for s, group in zip(slow, _GROUPS, strict=True))
    return Sheet(title, MappingProxyType(values))
