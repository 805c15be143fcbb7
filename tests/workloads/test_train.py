import getpass
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("nvtx", reason="training needs nvtx: install nsysoffload[workloads]")

from workloads.train import main  # noqa: E402  needs nvtx

ROOT = Path(__file__).parents[2]
CPU = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
SMALL = ("--layers", "1", "--seq", "8", "--steps", "3")


def python(*words, cwd):
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=CPU, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def run(tmp_path, monkeypatch, devices):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, words)


@pytest.fixture(scope="module")
def offloaded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("offload")
    words = ("--model", "tiny", "--policy", "offload", "--steps", "5")
    result = python("-m", "workloads.train", *words, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result, folder / "reports" / "train" / "tiny" / "offload" / "manifest.json"


def test_training_prints_a_summary_and_writes_a_manifest(offloaded):
    result, path = offloaded
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        "program",
        "loss",
        "step",
        "memory",
        "offload",
    ]
    assert lines[-1] == "reports/train/tiny/offload/manifest.json"
    assert path.exists()


def test_progress_goes_to_stderr_step_by_step(offloaded):
    result, _ = offloaded
    steps = [line for line in result.stderr.splitlines() if line.startswith("step ")]
    assert [line.endswith("warm-up") for line in steps] == [True, True, False, False, False]


def test_the_manifest_tells_what_ran_and_how_it_went(offloaded):
    found = json.loads(offloaded[1].read_text())
    assert (found["schema"], found["backend"], found["devices"]) == ("nsysoffload-run/1", "cpu", 1)
    program = found["program"]
    assert (program["policy"], program["mesh"], program["layers"]) == ("offload", "fsdp=1", 4)
    assert [step["profiled"] for step in found["steps"]] == [False, False, True, True, True]
    losses = [step["loss"] for step in found["steps"]]
    assert losses[-1] < losses[0] - 0.2
    assert min(step["grad_norm"] for step in found["steps"]) > 0
    assert found["speed"]["step_ms"] == sorted(step["ms"] for step in found["steps"][2:])[1]
    assert found["compile_s"] > 0
    # weights and their float32 copies with two moments: 2 + 12 bytes for each of 918,656
    assert found["memory"]["argument_bytes"] > 14 * 900_000


def test_on_the_cpu_nothing_is_offloaded_and_that_is_said(offloaded):
    result, path = offloaded
    found = json.loads(path.read_text())
    sentence = "CPU backend: nothing is offloaded here, for device memory is host memory."
    assert sentence in result.stderr.splitlines()
    assert found["notes"] == [sentence]
    assert found["offload"]["in_effect"] is False
    # 4 layers * 512 tokens * 2 bytes * width 128
    assert found["offload"]["declared_bytes"]["layer_input"] == 4 * 512 * 2 * 128
    assert "5.0 MiB per step and direction, not in effect" in result.stdout


def test_the_manifest_names_no_user_host_or_path(offloaded):
    text = offloaded[1].read_text()
    for private in (socket.gethostname(), str(ROOT), str(offloaded[1].parents[4])):
        assert private not in text
    assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", text)
    assert "/home" not in text


def test_several_devices_flags_and_a_profile_are_recorded(run, tmp_path):
    words = ("--mesh", "fsdp=4,tensor=2", "--batch", "4", "--optimizer", "sgd", "-o", "out")
    words += ("--offload-optimizer", "--profile-steps", "1", "--dispatch-ahead")
    words += ("--jax-profile", "profile")
    result = run(*SMALL, *words, "--policy", "remat")
    assert result.exit_code == 0, result.stderr
    found = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert found["devices"] == 8
    assert found["program"]["mesh"] == "fsdp=4,tensor=2"
    assert [step["profiled"] for step in found["steps"]] == [False, False, True]
    assert found["offload"] is None
    assert found["notes"] == [line for line in result.stderr.splitlines() if "optimizer" in line]
    assert len(found["notes"]) == 1
    assert "--xla_force_host_platform_device_count=8" in found["xla_flags"]
    assert len([*tmp_path.glob("profile/plugins/profile/*/*.xplane.pb")]) == 1


def test_the_profiler_of_jax_is_not_started_under_nsys(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "libToolsInjection64.so")
    result = run("--jax-profile", "profile")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: CUDA_INJECTION64_PATH shows that nsys profiles this")
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example_and_loads_no_jax(tmp_path):
    code = (
        "import sys; from workloads.train import main; main(['--help'], standalone_mode=False);"
        "print('jax' in sys.modules, file=sys.stderr)"
    )
    result = python("-c", code, cwd=tmp_path)
    assert "Example:\n    python -m workloads.train --model tiny --policy offload" in result.stdout
    assert result.stderr == "False\n"


def test_a_missing_package_is_one_sentence(tmp_path):
    code = "import sys; sys.modules['nvtx'] = None; from workloads.train import main; main([])"
    result = python("-c", code, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == (
        "Error: Training needs nvtx, not installed here; "
        "run: pip install 'nsysoffload[workloads]'\n"
    )


@pytest.mark.parametrize(
    ("words", "start"),
    [
        pytest.param(("--model", "gpt"), "There is no model 'gpt'; choose", id="model"),
        pytest.param(("--policy", "keep"), "There is no policy 'keep'; choose", id="policy"),
        pytest.param(("--mesh", "x=2"), "'x=2' is no part of a mesh; write", id="mesh"),
        pytest.param(("--mesh", "fsdp=3"), "Mesh fsdp=3 needs 3 devices", id="devices"),
        pytest.param(("--batch", "3"), "The batch axis of length 3 cannot be split", id="batch"),
        pytest.param(("--warmup", "10"), "All 10 steps would be warm-up; ask", id="warm-up"),
        pytest.param(("--profile-steps", "0..3"), "Steps 0..3 cannot be profiled", id="profile"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(run, tmp_path, words, start):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {start}")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0"])
def test_releases_of_jax_with_wrong_gradients_are_refused_for_offload(run, monkeypatch, version):
    monkeypatch.setattr("jax.__version__", version)
    result = run("--policy", "offload:query")
    assert result.exit_code == 2
    assert f"jax {version} silently returns wrong gradients" in result.stderr
    assert "openxla/xla#46231" in result.stderr
