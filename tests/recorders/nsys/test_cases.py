"""Recordings that are not what they seem, and what the command line says of each."""

import subprocess
import sys
from pathlib import Path

import pytest

from nsysoffload.recorders.measured import request
from tests.fake_nsys.place import TRAINER, Place
from tests.fake_nsys.program import install

MIB = 1 << 20


@pytest.fixture
def place(tmp_path, tmp_path_factory, monkeypatch):
    return Place.make(tmp_path, tmp_path_factory.getbasetemp(), monkeypatch)


@pytest.fixture
def scenario(monkeypatch):
    return lambda name: monkeypatch.setenv("FAKE_NSYS_SCENARIO", name)


def quoted(result):
    """Return the lines of the log that are shown."""
    return [line[4:] for line in result.stderr.splitlines() if line.startswith("  | ")]


def failed(result, text, exit_code=3):
    """Check that a capture failed with a sentence in which a text stands; return the sentence."""
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert error.endswith(".")
    assert text in error
    return error


def recorded(result):
    assert result.exit_code == 0, result.output
    return result


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def files(folder):
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "failed"
    }


# --- Offloading that is none ---


def test_offloading_that_moves_nothing_is_refused(place):
    options = ("--variant", "offload", "--expect-offload", "16GiB")
    result = place.train("--d2h", 0, options=options)
    error = failed(result, "offload requested, 0 bytes device-to-host")
    assert error.startswith("Error: offload: ")


def test_bytes_near_what_is_expected_pass(place):
    options = ("--variant", "offload", "--variant", "remat=--d2h 0", "--expect-offload", "1MiB")
    recorded(place.train("--d2h", MIB, options=options))
    assert place.recording("offload")["expect_offload_bytes"] == MIB


def test_a_way_back_that_is_missing_is_refused(place):
    options = ("--variant", "offload", "--expect-offload", "1MiB")
    failed(place.train("--d2h", MIB, "--h2d", 0, options=options), "0 bytes host-to-device")


def test_a_model_has_to_offload_what_its_manifest_declares(place, monkeypatch):
    monkeypatch.setattr(request, "TRAINER", TRAINER)
    recorded(place.capture("--no-bare", "--model", "tiny", "--variant", "offload"))
    less = place.capture("--no-bare", "--model", "tiny", "--variant", "offload=--d2h 0")
    failed(less, "offload requested, 0 bytes device-to-host")


def test_what_xla_moved_to_the_host_is_quoted(place):
    line = (
        "W0000 host_offloader.cc:831] Found device compute on host memory: %multiply.7; "
        "converting into host compute. This is going to be very slow."
    )
    recorded(place.train("--say", line))
    (note,) = place.recording()["notes"]
    assert line in note
    assert "host" in note.replace(line, "")


def test_no_path_is_quoted_from_a_log(place):
    line = "W0000 /home/me/xla/host_offloader.cc:831] %multiply.7 (~/train.py:3) to host compute"
    recorded(place.train("--say", line))
    (note,) = place.recording()["notes"]
    assert note.endswith("W0000 PATH %multiply.7 (PATH to host compute")


def test_numerics_that_differ_make_the_figures_unusable(place):
    result = place.train(
        "--steps",
        3,
        "--warmup",
        0,
        options=(
            "--variant",
            "offload=--losses 2.31,2.24,2.19",
            "--variant",
            "remat=--losses 2.31,2.10,1.97",
        ),
    )
    error = failed(result, "numerics differ from step 2 of 3")
    assert error.startswith("Error: offload: ")
    assert "remat" in error
    numerics = place.recording("offload")["numerics"]
    assert (numerics["agree"], numerics["against"]) == (False, "remat")
    assert "step 2 of 3" in numerics["text"]
    assert place.recording("remat")["numerics"] is None
    for variant in ("offload", "remat"):
        assert (place.run(variant) / "trace.sqlite").exists()


def test_numerics_that_agree_are_noted(place):
    recorded(place.train(options=("--variant", "offload", "--variant", "remat")))
    numerics = place.recording("offload")["numerics"]
    assert (numerics["agree"], numerics["against"]) == (True, "remat")


# --- Memory ---


@pytest.mark.parametrize(
    ("words", "text", "line"),
    [
        pytest.param(
            [
                "--say",
                "E0000 RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes, allocator "
                "xla_gpu_host_bfc",
                "--exit",
                1,
            ],
            "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB",
            "xla_gpu_host_bfc",
            id="host pool",
        ),
        pytest.param(
            [
                "--say",
                "E0000 RESOURCE_EXHAUSTED: Allocator (GPU_0_bfc) ran out of memory trying to "
                "allocate 2.00GiB",
                "--exit",
                1,
            ],
            "the memory of the GPU is exhausted",
            "GPU_0_bfc",
            id="device",
        ),
        pytest.param(["--killed"], "killed (exit code 137)", None, id="killed without a word"),
        pytest.param(
            ["--say", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "--killed"],
            "memory limit of its container or job (cgroup)",
            "oom_kill",
            id="killed by the job",
        ),
    ],
)
def test_which_memory_ran_out_is_named(place, words, text, line):
    result = place.train(*words)
    failed(result, text)
    if line:
        assert [line in shown for shown in quoted(result)] == [True]


