"""A study from end to end: runs that are kept, made, and failing, and the files that it leaves."""

import json
from dataclasses import replace

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.planning import plan
from nsysoffload.planning.model import Limits
from nsysoffload.planning.plan import FIXED
from nsysoffload.recorders.predict.versions import VersionError
from nsysoffload.study.cases import Statement, Study, Subject, Variant
from nsysoffload.study.study import study, write
from tests.study.examples import MODEL, STUDY, planted
from workloads.config import model
from workloads.flops import published_flops

KEPT = replace(STUDY, variants=STUDY.variants[1:3])  # remat and offload, planted
SEARCHED = replace(STUDY, variants=(STUDY.variants[1], STUDY.variants[3]), compiles=0)
TINY = Study(
    name="tiny",
    target="h100",
    subjects=(Subject("tiny", "Tiny", "fsdp=2"),),
    batches=(2,),
    seq=64,
    variants=(
        Variant("remat", "rematerialise", "remat"),
        Variant("broken", "broken", "save:no_such_name"),
    ),
    statements=(Statement("tiny", "remat", 2, "tflops", "rematerialising", 1.0),),
    layers=2,
)


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


# --- Without compiling anything ---


@pytest.fixture
def planted_runs(tmp_path):
    for variant in ("remat", "offload"):
        planted(variant, tmp_path / MODEL / "b8" / variant)
    return tmp_path


def test_finished_runs_are_taken_as_they_are_and_analysed(planted_runs):
    said = []
    before = {p: p.read_bytes() for p in planted_runs.rglob("*") if p.is_file()}
    report = study(KEPT, planted_runs, progress=said.append)
    assert [line.partition("] ")[2] for line in sorted(said[:2], key=lambda s: s.split()[-2])] == [
        f"{MODEL}, batch 8, offload all: kept",
        f"{MODEL}, batch 8, rematerialise: kept",
    ]
    assert said[0].startswith("[1 of 2, 0:")
    assert said[-1].endswith("] analysing 2 runs")
    assert {path: path.read_bytes() for path in before} == before
    for row in report.rows:
        folder = planted_runs / row.folder
        assert (planted_runs / row.report).is_file()
        (device,) = json.loads((folder / "report.json").read_text())["devices"]
        per_step, made = device["per_step"], manifest(folder)
        assert row.figures.exposed_ns == per_step["both"]["exposed_ns"]
        assert row.figures.stall_ns == per_step["stall_ns"]
        assert row.figures.lost == per_step["lost"]
        assert row.figures.recompute_ns == made["phase_ns"]["recompute"]
        assert row.figures.h2d_bytes == made["transfers"]["h2d"]["bytes"]
        assert vars(row.step) == made["step"]
        need = {key: made["memory"][f"{key}_bytes"] for key in ("argument", "temp", "output")}
        device_bytes = sum(need.values()) - made["memory"]["alias_bytes"]
        assert row.need.device_bytes == device_bytes
        flops = published_flops(model(MODEL), 8, 4096).total
        assert row.tflops.expected == pytest.approx(flops / 8 / made["step"]["expected_ns"] / 1000)


def test_an_interrupted_study_goes_on(planted_runs):
    def interrupt(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(KEPT, planted_runs, progress=interrupt)
    assert not list(planted_runs.rglob("report.*"))
    report = study(KEPT, planted_runs)
    assert [row.failed for row in report.rows] == [None, None]


def test_reports_of_the_runs_can_be_left_out(planted_runs):
    report = study(KEPT, planted_runs, reports=False)
    assert [row.report for row in report.rows] == [None, None]
    assert not list(planted_runs.rglob("report.*"))
    write(report, planted_runs)
    assert "offload/report.html" not in (planted_runs / "report.html").read_text()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "study").write_text("mine")
    with pytest.raises(UsageError, match="name another folder"):
        study(KEPT, tmp_path / "study")
    assert (tmp_path / "study").read_text() == "mine"


