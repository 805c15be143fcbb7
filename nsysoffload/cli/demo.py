"""`nsysoffload demo`: predict, analyse and compare two runs, without a GPU and without nsys."""

from pathlib import Path

import click

from nsysoffload.cli.analyze import show
from nsysoffload.cli.options import debug_option, warn

__all__ = ["demo"]


@click.command(short_help="Predict, analyse and compare two runs: no GPU, no nsys.")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    default="reports/demo",
    show_default=True,
    help="Folder for the runs and their reports.",
)
@click.option(
    "--bundled", is_flag=True, help="Use the schedules that come with the tool; compile nothing."
)
@debug_option
def demo(output: str, bundled: bool) -> None:
    """Predict a train step that offloads and one that rematerialises, and compare them.

    A small Llama is compiled for eight GB200 that need not be there, with each policy. Both
    predicted traces are analysed as measured ones are. Without the packages of
    nsysoffload[predict], schedules that come with the tool are used instead.

    \b
    Example:
      nsysoffload demo
    """
    import nsysoffload
    from nsysoffload.recorders.predict import summary
    from nsysoffload.recorders.predict.demo import runs

    found = runs(
        Path(output),
        compiling=not bundled,
        progress=lambda text: click.echo(text, err=True),
        fallen_back=lambda text: warn("bundled", text),
    )
    for run in found:
        click.echo(f"{run.variant}:")
        show(nsysoffload.analyze(run.folder), run.folder)
        click.echo()
    click.echo(summary.render([run.predicted.prediction for run in found]), nl=False)
