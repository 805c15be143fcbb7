"""The stand-in for nsys is as strict as nsys: else what passes with it would prove little."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.fake_nsys.options import BUILDS, help_of, parse
from tests.fake_nsys.place import TRAINER
from tests.fake_nsys.program import install, version_of

NEWEST = (2026, 4)
USAGE = "usage: nsys profile [<args>] [application] [<application args>]"


@pytest.fixture
def nsys(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAKE_NSYS_CACHE", str(tmp_path_factory.getbasetemp()))

    def run(*words, release="2026.4"):
        program = install(tmp_path / release, release)
        command = [str(program), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("release", BUILDS)
def test_a_version_and_its_options_are_printed(nsys, release):
    assert nsys("--version", release=release).stdout.split()[-1] == BUILDS[release]
    for command in ("profile", "export"):
        assert nsys(command, "--help", release=release).stdout == help_of(
            command, version_of(release)
        )


@pytest.mark.parametrize(
    ("option", "releases"),
    [
        ("--capture-range-end=", {*BUILDS} - {"2021.3"}),
        ("--cuda-graph-trace=", {*BUILDS} - {"2021.3", "2021.5"}),
        ("--cuda-event-trace=", {"2025.5", "2026.1", "2026.4"}),
        ("--discard-environment=", {"2025.5", "2026.1", "2026.4"}),
        ("'cuda-sw'", {"2025.5", "2026.1", "2026.4"}),
        ("--gpu-metrics-device=", {"2021.5", "2022.4", "2023.4"}),
        ("--gpu-metrics-devices=", {"2024.6", "2025.5", "2026.1", "2026.4"}),
        ("'cpu'", {"2021.3", "2021.5"}),
    ],
)
def test_an_option_is_known_to_some_releases(option, releases):
    assert {each for each in BUILDS if option in help_of("profile", version_of(each))} == releases


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "cuda,nvtx", "-s", "none"],
        ["-tcuda,nvtx", "-snone"],
        ["--trace", "cuda,nvtx", "--sample=none"],
    ],
)
def test_options_are_read_in_each_form_up_to_the_command(words):
    options, command = parse("profile", NEWEST, [*words, "python", "-t", "x"])
    assert options == {"--trace": "cuda,nvtx", "--sample": "none"}
    assert command == ["python", "-t", "x"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--no-such=1"], "unrecognised option '--no-such'"),
        (["--cuda-event-trace=maybe"], "Illegal --cuda-event-trace argument 'maybe'."),
        (["--trace=cuda,what"], "Illegal --trace argument 'cuda,what'."),
        (["--sample=cpu"], "Illegal --sample argument 'cpu'."),
        (["--stats=true", "--stats=true"], "option '--stats' cannot be specified more than once"),
        (["-o"], "the required argument for option '--output' is missing"),
    ],
)
def test_what_is_not_known_ends_the_program(capsys, words, reason):
    with pytest.raises(SystemExit) as ended:
        parse("profile", NEWEST, words)
    assert ended.value.code == 1
    advice = "Try 'nsys profile --help' for more information."
    assert capsys.readouterr().err.splitlines() == [reason, "", USAGE, advice]


@pytest.mark.parametrize(
    "words",
    [
        ["--capture-range=nvtx"],
        ["--nvtx-capture=a"],
        ["--trace=cuda,cuda-sw"],
        ["--trace=cuda-sw", "--cuda-graph-trace=node:host-and-device"],
        ["--python-backtrace=cuda"],
    ],
)
def test_what_contradicts_itself_ends_the_program(nsys, words):
    done = nsys("profile", *words, "true")
    assert done.returncode == 1
    assert USAGE in done.stderr


def test_an_old_spelling_is_taken_with_a_warning(capsys):
    options, _ = parse("profile", NEWEST, ["--gpu-metrics-device=all", "true"])
    assert options == {"--gpu-metrics-devices": "all"}
    assert "is deprecated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--capture-range-end=stop"], 0),
        ([], 128 + signal.SIGTERM),
        (["--kill=sigkill"], 128 + signal.SIGKILL),
        (["--kill=none"], 0),
    ],
)
def test_the_end_of_a_range_ends_the_command_unless_told_otherwise(nsys, tmp_path, options, code):
    waits = [] if code == 0 else ["--wait-for", tmp_path / "never"]
    words = ["-c", "cudaProfilerApi", *options, "-o", "r", *TRAINER, *waits]
    assert nsys("profile", *words).returncode == code
    assert len(json.loads((tmp_path / "r.nsys-rep").read_text())["steps"]) == 3


def test_the_exit_code_is_that_of_the_command(nsys):
    assert nsys("profile", sys.executable, "-c", "raise SystemExit(42)").returncode == 42


def test_an_output_is_named_by_its_forms_and_not_replaced(nsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    words = ["profile", "-o", "100%%_%q{SLURM_PROCID}", "true"]
    nsys(*words)
    assert (tmp_path / "100%_3.nsys-rep").exists()
    assert "File exists" in nsys(*words).stderr
    assert "File exists" not in nsys("profile", "-f", "true", *words[1:]).stderr
    assert nsys("profile", "-o", "%z", "true").returncode == 1


def test_an_export_has_the_tables_asked_for(nsys, tmp_path):
    nsys("profile", "-o", "r", "true")
    done = nsys("export", "--type", "sqlite", "--tables", "NVTX_.*,StringIds", "r.nsys-rep")
    assert done.returncode == 0
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert names == {"NVTX_EVENTS", "StringIds"}
    assert nsys("export", "r.nsys-rep").returncode == 1  # it is there
