"""CPU devices for the tests of the workloads, and no silent broadcasting over ranks."""

from collections.abc import Iterator

import pytest

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
    assert len(found) >= 8, "jax was imported before tests/conftest.py asked for its devices"
    return found[:8]
