from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workloads.attention import grouped_query_attention
from workloads.config import MODELS, RopeScaling
from workloads.layers import Setting, attend, mlp, rms_norm, rotate, rotations
from workloads.mla import latent_attention
from workloads.sharding import make_mesh
from workloads.weights import Attention, Latent, Mlp

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture
def setting(devices):
    return Setting(make_mesh(devices[:1], {}), "xla")


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_rms_norm_divides_by_the_root_mean_square():
    # 3, 4: mean square 12.5
    out = rms_norm(jnp.array([[3.0, 4.0]]), jnp.array([1.0, 10.0]), eps=0.0)
    np.testing.assert_allclose(out, [[3 / 12.5**0.5, 40 / 12.5**0.5]], rtol=1e-6)


def test_rms_norm_works_in_float32_and_returns_the_type_it_was_given():
    x = jnp.full((1, 4096), 300.0, jnp.bfloat16)  # squares and their sum beyond bf16's precision
    out = rms_norm(x, jnp.ones(4096), eps=1e-5)
    assert out.dtype == jnp.bfloat16
    assert float(jnp.abs(out - 1).max()) == 0


def test_rotation_is_a_product_of_complex_numbers():
    config = replace(MODELS["tiny"], head=8, rope_theta=100.0)
    x = noise(0, 1, 5, 2, 8)
    pairs = x[..., :4] + 1j * x[..., 4:]
    angle = np.arange(5)[:, None] * 100.0 ** (-np.arange(4) / 4)
    turned = pairs * np.exp(1j * angle)[None, :, None]
    out = rotate(jnp.asarray(x), rotations(config, 5))
    np.testing.assert_allclose(out, np.concatenate([turned.real, turned.imag], -1), **CLOSE)


def test_stretched_rotations_keep_the_fast_and_slow_down_the_slow():
    plain = replace(MODELS["llama3.1-8b"], rope_scaling=None)
    stretched = replace(plain, rope_scaling=RopeScaling(factor=8.0))
    angle, slower = (np.arctan2(*rotations(c, 2)[::-1, 1]) for c in (plain, stretched))
    turns = 8192 * angle / (2 * np.pi)
    np.testing.assert_allclose(slower[turns > 4], angle[turns > 4], rtol=1e-5)
    np.testing.assert_allclose(slower[turns < 1], angle[turns < 1] / 8, rtol=1e-5)
    between = (turns > 1) & (turns < 4)
    share = (turns[between] - 1) / 3
    expected = angle[between] * (share + (1 - share) / 8)
    assert between.any()
    np.testing.assert_allclose(slower[between], expected, rtol=1e-4)


def attention_by_loops(query, key, value):
    out = np.zeros((*query.shape[:3], value.shape[-1]))
    group = query.shape[2] // key.shape[2]
    for b, t, h in np.ndindex(*query.shape[:3]):
        scores = key[b, : t + 1, h // group] @ query[b, t, h] / query.shape[-1] ** 0.5
        share = np.exp(scores - scores.max())
        out[b, t, h] = share / share.sum() @ value[b, : t + 1, h // group]
    return out


@pytest.mark.parametrize("value_width", [8, 4], ids=["equal", "narrow values"])
def test_attention_is_causal_and_query_heads_share_keys(setting, value_width):
    query, key, value = noise(1, 2, 6, 4, 8), noise(2, 2, 6, 2, 8), noise(3, 2, 6, 2, value_width)
    out = attend(jnp.asarray(query), jnp.asarray(key), jnp.asarray(value), setting)
    np.testing.assert_allclose(out, attention_by_loops(query, key, value), **CLOSE)


def test_grouped_query_attention_projects_rotates_and_attends(setting):
    config = replace(MODELS["tiny"], embed=12, head=4)
    turns = rotations(config, 5)
    x, out = noise(0, 1, 5, 12), noise(4, 4, 4, 12)
    p = [noise(1, 12, 4, 4), noise(2, 12, 2, 4), noise(3, 12, 2, 4)]
    query, key, value = (np.einsum("bsd,dhk->bshk", x, weight) for weight in p)
    attended = attention_by_loops(rotate(query, turns), rotate(key, turns), value)
    expected = np.einsum("bshk,hkd->bsd", attended, out)
    weights = Attention(*map(jnp.asarray, (*p, out)))
    got = grouped_query_attention(jnp.asarray(x), weights, turns, setting)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_latent_attention_shares_one_rotated_key_part_between_heads(setting):
    base = MODELS["tiny-moe"]
    latent = replace(base.latent, query_rank=6, key_value_rank=5, nope=4, rope=2, value=3)
    config = replace(base, embed=8, heads=2, kv_heads=2, head=6, latent=latent)
    turns = rotations(config, 4)
    x = noise(0, 1, 4, 8)
    p = Latent(
        query_down=noise(1, 8, 6),
        query_norm=noise(2, 6),
        query_up=noise(3, 6, 2, 6),
        key_value_down=noise(4, 8, 5 + 2),
        key_value_norm=noise(5, 5),
        key_value_up=noise(6, 5, 2, 4 + 3),
        out=noise(7, 2, 3, 8),
    )

    def normed(values, scale):
        return values / np.sqrt((values**2).mean(-1, keepdims=True) + config.norm_eps) * scale

    query = np.einsum("bsr,rhk->bshk", normed(x @ p.query_down, p.query_norm), p.query_up)
    query = np.concatenate([query[..., :4], rotate(query[..., 4:], turns)], -1)
    down = x @ p.key_value_down
    up = np.einsum("bsr,rhk->bshk", normed(down[..., :5], p.key_value_norm), p.key_value_up)
    position = np.asarray(rotate(down[:, :, None, 5:], turns))
    key = np.concatenate([up[..., :4], np.repeat(position, 2, axis=2)], -1)
    expected = np.einsum("bshk,hkd->bsd", attention_by_loops(query, key, up[..., 4:]), p.out)
    got = latent_attention(jnp.asarray(x), jax.tree.map(jnp.asarray, p), turns, config, setting)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_the_mlp_gates_with_silu():
    x, gate, up, down = noise(0, 1, 3, 4), noise(1, 4, 5), noise(2, 4, 5), noise(3, 5, 4)
    gated = x @ gate
    expected = (gated / (1 + np.exp(-gated)) * (x @ up)) @ down
    got = mlp(jnp.asarray(x), Mlp(*map(jnp.asarray, (gate, up, down))))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
