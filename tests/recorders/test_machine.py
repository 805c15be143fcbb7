import os
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from nsysoffload.recorders.machine import has_gpu, survey
from nsysoffload.recorders.machine.folders import Folder, folder
from nsysoffload.recorders.machine.gpus import chosen, driver, gpus, profiling_restricted
from nsysoffload.recorders.machine.memory import cgroup_limit, host_memory
from nsysoffload.recorders.machine.numa import Placement, placement
from nsysoffload.recorders.machine.profilers import injected, running
from nsysoffload.recorders.machine.software import Software, software
from nsysoffload.recorders.machine.survey import local_rank
from tests.recorders.fake_machine import GIB, FakeMachine, install, program

SLURM = {"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "2"}


@pytest.fixture
def machine(tmp_path) -> FakeMachine:
    return FakeMachine(tmp_path / "root")


def test_a_machine_of_nothing_but_a_cpu_has_what_can_be_known_of_it(machine, tmp_path):
    found = survey(tmp_path / "runs", {"PATH": ""}, machine.root)
    assert (found.driver, found.gpus, found.chosen) == (None, (), ())
    assert found.profiling_restricted is None
    assert found.placement == Placement((0,), (0,), (0,))
    assert (found.memory.machine_bytes, found.memory.limit_bytes) == (512 * GIB, None)
    assert found.memory.pool_bytes == 64 * GIB
    assert (found.output.there, found.output.writable) == (False, True)
    assert found.temporary.there and found.locks.writable
    assert (found.injected, found.running, found.rank, found.local_rank) == ((), (), None, None)


def test_an_empty_root_is_all_unknown(tmp_path):
    found = survey(tmp_path, {"PATH": ""}, tmp_path)
    assert found.placement == Placement((), None, None)
    assert (found.memory.machine_bytes, found.memory.available_bytes) == (None, None)
    assert not found.temporary.there and not found.locks.there


# --- GPUs ---


def test_gpus_are_read_from_the_files_of_the_driver(machine):
    machine.grace_hoppers()
    found = gpus(machine.root, {"PATH": ""})
    assert [gpu.bus for gpu in found] == [
        "0009:01:00.0",
        "0019:01:00.0",
        "0029:01:00.0",
        "0039:01:00.0",
    ]
    assert [gpu.node for gpu in found] == [0, 1, 2, 3]
    assert {(gpu.model, gpu.mig) for gpu in found} == {("NVIDIA GH200 120GB", False)}
    assert found[3].uuid == "GPU-3aaa"


def test_a_gpu_whose_device_file_is_not_in_the_container_is_not_seen(machine):
    machine.grace_hoppers()
    (machine.root / "dev/nvidia0").unlink()
    assert [gpu.node for gpu in gpus(machine.root, {"PATH": ""})] == [1, 2, 3]


def test_a_gpu_of_a_machine_with_one_node_has_no_node(machine):
    machine.gpus("NVIDIA H100 PCIe", [-1])
    assert [gpu.node for gpu in gpus(machine.root, {"PATH": ""})] == [None]


def test_a_gpu_with_instances_is_split(machine):
    machine.gpus("NVIDIA H100 80GB HBM3", [0], mig=True)
    assert [gpu.mig for gpu in gpus(machine.root, {"PATH": ""})] == [True]


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        pytest.param(
            "echo '00000019:01:00.0, GPU-1aaa, Enabled, NVIDIA GH200, 120GB'",
            [("0019:01:00.0", "NVIDIA GH200, 120GB", 1, True)],
            id="one of four",
        ),
        pytest.param("echo 'No devices were found'; exit 6", [], id="none"),
    ],
)
def test_nvidia_smi_knows_better_which_gpus_are_seen(machine, tmp_path, said, seen):
    machine.grace_hoppers()
    program(tmp_path / "bin/nvidia-smi", said)
    found = gpus(machine.root, {"PATH": str(tmp_path / "bin")})
    assert [(gpu.bus, gpu.model, gpu.node, gpu.mig) for gpu in found] == seen


