from math import prod

import jax
import jax.numpy as jnp
import pytest

from workloads.config import MODELS, parameters
from workloads.weights import Weight, initial, weights


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_are_as_many_as_the_formula_counts(name):
    described = jax.tree.leaves(weights(MODELS[name]))
    assert sum(prod(weight.shape) for weight in described) == parameters(MODELS[name]).total


def test_only_norms_and_routers_are_float32():
    described = weights(MODELS["tiny-moe"])
    wide = {weight.axes for weight in jax.tree.leaves(described) if weight.dtype == jnp.float32}
    assert wide == {
        ("embed",),
        ("layers", "embed"),
        ("layers", "query_rank"),
        ("layers", "key_value_rank"),
        ("layers", "embed", "choices"),
    }


def test_norms_begin_as_ones_and_matrices_as_small_noise():
    key = jax.random.key(0)
    norm = initial(Weight(("layers", "embed"), (2, 3), jnp.float32), key)
    assert norm.tolist() == [[1, 1, 1], [1, 1, 1]]
    matrix = initial(Weight(("embed", "ffw"), (100, 100), jnp.bfloat16), key)
    assert matrix.dtype == jnp.bfloat16
    assert float(matrix.std()) == pytest.approx(0.02, rel=0.05)
    assert abs(float(matrix.mean())) < 0.001


def test_a_tied_output_has_no_weights_of_its_own():
    assert weights(MODELS["llama3.2-1b"]).output is None
