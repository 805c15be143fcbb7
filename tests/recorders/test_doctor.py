import os
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from nsysoffload.recorders.doctor import Check, examine
from nsysoffload.recorders.predict.versions import JAX_VERSION, PACKAGES
from tests.recorders.fake_machine import GIB, FakeMachine, install, program

HELP = (
    "usage: nsys profile\n\t-t, --trace=\n\n\t   Possible values are 'cuda', 'cuda-sw', 'nvtx'.\n"
)
NO_GPU = "No GPU can be seen."
CUDA = dict.fromkeys(PACKAGES, JAX_VERSION)


class Doctor:
    """Examines a fake machine with an nsys and fitting packages, or with others."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.machine = FakeMachine(folder / "root")
        self.output = folder / "runs"
        said = f"case $1 in --version) echo 'version 2025.5.1.121';; *) echo \"{HELP}\";; esac"
        self.nsys = str(program(folder / "nsight/nsys", said))
        self.installed(CUDA)

    def installed(self, packages):
        shutil.rmtree(self.folder / "site", ignore_errors=True)
        self.monkeypatch.setattr(sys, "path", [install(packages, self.folder / "site")])

    def examine(self, environment=None, **options):
        options = {"nsys": self.nsys, "root": self.machine.root} | options
        # No program of the machine that runs the tests is to be found.
        self.monkeypatch.setenv("PATH", str(self.folder / "bin"))
        given = {"PATH": str(self.folder / "bin"), **(environment or {})}
        return examine(self.output, environment=given, **options)

    def check(self, name, environment=None, **options) -> Check:
        (found,) = [c for c in self.examine(environment, **options).checks if c.name == name]
        return found

    def states(self, environment=None, **options):
        found = self.examine(environment, **options).checks
        return {check.name: check.state for check in found if check.state != "ok"}


@pytest.fixture
def doctor(tmp_path, monkeypatch) -> Doctor:
    return Doctor(tmp_path, monkeypatch)


def test_a_node_of_four_gpus_can_record_with_everything(doctor):
    doctor.machine.grace_hoppers()
    found = doctor.examine()
    assert found.recorders == {"nsys": None, "jax": None, "predict": None}
    assert {check.state for check in found.checks} == {"ok"}
    assert found.nsys and found.nsys.version == "2025.5.1.121"
    texts = {check.name: check.text for check in found.checks}
    assert texts["nsys"] == f"nsys 2025.5.1.121 is there: {doctor.nsys}."
    assert texts["gpu"] == "4 x NVIDIA GH200 120GB, driver 580.82.07."
    assert texts["jax"].endswith(f" has jax {JAX_VERSION}, jaxlib {JAX_VERSION}.")
    assert texts["plugin"] == f"jax-cuda13-plugin {JAX_VERSION} fits."


def test_every_check_is_a_sentence_with_another_one_of_advice(doctor):
    doctor.machine.runs("ncu")
    doctor.machine.cgroup2("/", {".": str(GIB)})
    found = doctor.examine({"CUDA_INJECTION64_PATH": "x", "TMPDIR": str(doctor.folder / "no")})
    for check in found.checks:
        assert check.text.endswith("."), check
        assert not check.advice or check.advice.endswith((".", "'")), check


# --- What records ---


def test_with_nsys_there_a_gpu_that_cannot_be_seen_is_only_a_warning(doctor):
    found = doctor.examine()
    assert found.recorders == {"nsys": None, "jax": NO_GPU, "predict": None}
    assert doctor.states() == {"gpu": "warning"}
    assert doctor.check("gpu").text == "No GPU can be seen, nor a driver for one."


def test_without_nsys_the_reason_says_what_to_do(doctor):
    found = doctor.examine(nsys=None)
    assert found.nsys is None
    assert found.recorders["nsys"] == (
        "nsys is not on PATH, nor where it is usually installed; install Nsight Systems, load its "
        "module, or name it with --nsys."
    )
    assert doctor.check("nsys", nsys=None).state == "warning"
    named = doctor.examine(nsys=str(doctor.folder / "absent"))
    assert "is no program that can be run" in (named.recorders["nsys"] or "")


def test_a_driver_without_gpus_is_named(doctor):
    doctor.machine.driver("580.82.07")
    assert doctor.check("gpu").text == "No GPU can be seen, though driver 580.82.07 is there."


def test_gpus_that_are_hidden_are_told_from_those_that_are_not_there(doctor):
    doctor.machine.grace_hoppers()
    check = doctor.check("gpu", {"CUDA_VISIBLE_DEVICES": "-1"})
    assert (check.state, check.text) == (
        "warning",
        "CUDA_VISIBLE_DEVICES hides all of 4 x NVIDIA GH200 120GB, driver 580.82.07.",
    )
    assert doctor.examine({"CUDA_VISIBLE_DEVICES": "-1"}).recorders["jax"] == NO_GPU


def test_a_split_gpu_is_to_be_traced_by_software_where_nsys_can(doctor):
    doctor.machine.gpus("NVIDIA H100 80GB HBM3", [0], mig=True)
    assert doctor.check("mig") == Check(
        "mig",
        "warning",
        "A GPU is split by MIG: its parts share the link to the host, and it cannot be traced by "
        "hardware.",
        "Record with --nsys-args '-t cuda-sw,nvtx'.",
    )
    assert doctor.check("mig", nsys=None).advice == ""


@pytest.mark.parametrize(
    ("restricted", "text"),
    [
        (
            True,
            "Only administrators may read GPU counters, so others cannot record GPU metrics "
            "(--gpu-metrics-devices); kernels, copies and calls are traced without them.",
        ),
        (
            False,
            "All users may read GPU counters; kernels, copies and calls are traced without them.",
        ),
    ],
)
def test_restricted_profiling_concerns_metrics_and_not_tracing(doctor, restricted, text):
    doctor.machine.grace_hoppers()
    doctor.machine.driver("580.82.07", restricted)
    check = doctor.check("permission")
    assert (check.state, check.text) == ("ok", text)
    assert doctor.examine().recorders["nsys"] is None


# --- NUMA ---


def test_a_process_away_from_its_gpu_is_told_how_to_bind_itself(doctor):
    doctor.machine.grace_hoppers()
    doctor.machine.may_use("0-71", "0-3")
    ranks = {"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "2"}
    for environment in ({"CUDA_VISIBLE_DEVICES": "2"}, ranks):
        check = doctor.check("numa", environment)
        assert check.state == "warning"
        assert check.text.startswith(
            "GPUs hang on NUMA node 2, where this process may not run, so "
        )
        assert "Start it with numactl --cpunodebind=2 --membind=2, " in check.advice


def test_of_several_gpus_those_are_named_that_are_far(doctor):
    doctor.machine.grace_hoppers()
    doctor.machine.may_use("0-143", "0-3")
    check = doctor.check("numa")
    assert check.text.startswith("GPUs hang on NUMA nodes 2, 3, where this process may not run")


def test_memory_of_the_gpus_node_may_be_barred(doctor):
    doctor.machine.grace_hoppers()
    doctor.machine.may_use("0-287", "0")
    check = doctor.check("numa", {"CUDA_VISIBLE_DEVICES": "1"})
    assert check.state == "warning"
    assert check.text.startswith("GPUs hang on NUMA node 1, whose memory this process may not use")


@pytest.mark.parametrize(
    ("cpus", "advice"),
    [
        pytest.param("72-143", "", id="bound"),
        pytest.param(
            "0-287",
            "It may also run elsewhere; to keep host memory near, use numactl --cpunodebind=1 "
            "--membind=1.",
            id="anywhere",
        ),
    ],
)
def test_a_process_near_its_gpu_is_fine(doctor, cpus, advice):
    doctor.machine.grace_hoppers()
    doctor.machine.may_use(cpus, "0-3")
    assert doctor.check("numa", {"CUDA_VISIBLE_DEVICES": "1"}) == Check(
        "numa", "ok", "GPUs hang on NUMA node 1, where this process may run.", advice
    )


def test_on_a_machine_with_one_node_there_is_nothing_to_bind(doctor):
    doctor.machine.gpus("NVIDIA H100 PCIe", [0])
    assert "numa" not in {check.name for check in doctor.examine().checks}


# --- Memory ---


def test_a_container_with_less_than_the_pinned_pool_is_warned_of_with_both_figures(doctor):
    doctor.machine.cgroup2("/", {".": str(48 * GIB)})
    check = doctor.check("memory")
    assert (check.state, check.text) == (
        "warning",
        "XLA's pool of pinned memory may grow to 64 GiB; the machine has 512 GiB; the limit of its "
        "container or job is 48 GiB, 3 GiB of it in use.",
    )
    assert "Set XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB lower" in check.advice


def test_a_job_of_the_first_version_of_control_groups_is_warned_of_as_well(doctor):
    doctor.machine.cgroup1("/slurm/job", {"slurm": 100 * GIB, "slurm/job": 32 * GIB})
    assert "is 32 GiB, 3 GiB" in doctor.check("memory").text
    assert doctor.check("memory").state == "warning"


@pytest.mark.parametrize(
    ("pool", "state"), [("47", "ok"), ("48", "ok"), ("49", "warning"), ("much", "warning")]
)
def test_the_pool_is_as_large_as_its_variable_says(doctor, pool, state):
    doctor.machine.cgroup2("/", {".": str(48 * GIB)})
    assert doctor.check("memory", {"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": pool}).state == state


def test_a_small_machine_is_warned_of_only_if_it_is_to_offload(doctor):
    doctor.machine.memory(32)
    assert doctor.check("memory").state == "warning"
    assert doctor.check("memory", offload=False).state == "ok"


# --- Folders ---


@pytest.fixture
def free(monkeypatch):
    def leave(size_bytes):
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, size_bytes))

    return leave


@pytest.mark.parametrize(
    ("free_bytes", "state", "shown"),
    [
        (2 * 10**9, "ok", "2 GB"),
        (2 * 10**9 - 1, "warning", "2 GB"),
        (10**8, "warning", "0.1 GB"),
        (10**8 - 1, "problem", "0.1 GB"),
    ],
)
def test_little_room_is_a_warning_and_none_a_problem(doctor, free, free_bytes, state, shown):
    free(free_bytes)
    for name, title in (("output", "output folder"), ("temporary", "folder for temporary files")):
        check = doctor.check(name)
        assert (check.state, check.text) == (state, f"The {title} has {shown} free.")
    blocked = [reason is not None for reason in doctor.examine().recorders.values()]
    assert blocked == [state == "problem", True, state == "problem"]


def test_an_output_that_cannot_be_written_to_lets_nothing_record(doctor, monkeypatch):
    monkeypatch.setattr(
        os, "access", lambda path, mode: not (path == doctor.folder and mode & os.W_OK)
    )
    check = doctor.check("output")
    assert check == Check(
        "output",
        "problem",
        "The output folder cannot be written to.",
        "Make it writable, or name another one with -o.",
    )
    refused = f"{check.text} {check.advice}"
    assert doctor.examine().recorders == {"nsys": refused, "jax": refused, "predict": refused}


def test_an_output_with_runs_says_what_becomes_of_them(doctor):
    assert doctor.check("output").advice == ""
    (doctor.output / "remat").mkdir(parents=True)
    (doctor.output / "remat" / "manifest.json").touch()
    assert doctor.check("output").advice == "A run in it is replaced by a new one of its name."


def test_a_folder_for_temporary_files_has_to_be_there(doctor):
    check = doctor.check("temporary", {"TMPDIR": str(doctor.folder / "absent")})
    assert (check.state, check.text) == (
        "problem",
        "The folder for temporary files is not there.",
    )


def test_nsys_without_its_place_for_locks_is_warned_of(doctor):
    (doctor.machine.root / "var/lock").rmdir()
    assert doctor.check("locks").state == "warning"


# --- Other profilers ---


def test_a_profiler_in_the_environment_takes_the_place_of_jax_profiler(doctor):
    doctor.machine.grace_hoppers()
    environment = {"CUDA_INJECTION64_PATH": "/home/someone/lib.so"}
    check = doctor.check("profilers", environment)
    assert check.state == "warning"
    assert "(CUDA_INJECTION64_PATH)" in check.text
    found = doctor.examine(environment)
    assert found.recorders["nsys"] is None
    assert found.recorders["jax"] == "Another profiler takes its place (CUDA_INJECTION64_PATH)."
    assert "someone" not in str(found.checks)


def test_profilers_that_run_are_warned_of(doctor):
    doctor.machine.runs("nsys", "nv-hostengine")
    assert ": nsys, nv-hostengine; " in doctor.check("running").text
    assert doctor.check("running").state == "warning"


def test_nsys_of_another_rank_is_expected(doctor):
    doctor.machine.runs("nsys")
    ranks = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert doctor.states(ranks) == {"gpu": "warning"}
    check = doctor.check("rank", ranks)
    assert check.text == "This is rank 1 of 2 (SLURM_PROCID)."
    assert doctor.states() == {"gpu": "warning", "running": "warning"}


# --- Python ---


def test_without_jax_other_commands_can_be_recorded(doctor):
    doctor.machine.grace_hoppers()
    doctor.installed({})
    assert doctor.states() == {"jax": "warning"}
    found = doctor.examine()
    assert found.recorders["nsys"] is None
    assert "jax is not installed" in (found.recorders["jax"] or "")
    assert "jax is not installed" in (found.recorders["predict"] or "")


@pytest.mark.parametrize("release", ["0.10.2", "0.11.0"])
def test_a_jax_with_wrong_gradients_is_a_problem_for_what_offloads(doctor, release):
    doctor.machine.grace_hoppers()
    doctor.installed(dict.fromkeys(PACKAGES, release))
    check = doctor.check("jax")
    assert (check.state, check.text) == (
        "problem",
        f"jax {release} returns wrong gradients, without a warning, for a scan that offloads "
        "(openxla/xla#46231).",
    )
    assert doctor.examine().recorders["jax"] == f"{check.text} {check.advice}"
    assert doctor.states(offload=False) == {}
    assert doctor.examine(offload=False).recorders["jax"] is None


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        pytest.param(
            {"jax": "0.12.0", "jaxlib": "0.12.0"},
            "jax has no CUDA plugin here, so the workloads run on the CPU alone.",
            id="none",
        ),
        pytest.param(
            {**CUDA, "jax-cuda13-plugin": "0.11.1"},
            f"jax-cuda13-plugin 0.11.1 does not fit jaxlib {JAX_VERSION}, so jax will not use it.",
            id="another release",
        ),
        pytest.param(
            {**CUDA, "jax-cuda13-pjrt": "0.11.1"},
            f"jax-cuda13-pjrt 0.11.1 does not fit jaxlib {JAX_VERSION}, so jax will not use it.",
            id="half of it another release",
        ),
        pytest.param(
            {package: JAX_VERSION for package in PACKAGES if "pjrt" not in package},
            "jax-cuda13-plugin lacks jax-cuda13-pjrt.",
            id="half",
        ),
    ],
)
def test_a_plugin_has_to_be_of_the_release_of_jax(doctor, packages, text):
    doctor.machine.grace_hoppers()
    doctor.installed(packages)
    assert doctor.check("plugin").state == "warning"
    assert doctor.check("plugin").text == text
    remedy = f"Run: pip install 'jax[cuda13]=={packages['jax']}'"
    assert doctor.check("plugin").advice == remedy
    assert doctor.examine().recorders["jax"] == f"{text} {remedy}"
