"""`nsysoffload demo`: predict, analyse and compare two runs, without a GPU and without nsys."""

from pathlib import Path

import click

from nsysoffload.cli.analyze import show
from nsysoffload.cli.options import PATH, debug_option, warn

__all__ = ["demo"]


@click.command(short_help="Predict, analyse and compare two runs: no GPU, no nsys.")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    default="reports/demo",
    show_default=True,
    help="Folder for the runs and their reports.",
)
@click.option(
    "--bundled", is_flag=True, help="Use the schedules that come with the tool; compile nothing."
)
@debug_option
def demo(output: Path, bundled: bool) -> None:
    """Predict a train step that offloads and one that rematerialises, and compare them.

    A small Llama is compiled for eight GB200 that need not be there, with each policy. Both
    predicted traces are analysed as measured ones are. Without the packages of
    nsysoffload[predict], schedules that come with the tool are used instead.

    \b
    Example:
      nsysoffload demo
    """
    import nsysoffload
    from nsysoffload.cli.compare import show as show_comparison
    from nsysoffload.recorders.predict.demo import BASE, runs

    found = runs(
        output,
        compiling=not bundled,
        progress=lambda text: click.echo(text, err=True),
        fallen_back=lambda text: warn("bundled", text),
    )
    folders = {run.variant: run.folder for run in found}
    for variant, folder in folders.items():
        click.echo(f"{variant}:")
        show(nsysoffload.analyze(folder), folder)
        click.echo()
    new = [folder for variant, folder in folders.items() if variant != BASE]
    click.echo(f"{' and '.join(path.name for path in new)} against {BASE}:")
    show_comparison(nsysoffload.compare(folders[BASE], *new), output / "compare")
