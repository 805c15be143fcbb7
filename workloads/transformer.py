"""The decoder: embedding, layers under `jax.lax.scan`, and the loss of the next token."""

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workloads.attention import grouped_query_attention
from workloads.config import Config
from workloads.layers import Setting, mlp, rms_norm, rotations
from workloads.mla import latent_attention
from workloads.moe import mixture
from workloads.policies import Policy
from workloads.weights import Attention, Decoder, Layer, Mlp

__all__ = ["layer", "loss"]


def loss(
    p: Decoder[jax.Array],
    tokens: jax.Array,
    config: Config,
    setting: Setting,
    policy: Policy | None,
) -> jax.Array:
    """Mean cross-entropy of the next token in float32, for int32 tokens ``[b, s]``."""
    with jax.named_scope("embed"):
        x = _looked_up(p.embedding, tokens, setting)
    turns = rotations(config, tokens.shape[1])
    for stack in (p.dense, p.moe):
        if stack is not None:
            x = _layers(x, stack, turns, config, setting, policy)
    with jax.named_scope("loss"):
        x = rms_norm(x, p.norm, config.norm_eps)
        output = p.embedding.T if p.output is None else p.output
        logits = setting.place(jnp.einsum("bsd,dv->bsv", x, output), "batch", None, "vocab")
        return _cross_entropy(logits, tokens)


def _looked_up(table: jax.Array, tokens: jax.Array, setting: Setting) -> jax.Array:
    """Rows of the embedding, ``[b, s, d]``.

    Every device looks up its columns for all tokens, and an all-to-all gives it all columns for
    its own. Where the rows are split as well the partitioner has no such way, so the table is
    gathered like any other weight.
    """
    if "tensor" in setting.mesh.shape:
        table = setting.place(table, "vocab", None)
    return setting.place(table[tokens], "batch", None, None)


def _layers(
    x: jax.Array,
    stack: Layer[jax.Array],
    turns: jax.Array,
    config: Config,
    setting: Setting,
    policy: Policy | None,
) -> jax.Array:
    def body(x: jax.Array, p: Layer[jax.Array]) -> tuple[jax.Array, None]:
        return layer(x, p, turns, config, setting), None

    if policy is not None:
        # A loop's body needs no guard against common subexpressions: nothing is left to share.
        body = jax.checkpoint(body, policy=policy, prevent_cse=False)
    return jax.lax.scan(body, x, stack)[0]


def layer(
    x: jax.Array, p: Layer[jax.Array], turns: jax.Array, config: Config, setting: Setting
) -> jax.Array:
    """One decoder layer, ``[b, s, d]`` to the same."""
    x = checkpoint_name(setting.place(x, "batch", None, None), "layer_input")
    with jax.named_scope("attention"):
        h = rms_norm(x, p.attention_norm, config.norm_eps)
        if isinstance(p.attention, Attention):
            x = x + grouped_query_attention(h, p.attention, turns, setting)
        else:
            x = x + latent_attention(h, p.attention, turns, config, setting)
        x = setting.place(x, "batch", None, None)
    with jax.named_scope("mlp" if isinstance(p.mlp, Mlp) else "moe"):
        h = rms_norm(x, p.mlp_norm, config.norm_eps)
        x = x + (mlp(h, p.mlp) if isinstance(p.mlp, Mlp) else mixture(h, p.mlp, config, setting))
    return setting.place(x, "batch", None, None)


def _cross_entropy(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    """Mean over all tokens but each sequence's last, which has no next one."""
    wide = logits.astype(jnp.float32)
    targets = jnp.roll(tokens, -1, axis=1)[..., None]
    # A masked sum instead of a lookup, so that it can run where the vocabulary is split.
    is_target = jnp.arange(logits.shape[-1])[None, None] == targets
    hit = jnp.sum(jnp.where(is_target, wide, 0), axis=-1)
    lost = jax.nn.logsumexp(wide, axis=-1) - hit
    return jnp.mean(lost[:, :-1])
