"""`nsysoffload capture`: record train steps that offload or rematerialise."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsysoffload.cli.options import PATH, all_of, debug_option
from nsysoffload.cli.recording import (
    PRESETS,
    Seconds,
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

if TYPE_CHECKING:
    from nsysoffload.profiles.files import Written

__all__ = ["PRESETS", "capture"]

_variant_option = click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME[=WORDS]",
    help="What to keep of the forward pass: none, remat, dots, offload, offload-dots, "
    "offload:NAME,NAME, save:NAME,NAME, or both joined by '+'; with CMD any name. WORDS "
    "are added to the command, leading ones such as XLA_FLAGS=... set its environment. May "
    "be given several times.  [default: offload, or CMD as it is]",
)

_buffers_option = click.option(
    "--command-buffers",
    is_flag=True,
    help="Run loop bodies as CUDA graphs, as XLA does itself; of CMD nothing is changed.",
)

_profile_option = click.option(
    "--with-profile",
    "given",
    type=PATH,
    metavar="DIR",
    help="Let XLA's scheduler go by a profile of 'nsysoffload profile', a folder or file. The run "
    "goes into VARIANT-profiled beside the one without.",
)


def _run_options(command: Callable[..., None]) -> Callable[..., None]:
    return all_of(
        command,
        click.option(
            "--expect-offload",
            metavar="SIZE",
            help="Bytes that each GPU moves to the host and back per step, such as 16GiB; for "
            "variants that offload by their name.",
        ),
        click.option(
            "--bare/--no-bare",
            default=None,
            help="Time the step without the profiler first.  [default: for --model]",
        ),
        click.option(
            "--grace",
            type=Seconds(0),
            default=60.0,
            show_default=True,
            metavar="S",
            help="End a command that still runs S s after its report is complete.",
        ),
        timeout_option,
        click.option("--dry-run", is_flag=True, help="Print the commands and run none."),
    )


def _range_options(command: Callable[..., None]) -> Callable[..., None]:
    return all_of(
        command,
        click.option(
            "--range",
            "range_",
            metavar="WHEN",
            help="When to record CMD: whole, profiler-api (cudaProfilerStart and Stop) or "
            "nvtx:NAME (a range of that name).  [default: whole]",
        ),
        click.option(
            "--delay", type=Seconds(0), metavar="S", help="Begin to record CMD after S s."
        ),
        click.option("--duration", type=Seconds(0, min_open=True), metavar="S", help="For S s."),
        click.option(
            "--step-range", metavar="REGEX", help="NVTX ranges of CMD that are its steps."
        ),
        click.option(
            "--step-kernel", metavar="REGEX", help="Kernel of CMD that begins each of its steps."
        ),
    )


@click.command(
    short_help="Record train steps: under nsys or jax.profiler, or predicted without a GPU."
)
@recorder_option
@model_option
@_variant_option
@size_options
@count_options(3, "Warm steps to record; those that a recording of CMD has to hold.")
@xla_options("default")
@_buffers_option
@_profile_option
@_run_options
@_range_options
@nsys_options
@predict_options
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder for the runs.  [default: runs/MODEL or runs/CMD]",
)
@debug_option
@click.argument("command", nargs=-1, metavar="[-- CMD...]")
def capture(
    recorder: str | None,
    model: str | None,
    variants: tuple[str, ...],
    output: Path | None,
    given: Path | None,
    command: tuple[str, ...],
    **options: Any,
) -> None:
    """Record a train step under each variant, check the recording, and leave a folder of each.

    What is recorded is a model of the workloads, or any command CMD. A folder holds the trace,
    manifest.json and log.txt; `nsysoffload analyze` reads it. A recording that is not what it seems
    ends with exit code 3 and the cause.

    \b
    Example:
      nsysoffload capture --model llama3.1-8b --mesh fsdp=8 --variant offload --variant remat
      nsysoffload analyze runs/llama3.1-8b/offload
    \b
      nsysoffload capture --variant offload="remat_policy=minimal_offloaded" \\
        --variant remat="remat_policy=full" --range profiler-api \\
        -- python -m maxtext.trainers.pre_train.train config.yml profiler=nsys
    \b
      nsysoffload capture --recorder predict --model llama3.1-8b --mesh fsdp=8 --variant offload
    \b
      nsysoffload capture --model llama3.1-8b --mesh fsdp=8 --xla-preset pipelined \\
        --with-profile profiles/8b
    """
    if bool(model) == bool(command):
        raise click.UsageError("Say what to record: either --model M, or a command after '--'.")
    chosen = chosen_recorder(recorder, options["nsys"])
    check_options(chosen)
    profile = _read(given) if given else None
    if chosen == "predict":
        if not model:
            raise click.UsageError("A command cannot be predicted; give --model instead.")
        _predict(model, variants or ("offload",), output, options, profile)
    else:
        _measure(chosen, model, command, variants, output, options, profile)


def _read(given: Path) -> "Written":
    from nsysoffload.profiles.files import read

    return read(given)


# --- Predicted ---


def _predict(
    model: str,
    variants: Sequence[str],
    output: Path | None,
    options: dict[str, Any],
    profile: "Written | None",
) -> None:
    from nsysoffload.recorders.predict import summary
    from nsysoffload.recorders.predict.capture import capture as record

    request = predict_request(model, options, profile.path if profile else None)
    folder = output or Path("runs", f"{model}-{options['target']}")
    if profile:
        from nsysoffload.profiles.guided import accepting, refuse_predicted

        refuse_predicted(profile, request, variants)
        runs = record(request, variants, folder, say, accepting(profile, say))
    else:
        runs = record(request, variants, folder, say)
    click.echo(summary.render([run.predicted.prediction for run in runs]), nl=False)
    for run in runs:
        click.echo(run.folder)
    if len(runs) > 1:
        say(f"Compare them: nsysoffload compare {shlex.quote(str(folder))}")


# --- Measured ---


def _measure(
    chosen: str,
    model: str | None,
    command: tuple[str, ...],
    variants: Sequence[str],
    output: Path | None,
    options: dict[str, Any],
    profile: "Written | None",
) -> None:
    from nsysoffload.profiles.guided import refuse_measured, use_in
    from nsysoffload.recorders.measured.capture import Capture
    from nsysoffload.recorders.variants import ALONE, PROFILED, parse_variants
    from nsysoffload.trace.workload import is_offload

    request = measured_request(model, command, options, profile.path if profile else None)
    folder = output or Path("runs", model or _name(command))
    wanted = parse_variants(variants or (("offload",) if model else (ALONE,)))
    if profile:
        refuse_measured(profile, request, wanted, os.environ)
        wanted = tuple(replace(each, place=f"{each.folder}{PROFILED}") for each in wanted)
    capture = Capture(request, recorder_of(chosen, request, options), folder, os.environ, say)
    if options["dry_run"]:
        for variant in wanted:
            for planned in capture.planned(variant):
                click.echo(planned)
        return
    offload = bool(model) and any(is_offload(variant.name) for variant in wanted)
    preflight(chosen, request, folder, options["nsys"], offload)
    with failure_shown():
        runs = capture.runs(wanted)
    for run in runs:
        if profile:
            tell_use(use_in(profile, run.folder), run.variant)
        click.echo(run.folder)
    if len(runs) > 1:
        say(f"Compare them: nsysoffload compare {shlex.quote(str(folder))}")


def _name(command: tuple[str, ...]) -> str:
    """Return a name for the runs of a command: its script or module, without what starts it."""
    from nsysoffload.recorders.variants import folder_name

    words = list(command)
    module = words[words.index("-m") + 1 :] if "-m" in words else []
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    first = (module or scripts or words)[0]
    return folder_name(Path(first).stem if not module else first.rpartition(".")[2])
