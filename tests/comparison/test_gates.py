import pytest

import nsysoffload
from nsysoffload.comparison.gates import Regression, parse_regressions, raise_failed, sentence
from nsysoffload.errors import GateFailed, UsageError
from nsysoffload.trace.builder import TraceBuilder
from tests.comparison.traces import trace

STEADY = (99.5, 100.5, 100.0, 100.2, 99.8)


@pytest.fixture
def gates(tmp_path):
    """Hold a run with steps of 103 ms, of which 13 ms are exposed, against 100 ms and 10 ms."""
    trace(STEADY, 10).write(tmp_path / "base.sqlite")
    trace([step + 3 for step in STEADY], 13).write(tmp_path / "new.sqlite")

    def compared(*limits, base="base", new="new", **options):
        paths = [tmp_path / f"{name}.sqlite" for name in (base, new)]
        found = nsysoffload.compare(*paths, max_regression=limits, **options)
        return [(sentence(gate, ["new"]), gate.passed) for gate in found.gates]

    return compared


def test_limits_are_read_in_the_unit_of_the_metric_or_in_percent_of_the_base():
    assert parse_regressions(["overlap=2", "step_ms=3%,stall_ms=500us", "device_bytes=1GiB"]) == (
        Regression("overlap", 2, relative=False),
        Regression("step_ms", 3, relative=True),
        Regression("stall_ms", 0.5, relative=False),
        Regression("device_bytes", 2**30, relative=False),
    )
    assert parse_regressions(["overlap=2%"]) == parse_regressions(["overlap=2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("overlap", "is not of the form NAME=NUMBER", id="no-number"),
        pytest.param("overlop=2", "did you mean 'overlap'", id="no-metric"),
        pytest.param("overlap=x", "'x' is no number", id="text"),
        pytest.param("step_ms=3GB", "step_ms is in ns, us, µs, ms, s, %, not in 'GB'", id="unit"),
        pytest.param("step_ms=-1", "cannot be limited by -1", id="negative"),
        pytest.param("step_ms=1e999", "give a finite number of 0", id="endless"),
        pytest.param("step_ms=nan", "'nan' is no number", id="nan"),
        pytest.param("step_ms=1,step_ms=2", "limits step_ms twice", id="twice"),
    ],
)
def test_what_is_no_limit_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_regressions([text])


@pytest.mark.parametrize(
    ("limit", "told", "passed"),
    [
        pytest.param(
            "step_ms=2%", "step_ms gets worse by 3 % of the base, over 2 % of the base", 0
        ),
        pytest.param(
            "step_ms=3%", "step_ms gets worse by 3 % of the base, not over 3 % of the base", 1
        ),
        pytest.param("step_ms=2.9ms", "step_ms gets worse by 3 ms, over 2.9 ms", 0),
        pytest.param("stall_ms=3", "stall_ms gets worse by 3 ms, not over 3 ms", 1),
        pytest.param("overlap=6", "overlap gets worse by 6.52 %, over 6 %", 0),
        pytest.param("overlap=7", "overlap gets worse by 6.52 %, not over 7 %", 1),
        pytest.param("compute_ms=0", "compute_ms does not get worse", 1),
        pytest.param(
            "stall_ms.h2d=1%", "stall_ms.h2d does not get worse", 1, id="nothing-of-nothing"
        ),
        pytest.param(
            "recompute_ms=1",
            "recompute_ms must not get worse by over 1 ms, and is unknown: base: the trace names no"
            " XLA operation",
            0,
        ),
        pytest.param(
            "lost_ms.host_gap=5%",
            "lost_ms.host_gap does not get worse",
            1,
        ),
    ],
)
def test_a_limit_holds_or_is_broken_by_the_metrics_of_both(gates, limit, told, passed):
    assert gates(limit) == [(told, bool(passed))]


def test_what_gets_better_never_fails(gates):
    assert gates("step_ms=0", "overlap=0", base="new", new="base") == [
        ("step_ms does not get worse", True),
        ("overlap does not get worse", True),
    ]


def test_any_regression_of_nothing_is_more_than_a_share(tmp_path):
    trace(STEADY).write(tmp_path / "a.sqlite")
    trace(STEADY, 5).write(tmp_path / "b.sqlite")
    found = nsysoffload.compare(
        tmp_path / "a.sqlite", tmp_path / "b.sqlite", max_regression="stall_ms=50%"
    )
    assert [gate.passed for gate in found.gates] == [False]
    assert "the base is 0" in found.gates[0].reason
    assert "and is worse: the base is 0" in sentence(found.gates[0], ["new"])


def test_the_worst_device_counts(tmp_path):
    two = trace(STEADY, 10, into=trace(STEADY, 10), device=1)
    two.write(tmp_path / "a.sqlite")
    trace(STEADY, 30, into=trace(STEADY, 10), device=1).write(tmp_path / "b.sqlite")
    found = nsysoffload.compare(
        tmp_path / "a.sqlite", tmp_path / "b.sqlite", max_regression="exposed_ms=19"
    )
    assert (found.gates[0].value, found.gates[0].passed) == (20, False)


def test_limits_of_the_new_run_itself_hold_for_it_alone(gates):
    assert gates(fail_over="step_ms=101") == [("step_ms 103 ms is over 101 ms", False)]
    assert gates(fail_over="step_ms=101", base="new", new="base") == [
        ("step_ms 100 ms is not over 101 ms", True)
    ]


def test_a_window_is_no_step_to_limit(gates, tmp_path):
    TraceBuilder().kernel((0, 10), "gemm").write(tmp_path / "long.sqlite")
    ((told, passed),) = gates("step_ms=3%", new="long")
    assert not passed
    assert told.endswith("and is unknown: no whole training step was found in both runs")


def test_runs_that_were_not_compared_fail(gates):
    ((told, passed),) = gates("overlap=50", new="base")
    assert not passed
    assert "the same recording" in told


def test_a_broken_limit_is_an_error_with_a_line_each(tmp_path):
    trace(STEADY, 10).write(tmp_path / "a.sqlite")
    trace([step + 3 for step in STEADY], 13).write(tmp_path / "b.sqlite")
    paths = [tmp_path / name for name in ("a.sqlite", "b.sqlite", "b.sqlite")]
    found = nsysoffload.compare(*paths, max_regression=["step_ms=2%", "overlap=50"])
    with pytest.raises(GateFailed) as failed:
        raise_failed(found)
    lines = str(failed.value).splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("b: step_ms gets worse by 3 % of the base, over 2 % of the base")
