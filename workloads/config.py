"""Sizes of the models, as published, and of small ones for tests and demonstrations.

Nothing here needs JAX. Left out of DeepSeek-V3: the head that predicts a second token, the bias
that balances the experts, and the stretching of RoPE beyond the 4096 tokens of its pretraining.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from nsysoffload.errors import UsageError

__all__ = [
    "MODELS",
    "Config",
    "Experts",
    "LatentAttention",
    "Parameters",
    "RopeScaling",
    "model",
    "parameters",
]


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 stretches rotary embeddings: slow rotations by the factor, fast ones not."""

    factor: float = 8.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    original_seq: int = 8192


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in all but the first layers.

    Attributes
    ----------
    count, active : int
        Routed experts of a layer, and how many of them a token goes to.
    shared : int
        Experts that every token goes to.
    ffw : int
        Inner width of one expert.
    dense_layers : int
        First layers, which have an ordinary MLP.
    groups, active_groups : int
        Experts are chosen from the best groups only, which bounds the devices a token visits.
    scale : float
        Factor on the routing weights, which sum to one before.
    capacity_factor : float
        Places in an expert over the tokens it gets when all experts get the same. Tokens beyond
        are dropped by that expert.
    """

    count: int
    active: int
    shared: int
    ffw: int
    dense_layers: int
    groups: int = 1
    active_groups: int = 1
    scale: float = 1.0
    capacity_factor: float = 1.0

    def capacity(self, seq: int) -> int:
        """Places that one sequence has in each expert."""
        return min(seq, ceil(seq * self.active / self.count * self.capacity_factor))


@dataclass(frozen=True)
class LatentAttention:
    """Widths of multi-head latent attention: queries and keys have a part without and with RoPE."""

    query_rank: int
    key_value_rank: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True)
class Config:
    """Sizes of a decoder.

    Attributes
    ----------
    head : int
        Width of a query and key head; with latent attention, of both of its parts.
    ffw : int
        Inner width of the MLP of a dense layer.
    tied : bool
        Whether the output layer is the transposed embedding.
    batch : int
        Sequences for each device that the batch is sharded over, where none are asked for.
    seq : int
        Tokens of a sequence, where none are asked for.
    """

    name: str
    layers: int
    embed: int
    heads: int
    kv_heads: int
    head: int
    ffw: int
    vocab: int
    rope_theta: float = 500_000.0
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-5
    tied: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    batch: int = 1
    seq: int = 4096

    @property
    def dense_layers(self) -> int:
        """Layers with an ordinary MLP."""
        return min(self.experts.dense_layers, self.layers) if self.experts else self.layers

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers

    @property
    def rotated(self) -> int:
        """Width of the part of a head that RoPE rotates."""
        return self.latent.rope if self.latent else self.head

    @property
    def value_head(self) -> int:
        """Width of a value head."""
        return self.latent.value if self.latent else self.head


_LLAMA_8B = Config(
    name="llama3.1-8b",
    layers=32,
    embed=4096,
    heads=32,
    kv_heads=8,
    head=128,
    ffw=14336,
    vocab=128256,
    rope_scaling=RopeScaling(),
)

_DEEPSEEK_V3 = Config(
    name="deepseek-v3-671b",
    layers=61,
    embed=7168,
    heads=128,
    kv_heads=128,
    head=192,
    ffw=18432,
    vocab=129280,
    rope_theta=10_000.0,
    norm_eps=1e-6,
    experts=Experts(
        count=256,
        active=8,
        shared=1,
        ffw=2048,
        dense_layers=3,
        groups=8,
        active_groups=4,
        scale=2.5,
    ),
    latent=LatentAttention(query_rank=1536, key_value_rank=512, nope=128, rope=64, value=128),
)

_TINY = Config(
    name="tiny",
    layers=4,
    embed=128,
    heads=4,
    kv_heads=2,
    head=32,
    ffw=384,
    vocab=512,
    batch=4,
    seq=128,
)

_ALL = (
    _LLAMA_8B,
    replace(_LLAMA_8B, name="llama3.1-70b", layers=80, embed=8192, heads=64, ffw=28672),
    replace(_LLAMA_8B, name="llama3.1-405b", layers=126, embed=16384, heads=128, ffw=53248),
    replace(
        _LLAMA_8B,
        name="llama3.2-1b",
        layers=16,
        embed=2048,
        head=64,
        ffw=8192,
        rope_scaling=RopeScaling(factor=32.0),
        tied=True,
    ),
    _DEEPSEEK_V3,
    _TINY,
    replace(
        _TINY,
        name="tiny-moe",
        kv_heads=4,
        head=48,
        experts=Experts(
            count=8,
            active=2,
            shared=1,
            ffw=64,
            dense_layers=2,
            groups=4,
            active_groups=2,
            scale=2.5,
            capacity_factor=1.5,
        ),
        latent=LatentAttention(query_rank=64, key_value_rank=32, nope=32, rope=16, value=32),
    ),
)

MODELS: Mapping[str, Config] = MappingProxyType({config.name: config for config in _ALL})


def model(name: str, layers: int | None = None) -> Config:
    """Sizes of a model by its name, with another number of layers where one is given.

    Raises
    ------
    UsageError
        If there is no such model, or it would have no layers or more than it has.
    """
    if name not in MODELS:
        raise UsageError(f"There is no model '{name}'; choose one of {', '.join(MODELS)}.")
    if layers is None:
        return MODELS[name]
    if layers < 1:
        raise UsageError(f"A model needs a layer, not {layers}; ask for 1 or more.")
    if layers > MODELS[name].layers:
        most = MODELS[name].layers
        raise UsageError(f"{name} has {most} layers and can only be shrunk; ask for 1 to {most}.")
    return replace(MODELS[name], layers=layers)


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters.

    ``active`` are those that take part in the work on one token, the embedding included;
    ``embedding`` is the table that tokens are looked up in, which costs no multiplication.
    """

    total: int
    active: int
    embedding: int


def parameters(config: Config) -> Parameters:
    """Count the parameters of a model, norms included."""
    c = config
    embedding = c.vocab * c.embed
    ends = embedding + (0 if c.tied else embedding) + c.embed
    every_layer = c.layers * (_attention(c) + 2 * c.embed)
    dense = c.dense_layers * 3 * c.embed * c.ffw
    if c.experts is None:
        total = ends + every_layer + dense
        return Parameters(total, total, embedding)
    expert = 3 * c.embed * c.experts.ffw
    others = ends + every_layer + dense + c.moe_layers * c.embed * c.experts.count
    routed, shared = c.moe_layers * c.experts.count, c.moe_layers * c.experts.shared
    visited = c.moe_layers * c.experts.active
    return Parameters(
        total=others + (routed + shared) * expert,
        active=others + (visited + shared) * expert,
        embedding=embedding,
    )


def _attention(c: Config) -> int:
    if c.latent is None:
        return 2 * c.embed * (c.heads + c.kv_heads) * c.head
    a = c.latent
    query = c.embed * a.query_rank + a.query_rank + a.query_rank * c.heads * c.head
    latent = c.embed * (a.key_value_rank + a.rope) + a.key_value_rank
    key_value = a.key_value_rank * c.heads * (a.nope + a.value)
    return query + latent + key_value + c.heads * a.value * c.embed
