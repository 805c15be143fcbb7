"""`nsysoffload study`: predict models at scale under several variants, in one report."""

from pathlib import Path

import click

from nsysoffload.cli.options import PATH, debug_option
from nsysoffload.errors import RecordingError
from nsysoffload.study.cases import STUDIES

__all__ = ["study"]


@click.command(short_help="Predict models at scale, and hold them against published figures.")
@click.argument("name", metavar="NAME", type=click.Choice(list(STUDIES)))
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder for the runs and the report.  [default: reports/study/NAME]",
)
@click.option(
    "--only", multiple=True, metavar="MODEL", help="Study this model. May be given several times."
)
@click.option(
    "--batch",
    "batches",
    type=int,
    multiple=True,
    metavar="N",
    help="Study this batch, in sequences of a step. May be given several times.",
)
@click.option(
    "--layers",
    type=click.IntRange(1),
    metavar="N",
    help="Cut the models to N layers, for a quick try.",
)
@click.option(
    "--no-reports", is_flag=True, help="Write the study's report alone, and none of single runs."
)
@debug_option
def study(
    name: str,
    output: Path | None,
    only: tuple[str, ...],
    batches: tuple[int, ...],
    layers: int | None,
    no_reports: bool,
) -> None:
    """Predict each model of a study at each batch under each variant, and report them together.

    The one study there is, gb200, is of Llama 3.1 405B and DeepSeek-V3 671B on 128 GB200, of which
    NVIDIA published what host offloading gains. No GPU is needed. Runs that are finished are kept,
    so that a study that was interrupted goes on where it was; a run that fails is told in the
    report, and the exit code is 3.

    \b
    Example:
      nsysoffload study gb200
      nsysoffload study gb200 --only deepseek-v3-671b --batch 256 --layers 8 -o try
    """
    from dataclasses import replace

    from nsysoffload.study import terminal
    from nsysoffload.study.study import study as run
    from nsysoffload.study.study import write

    asked = replace(STUDIES[name].only(only, batches), layers=layers)
    options = {"only": only, "batch": batches, "layers": layers, "no_reports": no_reports}
    folder = output or Path("reports", "study", name)
    report = run(
        asked,
        folder,
        reports=not no_reports,
        options={key: value for key, value in options.items() if value},
        progress=lambda text: click.echo(text, err=True),
    )
    paths = write(report, folder)
    click.echo(terminal.render(report), nl=False)
    for path in paths:
        click.echo(path)
    failed = [row for row in report.rows if row.failed and row.policy]
    if failed:
        raise RecordingError(
            f"{len(failed)} of {len(report.rows)} runs failed, the first with: {failed[0].failed}"
            " The report has all reasons; the same command tries these runs again."
        )
