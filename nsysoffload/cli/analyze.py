"""`nsysoffload analyze`: measure a trace and write the report."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsysoffload.cli.explain import explain_option
from nsysoffload.cli.options import (
    FORMATS,
    PATH,
    debug_option,
    gate_options,
    output_options,
    progress_bar,
    step_options,
    trace_options,
    warn,
)

if TYPE_CHECKING:
    from nsysoffload.report.model import Report

__all__ = ["analyze", "show"]

_LONG_READ_BYTES = 50_000_000  # below it a read is over before a bar could be read


@click.command(short_help="Measure a trace, or one per rank, and write the report.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", type=PATH)
@output_options("reports/NAME")
@step_options
@trace_options
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
    # Arrays live too short here for huge pages, whose zeroing took a tenth of the whole command.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    import nsysoffload

    what = "Reading" if len(traces) == 1 else "Analysing ranks"
    is_long = len(traces) > 1 or _bytes(traces[0]) >= _LONG_READ_BYTES
    with progress_bar(what, is_long=is_long) as progress:
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
        from nsysoffload.output import render

        click.echo(render(report, formats[0]), nl=False)
        _warn(report)
    else:
        show(report, Path(output) if output else _default_folder(traces), formats)
    from nsysoffload.report.gates import raise_failed

    raise_failed(report)


def show(report: "Report", folder: Path, formats: tuple[str, ...] = FORMATS) -> None:
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
