"""Multiplications and additions of a train step, by formula."""

from dataclasses import dataclass

from workloads.config import Config

__all__ = ["Flops", "flops"]


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
