"""What comes out of two runs: the whole way from traces to the verdict."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import nsysoffload
from nsysoffload.comparison.files import run_names, runs_of
from nsysoffload.errors import TraceError, UsageError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.tables import Source
from tests.comparison.traces import PROGRAM, losses, memory, plain, run_folder, trace

STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)
FASTER = tuple(step - 10 for step in STEADY)
SLOWER = tuple(step + 10 for step in STEADY)


@pytest.fixture
def compared(tmp_path):
    """Compare traces that are given as builders or paths, the base first."""

    def compare(*made, **options):
        paths = []
        for number, one in enumerate(made):
            if isinstance(one, TraceBuilder):
                path = tmp_path / f"run{number}.sqlite"
                one.write(path)
                one = path
            paths.append(one)
        return nsysoffload.compare(*paths, **options)

    return compare


def difference(comparison, metric, run=0):
    return next(d for d in comparison.differences if (d.metric, d.run) == (metric, run))


def codes(comparison):
    return [reason.code for reason in comparison.verdict.reasons]


# --- Which is faster ---


def test_the_faster_run_is_better_and_the_sentence_says_by_how_much_and_why(compared):
    comparison = compared(trace(STEADY, 20), trace(FASTER, 10))
    assert comparison.verdict.outcome == "better"
    assert comparison.verdict.text == (
        "run1 is faster than run0: run1 takes 90.0 ms per step, 10.0 % less than run0 with 100 ms"
        " (95 % interval −10.7 % to −9.3 %): waiting less for transfers saves 10.0 ms."
    )
    step = difference(comparison, "step_ms")
    assert (step.base, step.new, step.change, step.beyond_noise, step.better) == (
        100,
        90,
        -10,
        True,
        True,
    )
    assert step.noise == pytest.approx((-10.7, -9.3))


def test_swapped_runs_swap_the_answer(compared):
    ahead = compared(trace(STEADY, 20), trace(FASTER, 10))
    back = compared(trace(FASTER, 10), trace(STEADY, 20))
    assert (ahead.verdict.outcome, back.verdict.outcome) == ("better", "worse")
    assert "slower than run0: run1 takes 100 ms per step, 11.1 % more" in back.verdict.text
    changes = [[p.change_ns for p in c.pairs[0].account.parts] for c in (ahead, back)]
    assert changes[0] == [-change for change in changes[1]]
    for metric in ("step_ms", "stall_ms", "exposed_ms", "overlap"):
        one, other = difference(ahead, metric), difference(back, metric)
        assert one.change == -other.change
        assert one.better is (not other.better)


def test_what_changes_without_the_step_is_told_and_is_no_difference(compared):
    """Exposed copies fall by 30 ms, the step by 0.1 ms, which its steps scatter by anyway."""
    before = trace((597.5, 598.0, 598.5, 599.0, 599.5), 40)
    after = trace((597.4, 597.9, 598.4, 598.9, 599.4), 10)
    comparison = compared(before, after)
    assert comparison.verdict.outcome == "no_difference"
    assert comparison.verdict.text.startswith("No difference in step time beyond noise: ")
    assert "exposed −30.0 ms per step" in comparison.verdict.text
    assert difference(comparison, "exposed_ms").change == -30
    assert difference(comparison, "exposed_ms").better is True
    step = difference(comparison, "step_ms")
    assert (step.beyond_noise, step.better) == (False, None)


def test_few_steps_compare_with_many(compared):
    draw = np.random.default_rng(3)
    many = tuple(np.round(draw.normal(100, 0.5, 500), 3))
    assert compared(trace(many, 20), trace(FASTER, 10)).verdict.outcome == "better"
    comparison = compared(trace(STEADY), trace(many))
    assert comparison.verdict.outcome == "no_difference"
    assert [run.steps for run in comparison.runs] == [5, 500]


def test_one_step_far_off_does_not_blur_the_others(compared):
    comparison = compared(trace((*STEADY, 400.0)), trace((*FASTER, 500.0)))
    assert comparison.verdict.outcome == "better"
    assert [run.outliers for run in comparison.runs] == [1, 1]


def test_clocks_of_different_starts_are_no_difference(compared):
    late = trace(STEADY, 20, at_ms=10**9)
    comparison = compared(trace(STEADY, 20), late)
    assert comparison.verdict.outcome == "no_difference"
    assert all(not d.change for d in comparison.differences)


def test_one_step_cannot_tell(compared):
    comparison = compared(trace((100.0,)), trace(FASTER))
    assert comparison.verdict.outcome == "cannot_tell"
    assert "run0 has a single step to compare" in comparison.verdict.text
    assert difference(comparison, "step_ms").beyond_noise is None


def test_without_steps_the_step_time_cannot_be_told(compared):
    comparison = compared(TraceBuilder().kernel((0, 10), "gemm"), trace(FASTER))
    assert comparison.verdict.outcome == "cannot_tell"
    assert "no whole training step was found in run0" in comparison.verdict.text
    assert comparison.pairs[0].account is None


def test_an_unknown_overlap_is_unknown_and_the_step_is_told_all_the_same(compared):
    graph = trace(STEADY, 20)
    for start in range(0, 500, 105):
        graph.graph((start + 50, start + 90))
    comparison = compared(graph, trace(FASTER, 10))
    overlap = difference(comparison, "overlap")
    assert (overlap.base, overlap.change, overlap.noise) == (None, None, None)
    assert overlap.null_reason.startswith("base: ")
    assert overlap.new == pytest.approx(50)
    assert comparison.verdict.outcome == "better"


# --- No pair ---


def test_the_same_recording_is_found_by_its_content(compared, tmp_path):
    trace(STEADY).write(tmp_path / "a.sqlite")
    (tmp_path / "b.sqlite").write_bytes((tmp_path / "a.sqlite").read_bytes())
    for other in ("a.sqlite", "b.sqlite"):
        comparison = compared(tmp_path / "a.sqlite", tmp_path / other, max_regression="step_ms=3%")
        assert comparison.verdict.outcome == "identical_input"
        assert [gate.passed for gate in comparison.gates] == [False]


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        pytest.param(
            trace(FASTER, gpu="NVIDIA H100"), "other_device", "run1 on NVIDIA H100", id="gpu"
        ),
        pytest.param(
            trace(STEADY, into=trace(STEADY), device=1),
            "missing_device",
            "run0 has 1 GPU, run1 has 2 GPUs",
            id="device",
        ),
        pytest.param(
            trace(FASTER, source=Source("t", kind="predicted", recorder="predict")),
            "other_kind",
            "run0 is measured, run1 is predicted",
            id="kind",
        ),
        pytest.param(
            trace(FASTER, source=Source("t", recorder="jax")),
            "other_recorder",
            "run0 was recorded by nsys, run1 by jax",
            id="recorder",
        ),
    ],
)
def test_runs_that_are_no_pair_are_not_compared_unless_that_is_wanted(compared, new, code, words):
    comparison = compared(trace(STEADY), new)
    assert comparison.verdict.outcome == "not_comparable"
    assert codes(comparison) == [code]
    assert words in comparison.verdict.text
    assert comparison.pairs[0].step is None
    assert difference(comparison, "step_ms").base == 100
    anyway = compared(trace(STEADY), new, anyway=True)
    assert anyway.verdict.outcome != "not_comparable"
    assert codes(anyway)[0] == code


@pytest.mark.parametrize(
    ("version", "outcome"),
    [
        pytest.param("3.17.2", "not_comparable", id="other"),
        pytest.param("3.25.9", "better", id="of-one-series"),
    ],
)
def test_exports_of_other_schemas_are_no_pair(compared, tmp_path, version, outcome):
    path = tmp_path / "new.sqlite"
    trace(FASTER).write(path)
    with closing(sqlite3.connect(path)) as database, database:
        sql = "UPDATE META_DATA_EXPORT SET value = ? WHERE name = 'EXPORT_SCHEMA_VERSION'"
        assert database.execute(sql, (version,)).rowcount == 1
    comparison = compared(trace(STEADY), path)
    assert comparison.verdict.outcome == outcome
    assert codes(comparison) == ["other_schema"] * (outcome == "not_comparable")


def test_builds_of_one_schema_are_comparable_and_named(compared):
    runs = [
        trace(steps, source=Source("t", nsys_version=v, export_schema="3.24.14"))
        for steps, v in ((STEADY, "2026.1.1"), (FASTER, "2026.1.2"))
    ]
    comparison = compared(*runs)
    assert comparison.verdict.outcome == "better"
    assert [n.code for n in comparison.pairs[0].notes if n.code == "other_build"]


# --- What run folders say ---


def folders(tmp_path, base, new):
    paths = []
    for name, (made, manifest) in (("remat", base), ("offload", new)):
        paths.append(run_folder(tmp_path / name, made, variant=name, **manifest))
    return paths


@pytest.mark.parametrize(
    ("steps", "outcome", "head"),
    [
        pytest.param(FASTER, "better", "Offloading wins: offload takes 90.0 ms", id="wins"),
        pytest.param(SLOWER, "worse", "Offloading loses: offload takes 110 ms", id="loses"),
    ],
)
def test_whether_offloading_pays_is_told_whichever_of_the_runs_is_the_base(
    compared, tmp_path, steps, outcome, head
):
    remat, offload = folders(tmp_path, (plain(STEADY), {}), (trace(steps, 10, back=True), {}))
    comparison = compared(remat, offload)
    assert comparison.verdict.outcome == outcome
    assert comparison.verdict.text.startswith(head)
    assert "waiting for transfers costs 10.0 ms" in comparison.verdict.text
    swapped = compared(offload, remat)
    assert swapped.verdict.outcome == {"better": "worse", "worse": "better"}[outcome]
    assert swapped.verdict.text.startswith(f"{head.split(':')[0]}: remat takes 100 ms")
    assert "waiting less for transfers saves 10.0 ms" in swapped.verdict.text


@pytest.mark.parametrize(
    ("steps", "severity"),
    [pytest.param(SLOWER, "finding", id="slower"), pytest.param(FASTER, "note", id="faster")],
)
def test_offloading_that_saves_no_memory_is_pointless_where_it_is_slower(
    compared, tmp_path, steps, severity
):
    base = (plain(STEADY), {"memory": memory(100)})
    new = (trace(steps, 10, back=True), {"memory": memory(100, 70)})
    found = compared(*folders(tmp_path, base, new)).pairs[0].notes[0]
    assert (found.code, found.severity) == ("no_memory_gain", severity)
    assert "offload offloads, and a step needs 100 B on the device" in found.text


def test_offloading_that_moves_nothing_is_not_in_effect(compared, tmp_path):
    found = compared(*folders(tmp_path, (plain(STEADY), {}), (plain(FASTER), {}))).pairs[0].notes[0]
    assert (found.code, found.severity) == ("offload_not_in_effect", "finding")


def test_gpus_of_other_clocks_are_suspected(compared):
    slow = compared(plain(STEADY), plain([step * 1.2 for step in STEADY]))
    (note,) = [n for n in slow.pairs[0].notes if n.code == "other_clocks"]
    assert "take 20 % longer in run1 than in run0" in note.text
    same = compared(plain(STEADY), plain([step * 1.02 for step in STEADY]))
    assert not [n for n in same.pairs[0].notes if n.code == "other_clocks"]


def test_other_models_are_no_pair(compared, tmp_path):
    other = PROGRAM | {"model": "llama3.1-8b"}
    paths = folders(
        tmp_path, (trace(STEADY), {"program": PROGRAM}), (trace(FASTER), {"program": other})
    )
    comparison = compared(*paths)
    assert codes(comparison) == ["other_model"]
    assert "the model is tiny for remat and llama3.1-8b for offload" in comparison.verdict.text


def test_runs_whose_numerics_differ_are_never_compared_and_always_fail(compared, tmp_path):
    differing = {"recording": {"losses": losses(2.31, 2.24, 2.19)}}
    paths = folders(tmp_path, (trace(STEADY), {}), (trace(FASTER), differing))
    for anyway in (False, True):
        comparison = compared(*paths, anyway=anyway)
        assert comparison.verdict.outcome == "not_comparable"
        assert "numerics differ from step 2 of 3" in comparison.verdict.text
        assert [(g.name, g.passed) for g in comparison.gates] == [("numerics", False)]


def test_equal_numerics_are_said(compared, tmp_path):
    comparison = compared(*folders(tmp_path, (trace(STEADY), {}), (trace(FASTER), {})))
    assert not comparison.gates
    assert "numerics_agree" in [note.code for note in comparison.pairs[0].notes]


def test_steps_of_different_batches_compare_by_the_token(compared, tmp_path):
    larger = {"program": PROGRAM | {"batch": 16}}
    paths = folders(
        tmp_path, (trace(STEADY), {"program": PROGRAM}), (trace((150.0, 150.5) * 3), larger)
    )
    comparison = compared(*paths)
    assert comparison.verdict.outcome == "better"
    assert "takes 24.9 % less per token than remat" in comparison.verdict.text
    assert "steps of 150 ms and 100 ms with 16 and 8 sequences" in comparison.verdict.text
    pair = comparison.pairs[0]
    assert (pair.step.per_token, pair.account) == (True, None)
    assert [run.tokens_per_s for run in comparison.runs] == pytest.approx(
        [10240, 13630.6], rel=1e-4
    )


# --- Which runs are meant ---


def test_a_folder_of_runs_stands_for_them_the_rematerialised_first(tmp_path):
    for name in ("offload", "none", "remat", "failed-notes"):
        (tmp_path / name).mkdir()
        if name != "failed-notes":
            (tmp_path / name / "trace.sqlite").touch()
    assert [path.name for path in runs_of(tmp_path)] == ["remat", "none", "offload"]
    assert runs_of(tmp_path / "remat") == [tmp_path / "remat"]


def test_a_finished_report_stands_for_its_run(compared, tmp_path):
    trace(STEADY, 20).write(tmp_path / "a.sqlite")
    trace(FASTER, 10).write(tmp_path / "b.sqlite")
    nsysoffload.write(nsysoffload.analyze(tmp_path / "a.sqlite"), tmp_path / "old")
    ours = compared(tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    for base in (tmp_path / "old", tmp_path / "old" / "report.json"):
        theirs = compared(base, tmp_path / "b.sqlite")
        assert theirs.base.name == "old"
        assert theirs.pairs[0].step == ours.pairs[0].step
        assert theirs.differences == ours.differences
        with pytest.raises(UsageError, match="--step-range has no effect"):
            compared(base, tmp_path / "b.sqlite", step_range="x")


def test_what_is_no_report_is_refused(compared, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"schema": "nsysoffload-compare/1"}))
    with pytest.raises(TraceError, match="is a file of schema 'nsysoffload-compare/1'"):
        compared(trace(STEADY), tmp_path / "x.json")


def test_one_run_is_no_comparison(compared):
    with pytest.raises(UsageError, match="two runs or more"):
        compared(trace(STEADY))


def test_runs_are_named_by_what_tells_them_apart(tmp_path):
    paths = [tmp_path / a / b for a, b in (("old", "a"), ("new", "a"), ("new", "b"))]
    for path in paths:
        path.mkdir(parents=True)
        (path / "trace.sqlite").touch()
    assert run_names(paths) == ["old/a", "new/a", "new/b"]
    assert run_names(paths[1:]) == ["a", "b"]
    assert run_names([paths[0], paths[0]]) == ["a", "a (2)"]


# --- Several ---


def test_of_several_runs_the_fastest_is_best(compared):
    comparison = compared(trace(STEADY), trace(SLOWER), trace(FASTER))
    assert [run.best for run in comparison.runs] == [False, False, True]
    assert [pair.verdict.outcome for pair in comparison.pairs] == ["worse", "better"]
    assert comparison.verdict.outcome == "better"
    assert comparison.verdict.text.startswith("Of 3 runs run2 is fastest. run2 is faster than run0")
    comparison = compared(trace(FASTER), trace(SLOWER), trace(STEADY))
    assert comparison.verdict.outcome == "worse"
    assert comparison.verdict.text.startswith("Of 3 runs the base, run0, is fastest. run2 is")
