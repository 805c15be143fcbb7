import pytest

from workloads.config import MODELS
from workloads.names import NAMES, named_bytes, names


def test_dense_models_have_no_names_of_experts():
    assert set(NAMES) - set(names(MODELS["tiny"])) == {"moe_dispatch", "mlp_down"}
    assert names(MODELS["tiny-moe"]) == tuple(NAMES)


def test_bytes_of_llama_8b_by_hand():
    # a sequence of 4096 tokens in bf16: 32 MiB for 4096 values each, 112 MiB for 14336
    sizes = named_bytes(MODELS["llama3.1-8b"], 1, 4096)
    mib = {name: size.dense_layer / 2**20 for name, size in sizes.items()}
    assert mib == {
        "layer_input": 32,
        "query": 32,
        "key": 8,
        "value": 8,
        "attention_out": 32.5,  # with the softmax statistics of 32 heads in float32
        "mlp_gate": 112,
        "mlp_up": 112,
    }
    assert sizes["query"].total == 32 * 32 * 2**20
    assert all(size.moe_layer == 0 or size.moe_layers == 0 for size in sizes.values())


def test_bytes_of_deepseek_v3_by_hand():
    # 4096 tokens x 8 choices / 256 experts: 128 places in each of 256 experts
    sizes = named_bytes(MODELS["deepseek-v3-671b"], 1, 4096)
    places = 256 * 128
    assert sizes["moe_dispatch"].moe_layer == places * 7168 * 2 + 4096 * 8 * 4
    assert sizes["moe_dispatch"].dense_layer == 0
    assert sizes["mlp_gate"].moe_layer == (places + 4096) * 2048 * 2
    assert sizes["mlp_gate"].dense_layer == 4096 * 18432 * 2
    assert (sizes["query"].dense_layers, sizes["query"].moe_layers) == (3, 58)


@pytest.mark.parametrize("name", MODELS)
def test_without_cudnn_only_the_attention_output_differs(name):
    with_cudnn = named_bytes(MODELS[name], 2, 64)
    without = named_bytes(MODELS[name], 2, 64, attention="xla")
    assert {key for key in without if without[key] != with_cudnn[key]} == {"attention_out"}
