"""Optimizers that keep float32 weights beside the bf16 ones the model computes with.

The state is the float32 weights and the moments, 12 bytes per weight for Adam and 8 for SGD. It
is touched once a step, which makes it the other thing worth keeping in host memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from nsysoffload.errors import UsageError
from workloads.weights import Decoder

__all__ = ["OPTIMIZERS", "OptimizerState", "initial_state", "optimizer", "shardings", "update"]

OPTIMIZERS: Mapping[str, optax.GradientTransformation] = MappingProxyType(
    {
        "adam": optax.adam(3e-4, b1=0.9, b2=0.95),
        "sgd": optax.sgd(1e-2, momentum=0.9),
    }
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OptimizerState:
    """Float32 weights and what optax keeps of past gradients, in float32 as well."""

    weights: Decoder[jax.Array]
    moments: optax.OptState


def optimizer(name: str) -> optax.GradientTransformation:
    """Optimizer by its name.

    Raises
    ------
    UsageError
        If there is no such optimizer.
    """
    if name not in OPTIMIZERS:
        raise UsageError(f"There is no optimizer '{name}'; choose one of {', '.join(OPTIMIZERS)}.")
    return OPTIMIZERS[name]


def initial_state(
    rule: optax.GradientTransformation, parameters: Decoder[jax.Array]
) -> OptimizerState:
    """State before the first step."""
    wide = _float32(parameters)
    return OptimizerState(wide, rule.init(wide))


def update(
    rule: optax.GradientTransformation,
    gradients: Decoder[jax.Array],
    state: OptimizerState,
    parameters: Decoder[jax.Array],
) -> tuple[Decoder[jax.Array], OptimizerState]:
    """Parameters and state after a step; the parameters given only tell their element types."""
    changes, moments = rule.update(_float32(gradients), state.moments, state.weights)
    wide = optax.apply_updates(state.weights, changes)
    narrow = jax.tree.map(lambda new, old: new.astype(old.dtype), wide, parameters)
    return narrow, OptimizerState(wide, moments)


def shardings(
    rule: optax.GradientTransformation,
    parameters: Decoder[jax.ShapeDtypeStruct],
    memory_kind: str | None,
) -> OptimizerState:
    """Sharding of every leaf of the state: that of its weight, in this memory.

    Scalars, such as the count of steps, stay in device memory.
    """
    own = jax.tree.map(lambda leaf: leaf.sharding.with_memory_kind(memory_kind), parameters)
    everywhere = NamedSharding(jax.tree.leaves(own)[0].mesh, PartitionSpec())
    state = jax.eval_shape(lambda p: initial_state(rule, p), parameters)
    moments = optax.tree_map_params(
        rule,
        lambda _, sharding: sharding,
        state.moments,
        own,
        transform_non_params=lambda _: everywhere,
    )
    return OptimizerState(own, moments)


def _float32(tree: Decoder[jax.Array]) -> Decoder[jax.Array]:
    wide: Decoder[jax.Array] = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)
    return wide
