import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.errors import UsageError
from nsysoffload.recorders.ranks import Rank

pytest.importorskip("nvtx", reason="training needs nvtx: install nsysoffload[workloads]")

from workloads.distributed import join  # noqa: E402  needs nvtx
from workloads.train import main  # noqa: E402  needs nvtx

ROOT = Path(__file__).parents[2]
OF_TWO = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
SMALL = ("--layers", "1", "--seq", "8", "--steps", "2", "--policy", "remat")
FLAGS = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"


@pytest.fixture
def initialized(monkeypatch):
    """Return what processes are joined with, instead of joining them."""
    calls = []
    monkeypatch.setattr("jax.distributed.initialize", lambda **options: calls.append(options))
    return calls


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def process(index, port, folder):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": FLAGS,
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "SLURM_PROCID": str(index),
        "SLURM_STEP_NUM_TASKS": "2",
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "workloads.train", *SMALL]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def losses(path):
    return [(step["loss"], step["grad_norm"]) for step in json.loads(path.read_text())["steps"]]


def test_two_processes_learn_what_one_with_all_devices_learns(tmp_path, monkeypatch, devices):
    # 2 processes with 4 devices each, and 1 with 8
    port = free_port()
    both = [process(index, port, tmp_path) for index in range(2)]
    monkeypatch.chdir(tmp_path)
    alone = CliRunner().invoke(main, [*SMALL, "-o", "alone"])
    first, second = (each.communicate(timeout=200) for each in both)
    assert [alone.exit_code, *(each.returncode for each in both)] == [0, 0, 0], (first, second)
    manifests = [tmp_path / f"reports/train/tiny/remat/rank{i}/manifest.json" for i in range(2)]
    assert json.loads(manifests[1].read_text())["devices"] == 8
    assert losses(manifests[0]) == losses(manifests[1])
    assert losses(manifests[0]) == pytest.approx(losses(tmp_path / "alone/manifest.json"), rel=1e-5)
    assert first[0].endswith("reports/train/tiny/remat/rank0/manifest.json\n")
    assert len(re.findall("^step ", first[1], re.MULTILINE)) == 2
    assert second[0] == ""
    assert "step" not in second[1]


def test_processes_of_a_launcher_are_joined_unless_told_otherwise(initialized):
    assert join(OF_TWO, None) == join(OF_TWO, True) == Rank(1, 2, "SLURM_PROCID")
    joined = {"num_processes": 2, "process_id": 1, "local_device_ids": None}
    assert initialized == [joined, joined]


def test_a_process_alone_joins_nobody(initialized):
    assert join({}, None) is None
    assert join(OF_TWO, False) is None
    assert initialized == []


@pytest.mark.parametrize(("visible", "ids"), [("3", [0]), ("GPU-1", [0]), ("0,1", None)])
def test_a_gpu_of_its_own_is_the_first_that_a_process_sees(initialized, visible, ids):
    join({**OF_TWO, "CUDA_VISIBLE_DEVICES": visible}, None)
    assert initialized[0]["local_device_ids"] == ids


def test_nobody_to_join_is_one_sentence():
    with pytest.raises(UsageError) as error:
        join({}, True)
    assert str(error.value) == (
        "No launcher (SLURM, Open MPI) shows that this process is one of several; start it with "
        "srun or mpirun, or leave out --distributed."
    )


def test_processes_that_cannot_be_reached_are_one_sentence(monkeypatch):
    def refuse(**options):
        raise RuntimeError("Open MPI 5\n needs mpi4py.")

    monkeypatch.setattr("jax.distributed.initialize", refuse)
    with pytest.raises(UsageError) as error:
        join(OF_TWO, None)
    assert str(error.value) == (
        "Process 1 of 2 cannot join the others (Open MPI 5 needs mpi4py); set "
        "JAX_COORDINATOR_ADDRESS to HOST:PORT of the first one, or let each train by itself with "
        "--no-distributed."
    )
