"""Where activations lie, and how often they are made, must not change what is learned.

Tolerances. A policy decides which values are made again; the operations on them are the same. XLA
may fuse a second run differently and so keep a bf16 value in float32 once more or once less: one
rounding, at most 2**-8 of a value. So each weight's gradient, and what follows from it, may differ
by 2**-8 of its norm. A first-order step lowers the loss by rate * norm**2, about 1e-2 * 2, of which
2**-8 is 1e-4. Measured on the CPU, all are equal to the last bit.

Over several devices, bf16 gradients are summed in another order and parts are rounded before they
are added, in every layer: some roundings instead of one. Measured: 1.3 % of the norm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from workloads.config import MODELS
from workloads.data import FLOOR_NATS, Source
from workloads.optimizers import OptimizerState
from workloads.sharding import make_mesh, parse_mesh
from workloads.step import State, Step, build

ONE_ROUNDING = 2**-8
SOME_ROUNDINGS = 2**-5
BATCH, SEQ, VOCAB = 4, 16, 32
STEPS, COMPARED = 30, 3

_SHAPE = {"layers": 2, "embed": 16, "heads": 2, "kv_heads": 2, "vocab": VOCAB}
_EXPERTS, _LATENT = MODELS["tiny-moe"].experts, MODELS["tiny-moe"].latent
assert _EXPERTS
assert _LATENT
SMALL = {
    "tiny": replace(MODELS["tiny"], **_SHAPE, head=8, ffw=32),
    "tiny-moe": replace(
        MODELS["tiny-moe"],
        **_SHAPE,
        head=16,
        experts=replace(_EXPERTS, count=4, ffw=16, dense_layers=0, groups=1, active_groups=1),
        latent=replace(_LATENT, query_rank=8, key_value_rank=8, nope=8, rope=8, value=8),
    ),
}
POLICIES = (
    "remat",
    "dots",
    "offload",
    "offload:query,mlp_up",
    "offload-dots",
    "save:attention_out",
)


@dataclass(frozen=True)
class Trained:
    """Metrics of all steps, gradients of the first, weights after the first few."""

    losses: list[float]
    norms: list[float]
    gradients: list[NDArray[np.float32]]
    weights: list[NDArray[np.float32]]


@cache
def trained(model: str, policy: str, optimizer: str = "sgd", mesh: str = "fsdp=1") -> Trained:
    axes = parse_mesh(mesh)
    devices = jax.devices("cpu")[: prod(axes.values())]
    step = build(
        SMALL[model],
        mesh=make_mesh(devices, axes),
        policy=policy,
        batch=BATCH,
        seq=SEQ,
        optimizer=optimizer,
    )
    fast_to_compile = {"xla_backend_optimization_level": 0}
    run = step.jitted.lower(step.state, step.tokens).compile(compiler_options=fast_to_compile)
    state, source = beginning(step), Source.of(VOCAB, seed=0)
    metrics, states = [], []
    for index in range(STEPS):
        tokens = jax.device_put(source.batch(index, BATCH, SEQ), step.tokens.sharding)
        state, each = run(state, tokens)
        metrics.append(each)
        if index < COMPARED:
            states.append(jax.device_get(state.optimizer))
    return Trained(
        losses=[float(each["loss"]) for each in metrics],
        norms=[float(each["grad_norm"]) for each in metrics],
        gradients=arrays(states[0].moments),  # for both optimizers in proportion to the gradient
        weights=arrays(states[-1].weights),
    )


def beginning(step: Step) -> State:
    """Return the same first state for every mesh and policy, made without compiling anything."""
    rng = np.random.default_rng(1)

    def weight(path, leaf):
        is_norm = "norm" in jax.tree_util.keystr(path)
        noise = np.ones(leaf.shape) if is_norm else 0.02 * rng.normal(size=leaf.shape)
        return noise.astype(leaf.dtype)

    weights = jax.tree_util.tree_map_with_path(weight, step.state.parameters)
    wide = jax.tree.map(lambda leaf: leaf.astype(np.float32), weights)
    moments = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), step.state.optimizer.moments
    )
    shardings = jax.tree.map(lambda leaf: leaf.sharding, step.state)
    return jax.device_put(State(weights, OptimizerState(wide, moments)), shardings)


def arrays(tree: object) -> list[NDArray[np.float32]]:
    """Return the leaves that belong to a weight; Adam's first moments come before its second."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if np.ndim(leaf)]


def apart(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return the norm of the difference as a share of the second's."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def furthest(a: Sequence[NDArray[np.float32]], b: Sequence[NDArray[np.float32]]) -> float:
    return max(apart(x, y) for x, y in zip(a, b, strict=True))


def agree(new: Trained, base: Trained, tolerance: float, loss_tolerance: float) -> None:
    first = slice(COMPARED)
    np.testing.assert_allclose(new.losses[first], base.losses[first], rtol=loss_tolerance)
    np.testing.assert_allclose(new.norms[first], base.norms[first], rtol=tolerance)
    assert furthest(new.gradients, base.gradients) <= tolerance
    assert furthest(new.weights, base.weights) <= tolerance


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", SMALL)
def test_a_policy_does_not_change_losses_gradients_or_weights(devices, model, policy):
    agree(trained(model, policy), trained(model, "none"), ONE_ROUNDING, 1e-4)


def test_adam_learns_the_same_from_offloaded_activations(devices):
    offload, none = trained("tiny", "offload", "adam"), trained("tiny", "none", "adam")
    agree(offload, none, ONE_ROUNDING, 1e-4)


@pytest.mark.parametrize("model", SMALL)
def test_several_devices_learn_what_one_learns(devices, model):
    sharded = trained(model, "offload", mesh="fsdp=2,expert=2,tensor=2")
    agree(sharded, trained(model, "offload"), SOME_ROUNDINGS, 1e-3)


@pytest.mark.parametrize("model", SMALL)
def test_the_loss_falls(devices, model):
    losses = trained(model, "offload").losses
    assert losses[0] == pytest.approx(np.log(VOCAB), abs=0.1)  # nothing is known yet
    assert FLOOR_NATS < np.mean(losses[-5:]) < losses[0] - 0.8


@pytest.mark.parametrize("model", SMALL)
def test_the_tolerance_would_catch_a_backward_pass_that_loads_another_layer(devices, model):
    # layers of a stack:  [0  1]  ->  [1  0]
    gradients = trained(model, "none").gradients
    stacked = [g for g in gradients if g.shape[0] == SMALL[model].layers]
    assert len(stacked) >= 9
    assert min(apart(g[::-1], g) for g in stacked) > 10 * SOME_ROUNDINGS
