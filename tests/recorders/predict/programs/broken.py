"""Programs that cannot be compiled."""

import os
import signal

import jax
import jax.numpy as jnp


def raises(devices):
    raise ValueError("no such model\nand a second line")


def leaves(devices):
    raise SystemExit("no data")


def makes_no_function(devices):
    return "a function"


def is_killed(devices):
    os.kill(os.getpid(), signal.SIGKILL)


def ignores_devices(devices):
    return jax.jit(jnp.sin), (jax.ShapeDtypeStruct((8,), jnp.float32),)
