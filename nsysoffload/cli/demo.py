"""`nsysoffload demo`: analyse a small trace that needs neither a GPU nor nsys."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from nsysoffload.cli.analyze import show
from nsysoffload.cli.options import debug_option

__all__ = ["demo"]


@click.command()
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    default="reports/demo",
    show_default=True,
    help="Folder for the report.",
)
@debug_option
def demo(output: str) -> None:
    """Analyse a small example trace: no GPU, no nsys.

    \b
    Example:
      nsysoffload demo
    """
    import nsysoffload
    from nsysoffload.recorders.example import example

    with TemporaryDirectory(prefix="nsysoffload-") as folder:
        trace = example().write(Path(folder, "demo.sqlite"))
        report = nsysoffload.analyze(trace)
    show(report, Path(output))
