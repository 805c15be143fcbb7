"""Comparisons that every renderer is tested on."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nsysoffload
from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.gates import parse_regressions
from nsysoffload.comparison.model import Comparison, Gate, Part
from nsysoffload.report.gates import checked, parse_gates
from nsysoffload.report.model import Report, Tool, Transfers
from nsysoffload.trace.builder import TraceBuilder
from tests.comparison.traces import plain, trace
from tests.report import examples
from tests.report.examples import HOSTILE, PREDICTION, RUN_MEMORY

STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)


def analyzed(made: TraceBuilder) -> Report:
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.sqlite")
        made.write(path)
        return nsysoffload.analyze(path)


@cache
def remat() -> Report:
    return analyzed(plain(STEADY))


@cache
def offload() -> Report:
    return analyzed(trace([step - 10 for step in STEADY], 13, back=True))


def pair() -> Comparison:
    """Measured, with limits that hold and limits that are broken."""
    memory = replace(RUN_MEMORY, device_bytes=9_000_000_000)
    new = replace(offload(), memory=memory)
    new = checked(new, parse_gates(["overlap=50"], ["stall_ms=5"]))
    limits = parse_regressions(["step_ms=3%", "stall_ms=5", "recompute_ms=1"])
    options = {"max_regression": ("step_ms=3%", "stall_ms=5", "recompute_ms=1")}
    return compare({"remat": replace(remat(), memory=RUN_MEMORY), "offload": new}, limits, options)


def predicted() -> Comparison:
    """Predicted, where the ranking turns around within the range."""
    made = examples.EXAMPLES["predicted"]()
    base = replace(
        examples.EXAMPLES["stepped"](),
        trace=made.trace,
        memory=made.memory,
        range=made.range,
        prediction=PREDICTION,
        gates=(),
    )
    factors = (1.02, 1.05, 0.9)
    corners = tuple(
        replace(corner, step_ns=round(corner.step_ns * factor))
        for corner, factor in zip(PREDICTION.corners, factors, strict=True)
    )
    slower = examples.stepped_device(0, 201_960_000)
    new = replace(
        base,
        devices=(slower, base.devices[1]),
        prediction=replace(PREDICTION, variant="dots", corners=corners),
    )
    return compare({"offload": base, "dots": new})


def several() -> Comparison:
    """Four new runs, of which one is best, one is slower, and one is no pair."""
    memory = [replace(RUN_MEMORY, device_bytes=size * 10**9) for size in (12, 9, 20)]
    runs = {
        "remat": replace(remat(), memory=memory[0]),
        "offload": replace(offload(), memory=memory[1]),
        "none": replace(analyzed(plain([step - 20 for step in STEADY])), memory=memory[2]),
        "slow": analyzed(plain([step + 20 for step in STEADY])),
        "other": analyzed(TraceBuilder(gpu="NVIDIA H100").kernel((0, 10), "gemm")),
    }
    return compare(runs, parse_regressions(["step_ms=3%"]))


def hostile() -> Comparison:
    """Names from traces that are markup, commands and very long."""
    base = examples.EXAMPLES["hostile"]()
    new = replace(base, transfers=tuple(_hostile_transfers(base)))
    return compare({HOSTILE: base, f"{HOSTILE} again": new}, anyway=True)


def _hostile_transfers(report: Report) -> list[Transfers]:
    device = report.devices[0].id
    return [
        Transfers(device, f"{HOSTILE}{n}", HOSTILE, None, None, "h2d", 2, 10**9, 10**6, 10**5, n)
        for n in range(40)
    ]


EXAMPLES: Mapping[str, Callable[[], Comparison]] = {
    "pair": pair,
    "predicted": predicted,
    "several": several,
    "not_comparable": lambda: compare({"a": remat(), "b": examples.EXAMPLES["predicted"]()}),
    "identical": lambda: compare({"a": remat(), "b": remat()}, parse_regressions(["overlap=1"])),
    "without_steps": lambda: compare(
        {"a": examples.EXAMPLES["one_device"](), "b": examples.EXAMPLES["no_whole_step"]()},
        anyway=True,
    ),
    "stepped": lambda: compare(
        {"a": examples.EXAMPLES["stepped"](), "b": examples.EXAMPLES["recorded"]()}, anyway=True
    ),
    "hostile": hostile,
}


_FREE = {"name", "text", "message", "null_reason", "reason", "op", "gpu", "device"}
_FREE |= {"nsys_version", "export_schema", "recorder", "variant", "file", "advice"}


def renamed(comparison: Comparison, text: str) -> Comparison:
    """The comparison with this in place of all text that is a trace's or a user's own.

    No change is known, for that takes the most words.
    """

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        kept = {"name"} if isinstance(value, Gate | Part | Tool) else set()
        found = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "reports"}
        return replace(
            value, **{k: text if k in _FREE - kept else changed(v) for k, v in found.items()}
        )

    made: Comparison = changed(comparison)
    unknown = tuple(replace(d, base=1.0, change=None) for d in made.differences)
    return replace(made, differences=unknown, tool=replace(made.tool, options={"option": text}))


def large(runs: int, operations: int) -> Comparison:
    """As many runs with as many transfers each, under long names."""
    report = offload()
    device = report.devices[0].id
    moved = tuple(
        Transfers(device, f"{'x🚀' * 100}{n}", None, None, "forward", "d2h", 1, n, n, 0, n)
        for n in range(operations)
    )
    new = {
        f"{'run 🚀' * 30}{n}": replace(report, transfers=moved, memory=RUN_MEMORY)
        for n in range(runs)
    }
    return compare({"remat": remat(), **new}, parse_regressions(["step_ms=0"]))
