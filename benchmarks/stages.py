"""Seconds of each stage from a trace to report files, and the peak of memory after it, as JSON.

python -m benchmarks.stages TRACE DIR
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

__all__ = ["main"]


class _Clock:
    """Notes what each stage took."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.stages[stage] = {
            "wall_s": time.perf_counter() - start,
            "cpu_s": time.process_time() - cpu,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }


def main(trace_file: Path, folder: Path) -> None:
    """Go the way of `nsysoffload analyze` stage by stage."""
    clock = _Clock()
    with clock("import"):
        from nsysoffload.analysis import NEEDED_COLUMNS, NEEDED_TABLES
        from nsysoffload.diagnosis.examine import examine
        from nsysoffload.hardware import LINKS
        from nsysoffload.output import FORMATS, render
        from nsysoffload.overlap.transfers import measure
        from nsysoffload.report.compose import compose
        from nsysoffload.report.write import write
        from nsysoffload.timeline.steps import StepRule, find_steps
        from nsysoffload.timeline.timeline import build
        from nsysoffload.trace.reader import read

        for renderer in ("html", "json", "markdown"):
            import_module(f"nsysoffload.report.{renderer}")
    with clock("read"):
        trace = read(trace_file, NEEDED_TABLES, NEEDED_COLUMNS)
    with clock("order"):
        timeline = build(trace)
    with clock("measure"):
        overlaps = [measure(device) for device in timeline.devices]
    with clock("steps"):
        steps = [find_steps(timeline, o.device, o.window, StepRule()) for o in overlaps]
    with clock("examine"):
        link = LINKS["gh200"]
        examined = [examine(timeline, *pair, link) for pair in zip(overlaps, steps, strict=True)]
    with clock("compose"):
        report = compose(timeline, examined, None, {})
    files = {}
    for format in FORMATS:
        with clock(f"render {format}"):
            files[f"report.{format}"] = render(report, format)
    with clock("write"):
        write(files, folder)
    print(json.dumps(clock.stages))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
