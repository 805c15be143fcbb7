import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.flag_check import Refused, check_flags, refused_flags
from nsysoffload.recorders.flags import PRESETS, run_flags

LHS = "--xla_gpu_enable_latency_hiding_scheduler"


@pytest.fixture
def jaxlib() -> None:
    if not find_spec("jaxlib"):
        pytest.skip("flags of XLA need jaxlib: install nsysoffload[workloads]")


def sentence(flags: str) -> str:
    with pytest.raises(UsageError) as error:
        check_flags(sys.executable, flags)
    return str(error.value)


def test_xla_takes_the_flags_of_all_presets(jaxlib):
    flags = [flag for preset in PRESETS for flag in run_flags(preset, command_buffers=False)]
    check_flags(sys.executable, " ".join(flags))
    assert LHS in " ".join(flags)


def test_all_flags_that_xla_does_not_know_are_named_with_what_was_perhaps_meant(jaxlib):
    assert sentence(f"--xla_zzz=1 {LHS}=true {LHS.replace('hiding', 'hidding')}=true") == (
        "XLA of the installed jaxlib does not know --xla_zzz=1 and "
        "--xla_gpu_enable_latency_hidding_scheduler=true (did you mean "
        "--xla_gpu_enable_latency_hiding_scheduler?); correct or drop it, for it would end every "
        "run at once."
    )


def test_values_that_xla_cannot_read_are_named(jaxlib, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")  # would silence what XLA says of them
    assert sentence(f"{LHS}=maybe --xla_gpu_autotune_level=x --xla_zzz") == (
        f"XLA cannot read the value of {LHS}=maybe and --xla_gpu_autotune_level=x; correct it, for "
        "it would end every run at once."
    )
    command_buffer = "--xla_gpu_enable_command_buffer=BLA"
    assert sentence(command_buffer).startswith(f"XLA cannot read the value of {command_buffer};")


def test_a_value_with_blanks_is_no_flag_of_its_own(jaxlib):
    refused = refused_flags(sys.executable, '--xla_dump_to="a b" --xla_zzz="c d"')
    assert refused == Refused(("--xla_zzz=c",))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("python-of-nowhere/python3", id="missing"),
        pytest.param("bash", id="no python"),
    ],
)
def test_a_program_that_cannot_tell_is_not_asked(program):
    check_flags(program, "--xla_zzz")


def test_a_python_without_jax_is_not_asked(tmp_path):
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -S -I "$@"\n')
    python.chmod(0o755)
    check_flags(str(python), "--xla_zzz")


def test_without_flags_nothing_is_asked():
    assert refused_flags(sys.executable, "") == Refused()
