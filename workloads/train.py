"""`python -m workloads.train`: train a model on synthetic tokens, ready to be profiled."""

import logging
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.recorders.ranks import Rank

if TYPE_CHECKING:
    from workloads.loop import StepRecord
    from workloads.manifest import Manifest

__all__ = ["main"]

_PACKAGES = ("jax", "optax", "nvtx")


class _Failure(click.ClickException):
    exit_code = OffloadError.exit_code


class _Command(click.Command):
    """A command whose expected errors are a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OffloadError as error:
            raise _Failure(str(error)) from error


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--model", default="tiny", show_default=True, metavar="M", help="Model.")
@click.option(
    "--policy",
    default="none",
    show_default=True,
    metavar="P",
    help="What to keep of the forward pass: none, remat, dots, offload, offload-dots, "
    "offload:NAME,NAME, save:NAME,NAME, or both joined by '+'.",
)
@click.option("--steps", type=click.IntRange(1), default=10, show_default=True, help="Steps.")
@click.option(
    "--warmup",
    type=click.IntRange(0),
    metavar="N",
    help="Steps at the beginning that do not count.  [default: 2, or all but one]",
)
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Sequences of a step, in all.")
@click.option("--seq", type=click.IntRange(2), metavar="N", help="Tokens of a sequence.")
@click.option("--layers", type=click.IntRange(1), metavar="N", help="Shrink the model to N layers.")
@click.option(
    "--mesh",
    default="",
    metavar="AXES",
    help="Devices by axis, such as fsdp=4,tensor=2; axes are data, fsdp, expert and tensor.  "
    "[default: all along fsdp]",
)
@click.option(
    "--optimizer",
    type=click.Choice(["adam", "sgd"]),
    default="adam",
    show_default=True,
    help="Optimizer.",
)
@click.option("--offload-optimizer", is_flag=True, help="Keep the optimizer's state on the host.")
@click.option(
    "--attention",
    type=click.Choice(["auto", "cudnn", "xla"]),
    default="auto",
    show_default=True,
    help="Attention; auto is cuDNN on GPUs.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Seed of weights and tokens.",
)
@click.option(
    "--profile-steps",
    metavar="A..B|N",
    help="Warm steps around which cudaProfilerStart and cudaProfilerStop are called: from A to B, "
    "counted from 0, or the first N.  [default: all]",
)
@click.option(
    "--jax-profile",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Record those steps with jax.profiler into DIR instead; not under nsys.",
)
@click.option(
    "--dispatch-ahead",
    is_flag=True,
    help="Do not wait for a step before dispatching the next.",
)
@click.option(
    "--distributed/--no-distributed",
    default=None,
    help="Whether the tasks of srun or mpirun train one model together.  [default: if there are "
    "several]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of manifest.json, for each process its own.  [default: "
    "reports/train/MODEL/POLICY, and in it rankK for one of several]",
)
def main(
    model: str,
    policy: str,
    steps: int,
    warmup: int | None,
    batch: int | None,
    seq: int | None,
    layers: int | None,
    mesh: str,
    optimizer: str,
    offload_optimizer: bool,
    attention: str,
    seed: int,
    profile_steps: str | None,
    jax_profile: Path | None,
    dispatch_ahead: bool,
    distributed: bool | None,
    output: Path | None,
) -> None:
    """Train a decoder on synthetic tokens, on all devices that JAX finds.

    Started by srun or mpirun as several tasks, these are the devices of all of them, and the first
    task alone prints. With --no-distributed each task trains by itself.

    Every step is waited for, so each has its own time and all its work lies in its NVTX range
    train_step. With --dispatch-ahead the host runs ahead as in real training: the gap between steps
    is then the true one, times are means over the steps, and in a trace XLA's own XlaModule ranges
    tell the steps apart.

    Losses, gradient norms, times and memory go to manifest.json, progress to stderr. Compare a
    policy with remat: the losses have to agree.

    \b
    Example:
      python -m workloads.train --model tiny --policy offload --steps 5

    \b
    Under Nsight Systems (the default end of the capture would end the run before its manifest):
      nsys profile -t cuda,nvtx --cuda-graph-trace=node -c cudaProfilerApi \\
        --capture-range-end=stop python -m workloads.train --model llama3.2-1b --policy offload

    \b
    Several devices on a CPU:
      XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m workloads.train --mesh fsdp=8
    """  # noqa: D301  click needs a bare backspace
    _check_installed()
    logging.getLogger("jax._src.xla_bridge").addFilter(_without_traceback)
    import jax

    from nsysoffload.trace.run_folder import MODULE
    from workloads import experiment, loop, manifest
    from workloads.config import model as model_named
    from workloads.distributed import join
    from workloads.jax_profile import check_alone
    from workloads.sharding import make_mesh, parse_mesh
    from workloads.step import build

    if jax_profile:
        check_alone(os.environ)
    rank = join(os.environ, distributed)
    say = _saying(rank)
    folder = output or _folder(model, policy, rank)
    plan = loop.plan(steps, warmup, profile_steps, ahead=dispatch_ahead)
    step = build(
        model_named(model, layers),
        mesh=make_mesh(jax.devices(), parse_mesh(mesh)),
        policy=policy,
        batch=batch,
        seq=seq,
        optimizer=optimizer,
        offload_optimizer=offload_optimizer,
        attention=attention,
    )
    manifest.writable(folder)
    devices = step.mesh.devices
    say(f"Compiling {model}, policy {policy}, for {devices.size} x {devices.flat[0].device_kind}.")
    made = experiment.train(
        step,
        plan,
        optimizer=optimizer,
        offload_optimizer=offload_optimizer,
        seed=seed,
        profile=jax_profile,
        module=folder / MODULE,
        progress=lambda record: say(_progress(record)),
        say=say,
    )
    path = manifest.write(made, folder)
    if not rank or rank.index == 0:
        click.echo(_summary(made), nl=False)
        click.echo(path)


def _folder(model: str, policy: str, rank: Rank | None) -> Path:
    folder = Path("reports", "train", model, policy.replace(":", "-"))
    return folder / f"rank{rank.index}" if rank else folder


def _saying(rank: Rank | None) -> Callable[[str], None]:
    """Return what takes sentences for people: of several processes the first prints them."""
    if rank and rank.index > 0:
        return lambda sentence: None
    return lambda sentence: click.echo(sentence, err=True)


def _check_installed() -> None:
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"Training needs {' and '.join(missing)}, not installed here; "
            "run: pip install 'nsysoffload[workloads]'"
        )


def _without_traceback(record: logging.LogRecord) -> bool:
    """Let a plugin that cannot run here, as CUDA's without a GPU, say so in one line."""
    if record.exc_info:
        record.msg, record.args = f"JAX cannot use a plugin here: {record.exc_info[1]}", ()
        record.exc_info = None
    return True


