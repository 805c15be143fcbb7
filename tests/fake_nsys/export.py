"""`nsys export`: a report of the fake `nsys profile` as SQLite.

::

    step   |10    kernel    50|   |60  kernel  90|       of 100 ms
               |20 D2H 40| |45  H2D  55|
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.fake_nsys.options import Version, complain, parse, refuse

__all__ = ["export"]

STEP_MS = 100


def export(version: Version, words: list[str]) -> int:
    """Export a report.

    ``FAKE_NSYS_CACHE`` in the environment may name a folder that keeps exports for the next time.
    """
    options, files = parse("export", version, words)
    if len(files) != 1:
        refuse("export", "Exactly one report is needed.")
    if options.get("--type", "sqlite") != "sqlite":
        refuse("export", "Only SQLite is exported here.")
    report = json.loads(Path(files[0]).read_text())
    target = Path(options.get("--output") or Path(files[0]).with_suffix(".sqlite")).absolute()
    if target.exists() and options.get("--force-overwrite") != "true":
        complain(f"Failed to create '{target}': File exists.")
        return 1
    if report["scenario"] == "newer":
        target.write_text("half of it")
        reason = "Report was created in a newer version of Nsight Systems."
        complain(f"Failed to open '{files[0]}': {reason}")
        return 1
    shutil.copyfile(_cached(report, options.get("--tables", ""), target), target)
    return 0


def _cached(report: dict[str, Any], tables: str, target: Path) -> Path:
    """Return an export, made now or before."""
    content = json.dumps([report["steps"], report["scenario"], tables])
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    folder = Path(os.environ.get("FAKE_NSYS_CACHE", target.parent))
    made = folder / f"{key}.sqlite"
    if not made.exists():
        part = folder / f"{key}-{os.getpid()}"
        _write(report, part)
        if tables:
            _keep_only(part, tables.split(","))
        part.replace(made)
    return made


def _write(report: dict[str, Any], path: Path) -> None:
    from nsysoffload.trace.builder import TraceBuilder  # takes a second, and only this needs it

    scenario = report["scenario"]
    if scenario == "xla":
        _of_xla([sizes[0] for _, _, *sizes in report["steps"]], path)
        return
    trace = TraceBuilder()
    for index, (name, kernels, *sizes) in enumerate(report["steps"]):
        at = STEP_MS * index
        if name != "-":
            trace.nvtx(name, (at, at + 95))
        if scenario != "no_cuda":
            _step(trace, at, kernels, sizes, scenario)
    trace.write(path)


def _of_xla(sizes: list[int], path: Path) -> None:
    """Write steps of a small compiled module, with XLA's ranges; a tenth shorter by a size."""
    from tests.profiles.traces import Launches, whole_step

    launches = Launches()
    for index, size in enumerate(sizes):
        *step, (op, (start, end)) = whole_step(2_000 * index)
        less = 100 if size else 0
        launches.step(*step, (op, (start - less, end - less)))
    launches.trace.write(path)


def _step(trace: Any, at: int, kernels: int, sizes: list[int], scenario: str) -> None:
    spans = [(at + 10, at + 50), (at + 60, at + 90)][:kernels]
    blind = scenario in ("no_kernels", "hardware_blind")
    for number, span in enumerate(spans):
        call = (at + 1 + number, at + 1.5 + number)
        if blind:
            trace.call("cudaLaunchKernel", call)
        else:
            trace.kernel(span, f"gemm_{number}", call=call)
        if scenario == "fork":
            trace.call("cudaLaunchKernel", call, pid=2)
    copies = [("d2h", (at + 20, at + 40), 20), ("h2d", (at + 45, at + 55), 21)]
    for (direction, span, stream), size in zip(copies, sizes, strict=True):
        if size and not blind:
            call = (at + 5, at + 5.5)
            trace.copy(direction, span, size_bytes=size, stream=stream, call=call)


def _keep_only(path: Path, patterns: list[str]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if not any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in patterns):
                db.execute(f'DROP TABLE "{name}"')
