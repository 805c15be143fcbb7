"""The sentence at the top: what is hidden, what is lost, what to change first."""

from dataclasses import replace

import pytest

from nsysoffload.report.model import Device, Report, Verdict
from nsysoffload.report.verdict import slowest, verdict
from tests.report.examples import (
    FINDINGS,
    cannot_tell,
    device,
    direction,
    eight_devices,
    no_transfers,
    one_device,
    report,
    stepped,
    stepped_device,
)


def judged(shown: Report, **options: object) -> Verdict:
    windows_ns = sum(d.trace.window_ns for d in shown.devices)
    return verdict(shown.total, len(shown.devices), windows_ns, **options)  # type: ignore[arg-type]


def of_steps(*devices: Device, **options: object) -> Verdict:
    shown = report(*devices, verdict=Verdict("", ""))
    return judged(shown, chosen=devices, steps_found_by="train_step", **options)


def hiding(hidden_ns: int) -> Device:
    """A device whose step hides so much of 20 ms."""
    way = direction(4, 10**9, 20_000_000, hidden_ns)
    return device(way, direction())


def test_the_window_is_spoken_of_where_no_steps_are_known():
    assert judged(one_device()) == Verdict(
        "Transfers hide only partly behind compute: 82.3 % of 44.0 ms of transfer time is hidden,"
        " 7.81 ms is exposed, 7.8 % of the window (H2D 4.10 ms, D2H 3.71 ms).",
        "partly_hidden",
    )


def test_a_step_is_spoken_of_where_steps_are_known_and_the_largest_loss_comes_first():
    assert of_steps(stepped_device(0, 198_000_000), findings=FINDINGS) == Verdict(
        "Transfers hide only partly behind compute: 61.1 % of 48.1 ms of transfer time per step is"
        " hidden; compute waits 18.9 ms for them, 9.5 % of the 198 ms step. First: copies are"
        " issued too late, 17.2 ms per step (issued_too_late, H2D).",
        "partly_hidden",
    )


def test_of_several_devices_the_slowest_is_spoken_of():
    fast, slow = stepped_device(0, 150_000_000), stepped_device(1, 198_000_000)
    assert slowest((fast, slow)) is slow
    assert "is hidden on GPU 1, the slowest of 2;" in of_steps(fast, slow).text


@pytest.mark.parametrize(
    ("hidden_ns", "outcome", "head"),
    [
        (20_000_000, "hidden", "Transfers hide behind compute: 100 %"),
        (19_000_000, "hidden", "Transfers hide behind compute: 95.0 %"),
        (18_999_999, "partly_hidden", "Transfers hide only partly behind compute: 95.0 %"),
        (1_000_000, "partly_hidden", "Transfers hide only partly behind compute: 5.0 %"),
        (999_999, "exposed", "Transfers do not hide behind compute: 5.0 %"),
    ],
)
def test_outcomes_are_the_same_for_steps_and_windows(hidden_ns, outcome, head):
    shown = report(hiding(hidden_ns), verdict=Verdict("", ""))
    for answer in (judged(shown), of_steps(hiding(hidden_ns))):
        assert answer.outcome == outcome
        assert answer.text.startswith(head)


def test_nothing_that_starves_is_praised():
    starved = tuple(f for f in FINDINGS if f.cause == "starved")
    for answer in (
        of_steps(hiding(20_000_000), findings=starved),
        judged(report(hiding(20_000_000), verdict=Verdict("", "")), findings=starved),
    ):
        assert answer.outcome == "partly_hidden"
        assert answer.text.startswith("Transfers are hidden by time, not in effect: 100 % of")


def test_a_step_without_a_stall_says_that_nothing_waits():
    assert of_steps(hiding(20_000_000)).text == (
        "Transfers hide behind compute: 100 % of 20.0 ms of transfer time per step is hidden;"
        " compute waits for none of them in the 100 ms step."
    )


def test_a_note_is_not_put_first():
    notes = tuple(f for f in FINDINGS if f.severity == "note")
    assert "First:" not in of_steps(hiding(20_000_000), findings=notes).text


def test_excess_time_is_named_as_such_and_the_window_is_no_step():
    starved = tuple(f for f in FINDINGS if f.cause == "starved")
    assert judged(one_device(), findings=starved).text.endswith(
        " First: copies starve under kernels, excess 2.40 ms in the window (starved, D2H)."
    )


def test_what_cannot_be_told_comes_with_its_reason():
    answer = of_steps(cannot_tell().devices[0])
    assert answer == Verdict(
        "It cannot be told how much of 1.50 ms of transfer time per step is hidden:"
        " the trace has no kernel table.",
        "cannot_tell",
    )


def test_without_transfers_there_is_nothing_to_hide():
    assert judged(no_transfers()).outcome == "no_transfers"
    answer = of_steps(no_transfers().devices[0])
    assert answer == Verdict(
        "No transfers between host and GPU run in the training steps.", "no_transfers"
    )


def test_steps_of_which_none_is_whole_leave_the_window():
    answer = judged(one_device(), steps_found_by="train_step")
    assert answer.text == judged(one_device()).text


def test_a_prediction_says_so():
    text = judged(eight_devices(), kind="predicted").text
    assert text.startswith("Predicted: transfers hide only partly")


def test_the_verdict_of_the_example_is_what_it_would_be():
    shown = stepped()
    made = judged(
        shown,
        chosen=shown.devices,
        findings=shown.findings,
        steps_found_by=shown.window.steps_found_by,
    )
    assert made == replace(shown.verdict)


def test_copies_that_are_known_only_as_kernels_are_not_called_none():
    assert judged(no_transfers()).outcome == "no_transfers"
    told = judged(no_transfers(), as_kernels=True)
    assert told.outcome == "cannot_tell"
    assert told.text.startswith(
        "It cannot be told how much transfer time is hidden: copies were recorded only as kernels"
    )
    assert judged(one_device(), as_kernels=True) == judged(one_device())
