"""The parts that all models share: norm, rotary embedding, attention, MLP.

Letters stand for axes: ``b`` batch, ``s`` sequence, ``d`` embed, ``h`` heads, ``k`` width of a
head, ``f`` inner width of the MLP.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh

from workloads.config import Config, RopeScaling
from workloads.sharding import place
from workloads.weights import Mlp

__all__ = [
    "IMPLEMENTATIONS",
    "Implementation",
    "Setting",
    "attend",
    "mlp",
    "rms_norm",
    "rotate",
    "rotations",
]


Implementation = Literal["cudnn", "xla"]

IMPLEMENTATIONS: tuple[Implementation, ...] = ("cudnn", "xla")


@dataclass(frozen=True)
class Setting:
    """Where a model runs: its mesh, and ``cudnn`` or ``xla`` as implementation of attention."""

    mesh: Mesh
    attention: Implementation

    def place(self, x: jax.Array, *axes: str | None) -> jax.Array:
        """Lay an activation on the mesh by the names of its axes."""
        return place(x, self.mesh, *axes)


def rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Divide by the root mean square over the last axis, in float32; shape and type stay."""
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normed = wide * jax.lax.rsqrt(mean_square + eps)
    return (normed * jnp.expand_dims(scale, range(x.ndim - 1))).astype(x.dtype)


def rotations(config: Config, seq: int) -> jax.Array:
    """Cosines and sines of every position's rotations, float32 ``[2, seq, rotated / 2]``."""
    frequencies = config.rope_theta ** -(np.arange(0, config.rotated, 2) / config.rotated)
    if config.rope_scaling:
        frequencies = _stretched(frequencies, config.rope_scaling)
    angles = jnp.outer(jnp.arange(seq, dtype=jnp.float32), jnp.asarray(frequencies, jnp.float32))
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)])


def _stretched(frequencies: np.ndarray, scaling: RopeScaling) -> np.ndarray:
    """Slow down the rotations that never come round within the original length."""
    turns = scaling.original_seq * frequencies / (2 * np.pi)
    span = scaling.high_frequency - scaling.low_frequency
    kept = np.clip((turns - scaling.low_frequency) / span, 0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)


def rotate(x: jax.Array, rotations: jax.Array) -> jax.Array:
    """Rotate pairs by their position, in float32: ``[b, s, h, k]`` to the same.

    A pair is one value of the first half of a head and the one at the same place of the second.
    """
    cosine, sine = rotations[:, None, :, None, :]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def attend(query: jax.Array, key: jax.Array, value: jax.Array, setting: Setting) -> jax.Array:
    """Causal attention, ``[b, s, h, k]`` with one or more query heads for each key head.

    The three inputs and the output are named. Values may be narrower than keys: the public
    interface to cuDNN wants one width, so they are padded on the way there.
    """
    query = checkpoint_name(setting.place(query, "batch", None, "heads", None), "query")
    key = checkpoint_name(setting.place(key, "batch", None, "kv_heads", None), "key")
    value = checkpoint_name(setting.place(value, "batch", None, "kv_heads", None), "value")
    width = value.shape[-1]
    if width < key.shape[-1]:
        value = jnp.pad(value, ((0, 0), (0, 0), (0, 0), (0, key.shape[-1] - width)))
    out = jax.nn.dot_product_attention(
        query, key, value, is_causal=True, implementation=setting.attention
    )[..., :width]
    if setting.attention == "cudnn":
        return out  # policies know the call itself by the name of its output
    named: jax.Array = checkpoint_name(out, "attention_out")
    return named


def mlp(x: jax.Array, p: Mlp[jax.Array]) -> jax.Array:
    """SwiGLU, ``[b, s, d]`` to the same."""
    gate = checkpoint_name(jnp.einsum("bsd,df->bsf", x, p.gate), "mlp_gate")
    up = checkpoint_name(jnp.einsum("bsd,df->bsf", x, p.up), "mlp_up")
    return jnp.einsum("bsf,fd->bsd", jax.nn.silu(gate) * up, p.down)