# --- Recordings without GPU work ---


@pytest.mark.parametrize(
    "line",
    [
        "E0000 cupti_tracer.cc:1204] CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        "function cupti_interface_->Subscribe failed with CUPTI error 39",
    ],
)
def test_another_user_of_cupti_is_named(place, scenario, line):
    scenario("no_kernels")
    result = place.train("--say", line)
    failed(result, "another user of CUPTI is in the process")
    assert quoted(result) == [line]
    assert not (place.run() / "trace.sqlite").exists()


def test_a_range_that_was_never_reached_left_no_report(place):
    words = ("--warmup", 9)  # of six steps
    result = place.train(*words, options=("--range", "profiler-api"))
    failed(result, "no report of this run")
    assert "No reports were generated." in quoted(result)


def test_an_older_file_is_never_taken_for_the_report(place, scenario):
    recorded(place.train())
    before = files(place.run())
    scenario("no_report")
    failed(place.train(), "no report of this run")
    assert files(place.run()) == before
    assert (place.run() / "failed" / "log.txt").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_cuda", "holds no GPU work"),
        ("no_kernels", "launches but no kernels"),
    ],
)
def test_a_report_without_kernels_is_refused(place, scenario, name, text):
    scenario(name)
    failed(place.train(), text)


def test_a_process_that_was_not_recorded_is_named(place, scenario):
    scenario("fork")
    error = failed(place.train(), "a process was not recorded")
    assert "12" in error  # two launches in each of six steps


# --- Steps ---


def test_work_before_the_first_step_is_no_step(place):
    failed(place.train("--early"), "0 whole steps instead of 3")


def test_too_few_steps_are_refused_and_as_many_as_asked_for_pass(place):
    words = ("--steps", 2, "--warmup", 0, "--profile-steps", 2)
    failed(place.train(*words), "2 whole steps instead of 3")
    recorded(place.train(*words, options=("--steps", 2)))


def test_steps_of_another_name_are_found_by_it(place):
    words = ("--nvtx", "my step", "--steps", 2)
    failed(place.train(*words, options=("--step-range", "my step")), "2 whole steps instead of 3")


@pytest.mark.parametrize("option", ["--step-range", "--step-kernel"])
def test_a_recording_is_kept_where_no_step_is_found_by_the_name_given(place, option):
    failed(place.train(options=(option, "absent")), option)
    assert (place.run() / "failed" / "trace.sqlite").exists()


def test_of_unmarked_steps_it_is_said_that_they_are_not_counted(place):
    result = recorded(place.train("--nvtx", "-"))
    (note,) = place.recording()["notes"]
    assert "not checked how many" in note
    assert note in result.stderr


# --- What nsys itself does ---


def test_a_report_too_new_for_its_nsys_leaves_no_export(place, scenario):
    scenario("newer")
    error = failed(place.train(), "created in a newer version")
    assert "2025.5.1.121" in error
    assert not list(place.folder.rglob("*.sqlite"))


@pytest.mark.parametrize("name", ["hardware_crash", "hardware_blind"])
def test_where_tracing_by_hardware_fails_it_is_done_by_software(place, scenario, name):
    scenario(name)
    result = recorded(place.train())
    recording = place.recording()
    assert recording["trace"] == "cuda-sw,nvtx"
    (note,) = recording["notes"]
    assert "software tracing (cuda-sw)" in note
    assert note in result.stderr
    assert place.report()["options"]["--trace"] == "cuda-sw,nvtx"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hardware_crash", "crashed (exit code 139)"),
        ("hardware_blind", "nsys failed at its own tracing"),
    ],
)
def test_an_nsys_without_software_tracing_is_not_tried_again(place, scenario, name, text):
    install(place.nsys.parent, "2023.4")
    scenario(name)
    failed(place.train(), text)
    log = (place.run() / "failed" / "log.txt").read_text()
    assert log.count("nsys profile ") == 1


def test_a_trace_that_the_user_chose_is_not_replaced(place, scenario):
    scenario("hardware_crash")
    failed(place.train(options=("--nsys-args", "-t cuda,nvtx")), "crashed (exit code 139)")
    log = (place.run() / "failed" / "log.txt").read_text()
    assert log.count("nsys profile ") == 1


def test_a_trace_that_the_user_chose_is_noted(place):
    recorded(place.train(options=("--nsys-args", "-t cuda,nvtx,osrt")))
    assert place.recording()["trace"] == place.report()["options"]["--trace"] == "cuda,nvtx,osrt"


def test_a_command_that_nsys_was_to_end_did_not_fail(place):
    options = ("--range", "profiler-api", "--nsys-args", "--capture-range-end=stop-shutdown")
    recorded(place.train("--wait-for", "never", options=options))


