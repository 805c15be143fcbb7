"""Run folders: from a schedule that comes with the tool, and from real compilations."""

import gzip
import json
from dataclasses import asdict, replace

import pytest

import nsysoffload
from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.capture import (
    Request,
    capture,
    compiled,
    options_of,
    timed,
)
from nsysoffload.recorders.predict.constants import constants_for
from nsysoffload.recorders.predict.demo import REQUEST as DEMO
from nsysoffload.recorders.predict.demo import bundled
from nsysoffload.recorders.predict.process import CompileError
from workloads.config import model
from workloads.flops import flops

FILES = {"manifest.json", "schedule.hlo.gz", "trace.sqlite"}
REQUEST = replace(DEMO, steps=1)
TINY = Request(
    model="tiny", target="h100", layers=2, batch=2, seq=64, optimizer="sgd", preset="lhs", steps=2
)


def timed_bundle(folder, variant="offload"):
    return timed(REQUEST, variant, load(bundled(variant)), options_of(REQUEST), folder)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def manifest(run):
    return json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))


# --- Names and options ---


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({}, "tiny, batch 4, 128 tokens"),
        ({"mesh": "fsdp=8,tensor=2"}, "tiny, batch 32, 128 tokens, fsdp=8,tensor=2"),
        ({"mesh": "fsdp=8", "batch": 16}, "tiny, batch 16, 128 tokens, fsdp=8"),
        ({"layers": 2, "seq": 512}, "tiny, 2 layers, batch 4, 512 tokens"),
        (
            {"offload_optimizer": True, "optimizer": "sgd"},
            "tiny, batch 4, 128 tokens, sgd offloaded",
        ),
    ],
)
def test_a_run_is_called_by_its_model_and_sizes(fields, title):
    assert options_of(Request(model="tiny", target="gb200", **fields)).name == title


def test_measured_constants_replace_those_of_the_target(tmp_path):
    (tmp_path / "gemm.json").write_text('{"gemm_efficiency": 0.5}')
    given = Request(model="tiny", target="h100", efficiency=tmp_path / "gemm.json")
    before = {c.name: c for c in constants_for(TARGETS["h100"])}
    after = {c.name: c for c in options_of(given).constants}
    changed = after.pop("gemm_efficiency")
    assert (changed.low, changed.expected, changed.high) == (0.5, 0.5, 0.5)
    assert changed.origin == "measured: gemm.json"
    assert after == {name: c for name, c in before.items() if name != "gemm_efficiency"}


def test_routing_that_depends_on_data_is_a_note():
    (note,) = options_of(Request(model="tiny-moe", target="gb200")).notes
    assert "depends on data" in note
    assert options_of(Request(model="tiny", target="gb200")).notes == ()


def test_an_unknown_model_is_refused():
    with pytest.raises(UsageError, match=r"^There is no model 'gpt'; choose one of "):
        options_of(Request(model="gpt", target="gb200"))


# --- The folder of a run ---


@pytest.fixture(scope="module")
def bundled_run(tmp_path_factory):
    return timed_bundle(tmp_path_factory.mktemp("runs") / "offload")


def test_a_run_leaves_its_trace_its_schedule_and_a_manifest(bundled_run):
    assert set(content(bundled_run.folder)) == FILES
    packed = (bundled_run.folder / "schedule.hlo.gz").read_bytes()
    assert gzip.decompress(packed).decode() == load(bundled("offload")).text


def test_the_trace_of_a_run_is_that_of_its_record(bundled_run):
    report = nsysoffload.analyze(bundled_run.folder)
    record = bundled_run.predicted.record
    assert report.prediction == bundled_run.predicted.prediction
    assert report.prediction.variant == "offload"
    (device,) = report.devices
    assert device.trace.both.exposed_ns == record.transfers("both").exposed_ns > 0


