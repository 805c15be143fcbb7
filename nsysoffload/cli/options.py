"""How commands behave: one group that turns errors into a sentence, and options they share."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nsysoffload.errors import GateFailed, OffloadError
from nsysoffload.hardware import LINKS

__all__ = [
    "CONTEXT",
    "FORMATS",
    "PATH",
    "Group",
    "all_of",
    "debug_option",
    "gate_options",
    "output_options",
    "progress_bar",
    "step_options",
    "trace_options",
    "warn",
]

FORMATS = ("html", "md", "json")

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_DEBUG = "nsysoffload.debug"


class _PathName(click.ParamType[Path]):
    """A path that is there or not; an empty one is the slip of a script, not this folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Take a name as a path."""
        if not str(value):
            self.fail("a file's name is empty.", param, ctx)
        return Path(value)


PATH = _PathName()


class Group(click.Group):
    """A group whose commands fail with a sentence; ``--debug`` shows the traceback as well."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        _end_in_order()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click ends quietly where nobody reads on
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


def trace_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which part of a trace counts, and as what."""
    return all_of(
        command,
        click.option(
            "--window",
            metavar="A..B",
            help="Analyse this part of the trace's clock, such as 1.5s..2s; ns, us, ms or s, none"
            " is s.",
        ),
        click.option(
            "--device",
            multiple=True,
            metavar="ID",
            help="Analyse this device: ordinal, uuid or id. May be given several times.",
        ),
        click.option(
            "--link",
            type=click.Choice(list(LINKS)),
            help="Judge bandwidth by this link; by default it follows from the GPU's name.",
        ),
        click.option(
            "--collective", metavar="REGEX", help="Count these kernels as collectives as well."
        ),
        click.option(
            "--not-compute", metavar="REGEX", help="Do not count these kernels as compute."
        ),
    )


def output_options(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what adds the options that say where the report goes and in which formats.

    Parameters
    ----------
    default : str
        Folder by default, in words.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        return all_of(
            command,
            click.option(
                "-o",
                "--output",
                metavar="DIR",
                callback=_folder,
                help="Folder for the report, '-' for stdout with one format."
                f"  [default: {default}]",
            ),
            click.option(
                "--format",
                "formats",
                default="html,md,json",
                show_default=True,
                callback=_formats,
                is_eager=True,
                help="Formats to write, separated by commas.",
            ),
        )

    return add


def _folder(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("a folder's name is empty.")
    if value == "-" and len(ctx.params["formats"]) > 1:
        raise click.UsageError("'-o -' prints one format; name it, for example with --format json.")
    if value and Path(value).suffix in {f".{name}" for name in FORMATS}:
        raise click.UsageError(f"'-o {value}' would be a folder; name the folder for the report.")
    return value


def _formats(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for name in value.lower().replace(",", " ").split()))
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        known = ", ".join(FORMATS)
        raise click.BadParameter(f"'{value}' is not a list of formats; choose from {known}.")
    return names


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


@contextmanager
def progress_bar(what: str, *, is_long: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr for what takes long, if that is a terminal.

    Parameters
    ----------
    what : str
        What is done, such as "Reading".
    is_long : bool
        Whether there is anything to show.
    """
    if not sys.stderr.isatty() or not is_long:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
