"""The values of a layer that a policy can keep, offload or recompute, and their sizes.

A name stands for what the backward pass needs at that place. The output of an ordinary MLP has
none: the layer's output is the next layer's input, and no gradient needs the MLP's share of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from workloads.config import Config
from workloads.sharding import RULES

__all__ = ["NAMES", "NamedBytes", "named_bytes", "names", "parts"]

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "layer_input": "the residual stream at the layer's start",
        "query": "the queries as the attention gets them, after RoPE",
        "key": "the keys, likewise",
        "value": "the values",
        "attention_out": "the attention's output and, with cuDNN, its softmax statistics",
        "mlp_gate": "the product with the gate weights: of the MLP, of routed and shared experts",
        "mlp_up": "the product with the up weights, likewise",
        "moe_dispatch": "the tokens at their experts, and which experts were chosen",
        "mlp_down": "the outputs of the routed experts, back at their tokens",
    }
)

_SPLIT_BY_TENSOR = {"query", "key", "value", "attention_out", "mlp_gate", "mlp_up"}
_MOE_ONLY = {"moe_dispatch", "mlp_down"}
_BF16 = 2
_32_BITS = 4


def names(config: Config) -> tuple[str, ...]:
    """Names that a model has, in the order of the forward pass."""
    return tuple(name for name in NAMES if config.moe_layers or name not in _MOE_ONLY)


@dataclass(frozen=True)
class NamedBytes:
    """Size of the values of one name, in bytes over all devices, in one layer of each kind."""

    dense_layer: int
    moe_layer: int
    dense_layers: int
    moe_layers: int

    @property
    def total(self) -> int:
        """Bytes over all layers."""
        return self.dense_layer * self.dense_layers + self.moe_layer * self.moe_layers


def named_bytes(
    config: Config, batch: int, seq: int, *, attention: str = "cudnn"
) -> dict[str, NamedBytes]:
    """Sizes of the named values of a train step.

    Parameters
    ----------
    config : Config
        The model.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.
    attention : str
        ``cudnn`` or ``xla``. The former leaves softmax statistics in 32 bits, one per head and
        token, and gives values and outputs the width of the keys.

    Returns
    -------
    dict of str to NamedBytes
        One entry per name of the model.

    Notes
    -----
    A single layer of a kind is no loop, and XLA leaves what should be offloaded on the device.
    """
    c = config
    tokens = batch * seq
    head_out = c.heads * (
        c.head * _BF16 + _32_BITS if attention == "cudnn" else c.value_head * _BF16
    )
    per_token = {
        "layer_input": c.embed * _BF16,
        "query": c.heads * c.head * _BF16,
        "key": c.kv_heads * c.head * _BF16,
        "value": c.kv_heads * c.value_head * _BF16,
        "attention_out": head_out,
    }
    both = {name: (tokens * size, tokens * size) for name, size in per_token.items()}
    inner = tokens * c.ffw * _BF16
    mlp = {name: (inner, _expert_inner(c, batch, seq)) for name in ("mlp_gate", "mlp_up")}
    sizes = {**both, **mlp, **_routing(c, batch, seq)}
    return {
        name: NamedBytes(*sizes[name], dense_layers=c.dense_layers, moe_layers=c.moe_layers)
        for name in names(c)
    }


def parts(name: str, axes: Mapping[str, int]) -> int:
    """Devices of a mesh that a name's values are split over.

    They are split as their axes are: all by the batch, those with heads or an MLP's inner width by
    ``tensor`` as well.

    Parameters
    ----------
    name : str
        The name.
    axes : mapping of str to int
        Lengths of the mesh's axes.
    """
    over = (*RULES["batch"], "tensor") if name in _SPLIT_BY_TENSOR else RULES["batch"]
    return prod(axes.get(axis, 1) for axis in over)


def _expert_inner(c: Config, batch: int, seq: int) -> int:
    if c.experts is None:
        return 0
    places = c.experts.count * c.experts.capacity(seq) + c.experts.shared * seq
    return batch * places * c.experts.ffw * _BF16


def _routing(c: Config, batch: int, seq: int) -> dict[str, tuple[int, int]]:
    if c.experts is None:
        return {}
    places = batch * c.experts.count * c.experts.capacity(seq) * c.embed * _BF16
    chosen = batch * seq * c.experts.active * _32_BITS
    return {"moe_dispatch": (0, places + chosen), "mlp_down": (0, places)}
