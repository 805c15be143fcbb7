"""Multiplications and additions of a train step, by formula."""

from dataclasses import dataclass

from workloads.config import Config

__all__ = ["Flops", "Published", "flops", "published_flops"]


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one step over all devices.

    Attributes
    ----------
    weights : int
        Products with weights, forward and backward: 6 per weight and token.
    attention : int
        Scores and their products with the values, causal half only: forward, and 2.5 times that
        backward, where a fused kernel makes the scores again.
    recompute : int
        What policy ``remat`` adds: the layers' forward pass, without the down projections of
        ordinary MLPs and shared experts, whose results no gradient needs.
    """

    weights: int
    attention: int
    recompute: int

    @property
    def model(self) -> int:
        """Operations without rematerialisation."""
        return self.weights + self.attention


def flops(config: Config, batch: int, seq: int) -> Flops:
    """Count the operations of a step.

    Parameters
    ----------
    config : Config
        The model.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.

    Notes
    -----
    Routed experts count with all their places, filled or not, for that is what is multiplied.
    Values narrower than keys count as padded to the keys' width, which the interface to cuDNN
    asks for. Norms, RoPE, softmax and the optimizer are left out.
    """
    c, tokens = config, batch * seq
    projections = 2 * tokens * c.layers * _projections(c)
    mlp, down = _mlp(c, batch, seq)
    logits = 2 * tokens * c.vocab * c.embed
    attention = 2 * batch * seq * seq * c.heads * c.head * c.layers
    return Flops(
        weights=3 * (projections + mlp + logits),
        attention=attention * 7 // 2,
        recompute=projections + mlp - down + attention,
    )


@dataclass(frozen=True)
class Published:
    """Operations of a step over all devices, as published figures in TFLOP/s/device count them.

    Attributes
    ----------
    weights : int
        Products with weights, forward and backward.
    attention : int
        Scores and their products with the values, causal half only, forward and backward.
    """

    weights: int
    attention: int

    @property
    def total(self) -> int:
        """Operations that are divided by the time of a step and the number of devices."""
        return self.weights + self.attention


def published_flops(config: Config, batch: int, seq: int) -> Published:
    """Count the operations of a step by the convention of MaxText's TFLOP/s/device.

    Parameters
    ----------
    config : Config
        The model.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.

    Notes
    -----
    That of ``calculate_tflops_training_per_device`` in MaxText's ``maxtext_utils.py``, as of
    revisions 020763f (``src/MaxText``) and 00902f3 (``src/maxtext/utils``), which count both models
    of the study alike:

    - Weights: 6 operations for each that a token meets, that is 3 times the forward pass: queries,
      keys, values and output of the attention (of latent attention each of its matrices), gate, up
      and down of the MLP, the output layer. Of experts the shared ones and those a token is routed
      to, without their capacity, and the router. The table that tokens are looked up in costs
      nothing, and neither do norms.
    - Attention: both products, keys and values with their own widths, 3 times the forward pass
      (`flops` counts 3.5 times: a fused kernel makes the scores again).
    - Half of the square of positions, for the causal mask. Earlier revisions counted all of it, as
      Megatron-LM once did: by them ``attention`` is twice as large.
    - What is recomputed counts for nothing, so that a step with rematerialisation has the same
      operations as one without, and so do the optimizer and everything that is no product.
    """
    c, tokens = config, batch * seq
    active = c.layers * _projections(c) + c.dense_layers * 3 * c.embed * c.ffw + c.vocab * c.embed
    if c.experts:
        e = c.experts
        met = (e.active + e.shared) * 3 * c.embed * e.ffw
        active += c.moe_layers * (met + c.embed * e.count)
    attention = batch * seq * seq * c.heads * (c.head + c.value_head) * c.layers
    return Published(weights=6 * tokens * active, attention=3 * attention)


def _projections(c: Config) -> int:
    """Weights of a layer's attention, without norms."""
    if c.latent is None:
        return 2 * c.embed * (c.heads + c.kv_heads) * c.head
    a = c.latent
    query = a.query_rank * (c.embed + c.heads * c.head)
    latent = c.embed * (a.key_value_rank + a.rope)
    key_value = a.key_value_rank * c.heads * (a.nope + a.value)
    return query + latent + key_value + c.heads * a.value * c.embed


def _mlp(c: Config, batch: int, seq: int) -> tuple[int, int]:
    """Forward operations of all MLPs, routers and experts, and those a recompute leaves out."""
    tokens = batch * seq
    dense = 2 * tokens * c.dense_layers * 3 * c.embed * c.ffw
    if c.experts is None:
        return dense, dense // 3
    e, matrix = c.experts, c.embed * c.experts.ffw
    shared = 2 * tokens * c.moe_layers * e.shared * 3 * matrix
    routed = 2 * batch * e.count * e.capacity(seq) * c.moe_layers * 3 * matrix
    router = 2 * tokens * c.moe_layers * c.embed * e.count
    return dense + shared + routed + router, (dense + shared) // 3
