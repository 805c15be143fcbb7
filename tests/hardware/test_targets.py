import pytest

from nsysoffload.hardware import LINKS, TARGETS, gpu_named

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())


def test_the_targets_are_those_that_train_large_models():
    assert set(TARGETS) == {"gh200", "gb200", "gb300", "h100", "h200", "b200", "b300", "a100"}


@each_target
def test_a_target_is_a_known_gpu_and_on_its_own_host_link(target):
    gpu = gpu_named(target.name)
    assert gpu is not None
    assert gpu.name.lower() == target.key
    assert gpu.link is LINKS[target.link]
    assert target.source


@each_target
def test_fewer_bits_are_never_slower(target):
    peaks = [target.flops_per_ns(dtype) for dtype in ("f8e4m3fn", "bf16", "f32", "f64")]
    assert peaks == sorted(peaks, reverse=True)
    assert target.flops_per_ns("f16") == target.flops_per_ns("bf16")


@pytest.mark.parametrize(
    ("key", "machine_gb", "gpus"),
    [("gb200", 480, 2), ("gb300", 480, 2), ("gh200", 120, 1), ("h100", 2000, 8), ("b200", 2000, 8)],
)
def test_the_gpus_of_a_machine_share_its_host_memory_evenly(key, machine_gb, gpus):
    target = TARGETS[key]
    assert gpus * target.host_memory_bytes == machine_gb * 10**9
    assert target.host_source


# Dense multiply-adds per clock of the four tensor units of an SM, for bf16.
@pytest.mark.parametrize(
    ("key", "per_unit"), [("a100", 256), ("h100", 512), ("b200", 1024), ("gb200", 1024)]
)
def test_the_peak_of_a_sheet_takes_no_higher_clock_than_the_chip_has(key, per_unit):
    #  A100: 108 SMs x 4 units x 256 multiply-adds x 2 x 1.41 GHz = 312 TFLOP/s
    target = TARGETS[key]
    clock_ghz = target.flops_per_ns("bf16") / (target.sms * 4 * per_unit * 2)
    assert 0.9 * target.clock_ghz <= clock_ghz <= 1.001 * target.clock_ghz


def test_targets_cannot_be_changed():
    with pytest.raises(TypeError):
        TARGETS["h100"] = TARGETS["a100"]
