"""Measure speed and memory of nsysoffload against reading the same rows with sqlite3.

Everything runs as a process of its own, in turn with what it is compared with, and the medians
count. Limits are printed, not enforced: the machine may be busy.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import click

from benchmarks.processes import Failure, Run, interleaved, run
from benchmarks.table import Figure, lines, values

__all__: list[str] = []

HERE = Path(__file__).parent
PYTHON = sys.executable
FOLDER = Path(tempfile.gettempdir(), "nsysoffload-bench")
MAX_RATIO = 1  # of reading the rows of six tables with sqlite3
MAX_PEAK_MB = 1_000
MAX_GROWTH = 1.25  # of the time per kernel; more than the noise of a difference of two medians
MAX_START_MS = 300
MAX_PAGE_MB = 3
MAX_OPEN_S = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kernels", default=1_000_000, show_default=True, help="Kernels of the trace.")
@click.option("--full", is_flag=True, help="Measure a trace of five times as many as well.")
@click.option("--devices", default=1, show_default=True, help="GPUs in the trace.")
@click.option("--rounds", default=5, show_default=True, help="How often everything is measured.")
@click.option(
    "--folder",
    default=FOLDER,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where generated traces are kept.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to FILE.")
def main(
    kernels: int, full: bool, devices: int, rounds: int, folder: Path, file: Path | None
) -> None:
    """Measure speed and memory, and print a table of figures, limits and verdicts.

    Example: python -m benchmarks --full --json bench.json
    """
    sizes = [kernels // 100, kernels // 10, kernels, *([5 * kernels] if full else [])]
    try:
        traces = {size: _generated(folder, size, devices) for size in sizes}
        with tempfile.TemporaryDirectory(prefix="nsysoffload-") as reports:
            figures = list(_figures(traces, kernels, rounds, Path(reports)))
    except Failure as failure:
        raise SystemExit(f"A measured command crashed: {failure}") from failure
    print("\n".join(lines(figures)))
    if file:
        file.write_text(json.dumps(values(figures), indent=1) + "\n", encoding="utf-8")


def _generated(folder: Path, kernels: int, devices: int) -> Path:
    """Return the trace of that size, made anew if it or its recipe is not there."""
    recipe = hashlib.sha256((HERE / "generate.py").read_bytes()).hexdigest()[:8]
    file = folder / f"{kernels}-kernels-{devices}-devices-{recipe}.sqlite"
    if not file.exists():
        print(f"Generating {file}", file=sys.stderr)
        numbers = ("--kernels", str(kernels), "--devices", str(devices))
        run([PYTHON, "-m", "benchmarks.generate", str(file), *numbers])
    return file


def _figures(traces: dict[int, Path], kernels: int, rounds: int, reports: Path) -> Iterator[Figure]:
    print("Measuring", file=sys.stderr)
    commands = {
        f"analyze {size}": _nsysoffload("analyze", trace, "-o", reports / str(size))
        for size, trace in traces.items()
    }
    reading = [PYTHON, str(HERE / "baseline.py"), str(traces[kernels])]
    runs = interleaved({"read": reading, **commands}, rounds)
    yield from _whole(runs["read"], runs[f"analyze {kernels}"])
    yield from _scale({size: runs[f"analyze {size}"] for size in traces})
    yield from _starts(rounds)
    yield from _stages(traces[kernels], reports / "stages", rounds)
    yield from _attribution(2 * kernels, rounds)
    yield from _page(reports / str(kernels) / "report.html", rounds)


def _nsysoffload(*arguments: object) -> list[str]:
    return [PYTHON, "-m", "nsysoffload", *map(str, arguments)]


def _middle(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return median(value(run) for run in runs)


def _wall_s(run: Run) -> float:
    return run.wall_s


def _cpu_s(run: Run) -> float:
    return run.cpu_s


def _peak_mb(run: Run) -> float:
    return run.peak_bytes / 1e6


def _ratio(ours: Sequence[Run], theirs: Sequence[Run], value: Callable[[Run], float]) -> float:
    """Median over the rounds: what slows a round down slows both sides."""
    return median(value(a) / value(b) for a, b in zip(ours, theirs, strict=True))


def _whole(reading: Sequence[Run], command: Sequence[Run]) -> Iterator[Figure]:
    yield Figure("sqlite3.fetchall() of six tables", _middle(reading, _wall_s), "s")
    yield Figure("  peak memory", _middle(reading, _peak_mb), "MB")
    yield Figure("nsysoffload analyze", _middle(command, _wall_s), "s")
    yield Figure("  peak memory", _middle(command, _peak_mb), "MB", MAX_PEAK_MB)
    yield Figure("  ratio of time", _ratio(command, reading, _wall_s), "", MAX_RATIO)
    yield Figure("  ratio of processor time", _ratio(command, reading, _cpu_s), "")


def _scale(runs: dict[int, list[Run]]) -> Iterator[Figure]:
    """Time per further kernel with its copies and calls, so that starting up is not in it."""
    sizes = sorted(runs)
    costs = []
    for small, large in zip(sizes, sizes[1:], strict=False):
        more_s = _middle(runs[large], _wall_s) - _middle(runs[small], _wall_s)
        costs.append(more_s / (large - small))
        name = f"time per kernel, {small:,} to {large:,}"
        yield Figure(name, 1e6 * costs[-1], "µs")
    yield Figure("  growth from first to last", costs[-1] / costs[0], "", MAX_GROWTH)


def _starts(rounds: int) -> Iterator[Figure]:
    commands = {
        "python -c pass": [PYTHON, "-c", "pass"],
        "import nsysoffload": [PYTHON, "-c", "import nsysoffload"],
        "nsysoffload --help": _nsysoffload("--help"),
    }
    runs = interleaved(commands, rounds)
    bare = runs.pop("python -c pass")
    yield Figure("python -c pass", 1e3 * _middle(bare, _wall_s), "ms")
    for name, of_name in runs.items():
        yield Figure(name, 1e3 * _middle(of_name, _wall_s), "ms", MAX_START_MS)
        yield Figure("  ratio to the bare start", _ratio(of_name, bare, _wall_s), "")


def _stages(trace: Path, folder: Path, rounds: int) -> Iterator[Figure]:
    command = [PYTHON, "-m", "benchmarks.stages", str(trace), str(folder)]
    runs = [json.loads(done.output) for done in interleaved({"stages": command}, rounds)["stages"]]
    for stage in runs[0]:
        yield Figure(f"stage {stage}", median(run[stage]["wall_s"] for run in runs), "s")
        peak_mb = median(run[stage]["peak_bytes"] for run in runs) / 1e6
        yield Figure("  peak memory so far", peak_mb, "MB")


def _attribution(ranges: int, rounds: int) -> Iterator[Figure]:
    command = [PYTHON, "-m", "benchmarks.attribution", str(ranges), str(rounds)]
    yield Figure(f"attribution to {ranges:,} ranges", median(json.loads(run(command).output)), "s")


def _page(report: Path, rounds: int) -> Iterator[Figure]:
    yield Figure("report.html", report.stat().st_size / 1e6, "MB", MAX_PAGE_MB)
    try:
        done = run([PYTHON, "-m", "benchmarks.page", str(report), str(rounds)])
    except Failure as failure:
        reason = str(failure).strip().splitlines()[-1]
        print(f"Opening the report was not measured: {reason}", file=sys.stderr)
        return
    yield Figure("  opening in Chromium", median(json.loads(done.output)) / 1e3, "s", MAX_OPEN_S)


if __name__ == "__main__":
    main()
