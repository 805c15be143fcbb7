"""`nsysoffload capture`: record train steps that offload or rematerialise."""

from pathlib import Path

import click

from nsysoffload.cli.options import debug_option
from nsysoffload.hardware import TARGETS

__all__ = ["capture"]

# As in the recorder; named here so that help needs no import of it. A test holds them together.
PRESETS = ("default", "lhs", "pipelined", "pipelined+double-buffering")


@click.command(short_help="Record train steps: predicted, without a GPU.")
@click.option(
    "--recorder",
    type=click.Choice(["predict"]),
    default="predict",
    show_default=True,
    help="What records: 'predict' compiles the step for a GPU that is not there and times it.",
)
@click.option(
    "--target",
    type=click.Choice(list(TARGETS)),
    default="gb200",
    show_default=True,
    help="GPU to predict for.",
)
@click.option("--model", required=True, metavar="M", help="Model, such as llama3.1-8b.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    default=("offload",),
    metavar="POLICY",
    help="What to keep of the forward pass: none, remat, dots, offload, offload-dots, "
    "offload:NAME,NAME or save:NAME,NAME. May be given several times.  [default: offload]",
)
@click.option("--mesh", default="", metavar="AXES", help="GPUs by axis, such as fsdp=8,tensor=2.")
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Sequences of a step, in all.")
@click.option("--seq", type=click.IntRange(1), metavar="N", help="Tokens of a sequence.")
@click.option("--layers", type=click.IntRange(1), metavar="N", help="Shrink the model to N layers.")
@click.option(
    "--optimizer",
    type=click.Choice(["adam", "sgd"]),
    default="adam",
    show_default=True,
    help="Optimizer.",
)
@click.option("--offload-optimizer", is_flag=True, help="Keep the optimizer's state on the host.")
@click.option(
    "--xla-preset",
    "preset",
    type=click.Choice(PRESETS),
    default="default",
    show_default=True,
    help="Preset of XLA flags.",
)
@click.option("--xla-flags", "flags", default="", metavar="FLAGS", help="More XLA flags.")
@click.option(
    "--command-buffers", is_flag=True, help="Run loop bodies as CUDA graphs, as XLA does itself."
)
@click.option(
    "--no-contention", is_flag=True, help="Let transfers and kernels not slow each other down."
)
@click.option(
    "--efficiency",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='JSON with measured constants, such as {"gemm_efficiency": 0.7}.',
)
@click.option(
    "--steps", type=click.IntRange(1, 100), default=3, show_default=True, help="Steps in a trace."
)
@click.option(
    "--timeout", type=click.IntRange(1), metavar="S", help="Give up a compilation after S s."
)
@click.option(
    "-o", "--output", metavar="DIR", help="Folder for the runs.  [default: runs/MODEL-TARGET]"
)
@debug_option
def capture(
    recorder: str,
    target: str,
    model: str,
    variants: tuple[str, ...],
    mesh: str,
    batch: int | None,
    seq: int | None,
    layers: int | None,
    optimizer: str,
    offload_optimizer: bool,
    preset: str,
    flags: str,
    command_buffers: bool,
    no_contention: bool,
    efficiency: Path | None,
    steps: int,
    timeout: int | None,
    output: str | None,
) -> None:
    """Record a train step of a model under each variant, into a folder per variant.

    The step is compiled with XLA for GPUs that need not be there. The compiler's own schedule is
    then timed by a model, and written as a trace that `nsysoffload analyze` reads. Memory and bytes
    are the compiler's; times are modelled and come as ranges.

    \b
    Example:
      nsysoffload capture --model llama3.1-8b --mesh fsdp=8 --variant offload --variant remat
      nsysoffload analyze runs/llama3.1-8b-gb200/offload
    """
    from nsysoffload.recorders.predict import summary
    from nsysoffload.recorders.predict.capture import Request
    from nsysoffload.recorders.predict.capture import capture as record

    request = Request(
        model=model,
        target=target,
        mesh=mesh,
        batch=batch,
        seq=seq,
        layers=layers,
        optimizer=optimizer,
        offload_optimizer=offload_optimizer,
        preset=preset,
        flags=flags,
        command_buffers=command_buffers,
        contention=not no_contention,
        efficiency=efficiency,
        steps=steps,
        timeout_s=timeout,
    )
    folder = Path(output) if output else Path("runs", f"{model}-{target}")
    runs = record(request, variants, folder, lambda text: click.echo(text, err=True))
    click.echo(summary.render([run.predicted.prediction for run in runs]), nl=False)
    for run in runs:
        click.echo(run.folder)
