"""`nsysoffload redact`: a copy of a trace that can be given away."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsysoffload.cli.options import PATH, debug_option, step_options, warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Group

    from nsysoffload.redaction.cut import Cut
    from nsysoffload.redaction.redact import Redaction

__all__ = ["redact"]

_RANGES_SHOWN = 20
_NARROWEST, _WIDEST = 80, 100
_FAR_NS = 2**61  # behind the end of any trace


@click.command(short_help="Copy a trace without anything private, whole or cut to a few steps.")
@click.argument("trace", metavar="TRACE", type=PATH)
@click.argument("out", metavar="[OUT]", required=False, type=PATH)
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Write nothing; say what TRACE would tell as it is, and exit with 1 if anything.",
)
@click.option("--keep-nvtx", is_flag=True, help="Keep texts of NVTX ranges that look private.")
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="Keep N whole training steps only."
)
@click.option(
    "--since",
    metavar="T",
    help="The first step kept begins at or after T on the trace's clock, such as 1.5s; one step"
    " unless --steps says more.",
)
@step_options
@debug_option
@click.pass_context
def redact(
    ctx: click.Context,
    trace: Path,
    out: Path | None,
    only_check: bool,
    keep_nvtx: bool,
    steps: int | None,
    since: str | None,
    step_range: str | None,
    step_kernel: str | None,
    skip_steps: int | None,
) -> None:
    """Write OUT, a copy of TRACE that is safe to attach: no environment, host, user or path in it.

    The copy is an SQLite export with what 'nsysoffload analyze' reads and nothing else, and gives
    the same figures. Private parts of names are replaced, and texts of NVTX ranges that look
    private are listed without their values. TRACE is what 'analyze' takes; it never changes.

    \b
    Example:
      nsysoffload redact trace.sqlite safe.sqlite
      nsysoffload redact trace.sqlite safe.sqlite --steps 3 --since 1.5s
      nsysoffload redact trace.sqlite --check
    """
    if only_check == (out is not None):
        raise click.UsageError("Give OUT, the file for the copy, or --check; one of them.")
    if only_check and (steps or since):
        raise click.UsageError("--check looks at the whole trace; leave out --steps and --since.")
    from nsysoffload.redaction import redact as redaction

    if out is None:
        found = redaction.check(trace, keep_nvtx=keep_nvtx)
    else:
        cut = _cut(steps, since, step_range, step_kernel, skip_steps)
        found = redaction.redact(trace, out, keep_nvtx=keep_nvtx, cut=cut)
    click.echo(_told(found, out), nl=False)
    for warning in found.warnings:
        warn(warning.code, warning.message)
    if only_check and found.leaks:
        ctx.exit(1)


def _cut(
    steps: int | None,
    since: str | None,
    step_range: str | None,
    step_kernel: str | None,
    skip_steps: int | None,
) -> "Cut | None":
    from nsysoffload.analysis import pattern_of
    from nsysoffload.redaction.cut import Cut
    from nsysoffload.timeline.steps import StepRule

    if steps is None and since is None:
        if step_range or step_kernel or skip_steps is not None:
            raise click.UsageError("Options of steps are for a copy that is cut; add --steps.")
        return None
    if skip_steps is not None and skip_steps < 0:
        raise click.UsageError(f"{skip_steps} steps cannot be skipped; give 0 or more.")
    rule = StepRule(pattern_of(step_range), pattern_of(step_kernel), skip_steps)
    return Cut(steps or 1, None if since is None else _time_ns(since), rule)


def _time_ns(text: str) -> int:
    from nsysoffload.errors import UsageError
    from nsysoffload.window import parse_window

    try:
        return parse_window(f"{text}..{_FAR_NS}ns")[0]
    except UsageError as error:
        raise click.UsageError(
            f"--since '{text}' is no time; write a number with ns, us, ms or s."
        ) from error


# --- What is printed ---


def _told(found: "Redaction", out: Path | None) -> str:
    """Say what is removed and how large the copy is, never what was removed."""
    from rich.console import Console

    console = Console()
    console.width = min(max(console.width, _NARROWEST), _WIDEST)
    removed = [part for part in found.removed if part.leaks or out is not None]
    with console.capture() as captured:
        if removed:
            title = "Removed" if out else "Would be told"
            console.print(_table(title, ((f"{p.count:,}", p.kind) for p in removed)))
        if found.ranges:
            console.print(_table(_ranges_title(found, out), _ranges(found)))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "".join(f"{line}\n" for line in [*lines, *_end(found, out)])


def _ranges_title(found: "Redaction", out: Path | None) -> str:
    end = "kept" if found.ranges_kept else "replaced" if out else "as they are"
    return f"Texts of NVTX ranges that look private, {end}"


def _ranges(found: "Redaction") -> "Iterator[tuple[str, str]]":
    for text in found.ranges[:_RANGES_SHOWN]:
        kinds = ", ".join(text.kinds)
        yield f"{text.ranges:,}", f"{kinds}: {text.length} characters, {text.place}"
    more = len(found.ranges) - _RANGES_SHOWN
    if more > 0:
        yield f"{sum(text.ranges for text in found.ranges[_RANGES_SHOWN:]):,}", f"{more} more texts"


def _table(title: str, rows: "Iterable[tuple[str, str]]") -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for count, what in rows:
        table.add_row(Text(count), Text(what))
    return Group(Text(title, "bold"), table, "")


def _end(found: "Redaction", out: Path | None) -> "Iterator[str]":
    for device, steps in _by_device(found).items():
        yield f"Cut to {steps} of device {device}."
    if out is None:
        yield "This trace is not safe to give away." if found.leaks else "Nothing private is in it."
        return
    before, after = (f"{size:,} bytes" for size in (found.before_bytes, found.after_bytes))
    yield f"{before} before, {after} after."
    yield str(out)


def _by_device(found: "Redaction") -> dict[str, str]:
    steps: dict[str, list[int]] = {}
    for step in found.steps:
        steps.setdefault(step.device, []).append(step.index)
    return {
        device: f"step {numbers[0]}"
        if len(numbers) == 1
        else f"steps {numbers[0]} to {numbers[-1]}"
        for device, numbers in steps.items()
    }
