"""Runs recorded with a profile: what is refused, and what their folders say of its use."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.profiles.files import Written
from nsysoffload.profiles.fit import Taken
from nsysoffload.profiles.guided import (
    Use,
    accepting,
    refuse_measured,
    refuse_predicted,
    use_in,
)
from nsysoffload.profiles.profile import About
from nsysoffload.recorders.flags import run_flags, xla_flags
from nsysoffload.recorders.measured import request as measured
from nsysoffload.recorders.predict.capture import Request, made_of, options_of
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.recorders.predict.versions import JAX_VERSION
from nsysoffload.recorders.variants import Variant
from tests.profiles.modules import FINGERPRINT, PRINTED

PROGRAM = {"model": "tiny", "policy": "offload"}
FLAGS = xla_flags("pipelined")
ABOUT = About("jit_step", FINGERPRINT, "predicted", "queued", FLAGS, JAX_VERSION, "gb200", PROGRAM)
NAMES = {"loop_add_fusion": "loop_add_fusion"}
LOG = (
    "I1 1 gpu_hlo_schedule.cc:1] Found profile for module jit_step, using it\n"
    "I1 1 estimator.cc:1] PGLE found cost for: loop_add_fusion\n"
)
REQUEST = Request(model="tiny", target="gb200", preset="pipelined")


@pytest.fixture
def profile(tmp_path):
    folder = tmp_path / "profile"
    folder.mkdir()
    (folder / f"{FINGERPRINT}.pbtxt").write_text("")
    return Written(folder, ABOUT, NAMES)


def test_a_prediction_of_the_same_may_use_the_profile(profile):
    refuse_predicted(profile, replace(REQUEST, profile=profile.path), ["offload"])


@pytest.mark.parametrize(
    ("changes", "variants", "said"),
    [
        ({"preset": "default"}, ["offload"], "was made with other XLA flags"),
        ({"flags": "--xla_a=1"}, ["offload"], r"\(different: --xla_a=1\)"),
        ({"target": "h100"}, ["offload"], "its target is gb200, and h100"),
        ({}, ["offload", "remat"], "its policy is offload, and remat"),
    ],
)
def test_a_prediction_of_anything_else_is_refused(profile, changes, variants, said):
    with pytest.raises(UsageError, match=said):
        refuse_predicted(profile, replace(REQUEST, **changes), variants)


def compiled(text):
    nothing = dict.fromkeys(
        [f"{w}{k}_bytes" for w in ("", "host_") for k in ("argument", "output", "alias", "temp")],
        0,
    )
    return Compiled(text, Memory(**nothing), "gb200", 2, FLAGS, JAX_VERSION, 1.0)


def test_a_compiled_program_is_held_against_the_profile_and_its_use_told(profile, tmp_path):
    said: list[str] = []
    log = tmp_path / "log.txt"
    log.write_text(LOG)
    accept = accepting(profile, said.append)
    accept(compiled(PRINTED), log)
    assert said == ["XLA found an instruction for 1 of 1 costs of the profile."]
    with pytest.raises(UsageError, match="The profile is of the module"):
        accept(compiled(PRINTED.replace(FINGERPRINT, "f" * 32)), log)
    assert len(said) == 1


WORKLOAD = measured.Workload("tiny")
MEASURED = measured.Request(WORKLOAD, preset="pipelined")


@pytest.mark.parametrize(
    ("request_", "environment", "said"),
    [
        (MEASURED, {}, None),
        (MEASURED, {"XLA_FLAGS": "--xla_dump_to=dump"}, None),
        (MEASURED, {"XLA_FLAGS": "--xla_a=1"}, r"\(different: --xla_a=1\)"),
        (replace(MEASURED, preset="default"), {}, "was made with other XLA flags"),
        (
            replace(MEASURED, workload=measured.Workload("llama3.2-1b")),
            {},
            "its model is tiny, and llama3.2-1b",
        ),
        (measured.Request(None, ("train",), command_buffers=False), {}, "was made with other XLA"),
    ],
)
def test_a_measured_run_of_anything_else_is_refused(profile, request_, environment, said):
    flags = run_flags("pipelined", command_buffers=False)
    of_a_run = replace(profile, about=replace(ABOUT, kind="measured", flags=flags))
    variants = [Variant("offload")]
    if said is None:
        refuse_measured(of_a_run, request_, variants, environment)
    else:
        with pytest.raises(UsageError, match=said):
            refuse_measured(of_a_run, request_, variants, environment)


def left(folder: Path, log: str = LOG, text: str | None = PRINTED) -> Path:
    folder.mkdir()
    (folder / "log.txt").write_text(log)
    if text:
        (folder / "schedule.hlo.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_a_run_tells_by_log_and_module_what_became_of_the_profile(profile, tmp_path):
    assert use_in(profile, left(tmp_path / "a")) == Use(Taken(True, 1, ()), None)


@pytest.mark.parametrize(
    ("log", "text", "told"),
    [
        pytest.param("step 1\n", None, Use(None, None), id="nothing known"),
        pytest.param(
            "E1 1 gpu_hlo_schedule.cc:1] PGLE profile file does not exist: x\n",
            None,
            Use(Taken(False, 0, tuple(NAMES)), None),
            id="not used",
        ),
    ],
)
def test_what_a_run_does_not_tell_is_not_known(profile, tmp_path, log, text, told):
    assert use_in(profile, left(tmp_path / "a", log, text)) == told


def test_a_run_of_another_module_is_told(profile, tmp_path):
    other = left(tmp_path / "a", text=PRINTED.replace(FINGERPRINT, "f" * 32))
    said = use_in(profile, other).other_module
    assert said.startswith(f"The profile is of the module {FINGERPRINT}, and what ran is ffff")
    assert "so XLA did not use it" in said
    whole = replace(profile, path=profile.path / f"{FINGERPRINT}.pbtxt")
    assert "its costs are of other operations" in use_in(whole, other).other_module


def test_a_run_is_another_one_by_what_its_profile_holds_and_not_by_where_that_is(profile, tmp_path):
    def digest(path):
        request = replace(REQUEST, profile=path)
        return made_of(request, "offload", options_of(request))

    moved = tmp_path / "elsewhere" / "profile"
    moved.mkdir(parents=True)
    file = moved / f"{FINGERPRINT}.pbtxt"
    file.write_text("")
    assert digest(profile.path) == digest(moved) != digest(None)
    file.write_text("costs { }")
    assert digest(profile.path) != digest(moved)
