"""The command line: `nsysoffload COMMAND`. Commands are thin; the library does the work."""

from importlib.metadata import version

import click

from nsysoffload.cli.analyze import analyze
from nsysoffload.cli.capture import capture
from nsysoffload.cli.compare import compare
from nsysoffload.cli.demo import demo
from nsysoffload.cli.doctor import doctor
from nsysoffload.cli.options import CONTEXT, Group, debug_option
from nsysoffload.cli.plan import plan
from nsysoffload.cli.profile import profile
from nsysoffload.cli.redact import redact
from nsysoffload.cli.study import study
from nsysoffload.cli.tune import tune

__all__ = ["main"]


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"nsysoffload {version('nsysoffload')}")
        ctx.exit()


@click.group(cls=Group, context_settings=CONTEXT, no_args_is_help=True)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
@debug_option
def main() -> None:
    """Measure how far JAX host offloading hides behind compute.

    \b
    Example:
      nsysoffload analyze trace.sqlite
    """


main.add_command(analyze)
main.add_command(capture)
main.add_command(compare)
main.add_command(demo)
main.add_command(doctor)
main.add_command(profile)
main.add_command(plan)
main.add_command(redact)
main.add_command(study)
main.add_command(tune)