def test_without_a_compiler_finished_runs_are_reported_and_nothing_else(planted_runs, monkeypatch):
    def missing():
        raise VersionError("jax is not installed; install it.")

    monkeypatch.setattr("nsysoffload.recorders.predict.compile.check_versions", missing)
    assert len(study(KEPT, planted_runs, reports=False).rows) == 2
    with pytest.raises(VersionError, match="^jax is not installed; install it.$"):
        study(replace(KEPT, variants=STUDY.variants[:3]), planted_runs, reports=False)


# --- The best policy ---


@pytest.fixture
def searched(tmp_path):
    """A folder in which the search finds the fixed policies compiled, and no other run is."""
    for variant in FIXED:
        planted(variant, tmp_path / MODEL / "b8" / "plan" / variant)
    said: list[str] = []
    return tmp_path, said, study(SEARCHED, tmp_path, reports=False, progress=said.append)


def test_the_best_policy_is_searched_and_its_run_is_not_compiled_again(searched):
    folder, said, report = searched
    (group,), best = report.groups, report.rows[1]
    assert group.policy == best.policy == manifest(folder / best.folder)["program"]["policy"]
    ends = [line.partition("] ")[2] for line in said]
    assert ends[0] == f"{MODEL}, batch 8: searching the best policy"
    assert f"{MODEL}, batch 8: offload-dots (default): found" in ends
    assert ends[-1] == "analysing 2 runs"
    assert {f"{MODEL}, batch 8, {title}: kept" for title in ("rematerialise", "best subset")} == {
        end for end in ends if end.endswith("kept")
    }
    compiled = (folder / MODEL / "b8" / "plan").iterdir()
    steps = [manifest(run)["step"]["expected_ns"] for run in compiled]
    assert best.step.expected_ns == min(steps)
    assert group.policy_note is None


def test_policies_that_cannot_be_told_from_the_best_are_named(searched, monkeypatch):
    folder, _, _ = searched

    def with_rivals(*given, **options):
        made = plan(*given, **options)
        return replace(made, rivals=made.candidates[3:])

    monkeypatch.setattr("nsysoffload.study.runs.plan", with_rivals)
    (group,) = study(SEARCHED, folder, reports=False).groups
    assert group.policy_note == (
        "the model's range does not tell it apart from offload, offload-dots"
    )


def test_a_damaged_run_is_made_again_from_what_the_search_compiled(searched):
    folder, _, before = searched
    (folder / before.rows[0].folder / "manifest.json").unlink()
    (folder / before.rows[1].folder / "trace.sqlite").write_bytes(b"half")
    assert study(SEARCHED, folder, reports=False).rows == before.rows


def test_where_no_policy_fits_the_nearest_is_told_and_the_others_are_run(tmp_path, monkeypatch):
    for variant in FIXED:
        planted(variant, tmp_path / MODEL / "b8" / "plan" / variant)
    monkeypatch.setattr(Limits, "admit", lambda limits, prediction: False)
    report = study(SEARCHED, tmp_path, reports=False)
    assert report.rows[0].failed is None
    assert report.rows[1].failed.startswith(
        "no policy was found that fits on the device and on the host; offload comes nearest with "
    )
    assert report.groups[0].policy_note == report.rows[1].failed


# --- Compiled ---


def test_runs_are_compiled_and_one_that_fails_does_not_lose_the_others(tmp_path, compiler):
    said: list[str] = []
    report = study(TINY, tmp_path, progress=said.append)
    good, broken = report.rows
    made = manifest(tmp_path / good.folder)
    assert made["program"]["layers"] == TINY.layers
    assert vars(good.step) == made["step"]
    assert good.need.device_bytes > 0
    assert (tmp_path / good.report).is_file()
    assert broken.failed.startswith("The model names no value 'no_such_name'")
    assert any("broken: failed; The model names no value" in line for line in said)
    assert any(line.endswith("rematerialise: predicted") for line in said)
    assert report.published == ()
    assert [path.name for path in write(report, tmp_path)][0] == "report.html"
