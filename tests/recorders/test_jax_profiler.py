"""Recordings with a trainer that leaves a profile as XLA writes it, and with the real one."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.errors import UsageError
from nsysoffload.recorders.jax_profiler import JaxRecorder
from nsysoffload.recorders.measured import request as measured
from nsysoffload.recorders.measured.capture import Capture
from nsysoffload.recorders.measured.failures import RunFailed
from nsysoffload.recorders.measured.request import Command, Request, Workload
from nsysoffload.recorders.variants import parse_variants
from tests.trace.xspace import Event, call, copy, kernel, write_profile

pytestmark = pytest.mark.skipif(not find_spec("jax"), reason="needs nsysoffload[workloads]")

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
TRAINER = """
import argparse, json, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--jax-profile", type=pathlib.Path, required=True)
parser.add_argument("--output", type=pathlib.Path)
parser.add_argument("--profile", action="append", default=[], help="to be left, with its date")
parser.add_argument("--say")
parser.add_argument("--exit", type=int, default=0)
parser.add_argument("--hang", action="store_true")
given, _ = parser.parse_known_args()
for text in given.profile:
    date, _, source = text.partition("=")
    folder = given.jax_profile / "plugins" / "profile" / date
    folder.mkdir(parents=True)
    (folder / "a-host.xplane.pb").write_bytes(pathlib.Path(source).read_bytes())
print(given.say or "trained")
if not given.exit:
    step = {"loss": 2.5, "grad_norm": 1.0, "ms": 1.0, "profiled": True}
    steps = [{"index": 0} | step, {"index": 1} | step]
    offload = {"declared_bytes": {"mlp_up": 1 << 20}, "in_effect": True}
    given.output.mkdir()
    manifest = {"steps": steps, "offload": offload, "xla_flags": []}
    (given.output / "manifest.json").write_text(json.dumps(manifest))
