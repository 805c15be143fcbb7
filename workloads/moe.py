"""A mixture of experts with static shapes: every sequence has some places in every expert.

::

    tokens [s, d]  --spread-->  places [experts * capacity, d]  --experts-->  the same
                   <--collect-- each token's rows, weighted and summed

A token that finds its expert full is dropped there. Both ways are gathers, and so are their
gradients: `slot` (where a token's n-th choice went) and `source` (which choice sits at a place)
are inverse to each other, so each way's gradient is the other way.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workloads.config import Config, Experts
from workloads.layers import Setting, mlp
from workloads.weights import Moe

__all__ = ["Places", "choose", "collect", "mixture", "places", "spread"]


def mixture(x: jax.Array, p: Moe[jax.Array], config: Config, setting: Setting) -> jax.Array:
    """Send tokens to shared and routed experts, ``[b, s, d]`` to the same."""
    assert config.experts is not None
    experts = config.experts
    chosen, weight = choose(x, p.router, experts)
    capacity = experts.capacity(x.shape[1])
    to = jax.vmap(lambda choice: places(choice, experts.count, capacity))(chosen)
    with jax.named_scope("dispatch"):
        at_places = jax.vmap(spread)(x, to.slot, to.source)
        at_places = at_places.reshape(x.shape[0], experts.count, capacity, x.shape[-1])
        at_places = setting.place(at_places, "batch", None, None, None)
        at_places = setting.place(at_places, "groups", "experts", None, None)
        at_places = checkpoint_name(at_places, "moe_dispatch")
    with jax.named_scope("experts"):
        out = _experts(at_places, p)
    with jax.named_scope("combine"):
        out = setting.place(out, "groups", "experts", None, None)
        out = checkpoint_name(setting.place(out, "batch", None, None, None), "mlp_down")
        out = out.reshape(x.shape[0], -1, x.shape[-1])
        rows = jax.vmap(collect)(out, to.slot, to.source)
        routed = jnp.sum(rows.astype(jnp.float32) * weight[..., None], axis=2).astype(x.dtype)
    with jax.named_scope("shared"):
        return routed + mlp(x, p.shared)


def choose(x: jax.Array, router: jax.Array, experts: Experts) -> tuple[jax.Array, jax.Array]:
    """Experts of each token, int32 ``[b, s, active]``, and their weights, float32.

    A token's score for each expert is a sigmoid. Only experts of the best groups can be chosen, a
    group being as good as its two best experts together. Scores of the chosen are scaled to a
    sum of `Experts.scale`.
    """
    scores = jax.nn.sigmoid(jnp.einsum("bsd,de->bse", x.astype(jnp.float32), router))
    _, chosen = jax.lax.top_k(_within_best_groups(scores, experts), experts.active)
    # Saved with the tokens: a choice made again from rounded values could differ from theirs.
    chosen = checkpoint_name(chosen, "moe_dispatch")
    taken = jnp.take_along_axis(scores, chosen, axis=-1)
    return chosen, taken / taken.sum(axis=-1, keepdims=True) * experts.scale


def _within_best_groups(scores: jax.Array, experts: Experts) -> jax.Array:
    """Scores, with those outside the best groups at zero, below any sigmoid."""
    if experts.active_groups == experts.groups:
        return scores
    grouped = scores.reshape(*scores.shape[:2], experts.groups, -1)
    quality = jax.lax.top_k(grouped, 2)[0].sum(axis=-1)
    best = jax.lax.top_k(quality, experts.active_groups)[1]
    allowed = (best[..., None] == jnp.arange(experts.groups)[None, None, None]).any(axis=-2)
    return jnp.where(allowed[..., None], grouped, 0).reshape(scores.shape)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Places:
    """Who sits where, for one sequence; an index that is out of range means nobody, nowhere."""

    slot: jax.Array  # [s, active] int32: place of each choice
    source: jax.Array  # [experts * capacity] int32: the choice at each place, token major


def places(chosen: jax.Array, count: int, capacity: int) -> Places:
    """Give places to the choices ``[s, active]`` of one sequence, earlier tokens first."""
    choices = chosen.reshape(-1)
    hot = (choices[:, None] == jnp.arange(count)[None]).astype(jnp.int32)
    before = jnp.sum((jnp.cumsum(hot, axis=0) - hot) * hot, axis=1)
    slot = jnp.where(before < capacity, choices * capacity + before, count * capacity)
    nobody = jnp.full(count * capacity, len(choices), jnp.int32)
    order = jnp.arange(len(choices), dtype=jnp.int32)
    source = nobody.at[slot].set(order, mode="drop", unique_indices=True)
    return Places(slot.reshape(chosen.shape), source)


@jax.custom_vjp
def spread(x: jax.Array, slot: jax.Array, source: jax.Array) -> jax.Array:
    """Put tokens ``[s, d]`` at their places ``[experts * capacity, d]``; empty ones are zero."""
    return _rows(x, source // slot.shape[1])


@jax.custom_vjp
def collect(rows: jax.Array, slot: jax.Array, source: jax.Array) -> jax.Array:
    """Bring the rows of places back to the tokens' choices, ``[s, active, d]``; dropped are 0."""
    return _rows(rows, slot)


def _rows(x: jax.Array, index: jax.Array) -> jax.Array:
    return x.at[index].get(mode="fill", fill_value=0)


_Inverse = tuple[jax.Array, jax.Array]


def _spread_forward(x: jax.Array, slot: jax.Array, source: jax.Array) -> tuple[jax.Array, _Inverse]:
    return spread(x, slot, source), (slot, source)


def _spread_backward(to: _Inverse, gradient: jax.Array) -> tuple[jax.Array, None, None]:
    rows = _rows(gradient, to[0]).astype(jnp.float32)
    return rows.sum(axis=1).astype(gradient.dtype), None, None


def _collect_forward(
    rows: jax.Array, slot: jax.Array, source: jax.Array
) -> tuple[jax.Array, _Inverse]:
    return collect(rows, slot, source), (slot, source)


def _collect_backward(to: _Inverse, gradient: jax.Array) -> tuple[jax.Array, None, None]:
    return _rows(gradient.reshape(-1, gradient.shape[-1]), to[1]), None, None


spread.defvjp(_spread_forward, _spread_backward)
collect.defvjp(_collect_forward, _collect_backward)


def _experts(x: jax.Array, p: Moe[jax.Array]) -> jax.Array:
    """SwiGLU of each expert on its own tokens, ``[b, experts, capacity, d]`` to the same."""
    gate = checkpoint_name(jnp.einsum("becd,edf->becf", x, p.gate), "mlp_gate")
    up = checkpoint_name(jnp.einsum("becd,edf->becf", x, p.up), "mlp_up")
    return jnp.einsum("becf,efd->becd", jax.nn.silu(gate) * up, p.down)
