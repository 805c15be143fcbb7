"""`nsysoffload capture`: record train steps that offload or rematerialise."""

import math
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nsysoffload.cli.options import PATH, all_of, debug_option, warn
from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS

if TYPE_CHECKING:
    from nsysoffload.recorders.measured.recorder import Recorder
    from nsysoffload.recorders.measured.request import Request

__all__ = ["capture"]

# As in the recorders; named here so that help needs no import of them. A test holds them together.
PRESETS = ("default", "lhs", "pipelined", "pipelined+double-buffering")

_MEASURED = ("nsys", "jax")
# Options that only some recorders have.
_OF = {
    "target": ("predict",),
    "no_contention": ("predict",),
    "efficiency": ("predict",),
    "warmup": _MEASURED,
    "bare": _MEASURED,
    "dry_run": _MEASURED,
    "expect_offload": _MEASURED,
    "grace": _MEASURED,
    "step_range": ("nsys",),
    "step_kernel": ("nsys",),
    "range_": ("nsys",),
    "delay": ("nsys",),
    "duration": ("nsys",),
    "nsys": ("nsys",),
    "nsys_args": ("nsys",),
}


class _Seconds(click.FloatRange):
    """A time that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no time.", param, ctx)
        return number


def _what_options(command: Callable[..., None]) -> Callable[..., None]:
    return all_of(
        command,
        click.option("--model", metavar="M", help="Model to train, such as llama3.1-8b."),
        click.option(
            "--variant",
            "variants",
            multiple=True,
            metavar="NAME[=WORDS]",
            help="What to keep of the forward pass: none, remat, dots, offload, offload-dots, "
            "offload:NAME,NAME, save:NAME,NAME, or both joined by '+'; with CMD any name. WORDS "
            "are added to the command, leading ones such as XLA_FLAGS=... set its environment. May "
            "be given several times.  [default: offload, or CMD as it is]",
        ),
        click.option(
            "--mesh", default="", metavar="AXES", help="GPUs by axis, such as fsdp=8,tensor=2."
        ),
        click.option(
            "--batch", type=click.IntRange(1), metavar="N", help="Sequences of a step, in all."
        ),
        click.option("--seq", type=click.IntRange(1), metavar="N", help="Tokens of a sequence."),
        click.option(
            "--layers", type=click.IntRange(1), metavar="N", help="Shrink the model to N layers."
        ),
        click.option(
            "--optimizer",
            type=click.Choice(["adam", "sgd"]),
            default="adam",
            show_default=True,
            help="Optimizer.",
        ),
        click.option(
            "--offload-optimizer", is_flag=True, help="Keep the optimizer's state on the host."
        ),
        click.option(
            "--steps",
            type=click.IntRange(1, 100),
            default=3,
            show_default=True,
            help="Warm steps to record; those that a recording of CMD has to hold.",
        ),
        click.option(
            "--warmup",
            type=click.IntRange(1, 1000),
            default=3,
            show_default=True,
            metavar="N",
            help="Steps before those.",
        ),
    )


def _xla_options(command: Callable[..., None]) -> Callable[..., None]:
    return all_of(
        command,
        click.option(
            "--xla-preset",
            "preset",
            type=click.Choice(PRESETS),
            default="default",
            show_default=True,
            help="Preset of XLA flags.",
        ),
        click.option("--xla-flags", "flags", default="", metavar="FLAGS", help="More XLA flags."),
        click.option(
            "--command-buffers",
            is_flag=True,
            help="Run loop bodies as CUDA graphs, as XLA does itself; of CMD nothing is changed.",
        ),
    )


def _nsys_options(command: Callable[..., None]) -> Callable[..., None]:
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
            "--delay", type=_Seconds(0), metavar="S", help="Begin to record CMD after S s."
        ),
        click.option("--duration", type=_Seconds(0, min_open=True), metavar="S", help="For S s."),
        click.option(
            "--step-range", metavar="REGEX", help="NVTX ranges of CMD that are its steps."
        ),
        click.option(
            "--step-kernel", metavar="REGEX", help="Kernel of CMD that begins each of its steps."
        ),
        click.option("--nsys", metavar="PATH", help="The nsys to use.  [default: that on PATH]"),
        click.option("--nsys-args", default="", metavar="ARGS", help="More options for nsys."),
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
            type=_Seconds(0),
            default=60.0,
            show_default=True,
            metavar="S",
            help="End a command that still runs S s after its report is complete.",
        ),
        click.option(
            "--timeout",
            type=_Seconds(0, min_open=True),
            metavar="S",
            help="Give up a run, or a compilation, after S s.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the commands and run none."),
    )


def _predict_options(command: Callable[..., None]) -> Callable[..., None]:
    return all_of(
        command,
        click.option(
            "--target",
            type=click.Choice(list(TARGETS)),
            default="gb200",
            show_default=True,
            help="GPU to predict for.",
        ),
        click.option(
            "--no-contention",
            is_flag=True,
            help="Predict: let transfers and kernels not slow each other down.",
        ),
        click.option(
            "--efficiency",
            type=PATH,
            metavar="FILE",
            help='Predict: JSON with measured constants, such as {"gemm_efficiency": 0.7}.',
        ),
    )


@click.command(
    short_help="Record train steps: under nsys or jax.profiler, or predicted without a GPU."
)
@click.option(
    "--recorder",
    type=click.Choice([*_MEASURED, "predict"]),
    help="What records: 'nsys' and 'jax' (jax.profiler) run it on a GPU, 'predict' compiles it for "
    "one that is not there and times it.  [default: nsys, or jax where there is no nsys]",
)
@_what_options
@_xla_options
@_run_options
@_nsys_options
@_predict_options
@click.option(
    "-o", "--output", metavar="DIR", help="Folder for the runs.  [default: runs/MODEL or runs/CMD]"
)
@debug_option
@click.argument("command", nargs=-1, metavar="[-- CMD...]")
def capture(
    recorder: str | None,
    model: str | None,
    variants: tuple[str, ...],
    output: str | None,
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
    """
    if bool(model) == bool(command):
        raise click.UsageError("Say what to record: either --model M, or a command after '--'.")
    chosen = recorder or _default_recorder(options["nsys"])
    _check_options(chosen)
    if chosen == "predict":
        if not model:
            raise click.UsageError("A command cannot be predicted; give --model instead.")
        _predict(model, variants or ("offload",), output, options)
    else:
        _measure(chosen, model, command, variants, output, options)


