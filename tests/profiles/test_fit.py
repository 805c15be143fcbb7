"""Whether a profile is for a program, and what XLA's log says of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.profiles.fit import (
    Taken,
    refuse_flags,
    refuse_module,
    refuse_program,
    taken,
    text_of,
)
from nsysoffload.profiles.profile import About
from nsysoffload.recorders.flags import using, without_paths, xla_flags

FLAGS = xla_flags("pipelined")
PROGRAM = {"model": "tiny", "policy": "offload", "mesh": "fsdp=2", "batch": None, "layers": 3}
ABOUT = About("jit_step", "0a", "predicted", "queued", FLAGS, "0.12.0.1", "gb200", PROGRAM)


def test_a_profile_of_other_flags_is_refused():
    with pytest.raises(UsageError, match=r"other XLA flags \(different: --xla_gpu_other=1\)"):
        refuse_flags(ABOUT, (*FLAGS, "--xla_gpu_other=1"))


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(FLAGS, id="same"),
        pytest.param(using(FLAGS, Path("/home/me/old")), id="of a run with a profile"),
        pytest.param(without_paths((*FLAGS, "--xla_dump_to=/home/me/dump")), id="a dump"),
        pytest.param((*FLAGS, "--xla_gpu_cuda_data_dir=PATH"), id="a folder"),
        pytest.param(None, id="unknown"),
    ],
)
def test_flags_of_places_and_profiles_decide_nothing(own):
    here = (*FLAGS, "--xla_dump_to=dump", "--xla_gpu_cuda_data_dir=/usr/local/cuda")
    refuse_flags(replace(ABOUT, flags=own), using(here, Path("profile")))


def test_a_profile_of_another_module_is_refused():
    refuse_module(ABOUT, "0a")
    with pytest.raises(UsageError, match="is of the module 0a, and what is compiled is 0b"):
        refuse_module(ABOUT, "0b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "llama3.2-1b"}, "its model is tiny, and llama3.2-1b is asked for"),
        ({"policy": "remat"}, "its policy is offload, and remat is asked for"),
        ({"mesh": "fsdp=4"}, "its mesh is fsdp=2, and fsdp=4 is asked for"),
        ({"layers": 4}, "its layers is 3, and 4 is asked for"),
    ],
)
def test_a_profile_of_another_program_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        refuse_program(ABOUT, PROGRAM | changes)


def test_a_profile_of_another_gpu_or_release_is_refused():
    with pytest.raises(UsageError, match="its target is gb200, and h100 is asked for"):
        refuse_program(ABOUT, PROGRAM, target="h100")
    with pytest.raises(UsageError, match=r"its release of jax is 0\.12\.0\.1, and 0\.13 is asked"):
        refuse_program(ABOUT, PROGRAM, jax_version="0.13")


@pytest.mark.parametrize("changes", [{}, {"batch": 4}, {"layers": None}, {"mesh": ""}])
def test_what_is_left_to_defaults_is_not_compared(changes):
    refuse_program(ABOUT, PROGRAM | changes, target="gb200", jax_version="0.12.0.1")


def test_a_profile_of_what_is_none_of_the_workloads_is_not_refused():
    refuse_program(replace(ABOUT, program=None, target=None), PROGRAM, target="h100")


LOG = """\
I1 1 gpu_hlo_schedule.cc:1] Found profile for module jit_step, using it
I1 1 profile_guided_latency_estimator.cc:1] PGLE found cost for: fusion.1
I1 1 x.cc:1] PGLE found latency for async op copy-start.2 and (assumed) copy-done.2
"""
NAMES = {"fusion.1": "fusion.1", "wrapped_copy": "copy-start.2", "fusion.9": "fusion.9"}


def test_what_xla_took_is_counted_under_either_name():
    found = taken(LOG, ABOUT, NAMES)
    assert found == Taken(True, 2, ("fusion.9",))
    assert text_of(found) == "XLA found an instruction for 2 of 3 costs of the profile."


def test_costs_found_for_another_module_are_none_of_ours():
    found = taken(LOG.replace("jit_step", "jit_other"), ABOUT, NAMES)
    assert found == Taken(False, 0, tuple(NAMES))
    assert text_of(found).startswith("XLA did not use the profile")