def _progress(step: "StepRecord") -> str:
    """Line on a step."""
    loss, norm = (
        "not finite" if value is None else f"{value:.4f}" for value in (step.loss, step.grad_norm)
    )
    remark = "" if step.warm else "  warm-up"
    return f"step {step.index:4d}  loss {loss}  grad norm {norm}  {step.ms:.2f} ms{remark}"


def _summary(made: "Manifest") -> str:
    """Lines on a run, for people."""
    mib = 1 << 20
    losses = [step.loss for step in made.steps if step.loss is not None]
    lines = {
        "program": f"{made.program.model}, policy {made.program.policy}, "
        f"{made.devices} x {made.device_kind}",
        "loss": f"{losses[0]:.4f} to {losses[-1]:.4f}" if losses else "never finite",
        "step": f"{made.speed.step_ms:.2f} ms (median of warm steps), "
        f"{made.speed.tokens_per_s:,.0f} tokens/s, "
        f"{made.speed.model_tflops_per_device:.3f} TFLOP/s per device",
        "memory": f"{made.memory.device_need_bytes / mib:,.1f} MiB of each device, "
        f"{made.memory.host_need_bytes / mib:,.1f} MiB of the host for it",
    }
    if made.offload and made.offload.declared_bytes:
        total = sum(made.offload.declared_bytes.values())
        state = "in effect" if made.offload.in_effect else "not in effect"
        lines["offload"] = f"{total / mib:,.1f} MiB per step and direction, {state}"
    return "".join(f"{name:8} {text}\n" for name, text in lines.items())


if __name__ == "__main__":
    main(prog_name="python -m workloads.train")
