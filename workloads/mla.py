"""Multi-head latent attention: queries, keys and values come from a few latent values.

In training the heads are expanded and attend as usual. The keys' RoPE part is one for all heads.
"""

import jax
import jax.numpy as jnp

from workloads.config import Config
from workloads.layers import Setting, attend, rms_norm, rotate
from workloads.weights import Latent

__all__ = ["latent_attention"]


def latent_attention(
    x: jax.Array, p: Latent[jax.Array], rotations: jax.Array, config: Config, setting: Setting
) -> jax.Array:
    """Attention over latent values, ``[b, s, d]`` to the same."""
    assert config.latent is not None
    rank, nope = config.latent.key_value_rank, config.latent.nope
    out = attend(
        _queries(x, p, rotations, nope, config.norm_eps),
        *_keys_values(x, p, rotations, rank, nope, config.norm_eps),
        setting,
    )
    return jnp.einsum("bshk,hkd->bsd", out, p.out)


def _queries(
    x: jax.Array, p: Latent[jax.Array], rotations: jax.Array, nope: int, eps: float
) -> jax.Array:
    latent = rms_norm(jnp.einsum("bsd,dr->bsr", x, p.query_down), p.query_norm, eps)
    query = jnp.einsum("bsr,rhk->bshk", latent, p.query_up)
    return jnp.concatenate([query[..., :nope], rotate(query[..., nope:], rotations)], axis=-1)


def _keys_values(
    x: jax.Array, p: Latent[jax.Array], rotations: jax.Array, rank: int, nope: int, eps: float
) -> tuple[jax.Array, jax.Array]:
    down = jnp.einsum("bsd,dr->bsr", x, p.key_value_down)
    latent = rms_norm(down[..., :rank], p.key_value_norm, eps)
    up = jnp.einsum("bsr,rhk->bshk", latent, p.key_value_up)
    rotated = rotate(down[:, :, None, rank:], rotations)
    rotated = jnp.broadcast_to(rotated, (*up.shape[:3], rotated.shape[-1]))
    return jnp.concatenate([up[..., :nope], rotated], axis=-1), up[..., nope:]
