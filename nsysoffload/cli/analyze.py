"""`nsysoffload analyze`: measure a trace and write the report."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsysoffload.cli.explain import explain_option
from nsysoffload.cli.options import debug_option, gate_options, step_options, warn
from nsysoffload.hardware import LINKS

if TYPE_CHECKING:
    from nsysoffload.report.model import Report

__all__ = ["analyze", "show"]

_FORMATS = ("html", "md", "json")
_LONG_READ_BYTES = 50_000_000  # below it a read is over before a bar could be read


def _formats(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for name in value.lower().replace(",", " ").split()))
    unknown = [name for name in names if name not in _FORMATS]
    if unknown or not names:
        known = ", ".join(_FORMATS)
        raise click.BadParameter(f"'{value}' is not a list of formats; choose from {known}.")
    return names


@click.command(short_help="Measure a trace, or one per rank, and write the report.")
@click.argument(
    "traces", nargs=-1, required=True, metavar="TRACE...", type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for the report, '-' for stdout with one format.  [default: reports/NAME]",
)
@click.option(
    "--format",
    "formats",
    default="html,md,json",
    show_default=True,
    callback=_formats,
    help="Formats to write, separated by commas.",
)
@step_options
@click.option(
    "--window",
    metavar="A..B",
    help="Analyse this part of the trace's clock, such as 1.5s..2s; ns, us, ms or s, none is s.",
)
@click.option(
    "--device",
    multiple=True,
    metavar="ID",
    help="Analyse this device: ordinal, uuid or id. May be given several times.",
)
@click.option(
    "--link",
    type=click.Choice(list(LINKS)),
    help="Judge bandwidth by this link; by default it follows from the GPU's name.",
)
@click.option("--collective", metavar="REGEX", help="Count these kernels as collectives as well.")
@click.option("--not-compute", metavar="REGEX", help="Do not count these kernels as compute.")
@gate_options
@explain_option
@debug_option
def analyze(
    traces: tuple[Path, ...],
    output: str | None,
    formats: tuple[str, ...],
    step_range: str | None,
    step_kernel: str | None,
    skip_steps: int | None,
    expect_offload: str | None,
    window: str | None,
    device: tuple[str, ...],
    link: str | None,
    collective: str | None,
    not_compute: str | None,
    fail_under: tuple[str, ...],
    fail_over: tuple[str, ...],
) -> None:
    """Measure how far transfers hide behind compute, say why not, and write the report.

    TRACE is an SQLite export of Nsight Systems, a .nsys-rep report (needs nsys), or a folder with a
    trace.sqlite, such as 'nsysoffload capture' leaves. Several traces, one per rank, or a folder
    with rank0, rank1 and so on, give one report: a table of all, and details of the slowest.

    \b
    Example:
      nsysoffload analyze trace.sqlite
      nsysoffload analyze rank*.sqlite --window 1.5s..2s -o reports/step
      nsysoffload analyze trace.sqlite --fail-under overlap=80 --fail-over stall_ms=5
      nsysoffload analyze runs/llama3.1-8b/offload --expect-offload 16GiB
      nsysoffload analyze --explain issued_too_late
    """
    if output == "-" and len(formats) > 1:
        raise click.UsageError("'-o -' prints one format; name it, for example with --format json.")
    if output and Path(output).suffix in {f".{name}" for name in _FORMATS}:
        raise click.UsageError(f"'-o {output}' would be a folder; name the folder for the report.")
    # Arrays live too short here for huge pages, whose zeroing took a tenth of the whole command.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    import nsysoffload

    with _progress(traces) as progress:
        report = nsysoffload.analyze(
            traces,
            step_range=step_range,
            step_kernel=step_kernel,
            skip_steps=skip_steps,
            expect_offload=expect_offload,
            window=window,
            device=device,
            link=link,
            collective=collective,
            not_compute=not_compute,
            fail_under=fail_under,
            fail_over=fail_over,
            processes=os.cpu_count() or 1,
            progress=progress,
        )
    if output == "-":
        from nsysoffload.analysis import render

        click.echo(render(report, formats[0]), nl=False)
        _warn(report)
    else:
        show(report, Path(output) if output else _default_folder(traces), formats)
    from nsysoffload.report.gates import raise_failed

    raise_failed(report)


def show(report: "Report", folder: Path, formats: tuple[str, ...] = _FORMATS) -> None:
    """Write a report, print its summary and where the files are."""
    import nsysoffload
    from nsysoffload.report import terminal

    paths = nsysoffload.write(report, folder, formats)
    click.echo(terminal.render(report), nl=False)
    _warn(report)
    for path in paths:
        click.echo(path)


def _warn(report: "Report") -> None:
    for warning in report.trace.warnings:
        warn(warning.code, warning.message)


def _default_folder(traces: tuple[Path, ...]) -> Path:
    from nsysoffload.trace.run_folder import report_name

    name = report_name(traces[0], Path.cwd())
    more = f"-and-{len(traces) - 1}-more" if len(traces) > 1 else ""
    return Path("reports", f"{name}{more}")


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # the library says what is wrong with it


@contextmanager
def _progress(traces: tuple[Path, ...]) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr for long reads, if that is a terminal."""
    if not sys.stderr.isatty() or (len(traces) == 1 and _bytes(traces[0]) < _LONG_READ_BYTES):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading" if len(traces) == 1 else "Analysing ranks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
