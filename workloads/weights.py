"""The weights of a decoder: frozen dataclasses whose leaves are arrays, or what describes them.

The same class holds arrays, shapes, shardings or gradients, so one description, `weights`,
decides shape, element type, axes and initial values of all of them.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from workloads.config import Config

__all__ = [
    "Attention",
    "Decoder",
    "Latent",
    "Layer",
    "Mlp",
    "Moe",
    "Weight",
    "initial",
    "weights",
]

_STD = 0.02  # of initial weights, as in GPT-2 and Llama


@dataclass(frozen=True)
class Weight:
    """One weight: its axes by name, their lengths, and its element type.

    Vectors are the scales of norms and begin as ones, the rest begins as normal noise.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: DTypeLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Attention[T]:
    """Grouped-query attention."""

    query: T  # [embed, heads, head]
    key: T  # [embed, kv_heads, head]
    value: T  # [embed, kv_heads, head]
    out: T  # [heads, head, embed]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Latent[T]:
    """Multi-head latent attention: down to a few latent values, up to the heads."""

    query_down: T  # [embed, query_rank]
    query_norm: T  # [query_rank]
    query_up: T  # [query_rank, heads, head]
    key_value_down: T  # [embed, latent]: key_value_rank, then the keys' RoPE part
    key_value_norm: T  # [key_value_rank]
    key_value_up: T  # [key_value_rank, heads, nope_value]: keys without RoPE, then values
    out: T  # [heads, value, embed]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mlp[T]:
    """SwiGLU."""

    gate: T  # [embed, ffw]
    up: T  # [embed, ffw]
    down: T  # [ffw, embed]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moe[T]:
    """A router, routed experts, and what every token passes."""

    router: T  # [embed, choices]
    gate: T  # [experts, embed, ffw]
    up: T  # [experts, embed, ffw]
    down: T  # [experts, ffw, embed]
    shared: Mlp[T]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer[T]:
    """One decoder layer; arrays of a stack of layers have the axis ``layers`` in front."""

    attention_norm: T  # [embed]
    attention: Attention[T] | Latent[T]
    mlp_norm: T  # [embed]
    mlp: Mlp[T] | Moe[T]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Decoder[T]:
    """All weights of a model; a stack without layers, and a tied output, are None."""

    embedding: T  # [vocab, embed]
    dense: Layer[T] | None
    moe: Layer[T] | None
    norm: T  # [embed]
    output: T | None  # [embed, vocab]


def weights(config: Config) -> Decoder[Weight]:
    """Describe the weights of a model.

    Matrices are bf16. Norms and the router, whose small differences decide, are float32.
    """
    c = config
    ends = {"vocab": c.vocab, "embed": c.embed}
    return Decoder(
        embedding=_weight("vocab embed", ends),
        dense=_stack(c, c.dense_layers, moe=False) if c.dense_layers else None,
        moe=_stack(c, c.moe_layers, moe=True) if c.moe_layers else None,
        norm=_weight("embed", ends, jnp.float32),
        output=None if c.tied else _weight("embed vocab", ends),
    )


def initial(weight: Weight, key: jax.Array) -> jax.Array:
    """Return the values that a weight begins with."""
    if len(weight.axes) - ("layers" in weight.axes) == 1:
        return jnp.ones(weight.shape, weight.dtype)
    return _STD * jax.random.normal(key, weight.shape, weight.dtype)


def _weight(axes: str, lengths: dict[str, int], dtype: DTypeLike = jnp.bfloat16) -> Weight:
    named = tuple(axes.split())
    return Weight(named, tuple(lengths[axis] for axis in named), dtype)


def _stack(c: Config, layers: int, *, moe: bool) -> Layer[Weight]:
    lengths = {
        "layers": layers,
        "embed": c.embed,
        "heads": c.heads,
        "kv_heads": c.kv_heads,
        "head": c.head,
        "ffw": c.ffw,
    }
    return Layer(
        attention_norm=_weight("layers embed", lengths, jnp.float32),
        attention=_latent(c, lengths) if c.latent else _attention(lengths),
        mlp_norm=_weight("layers embed", lengths, jnp.float32),
        mlp=_moe(c, lengths) if moe else _mlp(lengths),
    )


def _attention(lengths: dict[str, int]) -> Attention[Weight]:
    return Attention(
        query=_weight("layers embed heads head", lengths),
        key=_weight("layers embed kv_heads head", lengths),
        value=_weight("layers embed kv_heads head", lengths),
        out=_weight("layers heads head embed", lengths),
    )


def _latent(c: Config, lengths: dict[str, int]) -> Latent[Weight]:
    assert c.latent is not None
    a = c.latent
    lengths = lengths | {
        "query_rank": a.query_rank,
        "latent": a.key_value_rank + a.rope,
        "key_value_rank": a.key_value_rank,
        "nope_value": a.nope + a.value,
        "value": a.value,
    }
    return Latent(
        query_down=_weight("layers embed query_rank", lengths),
        query_norm=_weight("layers query_rank", lengths, jnp.float32),
        query_up=_weight("layers query_rank heads head", lengths),
        key_value_down=_weight("layers embed latent", lengths),
        key_value_norm=_weight("layers key_value_rank", lengths, jnp.float32),
        key_value_up=_weight("layers key_value_rank heads nope_value", lengths),
        out=_weight("layers heads value embed", lengths),
    )


def _mlp(lengths: dict[str, int]) -> Mlp[Weight]:
    return Mlp(
        gate=_weight("layers embed ffw", lengths),
        up=_weight("layers embed ffw", lengths),
        down=_weight("layers ffw embed", lengths),
    )


def _moe(c: Config, lengths: dict[str, int]) -> Moe[Weight]:
    assert c.experts is not None
    count, ffw = c.experts.count, c.experts.ffw
    lengths = lengths | {"experts": count, "choices": count, "ffw": ffw}
    return Moe(
        router=_weight("layers embed choices", lengths, jnp.float32),
        gate=_weight("layers experts embed ffw", lengths),
        up=_weight("layers experts embed ffw", lengths),
        down=_weight("layers experts ffw embed", lengths),
        shared=_mlp(lengths | {"ffw": ffw * c.experts.shared}),
    )
