import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.flags import PRESETS, xla_flags

BASE = ("--xla_gpu_enable_triton_gemm=false", "--xla_gpu_enable_command_buffer=")


def test_the_default_preset_adds_nothing_to_plain_streams_and_cublas():
    assert xla_flags() == BASE


def test_each_preset_has_the_flags_of_the_one_before_and_more():
    presets = [set(xla_flags(preset)) for preset in PRESETS]
    assert list(PRESETS) == ["default", "lhs", "pipelined", "pipelined+double-buffering"]
    for smaller, larger in zip(presets, presets[1:], strict=False):
        assert len(larger - smaller) == 1
        assert smaller < larger


def test_command_buffers_are_left_on_where_asked():
    assert xla_flags(command_buffers=True) == BASE[:1]


def test_the_users_flags_come_last_and_replace():
    extra = "--xla_disable_hlo_passes=rematerialization  --xla_gpu_enable_triton_gemm=true"
    assert xla_flags(extra=extra) == (
        "--xla_gpu_enable_triton_gemm=true",
        "--xla_gpu_enable_command_buffer=",
        "--xla_disable_hlo_passes=rematerialization",
    )


@pytest.mark.parametrize("word", ["xla_a=1", "--xla_a", "--tf_a=1", "-xla_a=1", "--xla_a b"])
def test_what_is_no_flag_is_refused(word):
    with pytest.raises(UsageError) as raised:
        xla_flags(extra=word)
    assert str(raised.value) == (
        f"'{word.split()[0]}' is no XLA flag; write it as --xla_name=value."
    )


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(UsageError) as raised:
        xla_flags("fast")
    assert str(raised.value) == (
        "There is no XLA preset 'fast'; choose from default, lhs, pipelined, "
        "pipelined+double-buffering."
    )
