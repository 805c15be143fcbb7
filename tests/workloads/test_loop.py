from contextlib import contextmanager

import pytest

from nsysoffload.errors import UsageError
from workloads import loop
from workloads.loop import Plan, StepRecord, plan, run


class Journal:
    """A device, a profiler and NVTX that write down what happens, and when."""

    def __init__(self, monkeypatch):
        self.said = []
        monkeypatch.setattr(loop, "span", self.span)

    @contextmanager
    def span(self, name, step):
        self.said.append(f"{name} {step}")
        yield

    def start(self):
        self.said.append("record")

    def stop(self):
        self.said.append("pause")

    def step(self, state, tokens):
        return state + tokens, {"loss": 10.0 - tokens, "grad_norm": 0.5}


@pytest.fixture
def journal(monkeypatch):
    return Journal(monkeypatch)


def ran(journal, made):
    told = []
    records = run(journal.step, 0, lambda index: index, made, journal, told.append)
    assert told == records
    return records


def test_a_plan_warms_up_for_two_steps_and_profiles_the_rest():
    assert plan(5, None, None, ahead=False) == Plan(5, 2, range(2, 5), ahead=False)
    assert plan(1, None, None, ahead=False) == Plan(1, 0, range(1), ahead=False)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param("3..4", range(3, 5), id="both-included"),
        pytest.param("2", range(2, 4), id="first-warm-ones"),
        pytest.param("2..2", range(2, 3), id="one"),
    ],
)
def test_the_steps_to_profile_can_be_chosen(text, steps):
    assert plan(6, 2, text, ahead=False).profiled == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1..3", "Steps 1..3 cannot be profiled; choose from the warm ones, 2..5."),
        ("4..6", "Steps 4..6 cannot be profiled; choose from the warm ones, 2..5."),
        ("4..3", "Steps 4..3 cannot be profiled; choose from the warm ones, 2..5."),
        ("5", "Steps 5 cannot be profiled; choose from the warm ones, 2..5."),
        ("0", "Steps 0 cannot be profiled; choose from the warm ones, 2..5."),
        ("2..", "'2..' names no steps; write A..B, such as 2..5, or a number."),
        ("last", "'last' names no steps; write A..B, such as 2..5, or a number."),
    ],
)
def test_steps_that_cannot_be_profiled_are_refused(text, message):
    with pytest.raises(UsageError) as error:
        plan(6, 2, text, ahead=False)
    assert str(error.value) == message


def test_some_step_has_to_be_warm():
    with pytest.raises(UsageError) as error:
        plan(3, 3, None, ahead=False)
    assert str(error.value) == (
        "All 3 steps would be warm-up; ask for more --steps or fewer --warmup."
    )


def test_every_step_is_waited_for_inside_its_range(journal):
    ran(journal, Plan(3, 1, range(1, 2), ahead=False))
    step = "data {0}, train_step {0}, dispatch {0}, wait {0}"
    expected = [step.format(0), "record", step.format(1), "pause", step.format(2)]
    assert journal.said == ", ".join(expected).split(", ")


def test_ahead_the_host_waits_in_the_warm_up_and_at_the_borders_of_the_recording(journal):
    #  0  |  1   2  |  3   4   5  |  6
    #  warm-up      |  recorded   |
    ran(journal, Plan(7, 1, range(3, 6), ahead=True))
    waits = [said for said in journal.said if said.startswith("wait")]
    assert waits == ["wait 0", "wait 2", "wait 5", "wait 6"]
    assert journal.said.index("record") > journal.said.index("wait 2")
    assert journal.said.index("pause") == journal.said.index("wait 5") + 1


def test_a_step_leaves_a_record(journal):
    first, second, third = ran(journal, Plan(3, 1, range(2, 3), ahead=False))
    assert first == StepRecord(0, 10.0, 0.5, first.ms, warm=False, profiled=False)
    assert second == StepRecord(1, 9.0, 0.5, second.ms, warm=True, profiled=False)
    assert third == StepRecord(2, 8.0, 0.5, third.ms, warm=True, profiled=True)
    assert min(first.ms, second.ms, third.ms) > 0


def test_steps_dispatched_ahead_share_their_time(journal):
    records = ran(journal, Plan(5, 1, range(1, 5), ahead=True))
    assert [record.index for record in records] == [0, 1, 2, 3, 4]
    assert len({record.ms for record in records[1:]}) == 1


def test_a_loss_that_is_not_finite_is_none(journal, monkeypatch):
    def broken(state, tokens):
        return state, {"loss": float("nan"), "grad_norm": float("inf")}

    monkeypatch.setattr(journal, "step", broken)
    (record,) = ran(journal, Plan(1, 0, range(1), ahead=False))
    assert (record.loss, record.grad_norm) == (None, None)
