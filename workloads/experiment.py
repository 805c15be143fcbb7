"""A whole run: compile a step, train it by a plan, and account for it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import jax

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.bundle import zipped
from nsysoffload.recorders.predict.compile import without_folders
from nsysoffload.trace.workload import is_offload
from workloads import loop, memory
from workloads.data import Source
from workloads.flops import flops
from workloads.instrument import CudaSwitch, Switch, cuda_runtime
from workloads.jax_profile import JaxProfile
from workloads.loop import Plan, StepRecord
from workloads.manifest import Manifest, Needs, Offload, Program, needs, speed, xla_flags
from workloads.step import Step

__all__ = ["train"]


def train(
    step: Step,
    plan: Plan,
    *,
    optimizer: str,
    offload_optimizer: bool,
    seed: int,
    profile: Path | None = None,
    module: Path | None = None,
    progress: Callable[[StepRecord], None],
    say: Callable[[str], None],
) -> Manifest:
    """Train on synthetic tokens.

    Parameters
    ----------
    step : Step
        Of `workloads.step.build`.
    plan : Plan
        How many steps, and how.
    optimizer, offload_optimizer
        What the step was built with.
    seed : int
        Of the first weights and of the tokens.
    profile : Path, optional
        Folder for a profile of `jax.profiler`; without one a profiler outside is told when to
        record.
    module : Path, optional
        File for the text of the compiled program, gzipped: its operations as a trace names them.
    progress : function
        Called with each step's record as soon as it is known.
    say : function
        Takes a sentence as soon as something differs from what was asked for.

    Raises
    ------
    UsageError
        If the compiler or a device gives up, as when memory runs out.
    """
    notes: list[str] = []

    def note(sentence: str) -> None:
        notes.append(sentence)
        say(sentence)

    for sentence in step.notes:
        note(sentence)
    with _failures_as_sentences():
        began = time.perf_counter()
        compiled = step.jitted.lower(step.state, step.tokens).compile()
        compile_s = time.perf_counter() - began
        if module:
            module.write_bytes(zipped(without_folders(compiled.as_text())))
        used = needs(memory.memory(compiled))
        offload = _offload(step, used, note)
        switch = JaxProfile(profile) if profile else _cuda_switch(step, note)
        records = loop.run(compiled, step.init(seed), _batches(step, seed), plan, switch, progress)
    device = step.mesh.devices.flat[0]
    work = flops(step.config, step.batch, step.seq).model
    return Manifest(
        program=Program(
            model=step.config.name,
            policy=step.policy,
            mesh=",".join(f"{axis}={length}" for axis, length in step.mesh.shape.items()),
            batch=step.batch,
            seq=step.seq,
            layers=step.config.layers,
            optimizer=optimizer,
            offload_optimizer=offload_optimizer,
            attention=step.attention,
            seed=seed,
        ),
        config=step.config,
        devices=step.mesh.devices.size,
        device_kind=device.device_kind,
        backend=device.platform,
        jax_version=jax.__version__,
        jaxlib_version=version("jaxlib"),
        xla_flags=xla_flags(os.environ.get("XLA_FLAGS", "")),
        compile_s=compile_s,
        memory=used,
        offload=offload,
        device_peak_bytes=memory.peak_bytes(step.mesh.local_devices),
        speed=speed(records, step.batch * step.seq, work, step.mesh.devices.size),
        steps=tuple(records),
        notes=tuple(notes),
    )


@contextmanager
def _failures_as_sentences() -> Iterator[None]:
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        if "RESOURCE_EXHAUSTED" not in reason:
            raise UsageError(f"XLA gave up ({reason}); change what it refuses.") from error
        raise UsageError(
            f"Memory ran out ({reason}); try a smaller --batch or --seq or another --policy, or, "
            "if it was host memory, raise XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB."
        ) from error


def _batches(step: Step, seed: int) -> Callable[[int], jax.Array]:
    source = Source.of(step.config.vocab, seed)

    def batch(index: int) -> jax.Array:
        tokens = source.batch(index, step.batch, step.seq)
        # Each process has all tokens and places those of its own devices.
        placed: jax.Array = jax.make_array_from_callback(
            tokens.shape, step.tokens.sharding, tokens.__getitem__
        )
        return placed

    return batch


def _offload(step: Step, used: Needs, note: Callable[[str], None]) -> Offload | None:
    if not is_offload(step.policy):
        return None
    in_effect = used.host_temp_bytes > 0
    if _platform(step) == "cpu":
        note("CPU backend: nothing is offloaded here, for device memory is host memory.")
    elif not in_effect:
        note(f"Policy '{step.policy}' offloads nothing: the compiled step uses no host memory.")
    return Offload(memory.declared_offload(step), in_effect)


def _cuda_switch(step: Step, note: Callable[[str], None]) -> Switch:
    if _platform(step) == "cpu":
        return CudaSwitch(None, note)
    runtime = cuda_runtime()
    if runtime is None:
        note("No libcudart was found, so cudaProfilerStart is not called; record the whole run.")
    return CudaSwitch(runtime, note)


def _platform(step: Step) -> str:
    platform: str = step.mesh.devices.flat[0].platform
    return platform
