"""What a run folder says of its trace, and the folders of ranks."""

import json
from pathlib import Path
from typing import Any

import pytest

from nsysoffload.errors import TraceError
from nsysoffload.trace.numerics import Curve, Losses
from nsysoffload.trace.run_folder import (
    MANIFEST,
    Numerics,
    RunFolder,
    RunMemory,
    rank_traces,
    read,
    report_name,
)
from nsysoffload.trace.workload import Workload

RECORDING = {
    "nsys_version": "2025.5.1.121",
    "trace": "cuda,nvtx",
    "capture_range": "profiler-api",
    "left_out": ["--discard-environment"],
    "rank": 0,
    "ranks": 8,
    "steps": 3,
    "bare_step_ms": 100.0,
    "profiled_step_ms": 130,
    "overhead": 0.3,
    "overhead_null_reason": None,
    "xla_preset": "default",
    "xla_flags": ["--xla_a=1"],
    "expect_offload_bytes": 2**34,
    "numerics": {"agree": False, "against": "remat", "text": "numerics differ from step 2"},
    "notes": ["Recorded with software tracing."],
}
WORKLOAD = Workload("tiny", 2, 8, 128, "fsdp=8", "adam", False)
NEEDS = {
    "argument_bytes": 40,
    "temp_bytes": 60,
    "output_bytes": 40,
    "alias_bytes": 40,
    "host_argument_bytes": 0,
    "device_need_bytes": 100,
    "host_need_bytes": 7,
}


def manifest(**more: Any) -> dict[str, Any]:
    base = {"schema": MANIFEST, "kind": "measured", "variant": "offload", "recording": RECORDING}
    return base | more


def folder(path: Path, content: Any) -> RunFolder:
    (path / "manifest.json").write_text(
        content if isinstance(content, str) else json.dumps(content)
    )
    return read(path / "trace.sqlite")


def ranks(path: Path, *numbers: int) -> Path:
    for number in numbers:
        place = path / f"rank{number}"
        place.mkdir(parents=True)
        (place / "trace.sqlite").touch()
    return path


# --- Manifests ---


def test_a_manifest_says_how_a_run_was_recorded(tmp_path):
    recording = folder(tmp_path, manifest()).recording
    said = vars(recording)
    assert said.pop("variant") == "offload"
    assert (said.pop("losses"), said.pop("workload")) == (None, None)
    assert said.pop("numerics") == Numerics(False, "remat", "numerics differ from step 2")
    lists = {name: tuple(v) for name, v in RECORDING.items() if isinstance(v, list)}
    expected = {name: v for name, v in RECORDING.items() if name != "numerics"} | lists
    assert said == expected
    assert isinstance(recording.profiled_step_ms, float)


def test_losses_and_what_was_trained_are_told_whole_or_not_at_all(tmp_path):
    losses = {
        "loss": {"values": {"3": 2.5, "4": None}, "unit": 0.01},
        "grad_norm": {"values": {}, "unit": 0},
    }
    program = vars(WORKLOAD) | {"policy": "remat", "seed": 0}
    told = manifest(recording=RECORDING | {"losses": losses}, program=program)
    recording = folder(tmp_path, told).recording
    assert recording.losses == Losses(Curve({3: 2.5, 4: None}, 0.01), Curve({}))
    assert recording.workload == WORKLOAD
    del program["seq"], losses["loss"]["unit"]
    losses["loss"]["values"]["x"] = 1.0
    recording = folder(tmp_path, told).recording
    assert (recording.losses, recording.workload) == (None, None)


def test_memory_is_the_compilers_count_and_the_most_that_was_in_use(tmp_path):
    found = folder(tmp_path, manifest(memory=NEEDS, device_peak_bytes=123))
    assert found.memory == RunMemory(100, 40, 60, 40, 40, 7, 123)
    assert folder(tmp_path, manifest(memory=NEEDS)).memory == RunMemory(
        100, 40, 60, 40, 40, 7, None
    )


@pytest.mark.parametrize("needs", [None, [], {}, NEEDS | {"temp_bytes": "60"}])
def test_memory_is_not_known_unless_all_of_it_is(tmp_path, needs):
    assert folder(tmp_path, manifest(memory=needs)).memory is None


def test_a_manifest_of_the_workload_alone_says_nothing_of_a_recording(tmp_path):
    content = manifest(memory=NEEDS)
    del content["recording"]
    found = folder(tmp_path, content)
    assert (found.recording, found.warnings) == (None, ())
    assert found.memory is not None


@pytest.mark.parametrize("name", ["trace.sqlite", "step.sqlite"])
def test_without_a_manifest_of_its_own_a_trace_has_no_recording(tmp_path, name):
    if name == "step.sqlite":  # of any folder, in which a manifest is about something else
        (tmp_path / "manifest.json").write_text(json.dumps(manifest()))
    assert read(tmp_path / name) == RunFolder()


