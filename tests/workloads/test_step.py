from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nsysoffload.errors import UsageError
from workloads import transformer
from workloads.config import MODELS
from workloads.layers import Setting
from workloads.sharding import make_mesh, parse_mesh
from workloads.step import build, program

SMALL = replace(
    MODELS["tiny-moe"],
    layers=2,
    vocab=64,
    experts=replace(MODELS["tiny-moe"].experts, dense_layers=0),
)


def on(devices, text):
    axes = parse_mesh(text)
    return make_mesh(devices[: np.prod(list(axes.values()), dtype=int)], axes)


def tokens_of(step):
    tokens = np.random.default_rng(0).integers(0, step.config.vocab, step.tokens.shape, np.int32)
    return jax.device_put(tokens, step.tokens.sharding)


def test_a_sharded_model_has_the_loss_and_gradients_of_a_single_device(devices):
    results = []
    for mesh in ("fsdp=1", "fsdp=2,expert=2,tensor=2"):
        step = build(SMALL, mesh=on(devices, mesh), batch=4, seq=32)
        rng = np.random.default_rng(0)
        # In float32: with bf16's rounding, sums in another order may choose another expert.
        parameters = jax.tree.map(
            lambda w, rng=rng: jax.device_put(
                rng.normal(scale=0.1, size=w.shape).astype(np.float32), w.sharding
            ),
            step.state.parameters,
        )
        setting = Setting(step.mesh, step.attention)
        loss = jax.jit(
            jax.value_and_grad(partial(transformer.loss, config=SMALL, setting=setting)),
            static_argnames="policy",
        )
        results.append(loss(parameters, tokens_of(step), policy=None))
    (loss, gradients), (sharded_loss, sharded_gradients) = results
    assert float(sharded_loss) == pytest.approx(float(loss), rel=1e-5)
    for one, other in zip(*map(jax.tree.leaves, (gradients, sharded_gradients)), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert np.linalg.norm(one - other) < 1e-4 * np.linalg.norm(one)


def test_a_step_learns_donates_its_state_and_keeps_shardings_and_types(devices):
    step = build(
        MODELS["tiny"], mesh=on(devices, "fsdp=2,tensor=2"), batch=2, seq=32, optimizer="sgd"
    )
    first, tokens = step.init(0), tokens_of(step)
    second, before = step.jitted(first, tokens)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(first))

    def kept(leaf):
        return leaf.shape, leaf.dtype, leaf.sharding.spec

    assert jax.tree.map(kept, second) == jax.tree.map(kept, step.state)
    assert not second.parameters.embedding.sharding.is_fully_replicated
    _, after = step.jitted(second, tokens)
    assert before["loss"].dtype == before["grad_norm"].dtype == jnp.float32
    assert float(before["loss"]) == pytest.approx(np.log(512), rel=0.02)  # knows nothing yet
    assert after["loss"] < before["loss"]


def test_the_optimizer_keeps_float32_weights_that_the_model_rounds(devices):
    step = build(MODELS["tiny"], mesh=on(devices, "fsdp=1"))
    assert step.state.parameters.dense.mlp.up.dtype == jnp.bfloat16
    floating = [leaf.dtype for leaf in jax.tree.leaves(step.state.optimizer) if leaf.ndim]
    assert set(floating) == {jnp.dtype("float32")}
    assert len(floating) == 3 * len(jax.tree.leaves(step.state.parameters))


def test_names_in_the_program_are_those_the_reports_group_by(devices):
    step = build(MODELS["tiny-moe"], mesh=on(devices, "fsdp=2"), policy="offload")
    lowered = step.jitted.lower(step.state, step.tokens)
    text = lowered.as_text(debug_info=True)
    assert "module @jit_train_step" in text
    for scope in ("embed", "attention", "mlp", "moe", "loss", "optimizer"):
        assert f"{scope}/" in text or f"({scope})" in text


def test_an_optimizer_state_on_the_cpu_stays_and_says_so(devices):
    mesh = on(devices, "fsdp=1")
    step = build(MODELS["tiny"], mesh=mesh, offload_optimizer=True)
    assert step.notes == (
        "The optimizer's state is not offloaded: on the CPU, device memory is host memory.",
    )
    assert build(MODELS["tiny"], mesh=mesh).notes == ()


def test_a_program_by_name_has_default_sizes_for_its_mesh(devices):
    jitted, (state, tokens) = program(
        devices, model="tiny", policy="save:query", mesh="fsdp=4,tensor=2", layers=2
    )
    assert tokens.shape == (4 * 4, 128)
    assert state.parameters.dense.mlp.up.shape == (2, 128, 384)
    assert jitted.__name__ == "train_step"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"optimizer": "lion"}, "no optimizer 'lion'; choose one of adam, sgd", id="o"),
        pytest.param({"attention": "triton"}, "no attention 'triton'; choose auto", id="attention"),
        pytest.param({"policy": "offload:mlp_down"}, "names no value 'mlp_down'", id="name"),
        pytest.param({"batch": 3}, "batch axis of length 3 cannot be split over 2", id="batch"),
    ],
)
def test_what_does_not_fit_is_refused(devices, options, message):
    with pytest.raises(UsageError, match=message):
        build(MODELS["tiny"], mesh=on(devices, "fsdp=2"), **options)
