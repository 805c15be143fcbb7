"""A scan of layers that offloads what enters each of them; run by the compiler's process."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH, WIDTH = 512, 128


def train_step(devices, *, layers):
    """Return a step of SGD with momentum, whose momentum stays in host memory."""
    print("layers:", layers)  # noqa: T201 - a program may print, which goes to the log
    mesh = Mesh(np.array(devices), ("data",))
    weight = NamedSharding(mesh, PartitionSpec(None, "data"))
    momentum = weight.with_memory_kind("pinned_host")
    whole = NamedSharding(mesh, PartitionSpec())

    def step(w, m, x):
        loss, gradient = jax.value_and_grad(_loss)(w, x)
        m = 0.9 * jax.device_put(m, weight.with_memory_kind("device")) + gradient
        return w - m, jax.device_put(m, momentum), loss

    def array(*shape, sharding):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    args = (
        array(layers, WIDTH, WIDTH, sharding=weight),
        array(layers, WIDTH, WIDTH, sharding=momentum),
        array(BATCH, WIDTH, sharding=NamedSharding(mesh, PartitionSpec("data"))),
    )
    return jax.jit(step, out_shardings=(weight, momentum, whole), donate_argnums=(0, 1)), args


def _loss(w, x):
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["layer_in"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    layer = jax.checkpoint(_layer, policy=policy, prevent_cse=False)
    return jax.lax.scan(layer, x, w)[0].astype(jnp.float32).sum()


def _layer(x, w):
    return jnp.tanh(checkpoint_name(x, "layer_in") @ w), None