def test_a_manifest_says_what_the_record_and_the_prediction_say(bundled_run):
    said, program = manifest(bundled_run), load(bundled("offload"))
    made, record = bundled_run.predicted.prediction, bundled_run.predicted.record
    assert (said["schema"], said["kind"], said["recorder"]) == (
        "nsysoffload-run/1",
        "predicted",
        "predict",
    )
    assert said["program"] == {
        "model": "llama3.2-1b",
        "policy": "offload",
        "mesh": "fsdp=8",
        "batch": None,
        "seq": None,
        "optimizer": "adam",
        "offload_optimizer": False,
        "layers": None,
    }
    assert (said["target"], said["devices"], said["preset"]) == ("gb200", 8, "default")
    assert said["xla_flags"] == list(program.flags)
    assert said["jax_version"] == program.jax_version
    assert said["compile_s"] == pytest.approx(program.seconds, abs=0.001)
    assert said["memory"] == asdict(program.memory)
    assert said["step"] == asdict(made.step)
    assert said["corners"] == [asdict(corner) for corner in made.corners]
    assert said["transfers"] == {
        way: asdict(record.transfers(way, 0)) for way in ("h2d", "d2h", "both")
    }
    assert said["kernel_copy_bytes"] == {"h2d": 0, "d2h": 0, "both": 0}
    assert said["phase_ns"] == record.phase_ns(0)
    assert (said["notes"], said["warnings"]) == (list(made.notes), list(made.warnings))


def test_a_manifest_counts_products_by_phase(tmp_path):
    run = timed_bundle(tmp_path, "remat")
    said = manifest(run)["flops"]
    formula = flops(model("llama3.2-1b"), 8, 4096)
    assert 8 * sum(said.values()) == pytest.approx(formula.model + formula.recompute, rel=0.01)
    assert 8 * said["recompute"] == pytest.approx(formula.recompute, rel=0.01)


def test_the_same_program_leaves_the_same_files(bundled_run, tmp_path):
    assert content(timed_bundle(tmp_path).folder) == content(bundled_run.folder)


def test_a_run_that_cannot_be_timed_leaves_an_earlier_one_as_it_was(bundled_run):
    before = content(bundled_run.folder)
    empty = replace(load(bundled("offload")), text="HloModule nothing")
    with pytest.raises(OffloadError):
        timed(REQUEST, "offload", empty, options_of(REQUEST), bundled_run.folder)
    assert content(bundled_run.folder) == before


def test_a_run_replaces_an_earlier_one(tmp_path):
    remat = timed_bundle(tmp_path, "remat")
    before = content(remat.folder)
    again = timed_bundle(tmp_path, "offload")
    assert again.folder == remat.folder
    assert set(content(tmp_path)) == FILES
    assert all(content(tmp_path)[name] != before[name] for name in FILES)


# --- Compiled here ---


@pytest.mark.usefixtures("compiler")
def test_variants_are_compiled_once_each_and_come_in_the_order_asked_for(tmp_path):
    said = []
    runs = capture(TINY, ["remat", "offload", "remat"], tmp_path, said.append)
    assert [run.variant for run in runs] == ["remat", "offload"]
    assert [run.folder for run in runs] == [tmp_path / "remat", tmp_path / "offload"]
    assert sorted(line.split(": compiled in ")[0] for line in said) == ["offload", "remat"]
    for run in runs:
        assert set(content(run.folder)) == {*FILES, "log.txt"}
        assert manifest(run)["program"]["policy"] == run.variant
        assert len(run.predicted.record.steps()) == 2
    remat, offload = (run.predicted.record.transfers("both") for run in runs)
    assert (remat.copies, offload.copies > 0) == (0, True)

    # The compiler may number things differently from run to run, but what is issued is the same.
    before = content(tmp_path / "offload")
    alone = timed(TINY, "offload", compiled(TINY, "offload"), options_of(TINY), tmp_path / "again")
    assert alone.predicted.program == runs[1].predicted.program
    assert (tmp_path / "again" / "trace.sqlite").read_bytes() == before["trace.sqlite"]

    unknown = replace(TINY, flags="--xla_no_such_flag=1")
    with pytest.raises(CompileError, match="has no flag --xla_no_such_flag=1; correct it"):
        capture(unknown, ["offload"], tmp_path)
    after = content(tmp_path / "offload")
    assert {name: after[name] for name in FILES} == {name: before[name] for name in FILES}
    assert after["log.txt"] == before["log.txt"]
    assert set(after) == {*before, "failed.log"}
