"""What a layer's forward pass leaves for its backward pass, and where: kept, offloaded, or not.

==============================  ===========================================================
``none``                        everything is kept: no rematerialisation
``remat``                       nothing is kept: the backward pass runs the layer again
``dots``                        results of matrix products with weights are kept
``offload``                     all named values go to pinned host memory
``offload:NAME,NAME``           these do, the rest is rematerialised
``offload-dots``                results of matrix products with weights go to host memory
``save:NAME,NAME``              these are kept, the rest is rematerialised
``offload:NAME,..+save:NAME``   some go to host memory, some are kept; in either order
==============================  ===========================================================

``remat`` is a little less than nothing kept: a layer's input, which the loop over the layers hands
on, stays on the device. To save ``layer_input`` is the same and costs nothing; to offload it is
what frees the device of it.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import jax
from jax.ad_checkpoint import Offloadable, Recompute, Saveable, name_p

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.versions import WRONG_GRADIENTS
from nsysoffload.trace.workload import is_offload
from workloads.placement import Placement, is_placement, placement

__all__ = ["POLICIES", "Policy", "check_version", "policy"]

Policy = Callable[..., Any]
"""What ``jax.checkpoint`` takes: a primitive and its parameters to keep, offload or recompute."""

_HOST = Offloadable(src="device", dst="pinned_host")
_DOTS = jax.checkpoint_policies

# The call leaves its output and softmax statistics. Only together do they spare the backward
# pass a second run, and they have no name of their own, so policies find them by the primitive.
_CUDNN_ATTENTION = "dot_product_attention_fwd_wrapper"


def _placed(places: Placement) -> Policy:
    verdicts: dict[str, Any] = dict.fromkeys(places.offloaded, _HOST)
    verdicts |= dict.fromkeys(places.saved, Saveable)

    def decide(primitive: Any, *_: Any, **parameters: Any) -> Any:
        name = parameters["name"] if primitive is name_p else None
        if primitive.name == _CUDNN_ATTENTION:
            name = "attention_out"
        return verdicts.get(name or "", Recompute)

    return decide


POLICIES: Mapping[str, Callable[[Iterable[str]], Policy | None]] = MappingProxyType(
    {
        "none": lambda names: None,
        "remat": lambda names: _DOTS.nothing_saveable,
        "dots": lambda names: _DOTS.dots_with_no_batch_dims_saveable,
        "offload": lambda names: _placed(Placement(offloaded=tuple(names))),
        "offload-dots": lambda names: _DOTS.offload_dot_with_no_batch_dims("device", "pinned_host"),
    }
)
"""Policies that name no values, each made from the names that the model has."""


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
        If there is no such policy, the model has no such name, or a name is given twice.
    """
    if text in POLICIES:
        return POLICIES[text](names)
    if is_placement(text):
        return _placed(placement(text, names))
    raise UsageError(
        f"There is no policy '{text}'; choose one of {', '.join(POLICIES)}, offload:NAME,..., "
        f"save:NAME,... or both joined by '+', where NAME is one of {', '.join(names)}."
    )


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
