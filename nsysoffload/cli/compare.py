"""`nsysoffload compare`: hold runs against a base and write what changed and why."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
    from nsysoffload.comparison.model import Comparison

__all__ = ["compare", "show"]


@click.command(short_help="Hold runs against a base: which is faster, by how much, and why.")
@click.argument("runs", nargs=-1, required=True, metavar="BASE NEW...", type=PATH)
@output_options("reports/compare/BASE-vs-NEW")
@step_options
@trace_options
@click.option(
    "--max-regression",
    multiple=True,
    metavar="NAME=X",
    help="Exit with 1 if a metric gets worse by more than X: in its unit, such as overlap=2"
    " (points), or in percent of the base, such as step_ms=3%. May be given several times.",
)
@gate_options
@click.option(
    "--anyway",
    is_flag=True,
    help="Compare runs that are no pair as well, such as of two GPUs; not if numerics differ.",
)
@debug_option
def compare(
    runs: tuple[Path, ...],
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
    max_regression: tuple[str, ...],
    fail_under: tuple[str, ...],
    fail_over: tuple[str, ...],
    anyway: bool,
) -> None:
    """Hold each NEW run against BASE: step time first, then why it changed, and the memory.

    A run is a trace, a run folder, a folder of ranks, or the report.json of an earlier analysis,
    whose timeline is then left out. A folder of run folders, such as 'nsysoffload capture' leaves,
    stands for all of them, the rematerialised one as base. Of several devices the slowest of each
    run is compared. Gates are for the new runs; one whose numerics differ fails always.

    \b
    Example:
      nsysoffload compare runs/tiny/remat runs/tiny/offload
      nsysoffload compare runs/tiny
      nsysoffload compare before.sqlite after.sqlite --max-regression step_ms=3%
      nsysoffload compare main/report.json new.sqlite --format md -o -
    """
    import nsysoffload
    from nsysoffload.comparison.files import runs_of

    paths = [path for run in runs for path in runs_of(run)]
    with progress_bar("Analysing runs", is_long=len(paths) > 1) as progress:
        comparison = nsysoffload.compare(
            *paths,
            max_regression=max_regression,
            anyway=anyway,
            processes=os.cpu_count() or 1,
            progress=progress,
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
        )
    if output == "-":
        from nsysoffload.output import render

        click.echo(render(comparison, formats[0]), nl=False)
        _warn(comparison)
    else:
        show(comparison, Path(output) if output else _folder(paths), formats)
    from nsysoffload.comparison.gates import raise_failed

    raise_failed(comparison)


def show(comparison: "Comparison", folder: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Write a comparison, print its summary and where the files are."""
    import nsysoffload
    from nsysoffload.comparison import terminal

    paths = nsysoffload.write(comparison, folder, formats)
    click.echo(terminal.render(comparison), nl=False)
    _warn(comparison)
    for path in paths:
        click.echo(path)


def _warn(comparison: "Comparison") -> None:
    for run in comparison.runs:
        for warning in run.warnings:
            warn(warning.code, f"{run.name}: {warning.message}")


def _folder(paths: list[Path]) -> Path:
    """Name the base with the folder that it is in, so that runs of other models are kept apart."""
    from nsysoffload.comparison.files import run_names
    from nsysoffload.report.load import is_report
    from nsysoffload.trace.run_folder import report_name

    base, new = (name.split(" (")[0].replace("/", "-") for name in run_names(paths)[:2])
    if not is_report(paths[0]):
        base = report_name(paths[0], Path.cwd())
    more = f"-and-{len(paths) - 2}-more" if len(paths) > 2 else ""
    return Path("reports", "compare", f"{base}-vs-{new}{more}")