def test_what_was_predicted_says_so_in_the_trace_itself(tmp_path):
    assert folder(tmp_path, manifest(kind="predicted", memory=NEEDS)) == RunFolder()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param("{", "cannot be read", id="cut"),
        pytest.param("", "cannot be read", id="empty"),
        pytest.param("[" * 100_000, "cannot be read", id="nested"),
        pytest.param("null", "cannot be read", id="null"),
        pytest.param([1], "is not of the form nsysoffload-run/1", id="list"),
        pytest.param({"name": "app"}, "is not of the form nsysoffload-run/1", id="foreign"),
        pytest.param({"schema": "other/1"}, "is not of the form", id="other-schema"),
    ],
)
def test_a_damaged_or_foreign_manifest_is_ignored_with_a_warning(tmp_path, content, why):
    found = folder(tmp_path, content)
    (warning,) = found.warnings
    assert (found.recording, found.memory, warning.code) == (None, None, "manifest_ignored")
    assert warning.message.startswith(f"The manifest.json beside the trace {why}")


@pytest.mark.parametrize(
    ("field", "value", "read_as"),
    [
        ("overhead", "0.3", None),
        ("overhead", True, None),
        ("overhead", 1e300, None),
        ("overhead", -0.02, -0.02),
        ("rank", 1.5, None),
        ("rank", -1, None),
        ("ranks", 2**70, None),
        ("bare_step_ms", 10**400, None),
        ("expect_offload_bytes", [1], None),
        ("xla_preset", 7, None),
        ("numerics", "agree", None),
        ("numerics", {"agree": 1, "text": []}, Numerics(None, None, None)),
        ("notes", "one", ()),
        ("notes", ["one", 2, None, "three"], ("one", "three")),
        ("left_out", None, ()),
        ("xla_preset", "p" * 3_000, "p" * 1_000),
        ("notes", ["n"] * 200, ("n",) * 50),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_as_if_it_was_not_there(
    tmp_path, field, value, read_as
):
    found = folder(tmp_path, manifest(recording=RECORDING | {field: value}))
    assert getattr(found.recording, field) == read_as
    assert found.recording.capture_range == "profiler-api"
    assert found.warnings == ()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_ignored(tmp_path, number):
    text = json.dumps(manifest()).replace('"overhead": 0.3', f'"overhead": {number}')
    assert folder(tmp_path, text).recording.overhead is None


def test_a_recording_of_another_kind_is_ignored(tmp_path):
    assert folder(tmp_path, manifest(recording=[1])) == RunFolder()


# --- Ranks ---


def test_the_ranks_of_a_folder_come_by_number(tmp_path):
    place = ranks(tmp_path / "offload", 10, 2, 0)
    (place / "rank1").mkdir()  # failed, without a trace
    (place / "rankless").mkdir()
    (place / "rankless" / "trace.sqlite").touch()
    assert rank_traces(place) == [place / f"rank{n}" / "trace.sqlite" for n in (0, 2, 10)]


def test_what_is_no_folder_of_ranks_stands_for_itself(tmp_path):
    place = ranks(tmp_path / "offload", 0)
    (place / "trace.sqlite").touch()
    for path in (place, place / "trace.sqlite", tmp_path, tmp_path / "absent"):
        assert rank_traces(path) == [path]


# --- Names of reports ---


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("offload", "offload"),
        ("offload/trace.sqlite", "offload"),
        ("runs/8b/offload", "8b/offload"),
        ("runs/8b/offload/trace.sqlite", "8b/offload"),
        ("runs/1b/offload", "1b/offload"),
        ("runs/8b/ranks", "8b/ranks"),
        ("runs/8b/ranks/rank1", "8b/ranks/rank1"),
        ("ranks/rank0/trace.sqlite", "ranks/rank0"),
        ("runs/../runs/1b/offload/.", "1b/offload"),
        ("runs/step.sqlite", "step"),
        ("runs/8b/offload/trace.nsys-rep", "8b/offload"),
    ],
)
def test_a_report_is_named_after_its_run_and_the_folder_of_runs(tmp_path, path, name):
    for run in ("offload", "runs/8b/offload", "runs/1b/offload"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "trace.sqlite").touch()
    (tmp_path / "runs/8b/offload/trace.nsys-rep").touch()
    (tmp_path / "runs/step.sqlite").touch()
    ranks(tmp_path / "runs/8b/ranks", 0, 1)
    ranks(tmp_path / "ranks", 0)
    assert report_name(tmp_path / path, tmp_path) == name


def test_a_run_outside_of_the_current_folder_is_named_likewise(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "runs/8b/offload").mkdir(parents=True)
    (tmp_path / "runs/8b/offload/trace.sqlite").touch()
    assert report_name(tmp_path / "runs/8b/offload", tmp_path / "here") == "8b/offload"
    assert report_name(tmp_path / "runs/8b/offload", tmp_path / "runs/8b/offload") == "offload"


def test_the_name_of_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="absent does not exist"):
        report_name(tmp_path / "absent", tmp_path)
