"""`nsysoffload tune`: record, profile, record again with the profile, compare, keep the better."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsysoffload.cli.options import PATH, debug_option, warn
from nsysoffload.cli.recording import (
    check_options,
    chosen_recorder,
    count_options,
    failure_shown,
    measured_request,
    model_option,
    nsys_options,
    predict_options,
    predict_request,
    preflight,
    recorder_of,
    recorder_option,
    say,
    size_options,
    tell_use,
    timeout_option,
    xla_options,
)
from nsysoffload.errors import UsageError

if TYPE_CHECKING:
    from nsysoffload.profiles.tuning import Recording

__all__ = ["tune"]

# Options of a capture that are of no use here: graphs name no operations, and CMD is not tuned.
_OF_CAPTURE: dict[str, Any] = {
    "command_buffers": False,
    "expect_offload": None,
    "grace": 60.0,
    "step_range": None,
    "step_kernel": None,
    "range_": None,
    "delay": None,
    "duration": None,
}


@click.command(short_help="Record, profile and record again with the profile; keep the better run.")
@recorder_option
@model_option
@click.option(
    "--variant",
    default="offload",
    show_default=True,
    metavar="NAME",
    help="What to keep of the forward pass: offload, offload-dots, offload:NAME,NAME, or with"
    " save:NAME,NAME joined by '+'.",
)
@size_options
@count_options(5, "Warm steps to record.")
@xla_options("pipelined")
@click.option(
    "--copies",
    type=click.Choice(["queued", "plain", "omit"]),
    default="queued",
    show_default=True,
    help="What the profile says of host copies, see 'nsysoffload profile'.",
)
@click.option(
    "--bare/--no-bare",
    default=True,
    show_default=True,
    help="Time the step without the profiler first.",
)
@timeout_option
@nsys_options
@predict_options
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder for the runs, the profile and the comparison.  [default: runs/MODEL-tune, or, "
    "predicted, runs/MODEL-TARGET-tune]",
)
@debug_option
def tune(
    recorder: str | None,
    model: str | None,
    variant: str,
    copies: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Let XLA place offload copies by the times of a recorded run, and see whether that pays.

    The train step of a model is recorded, a profile is made of it, and it is recorded again with
    the profile. DIR gets before, profile, after and compare. The flags to train with are printed
    last. After an interrupt the same command goes on: predicted runs that are there are kept. For a
    command of your own, use capture, profile and capture --with-profile.

    \b
    Example:
      nsysoffload tune --model llama3.1-8b --mesh fsdp=8
      nsysoffload tune --recorder predict --model llama3.1-8b --mesh fsdp=8 --target gb200
    """
    from nsysoffload.cli.compare import show
    from nsysoffload.comparison.gates import raise_failed
    from nsysoffload.profiles.costs import Copies
    from nsysoffload.profiles.tuning import COMPARE
    from nsysoffload.profiles.tuning import tune as tuned
    from nsysoffload.recorders.flags import joined

    if not model:
        raise click.UsageError("Say what to tune: --model M, a model of the workloads.")
    chosen = chosen_recorder(recorder, options["nsys"])
    check_options(chosen)
    name = f"{model}-{options['target']}" if chosen == "predict" else model
    folder = output or Path("runs", f"{name}-tune")
    recording = _recording(chosen, model, variant, folder, options | _OF_CAPTURE)
    with failure_shown():
        found = tuned(
            recording,
            folder,
            copies=Copies(copies),
            noted=lambda text: warn("profile", text),
        )
    if found.use:
        tell_use(found.use, variant)
    show(found.comparison, folder / COMPARE)
    click.echo(f"\n{found.text}")
    if found.pays:
        click.echo("The profile is for these flags of XLA:")
        click.echo(f"XLA_FLAGS={shlex.quote(joined(found.flags))}")
    raise_failed(found.comparison)


def _recording(
    chosen: str, model: str, variant: str, folder: Path, options: dict[str, Any]
) -> "Recording":
    from nsysoffload.profiles.tuning import Measuring, Predicting
    from nsysoffload.recorders.measured.capture import Capture
    from nsysoffload.recorders.ranks import rank_of
    from nsysoffload.recorders.variants import Variant
    from nsysoffload.trace.workload import is_offload

    if chosen == "predict":
        return Predicting(predict_request(model, options), variant, say)
    if rank_of(os.environ):
        raise UsageError(
            "This is one of several ranks, whose traces make one profile; use capture, profile and"
            " capture --with-profile, each once all ranks are done with the one before."
        )
    request = measured_request(model, (), options)
    capture = Capture(request, recorder_of(chosen, request, options), folder, os.environ, say)
    preflight(chosen, request, folder, options["nsys"], is_offload(variant))
    return Measuring(capture, Variant(variant))
