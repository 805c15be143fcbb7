"""Eight CPU devices for all tests of the workloads, and no silent broadcasting over ranks."""

import os
import sys
from collections.abc import Iterator

import pytest

FLAGS = (
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=0",  # compiling is what takes the time here
)

if "jax" not in sys.modules:  # JAX reads both once
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])

jax = pytest.importorskip("jax", reason="the workloads need jax: install nsysoffload[workloads]")
pytest.importorskip("optax", reason="the workloads need optax: install nsysoffload[workloads]")


@pytest.fixture(autouse=True)
def _equal_ranks() -> Iterator[None]:
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def devices() -> list["jax.Device"]:
    """Return eight CPU devices."""
    found = jax.devices("cpu")
    if len(found) < 8:
        pytest.skip("jax was imported with fewer than eight CPU devices")
    return found[:8]
