"""`nsysoffload plan`: which values to keep, to offload and to recompute, under a memory limit."""

from pathlib import Path
from typing import Any

import click

from nsysoffload.cli.options import PATH, all_of, debug_option, progress_bar
from nsysoffload.cli.recording import PRESETS, size_options, timeout_option
from nsysoffload.errors import GateFailed
from nsysoffload.hardware import TARGETS

__all__ = ["plan"]

# As in the library; named here so that help needs no import of it. A test holds them together.
COMPILES = 8
TRIED_PRESETS = ("default", "pipelined", "pipelined+double-buffering")


_model_option = click.option(
    "--model", required=True, metavar="M", help="Model to train, such as llama3.1-8b."
)

_target_option = click.option(
    "--target",
    type=click.Choice(list(TARGETS)),
    default="gb200",
    show_default=True,
    help="GPU to plan for.",
)


def _search_options(command: Any) -> Any:
    return all_of(
        command,
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory that a step may take of each GPU, such as 60GB.  [default: all of it]",
        ),
        click.option(
            "--host-limit",
            metavar="SIZE",
            help="Host memory that it may take for each GPU.  [default: the target's]",
        ),
        click.option(
            "--names",
            metavar="NAME,...",
            help="Values that the search may keep or offload; the fixed policies stay as they are."
            "  [default: all]",
        ),
        click.option(
            "--compiles",
            type=click.IntRange(0),
            default=COMPILES,
            show_default=True,
            metavar="N",
            help="Policies to compile at most, beside the fixed ones and the presets of the best.",
        ),
        click.option(
            "--xla-preset",
            "presets",
            multiple=True,
            type=click.Choice(PRESETS),
            help="Preset of XLA flags to search with; further ones are tried on the best policies."
            f"  [default: {', '.join(TRIED_PRESETS)}]",
        ),
        click.option("--xla-flags", "flags", default="", metavar="FLAGS", help="More XLA flags."),
        click.option(
            "--efficiency",
            type=PATH,
            metavar="FILE",
            help='JSON with measured constants, such as {"gemm_efficiency": 0.7}.',
        ),
        timeout_option,
    )


@click.command(short_help="Find which values to keep, offload or recompute, under a memory limit.")
@_model_option
@size_options
@_target_option
@_search_options
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder for the runs and the plan.  [default: runs/MODEL-TARGET-plan]",
)
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@debug_option
def plan(output: Path | None, shown: str, names: str | None, **options: Any) -> None:
    """Search the fastest policy that fits: what to keep, what to offload, what to recompute.

    Fixed policies and the most promising mixed ones are compiled and predicted, without a GPU. The
    best is printed as code to paste. DIR gets the runs, plan.json and report.html, which compares
    them all; finished runs in it are used again. Exit code 1 if nothing fits.

    \b
    Example:
      nsysoffload plan --model llama3.1-8b --mesh fsdp=8 --target gb200 --memory-limit 20GB
    """
    from nsysoffload.planning import json, terminal
    from nsysoffload.planning import plan as search
    from nsysoffload.report.write import write

    request = _request(options)
    folder = output or Path("runs", f"{request.model}-{request.target}-plan")
    found = search(
        request,
        folder,
        device_limit_bytes=_size(options["memory_limit"]),
        host_limit_bytes=_size(options["host_limit"]),
        compiles=options["compiles"],
        names=[name.strip() for name in names.split(",")] if names is not None else None,
        presets=options["presets"] or TRIED_PRESETS,
        progress=lambda text: click.echo(text, err=True),
    )
    text = json.render(found, folder)
    written = write({"plan.json": text, **_report(found.candidates)}, folder)
    click.echo(text if shown == "json" else terminal.render(found), nl=False)
    for path in written if shown == "text" else ():
        click.echo(path)
    if found.best is None:
        raise GateFailed(terminal.unmet(found))


def _request(options: dict[str, Any]) -> Any:
    from nsysoffload.recorders.predict.capture import Request

    kinds = ("model", "target", "mesh", "batch", "seq", "layers", "optimizer", "offload_optimizer")
    return Request(
        **{name: options[name] for name in (*kinds, "flags", "efficiency")},
        timeout_s=options["timeout"],
    )


def _size(text: str | None) -> int | None:
    from nsysoffload.report.amounts import parse_size

    return None if text is None else parse_size(text)


def _report(candidates: Any) -> dict[str, str]:
    """Compare all runs with the first, which is policy remat."""
    import nsysoffload
    from nsysoffload.output import render

    runs = [candidate.folder for candidate in candidates if candidate.prediction]
    if len(runs) < 2:
        return {}
    with progress_bar("Analysing runs", is_long=True) as progress:
        comparison = nsysoffload.compare(*runs, progress=progress)
    return {"report.html": render(comparison, "html")}