@pytest.mark.parametrize(
    "said",
    [
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
        "echo nonsense",
    ],
)
def test_files_are_read_where_nvidia_smi_has_no_answer(machine, tmp_path, said):
    machine.grace_hoppers()
    program(tmp_path / "bin/nvidia-smi", said)
    assert len(gpus(machine.root, {"PATH": str(tmp_path / "bin")})) == 4


@pytest.mark.parametrize(
    ("visible", "rank", "nodes"),
    [
        pytest.param(None, None, [0, 1, 2, 3], id="all"),
        pytest.param(None, 2, [2], id="a rank takes that of its own number"),
        pytest.param(None, 9, [0, 1, 2, 3], id="more ranks than GPUs"),
        pytest.param("3,1", None, [3, 1], id="by number"),
        pytest.param("3,1", 1, [1], id="a rank among those by number"),
        pytest.param("3", 2, [3], id="a rank with one of its own"),
        pytest.param("GPU-2", None, [2], id="by the beginning of a uuid"),
        pytest.param("1,7,2", None, [1], id="one that is not there ends the list"),
        pytest.param("-1", None, [], id="none"),
        pytest.param("", None, [], id="empty"),
        pytest.param("MIG-12", None, [0, 1, 2, 3], id="a part of any"),
    ],
)
def test_a_program_uses_the_gpus_that_its_environment_names(machine, visible, rank, nodes):
    machine.grace_hoppers()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    seen = gpus(machine.root, {"PATH": ""})
    assert [gpu.node for gpu in chosen(seen, environment, rank)] == nodes


@pytest.mark.parametrize(("order", "buses"), [({}, 2), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 1)])
def test_numbers_of_unlike_gpus_are_known_only_in_the_order_of_the_bus(machine, order, buses):
    machine.gpus("NVIDIA T400", [0, 0])
    lines = machine.root / "proc/driver/nvidia/gpus/0019:01:00.0/information"
    lines.write_text(lines.read_text().replace("T400", "H100"))
    seen = gpus(machine.root, {"PATH": ""})
    assert len(chosen(seen, {"CUDA_VISIBLE_DEVICES": "0", **order}, None)) == buses


@pytest.mark.parametrize(
    ("device", "environment", "there"),
    [
        pytest.param("nvidia0", {}, True, id="one"),
        pytest.param("dxg", {}, True, id="of Windows"),
        pytest.param("nvidiactl", {}, False, id="the driver alone"),
        pytest.param("nvidia0", {"CUDA_VISIBLE_DEVICES": "0"}, True, id="named"),
        pytest.param("nvidia0", {"CUDA_VISIBLE_DEVICES": "MIG-1"}, True, id="part of one named"),
        pytest.param("nvidia0", {"CUDA_VISIBLE_DEVICES": ""}, False, id="hidden"),
        pytest.param("nvidia0", {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, False, id="of no job"),
    ],
)
def test_a_gpu_is_there_if_its_device_file_is_and_is_not_hidden(
    machine, device, environment, there
):
    machine.file(f"dev/{device}", "")
    assert has_gpu(machine.root, environment) is there


def test_there_is_no_gpu_without_device_files(tmp_path):
    assert not has_gpu(tmp_path / "absent", {})


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19", "535.129.03"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build",
            "580.82.07",
        ),
        ("NVRM version: unheard of", None),
    ],
)
def test_the_driver_tells_its_version(machine, line, version):
    machine.file("proc/driver/nvidia/version", f"{line}\nGCC version:  gcc version 13.3.0\n")
    assert driver(machine.root) == version


def test_the_driver_tells_who_may_read_counters(machine):
    assert profiling_restricted(machine.root) is None
    for restricted in (True, False):
        machine.driver("580.82.07", restricted)
        assert profiling_restricted(machine.root) is restricted


# --- NUMA ---


def test_a_process_may_use_the_nodes_of_the_cpus_it_is_bound_to(machine):
    machine.grace_hoppers()
    machine.may_use("72-80,216-287", "1,3")
    assert placement(machine.root) == Placement((0, 1, 2, 3), (1, 3), (1, 3))


# --- Memory ---


