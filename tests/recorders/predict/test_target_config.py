import re

import pytest

from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.target_config import target_config


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_the_compiler_is_told_what_the_target_is(target):
    text = target_config(target)
    fields = dict(re.findall(r"^  (\w+): (\S+)$", text, re.MULTILINE))
    assert text.count("{") == text.count("}")
    assert int(fields["core_count"]) == target.sms
    assert int(fields["device_memory_size"]) == target.memory_bytes
    assert int(fields["memory_bandwidth"]) / 1e9 == pytest.approx(target.hbm_gbps)
    assert float(fields["clock_rate_ghz"]) == target.clock_ghz
    assert f'device_description_str: "{target.name}"' in text
    major, minor = target.compute_capability
    assert f"cuda_compute_capability {{ major: {major} minor: {minor} " in text