def _check_options(chosen: str) -> None:
    """Refuse options that only other recorders have."""
    ctx = click.get_current_context()
    for option, recorders in _OF.items():
        given = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if given and chosen not in recorders:
            raise click.UsageError(
                f"--{option.rstrip('_').replace('_', '-')} is an option of --recorder "
                f"{' or '.join(recorders)}, not of {chosen}."
            )


def _default_recorder(nsys: str | None) -> str:
    from nsysoffload.recorders.nsys.tool import installed

    if nsys or installed():
        return "nsys"
    from nsysoffload.recorders.machine import has_gpu

    if has_gpu():
        return "jax"
    raise UsageError(
        "There is neither nsys nor a GPU here, so nothing can be measured; predict the run with "
        "--recorder predict, or see nsysoffload doctor."
    )


# --- Predicted ---


def _predict(
    model: str, variants: Sequence[str], output: str | None, options: dict[str, Any]
) -> None:
    from nsysoffload.recorders.predict import summary
    from nsysoffload.recorders.predict.capture import Request
    from nsysoffload.recorders.predict.capture import capture as record

    request = Request(
        model=model,
        target=options["target"],
        **{name: options[name] for name in ("mesh", "batch", "seq", "layers", "optimizer")},
        **{name: options[name] for name in ("offload_optimizer", "preset", "flags")},
        command_buffers=options["command_buffers"],
        contention=not options["no_contention"],
        efficiency=options["efficiency"],
        steps=options["steps"],
        timeout_s=options["timeout"],
    )
    folder = Path(output) if output else Path("runs", f"{model}-{options['target']}")
    runs = record(request, variants, folder, _say)
    click.echo(summary.render([run.predicted.prediction for run in runs]), nl=False)
    for run in runs:
        click.echo(run.folder)
    if len(runs) > 1:
        _say(f"Compare them: nsysoffload compare {shlex.quote(str(folder))}")


# --- Measured ---


