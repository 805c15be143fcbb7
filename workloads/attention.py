"""Grouped-query attention: several query heads share a key and a value head."""

import jax
import jax.numpy as jnp

from workloads.layers import Setting, attend, rotate
from workloads.weights import Attention

__all__ = ["grouped_query_attention"]


def grouped_query_attention(
    x: jax.Array, p: Attention[jax.Array], rotations: jax.Array, setting: Setting
) -> jax.Array:
    """Attention with rotary embedding, ``[b, s, d]`` to the same."""
    query = rotate(jnp.einsum("bsd,dhk->bshk", x, p.query), rotations)
    key = rotate(jnp.einsum("bsd,dhk->bshk", x, p.key), rotations)
    value = jnp.einsum("bsd,dhk->bshk", x, p.value)
    out = attend(query, key, value, setting)
    return jnp.einsum("bshk,hkd->bsd", out, p.out)
