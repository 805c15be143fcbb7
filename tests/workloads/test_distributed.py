import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.ranks import Rank
from workloads.config import model
from workloads.distributed import join
from workloads.sharding import make_mesh
from workloads.step import build

pytest.importorskip("nvtx", reason="training needs nvtx: install nsysoffload[workloads]")

from workloads import experiment, loop  # noqa: E402  needs nvtx

ROOT = Path(__file__).parents[2]
OF_TWO = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
SMALL = ("--layers", "1", "--seq", "8", "--steps", "2", "--optimizer", "sgd")


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
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "SLURM_PROCID": str(index),
        "SLURM_STEP_NUM_TASKS": "2",
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "workloads.train", *SMALL]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def one_process(devices):
    """Train as the two do; return the manifest."""
    mesh = make_mesh(devices[:2], {})
    step = build(model("tiny", 1), mesh=mesh, seq=8, optimizer="sgd")
    return experiment.train(
        step,
        loop.plan(2, None, None, ahead=False),
        optimizer="sgd",
        offload_optimizer=False,
        seed=0,
        progress=lambda record: None,
        say=lambda sentence: None,
    )


def test_two_processes_learn_what_one_with_both_devices_learns(tmp_path, devices):
    port = free_port()
    both = [process(index, port, tmp_path) for index in range(2)]
    steps = one_process(devices).steps
    first, second = (each.communicate(timeout=200) for each in both)
    assert [each.returncode for each in both] == [0, 0], (first, second)
    folder = tmp_path / "reports" / "train" / "tiny" / "none"
    for rank in range(2):
        found = json.loads((folder / f"rank{rank}" / "manifest.json").read_text())
        assert (found["devices"], found["program"]["mesh"]) == (2, "fsdp=2")
        for metric in ("loss", "grad_norm"):
            expected = [getattr(step, metric) for step in steps]
            assert [step[metric] for step in found["steps"]] == pytest.approx(expected, rel=1e-5)
    assert first[0].endswith("reports/train/tiny/none/rank0/manifest.json\n")
    assert len(re.findall("^step ", first[1], re.MULTILINE)) == 2
    assert "program" not in second[0]
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