def test_a_full_disk_is_named_and_the_earlier_run_kept(place, scenario):
    recorded(place.train())
    before = files(place.run())
    scenario("disk_full")
    result = place.train()
    failed(result, "the disk is full")
    assert "No space left on device" in quoted(result)[0]
    assert files(place.run()) == before


def test_options_that_nsys_does_not_take_are_quoted(place):
    result = place.train(options=("--nsys-args", "--no-such-option=1"))
    failed(result, "nsys does not take its options")
    assert "usage: nsys profile [<args>] [application] [<application args>]" in quoted(result)


def test_what_one_nsys_takes_another_does_not(place):
    options = ("--nsys-args", "--gpu-metrics-devices=cuda-visible")
    recorded(place.train(options=options))
    assert place.report()["options"]["--gpu-metrics-devices"] == "cuda-visible"
    install(place.nsys.parent, "2022.4")
    failed(place.train(options=options), "nsys does not take its options")


# --- Commands that fail, hang or never begin ---


def test_the_exit_code_of_a_command_and_its_last_lines_are_shown(place):
    result = place.train("--say", "ValueError: no such dataset", "--exit", 42)
    failed(result, "the command ended with exit code 42")
    assert "ValueError: no such dataset" in quoted(result)
    assert "ValueError" in (place.run() / "failed" / "log.txt").read_text()


def test_a_command_that_is_not_there_is_named_before_anything_runs(place):
    result = place.capture("--", "no-such-program")
    failed(result, "'no-such-program' cannot be run", exit_code=2)
    assert not (place.folder / "out").exists()


def test_a_model_that_is_not_there_is_named_before_anything_runs(place):
    result = place.capture("--model", "gpt", "--variant", "remat")
    failed(result, "There is no model 'gpt'", exit_code=2)
    assert not (place.folder / "out").exists()


@pytest.mark.parametrize("words", [("--delay", "nan"), ("--timeout", "inf")])
def test_a_time_without_end_is_refused(place, words):
    result = place.train(options=words)
    assert result.exit_code == 2
    assert "is no time" in result.stderr


def test_the_log_of_a_failed_run_is_named(place):
    result = place.train("--exit", 5)
    log = place.folder / result.stderr.split("(the log: ")[1].split(")")[0]
    assert log.read_text().startswith("$ ")


def test_what_fails_without_the_profiler_is_not_recorded(place):
    result = place.train("--exit", 5, options=("--bare",))
    failed(result, "without the profiler, the command ended with exit code 5")
    assert "nsys profile" not in (place.run() / "failed" / "log.txt").read_text()


def test_a_command_that_takes_too_long_is_ended(place):
    pid = place.folder / "pid"
    words = ("--pid-file", pid, "--wait-for", "never")
    failed(place.train(*words, options=("--timeout", 3)), "longer than --timeout allows")
    assert not is_running(int(pid.read_text()))


def test_a_command_that_goes_on_after_its_report_is_ended_and_nobody_else(place):
    pid = place.folder / "pid"
    words = ("--pid-file", pid, "--wait-for", "never")
    sibling = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        recorded(place.train(*words, options=("--range", "profiler-api", "--grace", 0.5)))
        assert not is_running(int(pid.read_text()))
        assert is_running(sibling.pid)
    finally:
        sibling.kill()
        sibling.wait()
    (note,) = place.recording()["notes"]
    assert "still running 0.5 s after its report was complete" in note


def test_an_nsys_that_never_ends_is_ended(place, scenario):
    scenario("hang")
    recorded(place.train(options=("--grace", 0.5)))
    assert "was ended" in place.recording()["notes"][0]


# --- Overhead ---


def test_a_step_is_also_timed_without_the_profiler(place, monkeypatch):
    monkeypatch.setattr(request, "TRAINER", TRAINER)
    result = recorded(place.capture("--model", "tiny", "--variant", "remat"))
    recording = place.recording("remat")
    assert (recording["bare_step_ms"], recording["profiled_step_ms"]) == (100.0, 130.0)
    assert recording["overhead"] == pytest.approx(0.3)
    assert "+30.0% of 100.00 ms without the profiler" in result.stderr


def test_the_time_of_a_commands_step_is_read_from_its_log(place):
    recorded(place.train(options=("--bare",)))
    assert place.recording()["overhead"] == pytest.approx(0.3)


@pytest.mark.parametrize("words", [(), ("--bare", "--range", "profiler-api")])
def test_an_overhead_that_is_not_known_has_a_reason(place, words):
    recorded(place.train(options=words))
    recording = place.recording()
    assert recording["overhead"] is None
    assert recording["overhead_null_reason"]


def test_a_training_without_a_manifest_is_refused(place, monkeypatch):
    monkeypatch.setattr(request, "TRAINER", (sys.executable, "-c", "print('trained')"))
    failed(place.capture("--model", "tiny", "--no-bare"), "left no manifest")


def test_nothing_is_left_of_a_capture_in_the_folder_for_temporary_files(place, scenario):
    scenario("no_kernels")
    place.train()
    assert not [*(place.folder / "tmp").iterdir()]
