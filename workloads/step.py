"""A train step: a model on a mesh, with a policy and an optimizer, ready to run or to compile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from nsysoffload.errors import UsageError
from workloads import optimizers, transformer
from workloads.config import Config
from workloads.config import model as model_named
from workloads.flops import flops
from workloads.layers import IMPLEMENTATIONS, Implementation, Setting
from workloads.names import names
from workloads.optimizers import OptimizerState
from workloads.policies import Policy, check_version
from workloads.policies import policy as policy_named
from workloads.sharding import batch_shards, make_mesh, named_sharding, parse_mesh
from workloads.weights import Decoder, Weight, initial, weights

__all__ = ["State", "Step", "build", "flops", "program"]

Metrics = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """What one step hands to the next."""

    parameters: Decoder[Any]
    optimizer: OptimizerState


@dataclass(frozen=True)
class Step:
    """A train step and what it takes.

    Attributes
    ----------
    config : Config
        The model.
    policy : str
        What becomes of activations, as it was asked for.
    mesh : Mesh
        The devices.
    batch, seq : int
        Sequences of a step over all devices, and tokens of each.
    attention : str
        ``cudnn`` or ``xla``: what computes the attention.
    jitted : jitted function
        ``train_step(state, tokens)`` to the next state and ``{"loss", "grad_norm"}``, float32
        scalars. The state given is donated.
    state : State
        Shapes, element types and shardings of the state.
    tokens : ShapeDtypeStruct
        Those of the tokens, int32 ``[batch, seq]``.
    init : function
        Makes the first state on the devices, from an integer seed.
    notes : tuple of str
        Sentences on what differs from what was asked for.
    """

    config: Config
    policy: str
    mesh: Mesh
    batch: int
    seq: int
    attention: str
    jitted: Any
    state: State
    tokens: jax.ShapeDtypeStruct
    init: Callable[[int], State]
    notes: tuple[str, ...] = ()


def build(
    config: Config,
    *,
    mesh: Mesh,
    policy: str = "none",
    batch: int | None = None,
    seq: int | None = None,
    optimizer: str = "adam",
    offload_optimizer: bool = False,
    attention: str = "auto",
    platform: str | None = None,
) -> Step:
    """Make a train step.

    Parameters
    ----------
    config : Config
        The model.
    mesh : Mesh
        Devices, which may be descriptions of some that are not here: nothing is put on them.
    policy : str
        See `workloads.policies`.
    batch, seq : int, optional
        Sequences of a step over all devices, and tokens of each; else the model's own.
    optimizer : str
        ``adam`` or ``sgd``.
    offload_optimizer : bool
        Whether the optimizer's state rests in pinned host memory between steps.
    attention : str
        ``cudnn``, ``xla``, or ``auto``: cuDNN on GPUs, XLA elsewhere.
    platform : str, optional
        ``gpu`` or ``cpu``: what it is compiled for, where the devices only stand in for others.

    Raises
    ------
    UsageError
        If a name is unknown, sizes do not fit the mesh, or this release of JAX cannot offload.
    """
    check_version(policy, jax.__version__)
    rule = optimizers.optimizer(optimizer)
    platform = platform or mesh.devices.flat[0].platform
    setting = Setting(mesh, _implementation(attention, platform))
    batch = config.batch * batch_shards(mesh) if batch is None else batch
    seq = config.seq if seq is None else seq
    memory, notes = _optimizer_memory(offload_optimizer, platform)
    described = weights(config)
    state = _abstract_state(described, rule, mesh, memory)
    tokens = jax.ShapeDtypeStruct(
        (batch, seq), jnp.int32, sharding=named_sharding(mesh, ("batch", None), (batch, seq))
    )
    return Step(
        config=config,
        policy=policy,
        mesh=mesh,
        batch=batch,
        seq=seq,
        attention=setting.attention,
        jitted=_jitted(config, setting, policy_named(policy, names(config)), rule, state, memory),
        state=state,
        tokens=tokens,
        init=partial(_init, described, rule, state),
        notes=notes,
    )


def program(
    devices: Sequence[jax.Device],
    *,
    model: str,
    policy: str,
    mesh: str = "",
    batch: int | None = None,
    seq: int | None = None,
    optimizer: str = "adam",
    offload_optimizer: bool = False,
    layers: int | None = None,
) -> tuple[Any, tuple[State, jax.ShapeDtypeStruct]]:
    """Return a jitted train step for GPUs and its arguments' shapes, all by name.

    The devices may stand in for GPUs that are not here; only their number and order count. See
    `build`; ``model`` is a key of `workloads.config.MODELS`, ``mesh`` a text such as ``fsdp=8``,
    and ``layers`` replaces the model's number of layers.
    """
    step = build(
        model_named(model, layers),
        mesh=make_mesh(devices, parse_mesh(mesh)),
        policy=policy,
        batch=batch,
        seq=seq,
        optimizer=optimizer,
        offload_optimizer=offload_optimizer,
        platform="gpu",
    )
    return step.jitted, (step.state, step.tokens)


def _implementation(attention: str, platform: str) -> Implementation:
    if attention == "auto":
        return "cudnn" if platform == "gpu" else "xla"
    if attention == "cudnn" and platform == "cpu":
        raise UsageError("cuDNN's attention runs on GPUs alone; choose auto or xla.")
    for known in IMPLEMENTATIONS:
        if attention == known:
            return known
    raise UsageError(
        f"There is no attention '{attention}'; choose auto, {' or '.join(IMPLEMENTATIONS)}."
    )


def _optimizer_memory(offload: bool, platform: str) -> tuple[str, tuple[str, ...]]:
    if offload and platform == "cpu":
        note = "The optimizer's state is not offloaded: on the CPU, device memory is host memory."
        return "device", (note,)
    return "pinned_host" if offload else "device", ()


def _abstract_state(
    described: Decoder[Weight], rule: optax.GradientTransformation, mesh: Mesh, memory: str
) -> State:
    parameters = jax.tree.map(
        lambda w: jax.ShapeDtypeStruct(
            w.shape, w.dtype, sharding=named_sharding(mesh, w.axes, w.shape)
        ),
        described,
    )
    state = jax.eval_shape(lambda p: optimizers.initial_state(rule, p), parameters)
    placed = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state,
        optimizers.shardings(rule, parameters, memory),
    )
    return State(parameters, placed)


def _shardings(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.sharding, tree)


def _moved(kept: OptimizerState, space: Any) -> OptimizerState:
    moved: OptimizerState = jax.tree.map(
        lambda leaf: jax.device_put(leaf, space) if leaf.ndim else leaf, kept
    )
    return moved


def _jitted(
    config: Config,
    setting: Setting,
    policy: Policy | None,
    rule: optax.GradientTransformation,
    state: State,
    memory: str,
) -> Any:
    def train_step(state: State, tokens: jax.Array) -> tuple[State, Metrics]:
        loss, gradients = jax.value_and_grad(transformer.loss)(
            state.parameters, tokens, config, setting, policy
        )
        with jax.named_scope("optimizer"):
            norm = _norm(gradients)
            kept = state.optimizer
            if memory == "pinned_host":
                kept = _moved(kept, jax.memory.Space.Device)
            parameters, kept = optimizers.update(rule, gradients, kept, state.parameters)
            if memory == "pinned_host":
                kept = _moved(kept, jax.memory.Space.Host)
        return State(parameters, kept), {"loss": loss, "grad_norm": norm}

    scalar = NamedSharding(setting.mesh, PartitionSpec())
    # Without shardings of the results the partitioner may keep whole gradients on every device.
    out = (_shardings(state), {"loss": scalar, "grad_norm": scalar})
    return jax.jit(train_step, donate_argnums=0, out_shardings=out)


def _norm(gradients: Decoder[jax.Array]) -> jax.Array:
    leaves = jax.tree.leaves(gradients)
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in leaves))


def _init(
    described: Decoder[Weight], rule: optax.GradientTransformation, state: State, seed: int
) -> State:
    def first_state(key: jax.Array) -> State:
        flat, structure = jax.tree.flatten(described)
        keys = jax.random.split(key, len(flat))
        leaves = [initial(weight, key) for weight, key in zip(flat, keys, strict=True)]
        parameters = jax.tree.unflatten(structure, leaves)
        return State(parameters, optimizers.initial_state(rule, parameters))

    made = jax.jit(first_state, out_shardings=_shardings(state))(jax.random.key(seed))
    assert isinstance(made, State)
    return made