def _measure(
    chosen: str,
    model: str | None,
    command: tuple[str, ...],
    variants: Sequence[str],
    output: str | None,
    options: dict[str, Any],
) -> None:
    from nsysoffload.recorders.measured.capture import Capture
    from nsysoffload.recorders.measured.failures import RunFailed
    from nsysoffload.recorders.variants import ALONE, parse_variants
    from nsysoffload.trace.workload import is_offload

    request = _request(model, command, options)
    folder = Path(output) if output else Path("runs", model or _name(command))
    wanted = parse_variants(variants or (("offload",) if model else (ALONE,)))
    capture = Capture(request, _recorder(chosen, request, options), folder, os.environ, _say)
    if options["dry_run"]:
        for variant in wanted:
            for planned in capture.planned(variant):
                click.echo(planned)
        return
    offload = bool(model) and any(is_offload(variant.name) for variant in wanted)
    _preflight(chosen, request, folder, options["nsys"], offload)
    try:
        runs = capture.runs(wanted)
    except RunFailed as failed:
        for line in failed.failure.lines:
            click.echo(f"  | {line}", err=True)
        click.echo(f"  (the log: {failed.log})", err=True)
        raise
    for run in runs:
        click.echo(run.folder)
    if len(runs) > 1:
        _say(f"Compare them: nsysoffload compare {shlex.quote(str(folder))}")


def _request(model: str | None, command: tuple[str, ...], options: dict[str, Any]) -> "Request":
    from nsysoffload.recorders.measured.request import Request, Workload
    from nsysoffload.report.amounts import parse_size

    names = ("mesh", "batch", "seq", "layers", "optimizer", "offload_optimizer", "warmup")
    expected = options["expect_offload"]
    bare = options["bare"]
    return Request(
        workload=Workload(model, **{name: options[name] for name in names}) if model else None,
        command=command,
        **{name: options[name] for name in ("steps", "preset", "flags", "command_buffers")},
        **{name: options[name] for name in ("step_range", "step_kernel")},
        expect_offload=parse_size(expected) if expected else None,
        bare=bool(model) if bare is None else bare,
        timeout_s=options["timeout"],
        grace_s=options["grace"],
    )


def _recorder(chosen: str, request: "Request", options: dict[str, Any]) -> "Recorder":
    from nsysoffload.recorders.nsys.options import Range, parse_range
    from nsysoffload.recorders.nsys.record import NsysRecorder
    from nsysoffload.recorders.nsys.tool import find
    from nsysoffload.recorders.ranks import rank_of

    if chosen == "jax":
        from nsysoffload.recorders.jax_profiler import JaxRecorder

        return JaxRecorder()
    asked = (options["range_"], options["delay"], options["duration"])
    if request.workload and any(value is not None for value in asked):
        raise click.UsageError("--range, --delay and --duration are for CMD, not for --model.")
    when = Range("profiler-api") if request.workload else parse_range(*asked)
    return NsysRecorder(find(options["nsys"]), when, options["nsys_args"], rank_of(os.environ))


# Checks that say nothing about a command, whose Python may be another one.
_OF_MODELS = ("jax", "plugin")


def _preflight(
    chosen: str, request: "Request", folder: Path, nsys: str | None, offload: bool
) -> None:
    """Look at the machine before anything is run: what cannot work is refused, the rest told."""
    from nsysoffload.recorders.doctor import examine

    found = examine(folder, environment=os.environ, nsys=nsys, offload=offload)
    passed_over = (
        *(() if request.workload else _OF_MODELS),
        *(() if chosen == "nsys" else ("nsys", "locks")),
    )
    for check in found.checks:
        if check.name in passed_over or check.state == "ok":
            continue
        text = f"{check.text} {check.advice}".strip()
        if check.state == "problem":
            raise UsageError(text)
        warn(check.name, text)


def _name(command: tuple[str, ...]) -> str:
    """Return a name for the runs of a command: its script or module, without what starts it."""
    from nsysoffload.recorders.variants import folder_name

    words = list(command)
    module = words[words.index("-m") + 1 :] if "-m" in words else []
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    first = (module or scripts or words)[0]
    return folder_name(Path(first).stem if not module else first.rpartition(".")[2])


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)
