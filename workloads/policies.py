"""What a layer's forward pass leaves for its backward pass, and where: kept, offloaded, or not.

======================  ===========================================================
``none``                everything is kept: no rematerialisation
``remat``               nothing is kept: the backward pass runs the layer again
``dots``                results of matrix products with weights are kept
``offload``             all named values go to pinned host memory
``offload:NAME,NAME``   these do, the rest is rematerialised
``offload-dots``        results of matrix products with weights go to host memory
``save:NAME,NAME``      these are kept, the rest is rematerialised
======================  ===========================================================
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import jax
from jax.ad_checkpoint import Offloadable, Recompute, Saveable, name_p

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.versions import WRONG_GRADIENTS

__all__ = ["POLICIES", "Policy", "check_version", "is_offload", "policy"]

Policy = Callable[..., Any]
"""What ``jax.checkpoint`` takes: a primitive and its parameters to keep, offload or recompute."""

_HOST = Offloadable(src="device", dst="pinned_host")
_DOTS = jax.checkpoint_policies

# The call leaves its output and softmax statistics. Only together do they spare the backward
# pass a second run, and they have no name of their own, so policies find them by the primitive.
_CUDNN_ATTENTION = "dot_product_attention_fwd_wrapper"


def _named(chosen: Iterable[str], verdict: Any) -> Policy:
    chosen = frozenset(chosen)

    def decide(primitive: Any, *_: Any, **parameters: Any) -> Any:
        name = parameters["name"] if primitive is name_p else None
        if primitive.name == _CUDNN_ATTENTION:
            name = "attention_out"
        return verdict if name in chosen else Recompute

    return decide


POLICIES: Mapping[str, Callable[[Iterable[str]], Policy | None]] = MappingProxyType(
    {
        "none": lambda names: None,
        "remat": lambda names: _DOTS.nothing_saveable,
        "dots": lambda names: _DOTS.dots_with_no_batch_dims_saveable,
        "offload": lambda names: _named(names, _HOST),
        "offload-dots": lambda names: _DOTS.offload_dot_with_no_batch_dims("device", "pinned_host"),
        "save": lambda names: _named(names, Saveable),
    }
)
"""Policies by name, each made from the names it is about."""


def policy(text: str, names: Iterable[str]) -> Policy | None:
    """Policy that a text stands for.

    Parameters
    ----------
    text : str
        As in the table of this module.
    names : iterable of str
        The names that the model has.

    Returns
    -------
    Policy or None
        For ``jax.checkpoint``; None where it is not to be used at all.

    Raises
    ------
    UsageError
        If there is no such policy, or the model has no such name.
    """
    kind, colon, rest = text.partition(":")
    if kind not in POLICIES or (colon and kind not in ("offload", "save")) or text == "save":
        usual = ", ".join(kind for kind in POLICIES if kind != "save")
        raise UsageError(
            f"There is no policy '{text}'; choose one of {usual}, offload:NAME,... or "
            f"save:NAME,..., where NAME is one of {', '.join(names)}."
        )
    if not colon:
        return POLICIES[kind](names)
    chosen = [name.strip() for name in rest.split(",")]
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise UsageError(
            f"The model names no value '{unknown[0]}'; choose from {', '.join(names)}."
        )
    return POLICIES[kind](chosen)


def is_offload(text: str) -> bool:
    """Whether a policy moves activations to host memory."""
    return text.partition(":")[0] in ("offload", "offload-dots")


def check_version(policy: str, version: str) -> None:
    """Refuse to offload with the releases of JAX that then return wrong gradients.

    Raises
    ------
    UsageError
        If the policy offloads and the version is one of them.
    """
    if is_offload(policy) and version in WRONG_GRADIENTS:
        raise UsageError(
            f"jax {version} silently returns wrong gradients for policy '{policy}' "
            "(openxla/xla#46231: the backward pass reloads the wrong layer); "
            "install jax 0.11.1 or later."
        )
