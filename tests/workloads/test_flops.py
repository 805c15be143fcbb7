from math import prod

import pytest

from tests.workloads.jaxprs import equations
from workloads.config import MODELS, Config, Experts, LatentAttention, parameters
from workloads.flops import flops, published_flops
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


# --- As published figures count ---


def test_published_figures_of_a_dense_model_by_hand():
    small = Config("small", layers=3, embed=8, heads=4, kv_heads=2, head=5, ffw=16, vocab=10)
    counted = published_flops(small, batch=2, seq=7)
    # Queries and output 8 x 20 each, keys and values 8 x 10 each, three matrices of 8 x 16.
    assert counted.weights == 6 * 14 * (3 * (2 * 160 + 2 * 80 + 3 * 128) + 10 * 8)
    # Two products of 7 x 7 x 5 in each of 4 heads, 2 operations each, half of them, 3 times.
    assert counted.attention == 3 * 3 * 2 * (2 * 2 * 7 * 7 * 5 * 4) // 2
    assert counted.total == counted.weights + counted.attention


def test_published_figures_of_experts_count_those_a_token_meets_whatever_their_capacity():
    experts = Experts(
        count=6, active=2, shared=1, ffw=4, dense_layers=1, groups=3, capacity_factor=9.0
    )
    latent = LatentAttention(query_rank=3, key_value_rank=2, nope=4, rope=2, value=5)
    small = Config(
        "small", layers=3, embed=8, heads=2, kv_heads=2, head=6, ffw=16, vocab=10,
        experts=experts, latent=latent,
    )  # fmt: skip
    counted = published_flops(small, batch=2, seq=7)
    queries = 8 * 3 + 3 * 2 * 6
    keys_and_values = 8 * (2 + 2) + 2 * 2 * (4 + 5)
    output = 2 * 5 * 8
    dense, expert, router = 3 * 8 * 16, 3 * 8 * 4, 8 * 6
    layers = 3 * (queries + keys_and_values + output) + dense + 2 * (3 * expert + router)
    assert counted.weights == 6 * 14 * (layers + 10 * 8)
    # Keys are 6 wide, values 5.
    assert counted.attention == 3 * 3 * 2 * 7 * 7 * 2 * (6 + 5)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        pytest.param("llama3.1-405b", 405e9, id="405b"),
        # The weights' own account says 36.7B (README_WEIGHTS.md); 37B is that, rounded up.
        pytest.param("deepseek-v3-671b", 36.7e9, id="671b-active"),
    ],
)
def test_published_figures_are_six_operations_per_parameter_and_token(name, published):
    counted = published_flops(MODELS[name], batch=256, seq=4096)
    assert counted.weights == pytest.approx(6 * published * 256 * 4096, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_published_figures_count_every_active_parameter_but_norms_and_the_table_looked_up_in(name):
    config = MODELS[name]
    counted, published = parameters(config), published_flops(config, batch=1, seq=1)
    norms = counted.active - published.weights // 6
    assert published.weights % 6 == 0
    table = 0 if config.tied else counted.embedding
    assert 0 < norms - table < 2e-4 * counted.active + 4 * config.embed * config.layers


def test_what_is_recomputed_is_in_no_published_figure():
    # Without experts the weights cost the same by both counts; attention 3 times instead of 3.5.
    config = MODELS["llama3.1-405b"]
    own, published = flops(config, 256, 4096), published_flops(config, 256, 4096)
    assert published.weights == own.weights
    assert 7 * published.attention == 6 * own.attention


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
