"""A whole run: compile a step, train it by a plan, and account for it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import jax

from nsysoffload.errors import UsageError
from workloads import loop, memory
from workloads.data import Source
from workloads.flops import flops
from workloads.instrument import Switch, cuda_runtime
from workloads.loop import Plan, StepRecord
from workloads.manifest import Manifest, Needs, Offload, Program, needs, speed, xla_flags
from workloads.policies import is_offload
from workloads.step import Step

__all__ = ["train"]


def train(
    step: Step,
    plan: Plan,
    *,
    optimizer: str,
    offload_optimizer: bool,
    seed: int,
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
        used = needs(memory.memory(compiled))
        offload = _offload(step, used, note)
        switch = _switch(step, note)
        records = loop.run(compiled, step.init(seed), _batches(step, seed), plan, switch, progress)
    devices = step.mesh.devices.flatten().tolist()
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
        devices=len(devices),
        device_kind=devices[0].device_kind,
        backend=devices[0].platform,
        jax_version=jax.__version__,
        jaxlib_version=version("jaxlib"),
        xla_flags=xla_flags(os.environ.get("XLA_FLAGS", "")),
        compile_s=compile_s,
        memory=used,
        offload=offload,
        device_peak_bytes=memory.peak_bytes(devices),
        speed=speed(records, step.batch * step.seq, work, len(devices)),
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
        placed: jax.Array = jax.device_put(tokens, step.tokens.sharding)
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


def _switch(step: Step, note: Callable[[str], None]) -> Switch:
    if _platform(step) == "cpu":
        return Switch(None, note)
    runtime = cuda_runtime()
    if runtime is None:
        note("No libcudart was found, so cudaProfilerStart is not called; record the whole run.")
    return Switch(runtime, note)


def _platform(step: Step) -> str:
    platform: str = step.mesh.devices.flat[0].platform
    return platform
