import gzip
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nsysoffload.errors import UsageError
from workloads import loop
from workloads.config import MODELS
from workloads.data import Source
from workloads.sharding import make_mesh
from workloads.step import build

pytest.importorskip("nvtx", reason="training needs nvtx: install nsysoffload[workloads]")

from workloads.experiment import train  # noqa: E402  needs nvtx

PLAN = loop.plan(3, 1, None, ahead=False)


@pytest.fixture
def step(devices):
    """Return a step that compiles at once: its state counts, its loss is the mean token."""

    def count(state, tokens):
        return state + 1, {"loss": jnp.mean(tokens.astype(jnp.float32)), "grad_norm": state}

    made = build(MODELS["tiny"], mesh=make_mesh(devices[:1], {}), policy="offload", batch=2, seq=8)
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    return replace(made, jitted=jax.jit(count), state=scalar, init=lambda seed: jnp.float32(seed))


def trained(step, **options):
    said, told = [], []
    made = train(
        step,
        PLAN,
        **{"optimizer": "sgd", "offload_optimizer": False, "seed": 5} | options,
        progress=told.append,
        say=said.append,
    )
    assert tuple(said) == made.notes
    assert tuple(told) == made.steps
    return made


def test_a_step_gets_the_tokens_of_its_index_and_the_state_of_the_step_before(step):
    made = trained(step)
    source = Source.of(MODELS["tiny"].vocab, seed=5)
    assert [each.loss for each in made.steps] == [
        source.batch(index, 2, 8).astype(np.float32).mean() for index in range(3)
    ]
    assert [each.grad_norm for each in made.steps] == [5, 6, 7]


def test_notes_of_the_step_come_first(step):
    made = trained(replace(step, notes=("Of the step.",)))
    assert made.notes == (
        "Of the step.",
        "CPU backend: nothing is offloaded here, for device memory is host memory.",
    )


def test_offloading_without_effect_is_noticed_on_a_gpu(step):
    stats = {"peak_bytes_in_use": 123}
    gpu = SimpleNamespace(platform="gpu", device_kind="GPU", memory_stats=lambda: stats)
    mesh = SimpleNamespace(devices=np.array([gpu]), local_devices=[gpu], shape={"fsdp": 1})
    made = trained(replace(step, mesh=mesh))
    assert made.notes[0] == (
        "Policy 'offload' offloads nothing: the compiled step uses no host memory."
    )
    assert made.offload is not None
    assert made.offload.in_effect is False
    assert (made.backend, made.device_kind, made.device_peak_bytes) == ("gpu", "GPU", 123)


def test_running_out_of_memory_is_a_sentence_on_what_to_do(step):
    def too_large(seed):
        return jax.block_until_ready(jnp.zeros((1 << 55,), jnp.int8))

    with pytest.raises(UsageError) as error:
        trained(replace(step, init=too_large))
    assert str(error.value).startswith("Memory ran out (RESOURCE_EXHAUSTED: ")
    assert "try a smaller --batch or --seq or another --policy" in str(error.value)


def test_another_failure_of_xla_is_a_sentence_as_well(step):
    def broken(seed):
        raise jax.errors.JaxRuntimeError("INTERNAL: ptxas\n  crashed")

    with pytest.raises(UsageError) as error:
        trained(replace(step, init=broken))
    assert str(error.value) == "XLA gave up (INTERNAL: ptxas crashed); change what it refuses."


def test_the_compiled_program_is_kept_without_the_folders_of_its_sources(step, tmp_path):
    trained(step, module=tmp_path / "module.gz")
    text = gzip.decompress((tmp_path / "module.gz").read_bytes()).decode()
    assert text.startswith("HloModule jit_count, is_scheduled=true")
    assert "test_experiment.py" in text
    assert str(Path(__file__).parent) not in text
