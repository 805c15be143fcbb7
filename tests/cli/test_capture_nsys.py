"""`nsysoffload capture` under a fake nsys: what it runs, and what it leaves behind."""

import getpass
import json
import shlex
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.recorders.machine import has_gpu
from nsysoffload.recorders.measured import request
from nsysoffload.recorders.nsys.tool import installed
from tests.fake_nsys.options import BUILDS, parse
from tests.fake_nsys.place import TRAINER, Place
from tests.fake_nsys.program import install, version_of

LATENCY_HIDING = "--xla_gpu_enable_latency_hiding_scheduler=true"
PAIR = ("--variant", "offload", "--variant", "remat")
WHOLE_RUN = {"log.txt", "manifest.json", "trace.nsys-rep", "trace.sqlite"}
MODULE = "schedule.hlo.gz"  # which the workloads leave


@pytest.fixture
def place(tmp_path, tmp_path_factory, monkeypatch):
    return Place.make(tmp_path, tmp_path_factory.getbasetemp(), monkeypatch)


@pytest.fixture
def trainer(monkeypatch):
    """Let a program that is quick stand for the workloads."""
    monkeypatch.setattr(request, "TRAINER", TRAINER)


def names(folder):
    return {path.name for path in folder.iterdir()}


def recorded(result):
    assert result.exit_code == 0, result.output
    return result


