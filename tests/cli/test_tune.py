"""`nsysoffload tune` and `capture --with-profile`, predicted and under a fake nsys."""

import gzip
import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.recorders.measured import request
from tests.fake_nsys.place import Place
from tests.fake_nsys.program import ROOT
from tests.profiles.modules import FINGERPRINT

FLAG = "--xla_gpu_pgle_profile_file_or_directory_path"
GUIDED = (sys.executable, str(ROOT / "tests" / "profiles" / "guided_trainer.py"))


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def fine(result):
    assert result.exit_code == 0, result.output
    return result


def texts(folder):
    """Return what is in the reports and manifests of a folder, and in the text of its modules."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".md", ".json", ".pbtxt"):
            found[path] = path.read_text()
        if path.suffix == ".gz":
            found[path] = gzip.decompress(path.read_bytes()).decode()
    return found


# --- Predicted ---

VARIANT = "offload:mlp_gate,mlp_up"
OPTIONS = (
    *("--recorder", "predict", "--model", "tiny", "--mesh", "fsdp=2", "--layers", 3),
    *("--batch", 4, "--seq", 64, "--optimizer", "sgd", "--variant", VARIANT),
    *("--xla-preset", "pipelined", "--steps", 5),
)
RUN = "offload-mlp_gate,mlp_up"


@pytest.fixture(scope="module")
def workplace(compiler, tmp_path_factory):
    """A folder with a run, and its profile in a place whose name has a space."""
    folder = tmp_path_factory.mktemp("workplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fine(invoke("capture", *OPTIONS, "-o", "runs"))
        fine(invoke("profile", f"runs/{RUN}", "-o", "secret place/8b"))
    return folder


@pytest.fixture
def here(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    return workplace


def test_a_prediction_with_a_profile_has_a_folder_of_its_own_and_names_no_place(here):
    result = fine(invoke("capture", *OPTIONS, "--with-profile", "secret place/8b", "-o", "runs"))
    assert result.stdout.splitlines()[-1] == f"runs/{RUN}-profiled"
    told = [line for line in result.stderr.splitlines() if line.startswith("XLA found")]
    found, every = (int(word) for word in told[0].split() if word.isdecimal())
    assert found > 0.95 * every
    manifests = [
        json.loads((here / "runs" / run / "manifest.json").read_text())
        for run in (RUN, f"{RUN}-profiled")
    ]
    flags = [manifest["xla_flags"] for manifest in manifests]
    assert flags[1] == [*flags[0], f"{FLAG}=8b"]
    assert manifests[0]["program"] == manifests[1]["program"]
    fine(invoke("compare", "runs", "-o", "runs/compare"))
    fine(invoke("analyze", f"runs/{RUN}-profiled", "--format", "json", "-o", "runs/report"))
    said = texts(here / "runs")
    assert len(said) == 8  # two modules, two manifests, three comparisons, a report
    assert f"{FLAG}=8b" in said[here / "runs/compare/report.json"]
    assert f"{FLAG}=8b" in said[here / "runs/report/report.json"]
    for text in said.values():
        assert str(here) not in text
        assert "secret place" not in text


def test_an_interrupted_tune_goes_on_and_a_finished_one_is_there(here):
    shutil.copytree(f"runs/{RUN}", "tuned/before")
    first = fine(invoke("tune", *OPTIONS, "-o", "tuned"))
    assert "before: there already\n" in first.stderr
    assert "after: there already" not in first.stderr
    assert "Warning [profile]: The times are modelled" in first.stderr
    assert {path.name for path in Path("tuned").iterdir()} == {
        "before",
        "profile",
        "after",
        "compare",
    }
    lines = first.stdout.splitlines()
    assert lines[0].startswith("Predicted: ")
    (kept,) = [line for line in lines if line.startswith("Kept: tuned/")]
    assert "in the model's range" in kept
    manifest = json.loads(Path("tuned/after/manifest.json").read_text())
    assert manifest["xla_flags"][-1] == f"{FLAG}=profile"
    again = fine(invoke("tune", *OPTIONS, "-o", "tuned"))
    assert "after: there already\n" in again.stderr
    assert "compiled in" not in again.stderr
    assert again.stdout.splitlines()[-len(lines) :] == lines
    for text in texts(here / "tuned").values():
        assert str(here) not in text


def test_a_profile_of_other_flags_is_refused_before_anything_is_compiled(here):
    words = [*OPTIONS, "--xla-preset", "default", "--with-profile", "secret place/8b", "-o", "new"]
    result = invoke("capture", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: The profile was made with other XLA flags" in result.stderr
    assert not Path("new").exists()


def test_a_folder_that_is_no_profile_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("capture", *OPTIONS, "--with-profile", "absent")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: absent says nothing of what it was made for" in result.stderr


def test_only_a_model_is_tuned():
    result = invoke("tune", "--recorder", "predict")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Say what to tune: --model M" in result.stderr


# --- Measured ---

MODEL = ("--model", "tiny", "--variant", "remat", "--xla-preset", "pipelined", "--no-bare")


@pytest.fixture
def place(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(request, "TRAINER", GUIDED)
    monkeypatch.setenv("FAKE_NSYS_SCENARIO", "xla")
    return Place.make(tmp_path / "work", tmp_path_factory.getbasetemp(), monkeypatch)


def test_a_measured_run_with_a_profile_has_a_folder_of_its_own_and_names_no_place(place):
    fine(place.capture(*MODEL))
    fine(place.command("profile", "out/remat", "-o", "secret place/8b"))
    result = fine(place.capture(*MODEL, "--with-profile", "secret place/8b"))
    assert result.stdout == "out/remat-profiled\n"
    assert "remat: XLA found an instruction for 5 of 5 costs of the profile.\n" in result.stderr
    manifest = place.manifest("remat-profiled")
    assert manifest["variant"] == manifest["program"]["policy"] == "remat"
    assert manifest["recording"]["xla_flags"][-1] == manifest["xla_flags"][-1] == f"{FLAG}=8b"
    fine(place.command("compare", "out", "-o", "out/compare", "--anyway"))
    fine(place.command("analyze", "out/remat-profiled", "--format", "md", "-o", "out/report"))
    said = texts(place.folder / "out")
    assert f"{FLAG}=8b" in said[place.folder / "out/report/report.md"]
    for text in said.values():
        assert str(place.folder) not in text
        assert "secret place" not in text


def test_a_measured_run_of_another_module_is_warned_of(place):
    fine(place.capture(*MODEL))
    fine(place.command("profile", "out/remat", "-o", "8b"))
    account = place.folder / "8b" / "profile.json"
    account.write_text(account.read_text().replace(FINGERPRINT, "f" * 32))
    (place.folder / "8b" / f"{FINGERPRINT}.pbtxt").rename(place.folder / "8b" / f"{'f' * 32}.pbtxt")
    result = fine(place.capture(*MODEL, "--with-profile", "8b"))
    assert "Warning [profile]: remat: The profile is of the module ffff" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--xla-preset", "lhs"), "The profile was made with other XLA flags"),
        (("--variant", "none"), "its policy is remat, and none is asked for"),
    ],
)
def test_what_a_profile_is_not_of_is_refused_before_anything_runs(place, words, said):
    fine(place.capture(*MODEL))
    fine(place.command("profile", "out/remat", "-o", "8b"))
    shutil.rmtree(place.folder / "out")
    result = place.capture(*MODEL, *words, "--with-profile", "8b")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not (place.folder / "out").exists()


def test_a_model_is_tuned_by_measuring(place):
    words = ("tune", *MODEL, "--nsys", place.nsys, "-o", "tuned")
    result = fine(place.command(*words))
    folder = place.folder / "tuned"
    assert {path.name for path in folder.iterdir()} == {"before", "profile", "after", "compare"}
    assert "remat: XLA found an instruction for 5 of 5 costs of the profile.\n" in result.stderr
    assert "The program runs on 2 GPUs, and 1 were traced" in result.stderr
    *_, kept, _, flags = result.stdout.splitlines()
    assert kept.startswith("Kept: tuned/after, with the profile; a step with it takes 10.0 % less")
    (setting,) = shlex.split(flags)
    assert setting.startswith("XLA_FLAGS=--xla_gpu_enable_command_buffer= ")
    assert "--xla_gpu_enable_pipelined_host_offloading=true" in setting
    assert setting.endswith(f" {FLAG}={folder}/profile")
    for text in texts(folder).values():
        assert str(place.folder) not in text


def test_one_of_several_ranks_is_not_tuned_alone(place, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    result = place.command("tune", *MODEL, "--nsys", place.nsys, "-o", "tuned")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "This is one of several ranks" in result.stderr
    assert not (place.folder / "tuned").exists()


def test_a_recording_that_fails_ends_a_tune_with_its_cause(place, monkeypatch):
    monkeypatch.setenv("FAKE_NSYS_SCENARIO", "no_kernels")
    result = place.command("tune", *MODEL, "--nsys", place.nsys, "-o", "tuned")
    assert result.exit_code == 3
    assert "launches but no kernels" in result.stderr
    assert not (place.folder / "tuned" / "after").exists()


def test_a_run_without_names_of_xla_gives_no_profile(place, monkeypatch):
    monkeypatch.setenv("FAKE_NSYS_SCENARIO", "")
    result = place.command("tune", *MODEL, "--nsys", place.nsys, "-o", "tuned")
    assert result.exit_code == 2
    assert "Error: The trace names no operations of XLA" in result.stderr
    assert {path.name for path in (place.folder / "tuned").iterdir()} == {"before"}
