from dataclasses import replace

import pytest

from workloads.config import MODELS
from workloads.memory import declared_offload, peak_bytes
from workloads.sharding import make_mesh, parse_mesh
from workloads.step import build


@pytest.fixture
def step(devices):
    def make(policy, mesh="fsdp=1", count=1):
        config = replace(MODELS["tiny"], layers=3)
        made = make_mesh(devices[:count], parse_mesh(mesh))
        return build(config, mesh=made, policy=policy, batch=4, seq=10)

    return make


@pytest.mark.parametrize("policy", ["none", "remat", "dots", "save:query"])
def test_other_policies_declare_nothing(step, policy):
    assert declared_offload(step(policy)) == {}


def test_a_policy_without_names_cannot_declare(step):
    assert declared_offload(step("offload-dots")) is None


def test_offload_declares_all_names(step):
    declared = declared_offload(step("offload"))
    assert declared is not None
    assert list(declared) == [
        "layer_input",
        "query",
        "key",
        "value",
        "attention_out",
        "mlp_gate",
        "mlp_up",
    ]


def test_a_mixed_policy_declares_what_it_offloads(step):
    declared = declared_offload(step("save:mlp_up+offload:key"))
    assert declared == {"key": 240 * 2 * 32}


def test_declared_bytes_are_those_of_bf16_values_in_all_layers(step):
    # 3 layers * 40 tokens * 2 bytes = 240 for each unit of width
    declared = declared_offload(step("offload:mlp_up,layer_input,key"))
    assert declared == {"mlp_up": 240 * 384, "layer_input": 240 * 128, "key": 240 * 2 * 32}


def test_every_device_offloads_its_part(step):
    # batch over fsdp and data: quarters; heads over tensor: halves; the residual stream is whole
    split = declared_offload(step("offload:layer_input,key", "data=2,fsdp=2,tensor=2", 8))
    assert split == {"layer_input": 240 * 128 // 4, "key": 240 * 2 * 32 // 8}


def test_a_backend_that_does_not_count_has_no_peak(devices):
    assert peak_bytes(devices) is None


def test_the_peak_is_that_of_the_fullest_device():
    class Device:
        def __init__(self, stats):
            self.memory_stats = lambda: stats

    full, half, mute = ({"peak_bytes_in_use": 10}, {"peak_bytes_in_use": 5}, None)
    assert peak_bytes([Device(half), Device(full), Device(mute)]) == 10
