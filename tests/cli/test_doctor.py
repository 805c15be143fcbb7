import json
import sys
from functools import partial

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.recorders.doctor import examine
from tests.recorders.fake_machine import GIB, FakeMachine, install, program

CHECKS = {"nsys", "gpu", "memory", "output", "temporary", "profilers", "jax"}


@pytest.fixture
def machine(tmp_path, monkeypatch) -> FakeMachine:
    """Return a machine, which is what the command looks at."""
    made = FakeMachine(tmp_path / "root")
    said = "case $1 in --version) echo 'version 2025.5.1.121';; *) echo '--trace=';; esac"
    program(tmp_path / "bin/nsys", said)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("nsysoffload.recorders.doctor.examine", partial(examine, root=made.root))
    monkeypatch.chdir(tmp_path)
    return made


def run(*words, **options):
    return CliRunner().invoke(main, ["doctor", *words], **options)


def packages(monkeypatch, folder, installed):
    """Put packages before those that are installed."""
    monkeypatch.setattr(sys, "path", [install(installed, folder), *sys.path])


def test_the_first_line_says_what_can_be_recorded(machine, monkeypatch, tmp_path):
    packages(monkeypatch, tmp_path / "site", {"jax": "0.11.0", "jaxlib": "0.11.0"})
    result = run()
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == (
        "This machine can record with: nsys; not with: jax, predict."
    )


def test_problems_stand_in_aligned_lines_of_at_most_80_columns(machine, monkeypatch, tmp_path):
    packages(monkeypatch, tmp_path / "site", {"jax": "0.11.0", "jaxlib": "0.11.0"})
    machine.cgroup2("/", {".": str(48 * GIB)})
    lines = run().stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "warning memory     XLA's pool of pinned memory may grow to 64 GiB; the machine" in lines
    assert (
        "problem jax        jax 0.11.0 returns wrong gradients, without a warning, for a" in lines
    )
    (first, *_) = [line for line in lines if line.startswith("ok      nsys")]
    assert first.startswith("ok      nsys       nsys 2025.5.1.121 is there:")


def test_nothing_at_all_can_be_recorded_and_that_is_still_an_answer(machine, tmp_path):
    (tmp_path / "file").touch()
    result = run("-o", "file/runs")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "This machine can record with: nothing."
    assert "problem output     The output folder cannot be written to." in result.stdout


def test_json_is_one_object_with_the_same_checks(machine):
    machine.grace_hoppers()
    result = run("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["schema"] == "nsysoffload-doctor/1"
    assert found["recorders"]["nsys"] == {"usable": True, "reason": None}
    assert {check["name"] for check in found["checks"]} >= CHECKS | {"numa", "permission"}
    for check in found["checks"]:
        assert check.keys() == {"name", "state", "text", "advice"}
    assert found["nsys"]["version"] == "2025.5.1.121"
    assert [gpu["node"] for gpu in found["machine"]["gpus"]] == [0, 1, 2, 3]
    assert found["machine"]["memory"]["machine_bytes"] == 512 * GIB


def test_an_nsys_can_be_named(machine, tmp_path):
    said = "case $1 in --version) echo 'version 2024.6.2.225';; *) echo '--trace=';; esac"
    other = program(tmp_path / "other/nsys", said)
    found = json.loads(run("--json", "--nsys", str(other)).stdout)
    assert found["nsys"] == {"path": str(other), "version": "2024.6.2.225"}
    missing = json.loads(run("--json", "--nsys", "absent").stdout)
    assert missing["nsys"] is None
    assert missing["recorders"]["nsys"]["reason"].startswith("'absent' is no program")


def test_colours_are_left_out_where_no_terminal_is(machine):
    assert "\x1b" not in run(env={"FORCE_COLOR": None, "TERM": "xterm-256color"}).stdout


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_it_shows_of_this_machine_names_neither_user_nor_folders(words, monkeypatch, tmp_path):
    private = {"USER": "somebody", "HOSTNAME": "some-host", "HOME": str(tmp_path / "home")}
    paths = {"TMPDIR": str(tmp_path), "CUDA_INJECTION64_PATH": str(tmp_path / "lib.so"), "PATH": ""}
    for name, value in (private | paths).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 0
    assert "CUDA_INJECTION64_PATH" in result.stdout
    for word in ("somebody", "some-host", str(tmp_path)):
        assert word not in result.stdout


def test_nothing_is_written(machine, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    run("-o", "runs/deep")
    assert sorted(tmp_path.rglob("*")) == before
