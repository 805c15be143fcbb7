"""`nsysoffload profile`: what each operation took, in the form that XLA's scheduler reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsysoffload.cli.options import PATH, debug_option, step_options, warn

if TYPE_CHECKING:
    from nsysoffload.profiles.check import Check, Side
    from nsysoffload.profiles.profile import Profile
    from nsysoffload.timeline.steps import StepRule

__all__ = ["profile"]

_COPIES = ("queued", "plain", "omit")
_LISTED = 10


@click.command(short_help="Write a profile by which XLA places offload copies by real times.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=PATH)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=PATH,
    help="Folder for the profile, which XLA uses for this program alone; or a file ending in .pbtxt"
    " or .pb, which it uses for every program.",
)
@click.option(
    "--copies",
    type=click.Choice(_COPIES),
    default="queued",
    show_default=True,
    help="What to say of host copies: their time with the others of their direction in the loop's"
    " body, which share the link; their time alone; or nothing, so that XLA starts them as early as"
    " it can.",
)
@click.option(
    "--hlo",
    type=PATH,
    metavar="FILE",
    help="Text of the compiled program.  [default: what the run's folder keeps]",
)
@click.option(
    "--check",
    "checked",
    is_flag=True,
    help="Compile the program again, without a GPU, without and with the profile, and say what"
    " changes.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@step_options
@debug_option
def profile(
    traces: tuple[Path, ...],
    output: Path,
    copies: str,
    hlo: Path | None,
    checked: bool,
    format_: str,
    step_range: str | None,
    step_kernel: str | None,
    skip_steps: int | None,
) -> None:
    """Write what each operation of a compiled program took, as a profile for XLA's scheduler.

    XLA decides where an offload copy starts by what it reckons operations to cost. Given the
    profile with --xla_gpu_pgle_profile_file_or_directory_path=DIR, it goes by these times. A
    profile is for exactly the program, flags and jax release that were traced. TRACE is a run's
    folder or trace, one per rank.

    \b
    Example:
      nsysoffload capture --recorder predict --model llama3.1-8b --mesh fsdp=8 \\
        --xla-preset pipelined -o runs/pipelined
      nsysoffload profile runs/pipelined/offload -o profiles/8b --check
    """
    from nsysoffload.profiles import check as checking
    from nsysoffload.profiles.costs import Copies
    from nsysoffload.profiles.files import write
    from nsysoffload.profiles.profile import profile as profiled

    rule = _rule(step_range, step_kernel, skip_steps)
    made = profiled(traces, hlo=hlo, copies=Copies(copies), rule=rule)
    check = checking.check(made, lambda text: click.echo(text, err=True)) if checked else None
    files = write(made.profile, output)
    if format_ == "json":
        click.echo(_json(made.profile, files, check))
    else:
        for line in _lines(made.profile, files, check):
            click.echo(line)
    for note in made.profile.notes:
        warn("profile", note)
    for warning in check.warnings if check else ():
        warn("check", warning)


def _rule(step_range: str | None, step_kernel: str | None, skip_steps: int | None) -> "StepRule":
    from nsysoffload.analysis import pattern_of
    from nsysoffload.timeline.steps import StepRule

    if skip_steps is not None and skip_steps < 0:
        raise click.UsageError(f"{skip_steps} steps cannot be skipped; give 0 or more.")
    return StepRule(pattern_of(step_range), pattern_of(step_kernel), skip_steps)


def _json(profile: "Profile", files: list[Path], check: "Check | None") -> str:
    import json
    from dataclasses import asdict

    said: dict[str, Any] = {
        **asdict(profile.about),
        "costs": dict(profile.costs),
        "missing": profile.missing,
        "left_out": profile.left_out,
        "notes": profile.notes,
        "files": [str(file) for file in files],
        "check": asdict(check) if check else None,
    }
    return json.dumps(said, indent=1)


# --- Text ---


def _lines(profile: "Profile", files: list[Path], check: "Check | None") -> Iterator[str]:
    about = profile.about
    yield (
        f"Profile of {about.module} ({about.fingerprint}): {len(profile.costs):,} costs,"
        f" {about.kind}, host copies {about.copies}."
    )
    yield from _named("Without a time in the trace, so without a cost", profile.missing)
    yield from _named("Host copies left out", profile.left_out)
    if check:
        yield from _checked(check, len(profile.costs))
        yield ""
    yield from (str(file) for file in files)


def _named(what: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"{what}: {len(names)} ({', '.join(names[:_LISTED])}{more})."


def _checked(check: "Check", costs: int) -> Iterator[str]:
    from nsysoffload.report.predicted import BANNER

    yield BANNER
    yield f"XLA found an instruction for {check.taken.costs:,} of {costs:,} costs."
    yield from _named("Not found", check.taken.unused)
    yield from _table(("", "without", "with the profile"), list(_figures(check)))
    yield from _table(_COPY_HEADS, _copies(check.before, check.after))


_COPY_HEADS = ("Kernels (products) from start to end", "in", "without", "with the profile")


def _figures(check: "Check") -> Iterator[tuple[str, ...]]:
    from nsysoffload.report.format import duration, size

    sides = [side.prediction for side in (check.before, check.after)]
    steps = [p.step for p in sides]
    yield "Step, modelled", *(duration(s.expected_ns) for s in steps)
    yield (
        "in the model's range",
        *(f"{duration(s.low_ns)} to {duration(s.high_ns)}" for s in steps),
    )
    yield "H2D exposed, modelled", *(duration(p.corners[0].h2d_exposed_ns) for p in sides)
    yield "D2H exposed, modelled", *(duration(p.corners[0].d2h_exposed_ns) for p in sides)
    yield "Device memory", *(size(p.memory.device_bytes if p.memory else None) for p in sides)
    yield "Host memory", *(size(p.memory.host_bytes if p.memory else None) for p in sides)


def _copies(before: "Side", after: "Side") -> list[tuple[str, ...]]:
    moved = {each.name: each for each in after.distances}
    rows: list[tuple[str, ...]] = []
    for each in before.distances:
        new = moved.get(each.name)
        now = f"{new.kernels:,} ({new.products:,})" if new else "-"
        was = f"{each.kernels:,} ({each.products:,})"
        rows.append((f"{each.direction.upper()} {each.name}", each.loop or "entry", was, now))
    return rows


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Lay out columns; all but the first are set to the right."""
    if not rows:
        return
    yield ""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for first, *rest in (heads, *rows):
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
