"""How commands behave: one group that turns errors into a sentence, and options they share."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import click

from nsysoffload.errors import GateFailed, OffloadError

__all__ = ["CONTEXT", "Group", "all_of", "debug_option", "gate_options", "step_options", "warn"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_DEBUG = "nsysoffload.debug"


class Group(click.Group):
    """A group whose commands fail with a sentence; ``--debug`` shows the traceback as well."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        _end_in_order()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except GateFailed as failed:
            click.echo(str(failed), err=True)
            ctx.exit(failed.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(130)
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                click.echo(traceback.format_exc(), err=True)
            click.echo(f"Error: {' '.join(_sentence(error).split())}", err=True)
            ctx.exit(error.exit_code if isinstance(error, OffloadError) else 2)


def _end_in_order() -> None:
    """Let a request to end clean up, as an interrupt does."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _sentence(error: Exception) -> str:
    if isinstance(error, OffloadError):
        return str(error)
    if isinstance(error, MemoryError):
        return "The machine ran out of memory; analyse fewer traces at once."
    if isinstance(error, OSError):
        return f"The system refused ({error.strerror or error}); mend that and run it again."
    return (
        f"Something unforeseen happened ({type(error).__name__}: {str(error)[:200]}); run it again"
        " with --debug and report what it prints."
    )


def _note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DEBUG] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="Show the traceback of an error.",
)


def step_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what a training step is."""
    return all_of(
        command,
        click.option(
            "--step-range",
            metavar="REGEX",
            help="NVTX ranges of this name, matched whole, are the training steps.",
        ),
        click.option(
            "--step-kernel",
            metavar="REGEX",
            help="A kernel with this in its name begins a training step.",
        ),
        click.option(
            "--skip-steps",
            type=int,
            metavar="N",
            help="Leave out the first N steps; by default those that are clearly warm-up.",
        ),
    )


def gate_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that limit what the report has."""
    return all_of(
        command,
        click.option(
            "--fail-under",
            multiple=True,
            metavar="NAME=X",
            help="Exit with 1 if a metric is under X, such as overlap=80; unknown fails as well."
            " May be given several times.",
        ),
        click.option(
            "--fail-over",
            multiple=True,
            metavar="NAME=X",
            help="Exit with 1 if a metric is over X, such as stall_ms=5.",
        ),
        click.option(
            "--expect-offload",
            metavar="SIZE",
            help="Bytes that each GPU moves to the host and back per step, such as 16GiB; exit with"
            " 1 under half of it. By default what the run was recorded with, as a warning.",
        ),
    )


def all_of(
    command: Callable[..., None], *options: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[..., None]:
    """Add options to a command."""
    for option in reversed(options):  # help lists them in the order in which they are given
        command = option(command)
    return command


def warn(code: str, message: str) -> None:
    """Print a warning to stderr."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = click.style("Warning", fg="yellow", bold=True) if colour else "Warning"
    click.echo(f"{label} [{code}]: {message}", err=True)