def test_of_nested_groups_the_smallest_limit_counts(machine):
    #  /job      96 GiB
    #  /job/step 32 GiB   <- with what is in use there
    #  /job/step/task max
    limits = {"job": str(96 * GIB), "job/step": str(32 * GIB), "job/step/task": "max"}
    machine.cgroup2("/job/step/task", limits)
    assert cgroup_limit(machine.root) == (32 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    ("own", "mounted"),
    [
        pytest.param("/", "/", id="sees only itself"),
        pytest.param("/docker/12", "/docker/12", id="told the path of the machine"),
        pytest.param("/docker/12", "/", id="told a path that it does not see"),
        pytest.param("/../other", "/", id="outside"),
    ],
)
def test_the_limit_of_a_container_is_at_its_mount_point(machine, own, mounted):
    machine.cgroup2(own, {".": str(48 * GIB)}, mounted)
    assert cgroup_limit(machine.root) == (48 * GIB, 3 * GIB)
    assert host_memory(machine.root, {}).limit_bytes == 48 * GIB


def test_groups_of_the_first_version_have_limits_too(machine):
    machine.cgroup1(
        "/slurm/job/step", {"slurm/job": 80 * GIB, "slurm/job/step": 0x7FFFFFFFFFFFF000}
    )
    assert cgroup_limit(machine.root) == (80 * GIB, 3 * GIB)


def test_without_a_limit_there_is_none(machine):
    assert cgroup_limit(machine.root) is None
    machine.cgroup2("/", {".": "max"})
    assert cgroup_limit(machine.root) is None


# --- Folders ---


def test_a_folder_that_is_not_there_is_judged_by_the_one_above(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 2, 7 * (path == tmp_path)))
    assert folder(tmp_path / "a" / "b") == Folder(there=False, writable=True, free_bytes=7)
    assert not (tmp_path / "a").exists()


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    assert not folder(tmp_path / "file" / "runs").writable
    assert not folder(tmp_path / "file").writable


def test_a_folder_that_the_system_refuses_is_not_writable(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert not folder(tmp_path / "runs").writable


def test_a_folder_of_the_working_folder_may_be_named_shortly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder(Path("runs")).writable


# --- Profilers ---


def test_variables_of_profilers_are_named_and_those_that_switch_off_are_not():
    environment = {
        "CUDA_INJECTION64_PATH": "/home/someone/lib.so",
        "NSYS_PROFILING_SESSION_ID": "1234",
        "COMPUTE_PROFILE": "0",
        "NVTX_INJECTION64_PATH": "",
        "HOME": "/home/someone",
    }
    assert injected(environment) == ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


def test_profilers_that_run_are_found_by_their_whole_name(machine):
    machine.runs("python", "nv-hostengine", "nsys", "nsysoffload", "nsys")
    assert running(machine.root) == ("nsys", "nv-hostengine")


# --- Python ---


def test_versions_are_those_of_this_python(monkeypatch, tmp_path):
    packages = {"jax": "0.11.1", "jaxlib": "0.11.1", "jax-cuda12-plugin": "0.11.0"}
    monkeypatch.setattr(sys, "path", [install(packages, tmp_path)])
    python = ".".join(map(str, sys.version_info[:3]))
    assert software() == Software(python, "0.11.1", "0.11.1", "jax-cuda12-plugin", "0.11.0", None)


def test_packages_that_are_not_installed_have_no_version(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    found = software()
    assert (found.jax, found.jaxlib, found.plugin, found.plugin_version) == (None,) * 4


# --- Ranks ---


def test_a_rank_knows_its_number_on_its_machine_and_a_batch_script_is_none(machine, tmp_path):
    assert local_rank(SLURM) == 2
    assert local_rank({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}) is None
    openmpi = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}
    assert local_rank(openmpi) is None
    assert local_rank(openmpi | {"OMPI_COMM_WORLD_LOCAL_RANK": "1"}) == 1
    machine.grace_hoppers()
    found = survey(tmp_path, {"PATH": "", **SLURM}, machine.root)
    assert found.rank and (found.rank.index, found.rank.count) == (6, 8)
    assert [gpu.node for gpu in found.chosen] == [2]
