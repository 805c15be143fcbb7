from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workloads.config import MODELS, Experts
from workloads.layers import Setting, mlp
from workloads.moe import choose, collect, mixture, places, spread
from workloads.sharding import make_mesh
from workloads.weights import Mlp, Moe

EXPERTS = Experts(
    count=8, active=2, shared=1, ffw=5, dense_layers=0, groups=4, active_groups=2, scale=2.5
)


def noise(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def test_experts_are_chosen_from_the_best_groups_only():
    #            group 0     group 1     group 2     group 3
    scores = [[[0.9, 0.1], [0.6, 0.6], [0.8, 0.7], [0.1, 0.4]]]
    # sums      1.0          1.2         1.5         0.5: expert 0, the best of all, is out
    logits = jax.scipy.special.logit(jnp.array(scores).reshape(1, 1, 8))
    chosen, weight = choose(logits, jnp.eye(8), EXPERTS)
    assert chosen.tolist() == [[[4, 5]]]
    np.testing.assert_allclose(weight, [[[0.8 / 1.5 * 2.5, 0.7 / 1.5 * 2.5]]], rtol=1e-5)


def test_choices_agree_with_sorting_by_hand():
    x, router = noise(0, 2, 7, 6), noise(1, 6, 8)
    chosen, weight = choose(x, router, EXPERTS)
    scores = 1 / (1 + np.exp(-np.asarray(x) @ np.asarray(router)))
    for b, s in np.ndindex(2, 7):
        groups = scores[b, s].reshape(4, 2)
        best = np.argsort(-groups.sum(axis=1))[:2]
        allowed = [2 * group + i for group in best for i in (0, 1)]
        top = sorted(allowed, key=lambda expert: -scores[b, s, expert])[:2]
        assert chosen[b, s].tolist() == top
        taken = scores[b, s, top]
        np.testing.assert_allclose(weight[b, s], taken / taken.sum() * 2.5, rtol=1e-4)


def test_places_are_given_to_earlier_tokens_first():
    # three experts with two places each; the third choice of expert 0 finds it full
    #   token    0     1     2
    #   choices  0 2   0 1   0 2
    to = places(jnp.array([[0, 2], [0, 1], [0, 2]]), count=3, capacity=2)
    nowhere, nobody = 6, 6
    assert to.slot.tolist() == [[0, 4], [1, 2], [nowhere, 5]]
    assert to.source.tolist() == [0, 2, 3, nobody, 1, 5]


def test_tokens_come_back_from_their_places_and_dropped_ones_as_zero():
    to = places(jnp.array([[0, 2], [0, 1], [0, 2]]), count=3, capacity=2)
    x = jnp.array([[1.0], [2.0], [3.0]])
    at_places = spread(x, to.slot, to.source)
    assert at_places[:, 0].tolist() == [1, 2, 2, 0, 1, 3]
    back = collect(at_places, to.slot, to.source)
    assert back[..., 0].tolist() == [[1, 1], [2, 2], [0, 3]]


def test_each_way_is_the_gradient_of_the_other():
    to = places(jnp.array([[0, 2], [0, 1], [0, 2], [1, 2]]), count=3, capacity=2)
    x, rows = noise(0, 4, 3), noise(1, 6, 3)
    choice = jax.nn.one_hot(to.slot.reshape(-1), 6).T  # [places, choices]: linear algebra instead
    token = choice.reshape(6, 4, 2).sum(axis=-1)
    gradient = jax.vjp(lambda x: spread(x, to.slot, to.source), x)[1](rows)[0]
    np.testing.assert_allclose(gradient, token.T @ rows, rtol=1e-6)
    back = noise(2, 4, 2, 3)
    gradient = jax.vjp(lambda rows: collect(rows, to.slot, to.source), rows)[1](back)[0]
    np.testing.assert_allclose(gradient, choice @ back.reshape(8, 3), rtol=1e-6)


@pytest.fixture
def setting(devices):
    return Setting(make_mesh(devices[:1], {}), "xla")


def mixture_of(capacity_factor, setting):
    experts = replace(EXPERTS, capacity_factor=capacity_factor)
    config = replace(MODELS["tiny-moe"], experts=experts)
    p = Moe(
        router=noise(1, 6, 8),
        gate=noise(2, 8, 6, 5),
        up=noise(3, 8, 6, 5),
        down=noise(4, 8, 5, 6),
        shared=Mlp(noise(5, 6, 5), noise(6, 6, 5), noise(7, 5, 6)),
    )
    x = noise(0, 2, 7, 6)
    return x, p, mixture(x, p, config, setting)


@pytest.mark.parametrize("factor", [8.0, 0.6], ids=["room for all", "some dropped"])
def test_a_mixture_sums_the_weighted_experts_that_had_room(setting, factor):
    x, p, got = mixture_of(factor, setting)
    chosen, weight = choose(x, p.router, EXPERTS)
    capacity = replace(EXPERTS, capacity_factor=factor).capacity(7)
    expected, dropped = np.array(mlp(x, p.shared)), 0
    for b in range(2):
        filled = np.zeros(8, int)
        for s, n in np.ndindex(7, 2):
            e = int(chosen[b, s, n])
            filled[e] += 1
            if filled[e] > capacity:
                dropped += 1
                continue
            hidden = jax.nn.silu(x[b, s] @ p.gate[e]) * (x[b, s] @ p.up[e])
            expected[b, s] += weight[b, s, n] * np.asarray(hidden @ p.down[e])
    assert (dropped > 0) == (factor < 1)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
