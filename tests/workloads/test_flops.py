from math import prod

import pytest

from tests.workloads.jaxprs import equations
from workloads.config import MODELS
from workloads.flops import flops
from workloads.sharding import make_mesh
from workloads.step import build


def test_llama_8b_costs_six_operations_per_weight_and_token():
    # All parameters but the table looked up in and the norms: 7,504,924,672 - 65 x 4096.
    counted = flops(MODELS["llama3.1-8b"], batch=2, seq=4096)
    assert counted.weights == 6 * 2 * 4096 * (7_504_924_672 - 65 * 4096)
    # Two products of half a square of 4096 for 32 heads of 128 in 32 layers, 3.5 times.
    half = 2 * 4096 * 4096 // 2 * 32 * 128 * 32
    assert counted.attention == 2 * 2 * half * 7 // 2


def test_deepseek_v3_costs_six_operations_per_active_weight_and_token():
    counted = flops(MODELS["deepseek-v3-671b"], batch=1, seq=4096)
    assert counted.weights == pytest.approx(6 * 4096 * 36_625_603_584, rel=1e-4)


@pytest.mark.parametrize("model", ["tiny", "tiny-moe"])
def test_the_formula_counts_the_products_that_are_traced(model, devices):
    config, batch, seq = MODELS[model], 2, 64
    counted = flops(config, batch, seq)
    plain, remat = (traced_flops(config, text, devices, batch, seq) for text in ("none", "remat"))
    # XLA's attention multiplies whole squares and keeps scores: 3 times forward instead of 3.5.
    forward = 4 * batch * seq * seq * config.heads * config.head * config.layers
    assert plain == counted.weights + 3 * forward
    assert counted.attention == forward // 2 * 7 // 2
    # It makes whole squares again as well.
    assert remat - plain == counted.recompute + forward // 2


def traced_flops(config, policy, devices, batch, seq):
    step = build(config, mesh=make_mesh(devices[:1], {}), policy=policy, batch=batch, seq=seq)
    return products(step.jitted.trace(step.state, step.tokens).jaxpr.jaxpr)


def products(jaxpr):
    total = 0
    for equation, times in equations(jaxpr):
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            depth = prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            total += times * 2 * equation.outvars[0].aval.size * depth
    return total
