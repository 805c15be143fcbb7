"""Predictions found in their folders again, or made where they are not what is asked for."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.capture import Request, options_of, timed
from nsysoffload.recorders.predict.demo import REQUEST as DEMO
from nsysoffload.recorders.predict.demo import bundled
from nsysoffload.recorders.predict.kept import Asked, kept, predicted_run, predicted_runs
from nsysoffload.recorders.predict.process import Cancelled, CompileError

REQUEST = replace(DEMO, steps=1)
TINY = Request(model="tiny", target="h100", layers=2, batch=2, seq=64, optimizer="sgd", steps=1)


def run_in(folder, request=REQUEST, variant="remat"):
    return timed(request, variant, load(bundled(variant)), options_of(request), folder)


@pytest.fixture
def run(tmp_path):
    return run_in(tmp_path / "remat")


def test_a_finished_run_is_found_again(run):
    assert kept(REQUEST, "remat", run.folder) == run.predicted.prediction


def test_where_nothing_ran_nothing_is_found(tmp_path):
    assert kept(REQUEST, "remat", tmp_path / "absent") is None


@pytest.mark.parametrize(
    "change",
    [
        {"model": "llama3.1-8b"},
        {"mesh": "fsdp=4"},
        {"batch": 16},
        {"seq": 2048},
        {"layers": 8},
        {"optimizer": "sgd"},
        {"offload_optimizer": True},
        {"target": "gb300"},
        {"preset": "pipelined"},
        {"flags": "--xla_gpu_enable_triton_gemm=true"},
        {"command_buffers": True},
        {"contention": False},
        {"steps": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_run_that_was_asked_for_otherwise_is_another_one(run, change):
    assert kept(replace(REQUEST, **change), "remat", run.folder) is None


def test_another_policy_or_other_constants_make_another_run(run, tmp_path):
    assert kept(REQUEST, "none", run.folder) is None
    (tmp_path / "gemm.json").write_text('{"gemm_efficiency": 0.5}')
    assert kept(replace(REQUEST, efficiency=tmp_path / "gemm.json"), "remat", run.folder) is None


def test_a_limit_of_time_makes_no_other_run(run):
    assert kept(replace(REQUEST, timeout_s=1.0), "remat", run.folder) is not None


@pytest.mark.parametrize("name", ["trace.sqlite", "schedule.hlo.gz", "manifest.json"])
def test_a_run_whose_files_are_cut_or_gone_is_not_taken(run, name):
    path = run.folder / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert kept(REQUEST, "remat", run.folder) is None
    path.unlink()
    assert kept(REQUEST, "remat", run.folder) is None
    path.write_bytes(whole)
    assert kept(REQUEST, "remat", run.folder) is not None


def test_a_trace_that_another_run_left_is_not_taken(run, tmp_path):
    other = run_in(tmp_path / "other", replace(REQUEST, steps=2))
    (run.folder / "trace.sqlite").write_bytes((other.folder / "trace.sqlite").read_bytes())
    assert kept(REQUEST, "remat", run.folder) is None


@pytest.mark.parametrize("digests", [None, {}, [], "all", {"trace.sqlite": None}, {"a\0": ""}])
def test_a_manifest_that_vouches_for_nothing_is_no_proof(run, digests):
    path = run.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sha256": digests}))
    assert kept(REQUEST, "remat", run.folder) is None


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"^There is no model 'gpt'"):
        kept(replace(REQUEST, model="gpt"), "remat", tmp_path)


def test_what_is_kept_is_not_compiled(run):
    said: list[str] = []
    again = predicted_run(REQUEST, "remat", run.folder, said.append)
    assert again == (run.predicted.prediction, True)
    assert said == []


# --- Compiled here ---


@pytest.mark.usefixtures("compiler")
def test_a_failure_among_several_costs_the_others_nothing(tmp_path):
    made = run_in(tmp_path / "remat", TINY).predicted.prediction
    asked = [
        Asked(replace(TINY, flags="--xla_no_such_flag=1"), "remat", tmp_path / "flag"),
        Asked(TINY, "ofload", tmp_path / "ofload"),
        Asked(TINY, "save:query", tmp_path / "save"),
        Asked(TINY, "remat", tmp_path / "remat"),
    ]
    told = []
    lock = threading.Lock()

    def tell(outcome):
        with lock:
            told.append(outcome)

    flag, policy, save, remat = predicted_runs(asked, tell)
    assert isinstance(flag.error, CompileError)
    assert isinstance(policy.error, UsageError)
    assert (flag.prediction, policy.prediction) == (None, None)
    assert not Path(tmp_path, "ofload").exists()
    assert (remat.prediction, remat.was_kept, remat.error) == (made, True, None)
    assert (save.was_kept, save.error) == (False, None)
    assert save.prediction.variant == "save:query"
    assert kept(TINY, "save:query", tmp_path / "save") == save.prediction
    assert sorted(map(id, told)) == sorted(map(id, (flag, policy, save, remat)))


@pytest.mark.usefixtures("compiler")
def test_what_another_thread_gave_up_is_no_outcome_and_leaves_nothing(tmp_path):
    told, cancelled = [], threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        predicted_run(TINY, "remat", tmp_path / "remat", told.append, cancelled)
    assert not (tmp_path / "remat").exists()
    assert told == []


@pytest.mark.usefixtures("compiler")
def test_an_interrupted_search_tells_no_outcome_of_what_it_gave_up(tmp_path):
    told = []

    def tell(outcome):
        told.append(outcome.asked.variant)
        raise KeyboardInterrupt

    run_in(tmp_path / "kept", TINY)
    asked = [Asked(TINY, "remat", tmp_path / "kept"), Asked(TINY, "none", tmp_path / "none")]
    with pytest.raises(KeyboardInterrupt):
        predicted_runs(asked, tell)
    assert told == ["remat"]
    assert not (tmp_path / "none").exists()