def appears(path, process):
    """Wait for a file that a process is to write."""
    while not (path.exists() and path.read_text()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    return path


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- Commands ---


def shown(place, *words):
    """Return a dry run, free of what differs between machines."""
    before = sorted(place.folder.rglob("*"))
    text = recorded(place.capture("--dry-run", *words)).stdout
    assert sorted(place.folder.rglob("*")) == before
    text = text.replace(str(place.nsys), "nsys").replace(shlex.quote(sys.executable), "python")
    return f"$ nsysoffload capture --dry-run {shlex.join(words)}\n{text}"


@pytest.mark.parametrize("release", BUILDS)
def test_commands_are_those_that_each_nsys_can_run(golden, place, release):
    install(place.nsys.parent, release)
    command = ("--", "python", "train.py", "--data", "a b")
    runs = [
        shown(place, "--model", "llama3.2-1b", "--mesh", "fsdp=8", *PAIR),
        shown(place, "--xla-preset", "lhs", *command),
        shown(
            place,
            "--range",
            "profiler-api",
            "--variant",
            "offload=XLA_FLAGS=--xla_a=1 policy=offload",
            *command,
        ),
        shown(place, "--range", "nvtx:warm steps", "--bare", *command),
        shown(place, "--delay", "60", "--duration", "5.5", *command),
    ]
    golden(f"nsys/{release}.txt", "\n".join(runs))
    for line in "".join(runs).splitlines():
        if " nsys profile " in line:
            words = shlex.split(line.partition(" nsys profile ")[2])
            assert parse("profile", version_of(release), words)[1][0] == "python"


@pytest.mark.parametrize(
    ("release", "options", "steps"),
    [
        ("2021.3", ("--range", "profiler-api"), 3),
        ("2021.3", ("--range", "nvtx:recorded steps"), 3),
        ("2026.4", ("--range", "profiler-api"), 3),
        ("2026.4", ("--range", "nvtx:recorded steps"), 3),
        ("2026.4", (), 6),
    ],
)
def test_what_is_recorded_is_what_each_nsys_was_asked_for(place, release, options, steps):
    install(place.nsys.parent, release)
    recorded(place.train(options=options))
    assert len(place.report()["steps"]) == steps
    recording = place.recording()
    assert recording["nsys_version"] == place.version
    assert recording["capture_range"] == (options[1].split(":")[0] if options else "whole")
    asked = place.report()["options"]
    for option, value in [("--cuda-graph-trace", "node"), ("--cuda-event-trace", "false")]:
        assert asked.get(option) == (None if option in recording["left_out"] else value)
    assert {asked["--sample"], asked["--cpuctxsw"]} == {"none"}


def test_what_an_old_nsys_does_not_know_is_left_out_and_noted(place):
    install(place.nsys.parent, "2022.4")
    recorded(place.train())
    assert place.recording()["left_out"] == ["--cuda-event-trace", "--discard-environment"]


def test_a_command_is_recorded_by_the_clock(place):
    recorded(place.train(options=("--delay", 0, "--duration", 600)))
    assert place.recording()["capture_range"] == "delay"
    too_late = place.train(options=("--delay", 600))
    assert too_late.exit_code == 3
    assert "no report of this run" in too_late.stderr


# --- What is left behind ---


def test_a_run_is_a_folder_that_can_be_analysed(place, trainer):
    result = recorded(place.capture("--model", "tiny", *PAIR))
    assert result.stdout == "out/offload\nout/remat\n"
    for variant in ("offload", "remat"):
        assert names(place.run(variant)) == {*WHOLE_RUN, MODULE}
        manifest = place.manifest(variant)
        assert (manifest["kind"], manifest["recorder"]) == ("measured", "nsys")
        assert manifest["variant"] == manifest["program"]["policy"] == variant
        assert len(manifest["steps"]) == 6
    recording = place.recording("offload")
    assert recording["trace"] == "cuda,nvtx"
    assert recording["capture_range"] == "profiler-api"
    assert (recording["left_out"], recording["notes"]) == ([], [])
    report = nsysoffload.analyze(place.run("offload"), skip_steps=0)
    assert report.trace.kind == "measured"
    assert len(report.devices[0].steps) == 3
    assert report.devices[0].per_step.d2h.bytes == 1 << 20


def test_an_old_nsys_leaves_a_report_with_its_own_suffix(place, trainer):
    install(place.nsys.parent, "2021.3")
    recorded(place.capture("--model", "tiny", "--variant", "remat"))
    assert names(place.run("remat")) == {*WHOLE_RUN, MODULE, "trace.qdrep"} - {"trace.nsys-rep"}
    # Without an option for the end of the range the training must live on by another one.
    assert place.recording("remat")["left_out"][-1] == "--capture-range-end"
    assert len(place.manifest("remat")["steps"]) == 6


def test_words_and_environment_of_a_variant_reach_its_command(place):
    variant = f"fast=XLA_FLAGS={LATENCY_HIDING} --nvtx 'a step' --steps 4"
    recorded(place.train(options=("--variant", variant, "--step-range", "a step")))
    assert [step[0] for step in place.report("fast")["steps"]] == ["a step"] * 4
    assert place.recording("fast")["xla_flags"] == [LATENCY_HIDING]


def test_flags_of_a_preset_reach_the_training(place, trainer):
    recorded(place.capture("--model", "tiny", "--variant", "remat", "--xla-preset", "lhs"))
    recording = place.recording("remat")
    assert recording["xla_preset"] == "lhs"
    assert LATENCY_HIDING in recording["xla_flags"]
    assert place.manifest("remat")["xla_flags"] == recording["xla_flags"]


def test_each_variant_has_a_compilation_cache_of_its_own_and_none_is_left(place):
    code = (
        "import os, pathlib; cache = pathlib.Path(os.environ['JAX_COMPILATION_CACHE_DIR']); "
        "print('cached', sorted(path.name for path in cache.glob('*'))); "
        "cache.mkdir(exist_ok=True); (cache / 'program').touch()"
    )
    recorded(
        place.capture("--bare", "--variant", "a", "--variant", "b", "--", "python", "-c", code)
    )
    for variant in "ab":
        log = (place.run(variant) / "log.txt").read_text()
        printed = [line for line in log.splitlines() if line.startswith("cached")]
        assert printed == ["cached []", "cached ['program']"]  # without and with the profiler
        assert names(place.run(variant)) == WHOLE_RUN


def test_a_manifest_names_no_machine_user_or_place(place):
    recorded(place.train(options=("--xla-flags", f"--xla_dump_to={place.folder}/dump")))
    assert place.recording()["xla_flags"] == ["--xla_dump_to=PATH"]
    text = (place.run() / "manifest.json").read_text()
    for private in (place.folder, TRAINER[1], sys.executable, socket.gethostname()):
        assert str(private) not in text
    assert f'"{getpass.getuser()}"' not in text


def test_a_run_is_named_after_its_command_where_no_folder_is_given(place):
    command = ["--nsys", place.nsys, "--", *TRAINER]
    result = place.command("capture", *command)
    assert recorded(result).stdout == "runs/fake_trainer/run\n"


# --- Where it may be ---


@pytest.mark.parametrize("name", ["with space", "Läufe-日本", "100%p %q{HOME} %%"])
def test_a_folder_may_have_any_name(tmp_path, tmp_path_factory, monkeypatch, name):
    place = Place.make(tmp_path / name, tmp_path_factory.getbasetemp(), monkeypatch)
    folder = place.folder / "out"
    recorded(place.train(options=("-o", folder, "--variant", "offload")))
    assert names(folder / "offload") == WHOLE_RUN


# --- Ranks ---


@pytest.mark.parametrize(
    ("variable", "size"),
    [
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_each_rank_has_a_folder_of_its_own(place, monkeypatch, variable, size):
    monkeypatch.setenv(size, "2")
    for rank in ("0", "1"):
        monkeypatch.setenv(variable, rank)
        recorded(place.train(options=("--variant", "offload")))
    assert names(place.run("offload")) == {"rank0", "rank1"}
    for rank in (0, 1):
        recording = place.recording(f"offload/rank{rank}")
        assert (recording["rank"], recording["ranks"]) == (rank, 2)
        assert names(place.run(f"offload/rank{rank}")) == WHOLE_RUN
        log = (place.run(f"offload/rank{rank}") / "log.txt").read_text()
        assert f"--output=out/offload/rank%q{{{variable}}}/.partial/trace" in shlex.split(log)


def test_a_single_task_is_no_rank(place, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    recorded(place.train())
    assert place.recording()["rank"] is None


# --- Several at once, and interrupts ---


def test_two_captures_into_one_folder_are_one_too_many(place):
    pid, go = place.folder / "pid", place.folder / "go"
    with place.capturing("--", *TRAINER, "--pid-file", pid, "--wait-for", go) as first:
        appears(pid, first)
        second = place.train()
        assert second.exit_code == 2
        assert "Error: Another run is being recorded into out/run; wait for it" in second.stderr
        go.touch()
        assert first.communicate(timeout=60)[0] == "out/run\n"
        assert first.returncode == 0
    assert names(place.run()) == WHOLE_RUN


def test_two_captures_into_two_folders_do_not_meet(place):
    a, b = place.folder / "a", place.folder / "b"  # each goes on until the other has begun
    words = ("--", *TRAINER, "--pid-file")
    with (
        place.capturing("--variant", "a", *words, a, "--wait-for", b) as first,
        place.capturing("--variant", "b", *words, b, "--wait-for", a) as second,
    ):
        assert first.communicate(timeout=60)[0] == "out/a\n"
        assert second.communicate(timeout=60)[0] == "out/b\n"
    for variant in "ab":
        assert names(place.run(variant)) == WHOLE_RUN


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupt_ends_the_command_and_keeps_what_is_complete(place, number, code):
    pid = place.folder / "pid"
    waiting = f"second=--pid-file {shlex.quote(str(pid))} --wait-for never"
    variants = ("--variant", "first", "--variant", waiting)
    with place.capturing(*variants, "--", *TRAINER) as process:
        child = int(appears(pid, process).read_text())
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (code, "")
    assert not is_running(child)
    assert names(place.folder / "out") == {"first"}
    assert names(place.run("first")) == WHOLE_RUN
    assert names(place.folder / "tmp") == set()


# --- Which recorder ---


def test_the_nsys_on_the_path_records_unless_told_otherwise(place, monkeypatch):
    monkeypatch.setenv("PATH", str(place.nsys.parent), prepend=":")
    recorded(place.command("capture", "-o", "out", "--", *TRAINER))
    assert place.manifest()["recorder"] == "nsys"


def test_without_nsys_and_gpu_a_prediction_is_offered(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    if installed() or has_gpu():
        pytest.skip("there is an nsys or a GPU")
    result = place.command("capture", "--model", "tiny")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: There is neither nsys nor a GPU here, so nothing can be measured; predict the run "
        "with --recorder predict, or see nsysoffload doctor.\n"
    )


# --- Usage ---


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--range", "sometimes"], "'sometimes' is no range"),
        (["--range", "whole", "--delay", "1"], "exclude each other"),
        (["--variant", "a", "--variant", "a=b"], "would share the folder a"),
        (["--nsys-args", "-o x"], "name the folder with -o instead"),
        (["--nsys", "absent"], "'absent' is no program that can be run"),
        (["--step-range", "("], "is no regular expression"),
        (["--target", "gb200"], "--target is an option of --recorder predict"),
        (["--xla-flags", "fast"], "'fast' is no XLA flag"),
        (["--bare", "--nsys-args", "'open"], "cannot be read"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_runs(place, words, text):
    pid = place.folder / "pid"
    result = place.train("--pid-file", pid, options=words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
    assert not pid.exists()
    assert not (place.folder / "out").exists()


def test_either_a_model_or_a_command_has_to_be_named(place):
    for words in ([], ["--model", "tiny", "--", "x"]):
        result = place.capture(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Say what to record: either --model M, or a command" in result.stderr


# --- The workloads themselves ---


def test_the_stand_in_for_the_workloads_writes_what_they_write(place, trainer):
    from dataclasses import fields

    from workloads.manifest import Manifest

    recorded(place.capture("--model", "tiny", "--no-bare"))
    own = {field.name for field in fields(Manifest)}
    assert set(place.manifest("offload")) == {*own, "recorder", "variant", "recording"}


def test_a_model_of_the_workloads_is_trained_and_recorded(place, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    sizes = ("--layers", 1, "--batch", 1, "--seq", 16, "--warmup", 1, "--steps", 2)
    words = ("--variant", "none", "--variant", "remat", *sizes)
    recorded(place.capture("--model", "tiny", *words))
    numerics = place.recording("none")["numerics"]
    assert (numerics["agree"], numerics["against"]) == (True, "remat")
    recording = place.recording("remat")
    assert recording["overhead"] is not None
    assert "--xla_gpu_enable_command_buffer=" in recording["xla_flags"]
    manifest = place.manifest("remat")
    assert [step["profiled"] for step in manifest["steps"]] == [False, True, True]
    assert json.dumps(manifest).count(str(place.folder)) == 0
