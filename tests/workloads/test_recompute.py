"""What is run again, by formula: against counts by hand, and against compiled programs' own."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.capture import Request, options_of, recorded, timed
from nsysoffload.recorders.predict.demo import REQUEST as DEMO
from nsysoffload.recorders.predict.demo import bundled
from workloads.config import MODELS
from workloads.flops import flops
from workloads.names import names
from workloads.recompute import recompute_flops, recompute_under

TINY = replace(MODELS["tiny"], layers=2)  # embed 128, 4 heads of 32, 2 of keys, ffw 384
MOE = MODELS["tiny-moe"]

# Of 10 sequences of 100 tokens, in one layer: 2 operations for each weight and token.
QUERY = 2 * 1000 * 128 * 128
KEY = VALUE = QUERY // 2
ATTENTION = 2 * 10 * 100 * 100 * 4 * 32  # scores and values, the causal half of both
PROJECTION = QUERY  # the attention's output, back to the width of the model
GATE = UP = 2 * 1000 * 128 * 384


@pytest.mark.parametrize(
    ("policy", "layer"),
    [
        ("none", 0),
        ("remat", QUERY + KEY + VALUE + ATTENTION + PROJECTION + GATE + UP),
        ("dots", ATTENTION),
        ("offload-dots", ATTENTION),
        ("offload", PROJECTION),
        ("save:query", KEY + VALUE + ATTENTION + PROJECTION + GATE + UP),
        ("save:attention_out", QUERY + KEY + VALUE + PROJECTION + GATE + UP),
        ("offload:mlp_gate+save:mlp_up,key", QUERY + VALUE + ATTENTION + PROJECTION),
        ("save:layer_input", QUERY + KEY + VALUE + ATTENTION + PROJECTION + GATE + UP),
    ],
)
def test_products_are_run_again_where_their_results_are_not_found(policy, layer):
    assert recompute_under(policy, TINY, 10, 100) == TINY.layers * layer


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS.keys())
def test_rematerialisation_runs_the_forward_pass_again_as_another_formula_has_it(config):
    assert recompute_under("remat", config, 8, 4096) == flops(config, 8, 4096).recompute


def test_keys_and_values_of_latent_attention_are_made_together():
    both, key, value, neither = (
        recompute_under(policy, MOE, 4, 128)
        for policy in ("save:key,value", "save:key", "save:value", "remat")
    )
    assert both < key == value == neither


def test_a_router_is_run_again_whatever_is_found():
    a, e = MOE.latent, MOE.experts
    latents = MOE.layers * 2 * 512 * 128 * (a.query_rank + a.key_value_rank + a.rope)
    projections = MOE.layers * 2 * 512 * 4 * 32 * 128
    routers = MOE.moe_layers * 2 * 512 * 128 * e.count
    assert recompute_under("offload", MOE, 4, 128) == latents + projections + routers


def test_a_single_layer_is_no_loop_and_runs_nothing_again():
    assert recompute_under("remat", replace(TINY, layers=1), 10, 100) == 0


def test_many_policies_are_counted_at_once():
    query = np.array([False, True, False, True])
    gate = np.array([False, False, True, True])
    counted = recompute_flops(TINY, 10, 100, {"query": query, "mlp_gate": gate})
    texts = ("remat", "save:query", "save:mlp_gate", "save:query,mlp_gate")
    assert counted.tolist() == [recompute_under(text, TINY, 10, 100) for text in texts]


def test_a_name_that_the_model_lacks_is_refused():
    with pytest.raises(UsageError, match="names no value 'mlp_down'"):
        recompute_under("save:mlp_down", TINY, 10, 100)


@pytest.mark.parametrize("config", [TINY, MOE], ids=["dense", "experts"])
def test_every_name_that_is_found_spares_work_or_none(config):
    known = names(config)
    found = {name: np.arange(2 ** len(known)) >> bit & 1 == 1 for bit, name in enumerate(known)}
    again = recompute_flops(config, 4, 128, found)
    for bit in range(len(known)):
        without = np.arange(2 ** len(known)) & ~(1 << bit)
        assert (again <= again[without]).all()


# --- Against compiled programs ---


def counted(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["devices"] * manifest["flops"].get("recompute", 0)


@pytest.mark.parametrize("policy", ["remat", "offload"])
def test_a_bundled_schedule_runs_again_what_the_formula_says(policy, tmp_path):
    request = replace(DEMO, steps=1)
    run = timed(request, policy, load(bundled(policy)), options_of(request), tmp_path)
    assert counted(run.folder) == recompute_under(policy, MODELS["llama3.2-1b"], 8, 4096)


@pytest.mark.usefixtures("compiler")
def test_a_compiled_step_with_experts_runs_again_what_the_formula_says(tmp_path):
    request = Request(model="tiny-moe", target="gb200", optimizer="sgd", batch=2, seq=256, steps=1)
    policy = "offload:mlp_gate,value+save:moe_dispatch,query"
    run = recorded(request, policy, tmp_path)
    assert counted(run.folder) == recompute_under(policy, MOE, 2, 256)
