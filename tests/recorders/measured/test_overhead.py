import pytest

from nsysoffload.recorders.measured.child import Ended
from nsysoffload.recorders.measured.overhead import Overhead, overhead
from nsysoffload.recorders.measured.recorder import Recorded


def recorded(printed="", capture_range="whole"):
    return Recorded(
        report=None,
        ended=Ended(0, 1.0, printed=printed),
        nsys_version=None,
        trace=None,
        capture_range=capture_range,
        left_out=(),
        notes=(),
    )


def manifest(*times):
    """Return a manifest whose steps are two of warm-up and these, recorded ones from 100 ms on."""
    warm_up = [{"ms": 999.0, "warm": False, "profiled": False}] * 2
    steps = [{"ms": ms, "warm": True, "profiled": ms >= 100} for ms in times]
    return {"steps": [*warm_up, *steps]}


def log(*times):
    return "\n".join(f"step {n} loss 1.0 {ms} ms" for n, ms in enumerate((999, *times)))


def test_warm_steps_are_held_against_recorded_ones():
    found = overhead(Ended(0, 1.0), manifest(100, 90, 110), recorded(), manifest(50, 130, 120, 140))
    assert (found.bare_step_ms, found.profiled_step_ms, found.factor) == (100, 130, 0.3)
    assert str(found) == ", step 130.00 ms (+30.0% of 100.00 ms without the profiler)"


def test_of_a_command_the_log_tells_without_its_first_step():
    found = overhead(Ended(0, 1.0, printed=log(100, 102)), {}, recorded(log(111.1, 111.1)), {})
    assert found.as_manifest() == {
        "bare_step_ms": 101.0,
        "profiled_step_ms": 111.1,
        "overhead": 0.1,
        "overhead_null_reason": None,
    }


@pytest.mark.parametrize(
    ("bare", "run", "reason"),
    [
        (None, recorded(log(1, 2)), "the step was not timed without the profiler"),
        (Ended(0, 1.0, printed=log(1)), recorded(), "its log tells no times of steps"),
        (
            Ended(0, 1.0, printed=log(1)),
            recorded(log(1), "nvtx"),
            "its log does not tell which steps were recorded",
        ),
    ],
)
def test_without_times_there_is_a_reason(bare, run, reason):
    found = overhead(bare, {}, run, {})
    assert (found.factor, found.null_reason, str(found)) == (None, reason, "")
    assert found == Overhead(null_reason=reason)
