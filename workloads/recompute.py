"""What the backward pass has to make again: floating-point operations by formula, for any names.

::

    layer_input -+-> query --+
                 +-> key ----+-> attention_out -> (attended) -+-> mlp_gate
                 +-> value --+                                +-> mlp_up

A value that the backward pass needs and does not find is made again from those before it, as far as
they have to be made themselves. Values in brackets have no name and can be found under no policy
that goes by names: the attention's output projection, the latent values of DeepSeek-V3's attention
and the router's scores are made again under each of them. Nothing here needs JAX.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.config import Config
from workloads.names import names
from workloads.placement import is_placement, placement

__all__ = ["Found", "recompute_flops", "recompute_under"]

Found = Mapping[str, NDArray[np.bool_] | bool]
"""Whether the backward pass finds a value, by its name; many policies at once as arrays."""


@dataclass(frozen=True)
class _Value:
    """A value of a layer, the operations that make it, and the values that they need.

    ``is_dot`` says that a matrix product with weights makes it, without batch dimensions, whose
    result the policies ``dots`` and ``offload-dots`` leave; ``alias`` is the name that it shares
    with another value.
    """

    name: str
    flops: int
    made_of: tuple[str, ...]
    is_needed: bool = True  # by a gradient, and not only to make other values
    is_dot: bool = True
    alias: str = ""


def recompute_flops(config: Config, batch: int, seq: int, found: Found) -> NDArray[np.object_]:
    """Operations that are run again in a step, over all devices, where names are kept or offloaded.

    Parameters
    ----------
    config : Config
        The model.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.
    found : mapping of str to bool or bool array
        Names whose values are kept or offloaded; what is missing is not. Arrays have one shape.

    Returns
    -------
    object array
        Of that shape: Python's integers, for a large batch of a large model is beyond 64 bits.

    Notes
    -----
    For cuDNN's attention, counted as in `workloads.flops`. Compiled programs run exactly that
    again, except in a stack of a single layer. That is no loop, and XLA merges what would be made
    again with the forward pass, so that it counts as nothing here. What is made of an offloaded
    value is not always merged, and XLA then runs more; also, a merged operation may bear the name
    of either.
    """

    def is_found(value: _Value) -> NDArray[np.bool_]:
        return np.asarray(found.get(value.name, found.get(value.alias, False)))

    return _all_layers(config, batch, seq, is_found)


def recompute_under(policy: str, config: Config, batch: int, seq: int) -> int:
    """Operations that a policy runs again in a step, over all devices.

    Parameters
    ----------
    policy : str
        See `workloads.policies`.
    config, batch, seq
        As for `recompute_flops`.

    Raises
    ------
    UsageError
        If the policy names a value that the model has not.
    """
    if policy == "none":
        return 0
    if policy in ("dots", "offload-dots"):
        return int(_all_layers(config, batch, seq, lambda value: np.asarray(value.is_dot)))
    found = names(config) if policy == "offload" else _named(policy, config)
    return int(recompute_flops(config, batch, seq, dict.fromkeys(found, True)))


def _named(policy: str, config: Config) -> Iterable[str]:
    return placement(policy, names(config)).found if is_placement(policy) else ()


def _all_layers(
    c: Config, batch: int, seq: int, is_found: Callable[[_Value], NDArray[np.bool_]]
) -> NDArray[np.object_]:
    stacks = [(_dense(c, batch, seq), c.dense_layers), (_moe(c, batch, seq), c.moe_layers)]
    flops = [layers * _flops(values, is_found) for values, layers in stacks if layers > 1]
    return np.asarray(sum(flops), np.object_)


def _flops(
    values: Sequence[_Value], is_found: Callable[[_Value], NDArray[np.bool_]]
) -> NDArray[np.object_]:
    """Operations of one layer: last values first, for they say which others they need."""
    wanted: dict[str, NDArray[np.bool_]] = {}
    total = np.zeros((), np.object_)
    for value in reversed(values):
        again = ~is_found(value) & (wanted.get(value.name, np.False_) | value.is_needed)
        for name in value.made_of:
            wanted[name] = wanted.get(name, np.False_) | again
        total = total + again.astype(np.object_) * value.flops
    return total


def _dense(c: Config, batch: int, seq: int) -> list[_Value]:
    matrix = 2 * batch * seq * c.embed * c.ffw
    return [
        *_attention(c, batch, seq),
        _Value("mlp_gate", matrix, ("attended",)),
        _Value("mlp_up", matrix, ("attended",)),
    ]


def _moe(c: Config, batch: int, seq: int) -> list[_Value]:
    if c.experts is None:
        return []
    e, tokens = c.experts, batch * seq
    routed = 2 * batch * e.count * e.capacity(seq) * c.embed * e.ffw
    shared = 2 * tokens * e.shared * c.embed * e.ffw
    return [
        *_attention(c, batch, seq),
        _Value("scores", 2 * tokens * c.embed * e.count, ("attended",)),
        _Value("moe_dispatch", 0, ("attended", "scores"), is_dot=False),
        _Value("mlp_gate", routed, ("moe_dispatch",), is_dot=False),
        _Value("mlp_up", routed, ("moe_dispatch",), is_dot=False),
        _Value("shared_gate", shared, ("attended",), alias="mlp_gate"),
        _Value("shared_up", shared, ("attended",), alias="mlp_up"),
        _Value("mlp_down", routed, ("mlp_gate", "mlp_up"), is_dot=False),
    ]


def _attention(c: Config, batch: int, seq: int) -> list[_Value]:
    tokens = batch * seq
    pairs = 2 * batch * seq * seq * c.heads * c.head  # the causal half of them
    out = 2 * tokens * c.heads * c.value_head * c.embed
    return [
        *(_latent(c, tokens) if c.latent else _grouped(c, tokens)),
        _Value("attention_out", pairs, ("query", "key", "value"), is_dot=False),
        _Value("attended", out, ("attention_out",)),
    ]


def _grouped(c: Config, tokens: int) -> list[_Value]:
    one = 2 * tokens * c.embed * c.head
    return [
        _Value("query", one * c.heads, ()),
        _Value("key", one * c.kv_heads, ()),
        _Value("value", one * c.kv_heads, ()),
    ]


def _latent(c: Config, tokens: int) -> list[_Value]:
    assert c.latent is not None
    a = c.latent
    up = 2 * tokens * a.key_value_rank * c.heads * (a.nope + a.value)
    return [
        _Value("query_latent", 2 * tokens * c.embed * a.query_rank, ()),
        _Value("query", 2 * tokens * a.query_rank * c.heads * c.head, ("query_latent",)),
        _Value("latent", 2 * tokens * c.embed * (a.key_value_rank + a.rope), ()),
        _Value("keys_values", up, ("latent",), is_needed=False),
        _Value("key", 0, ("keys_values", "latent"), is_dot=False),
        _Value("value", 0, ("keys_values",), is_dot=False),
    ]
