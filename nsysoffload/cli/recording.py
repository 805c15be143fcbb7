"""What the commands that record have in common: options, and requests to the recorders."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nsysoffload.cli.options import PATH, all_of, warn
from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS

if TYPE_CHECKING:
    from nsysoffload.profiles.guided import Use
    from nsysoffload.recorders.measured.recorder import Recorder
    from nsysoffload.recorders.measured.request import Request
    from nsysoffload.recorders.predict.capture import Request as PredictRequest

__all__ = [
    "PRESETS",
    "Seconds",
    "check_options",
    "chosen_recorder",
    "count_options",
    "failure_shown",
    "measured_request",
    "model_option",
    "nsys_options",
    "predict_options",
    "predict_request",
    "preflight",
    "recorder_of",
    "recorder_option",
    "say",
    "size_options",
    "timeout_option",
    "tell_use",
    "xla_options",
]

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


class Seconds(click.FloatRange):
    """A time that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a number that is finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no time.", param, ctx)
        return number


recorder_option = click.option(
    "--recorder",
    type=click.Choice([*_MEASURED, "predict"]),
    help="What records: 'nsys' and 'jax' (jax.profiler) run it on a GPU, 'predict' compiles it for "
    "one that is not there and times it.  [default: nsys, or jax where there is no nsys]",
)

model_option = click.option("--model", metavar="M", help="Model to train, such as llama3.1-8b.")

timeout_option = click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    metavar="S",
    help="Give up a run, or a compilation, after S s.",
)


def size_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what a step of the model is."""
    return all_of(
        command,
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
    )


def count_options(steps: int, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what adds the options for how many steps are recorded, and run before."""
    return lambda command: all_of(
        command,
        click.option(
            "--steps",
            type=click.IntRange(1, 100),
            default=steps,
            show_default=True,
            help=what,
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


def xla_options(preset: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what adds the options for XLA's flags."""
    return lambda command: all_of(
        command,
        click.option(
            "--xla-preset",
            "preset",
            type=click.Choice(PRESETS),
            default=preset,
            show_default=True,
            help="Preset of XLA flags.",
        ),
        click.option("--xla-flags", "flags", default="", metavar="FLAGS", help="More XLA flags."),
    )


def nsys_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for nsys itself."""
    return all_of(
        command,
        click.option("--nsys", metavar="PATH", help="The nsys to use.  [default: that on PATH]"),
        click.option("--nsys-args", default="", metavar="ARGS", help="More options for nsys."),
    )


def predict_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of predictions."""
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


# --- Which recorder ---


def check_options(chosen: str) -> None:
    """Refuse options that only other recorders have."""
    ctx = click.get_current_context()
    for option, recorders in _OF.items():
        given = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if given and chosen not in recorders:
            raise click.UsageError(
                f"--{option.rstrip('_').replace('_', '-')} is an option of --recorder "
                f"{' or '.join(recorders)}, not of {chosen}."
            )


def chosen_recorder(recorder: str | None, nsys: str | None) -> str:
    """Return the recorder that was asked for, or the one that there is.

    Raises
    ------
    UsageError
        If there is none.
    """
    if recorder:
        return recorder
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


# --- What to record ---


def predict_request(
    model: str, options: dict[str, Any], profile: Path | None = None
) -> "PredictRequest":
    """Return what to predict."""
    from nsysoffload.recorders.predict.capture import Request

    return Request(
        model=model,
        target=options["target"],
        **{name: options[name] for name in ("mesh", "batch", "seq", "layers", "optimizer")},
        **{name: options[name] for name in ("offload_optimizer", "preset", "flags")},
        profile=profile,
        command_buffers=options["command_buffers"],
        contention=not options["no_contention"],
        efficiency=options["efficiency"],
        steps=options["steps"],
        timeout_s=options["timeout"],
    )


def measured_request(
    model: str | None,
    command: tuple[str, ...],
    options: dict[str, Any],
    profile: Path | None = None,
) -> "Request":
    """Return what to measure."""
    from nsysoffload.recorders.measured.request import Request, Workload
    from nsysoffload.report.amounts import parse_size

    names = ("mesh", "batch", "seq", "layers", "optimizer", "offload_optimizer", "warmup")
    expected = options["expect_offload"]
    bare = options["bare"]
    return Request(
        workload=Workload(model, **{name: options[name] for name in names}) if model else None,
        command=command,
        **{name: options[name] for name in ("steps", "preset", "flags", "command_buffers")},
        profile=profile,
        **{name: options[name] for name in ("step_range", "step_kernel")},
        expect_offload=parse_size(expected) if expected else None,
        bare=bool(model) if bare is None else bare,
        timeout_s=options["timeout"],
        grace_s=options["grace"],
    )


def recorder_of(chosen: str, request: "Request", options: dict[str, Any]) -> "Recorder":
    """Return what measures it."""
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


def preflight(
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


@contextmanager
def failure_shown() -> Iterator[None]:
    """Show the lines of the log by which a recording has failed."""
    from nsysoffload.recorders.measured.failures import RunFailed

    try:
        yield
    except RunFailed as failed:
        for line in failed.failure.lines:
            click.echo(f"  | {line}", err=True)
        click.echo(f"  (the log: {failed.log})", err=True)
        raise


def tell_use(use: "Use", variant: str) -> None:
    """Tell what XLA made of a profile in a measured run."""
    from nsysoffload.profiles.fit import text_of

    if use.other_module:
        warn("profile", f"{variant}: {use.other_module}")
    elif use.taken and not use.taken.used:
        warn("profile", f"{variant}: {text_of(use.taken)}")
    elif use.taken:
        say(f"{variant}: {text_of(use.taken)}")


def say(sentence: str) -> None:
    """Tell how it goes."""
    click.echo(sentence, err=True)