time.sleep(600 if given.hang else 0)
sys.exit(given.exit)
"""


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """Let a program that is quick stand for the workloads."""
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    monkeypatch.setattr(measured, "TRAINER", (sys.executable, str(script)))
    monkeypatch.chdir(tmp_path)


def profile(path, steps=2):
    """Write a profile of some steps: in 100 us a kernel of 40, and 1 MiB each way behind it."""
    host, compute, to_host, to_device = [], [], [], []
    for index in range(steps):
        t, number = 100 * index, 3 * index
        host += [
            Event("train_step", (t, t + 90)),
            call("cuLaunchKernel", (t + 1, t + 2), number + 1),
            call("cuMemcpyDtoHAsync_v2", (t + 3, t + 4), number + 2),
            call("cuMemcpyHtoDAsync_v2", (t + 5, t + 6), number + 3),
        ]
        compute.append(kernel("gemm", (t + 10, t + 50), number + 1))
        size = {"size_bytes": MIB}
        to_host.append(copy("D2H", (t + 20, t + 40), number + 2, **size, kinds="device pinned"))
        to_device.append(copy("H2D", (t + 20, t + 40), number + 3, **size, kinds="pinned device"))
    streams = {
        "Stream #13(Compute)": compute,
        "Stream #14(MemcpyD2H)": to_host,
        "Stream #15(MemcpyH2D)": to_device,
    }
    return write_profile(path, {"/host:CPU": {"python": host}, "/device:GPU:0": streams})


def captured(*words, steps=2, grace_s=60.0):
    """Record a workload as a variant whose words are options of the trainer above."""
    request = Request(Workload("tiny", warmup=1), steps=steps, bare=False, grace_s=grace_s)
    variant = "=".join(["offload", " ".join(words)]) if words else "offload"
    capture = Capture(request, JaxRecorder(), Path("out"), os.environ)
    return capture.runs(parse_variants([variant]))[0]


def failure(*words, **options):
    with pytest.raises(RunFailed) as error:
        captured(*words, **options)
    assert error.value.exit_code == 3
    return error.value


def test_a_run_folder_holds_the_profile_and_what_it_was_converted_to(trainer, tmp_path):
    source = profile(tmp_path / "source.pb")
    run = captured(f"--profile 2026_12_02={source}")
    files = {path.name for path in run.folder.iterdir()}
    assert files == {"trace.xplane.pb", "trace.sqlite", "manifest.json", "log.txt"}
    assert (run.folder / "trace.xplane.pb").read_bytes() == source.read_bytes()
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert (manifest["kind"], manifest["recorder"], manifest["variant"]) == (
        "measured",
        "jax",
        "offload",
    )
    recording = manifest["recording"]
    assert (recording["nsys_version"], recording["capture_range"]) == (None, "profiler-api")
    assert recording["notes"] == []


def test_the_export_tells_steps_and_transfers(trainer, tmp_path):
    run = captured(f"--profile 2026_12_02={profile(tmp_path / 'source.pb')}")
    report = nsysoffload.analyze(run.folder, skip_steps=0)
    assert (report.trace.kind, report.trace.recorder) == ("measured", "jax")
    (device,) = report.devices
    assert [step.duration_ns for step in device.steps] == [40_000, 40_000]
    for direction in (device.per_step.d2h, device.per_step.h2d):
        assert (direction.bytes, direction.busy_ns, direction.hidden_ns) == (MIB, 20_000, 20_000)


def test_of_several_profiles_the_newest_counts(trainer, tmp_path):
    old, new = profile(tmp_path / "old.pb", steps=1), profile(tmp_path / "new.pb")
    captured(f"--profile 2026_12_02={new} --profile 2025_12_31={old}")


def test_steps_that_are_missing_are_a_failure(trainer, tmp_path):
    source = profile(tmp_path / "source.pb")
    error = failure(f"--profile 2026_12_02={source}", steps=3)
    assert str(error).startswith("offload: the recording holds 2 whole steps instead of 3; ")


def test_without_a_gpu_in_the_profile_it_is_one_sentence(trainer, tmp_path):
    source = write_profile(tmp_path / "source.pb", {"/host:CPU": {"python": []}})
    error = failure(f"--profile 2026_12_02={source}")
    assert str(error) == (
        "offload: trace.xplane.pb holds no GPU, only the host; record the profile on a machine "
        "with a GPU that jax uses."
    )
    assert error.failure.lines == ()  # the log has nothing to do with it
    assert (tmp_path / "out" / "offload" / "failed" / "trace.xplane.pb").exists()


def test_what_kept_the_profiler_from_the_gpu_is_told_first(trainer, tmp_path):
    source = write_profile(tmp_path / "source.pb", {"/host:CPU": {"python": []}})
    said = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS"
    error = failure(f"--profile 2026_12_02={source} --say {said}")
    assert str(error).startswith("offload: another user of CUPTI is in the process")
    assert error.failure.lines == (said,)


def test_a_run_without_a_profile_is_a_failure(trainer):
    assert str(failure()) == (
        "offload: it ended well and jax.profiler left no profile of it; see its log."
    )


def test_a_run_that_failed_tells_its_cause(trainer):
    error = failure("--exit 1 --say RESOURCE_EXHAUSTED")
    assert str(error).startswith("offload: the memory of the GPU is exhausted; ")


def test_a_run_that_hangs_after_its_profile_is_ended_and_that_is_noted(trainer, tmp_path):
    source = profile(tmp_path / "source.pb")
    run = captured(f"--profile 2026_12_02={source} --hang", grace_s=0.5)
    assert run.recorded.notes == (
        "The workload was still running 0.5 s after its profile was written, and was ended.",
    )


def test_the_command_of_a_workload_gets_a_folder_for_its_profile(trainer):
    command = Command((*measured.TRAINER, "--model", "tiny"), {"A": "1"})
    assert JaxRecorder().profiled(command, Path("place")) == Command(
        (*command.words, "--jax-profile", "place/profile"), {"A": "1"}
    )


def test_a_command_of_others_is_refused():
    with pytest.raises(UsageError) as error:
        JaxRecorder().profiled(Command(("python", "train.py"), {}), Path("place"))
    assert str(error.value) == (
        "jax.profiler cannot be switched on from outside, so only a workload (--model) is recorded "
        "with it; record a command with nsys, or let it write a profile itself and analyse that."
    )


@pytest.mark.skipif(not find_spec("nvtx"), reason="training needs nvtx")
def test_the_real_workload_on_a_cpu_leaves_a_profile_without_a_gpu(tmp_path):
    request = Request(
        Workload("tiny", layers=1, seq=8, optimizer="sgd", warmup=1), steps=1, bare=False
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }
    with pytest.raises(RunFailed) as error:
        Capture(request, JaxRecorder(), tmp_path, environment).runs(parse_variants(["none"]))
    assert str(error.value).startswith("none: trace.xplane.pb holds no GPU, only the host; ")
    assert (tmp_path / "none" / "failed" / "trace.xplane.pb").stat().st_size > 10_000
