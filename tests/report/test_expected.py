"""Whether the bytes that were to be offloaded moved."""

from dataclasses import replace

import pytest

from nsysoffload.report.expected import judged, judged_report, warned
from nsysoffload.report.gates import checked, parse_gates, raise_failed, sentence
from nsysoffload.report.model import Device, Finding, Report, Warning_
from tests.report import examples

GB = 10**9


def moving(device: Device, d2h: int | None, h2d: int | None, copies: int = 1) -> Device:
    """A device whose steps move so much each way."""
    step = device.per_step
    ways = {
        name: replace(getattr(step, name), bytes=size, copies=0 if size == 0 else copies)
        for name, size in (("d2h", d2h), ("h2d", h2d))
    }
    return replace(device, per_step=replace(step, **ways))


@pytest.fixture
def pair() -> tuple[Device, Device]:
    return examples.stepped().devices


def report(*devices: Device) -> Report:
    return replace(examples.stepped(), devices=devices, findings=())


@pytest.mark.parametrize(
    ("d2h", "h2d", "state"),
    [
        pytest.param(100, 100, "ok", id="equal"),
        pytest.param(90, 110, "ok", id="just-near"),
        pytest.param(89, 100, "warning", id="less"),
        pytest.param(100, 111, "warning", id="more"),
        pytest.param(50, 100, "warning", id="half"),
        pytest.param(49, 100, "problem", id="under-half"),
        pytest.param(100, 0, "problem", id="nothing-back"),
        pytest.param(0, 0, "problem", id="nothing"),
        pytest.param(None, 100, "problem", id="unknown"),
        pytest.param(100, None, "problem", id="unknown-back"),
    ],
)
def test_under_half_is_a_problem_and_more_than_a_tenth_off_a_warning(d2h, h2d, state):
    assert judged(100, d2h, h2d).state == state


def test_a_judgement_says_both_ways_and_what_was_expected():
    assert judged(16 * 2**30, 0, 12).text.partition(";")[0] == (
        "offload requested, 0 bytes device-to-host and 12 B host-to-device per step where 17.2 GB"
        " each way were expected"
    )
    assert judged(GB, GB, 2 * GB).text == (
        "offload requested, 1.00 GB device-to-host and 2.00 GB host-to-device per step where"
        " 1.00 GB each way were expected."
    )
    unknown = "offload requested, bytes host-to-device unknown, for the trace has copies without"
    assert judged(GB, GB, None).text.startswith(unknown)


def test_the_worst_device_speaks_for_all(pair):
    good, bad = moving(pair[0], GB, GB), moving(pair[1], GB, 0)
    assert judged_report(report(good, good), GB).state == "ok"
    found = judged_report(report(good, bad), GB)
    assert found.state == "problem"
    assert found.text.startswith("GPU 1: offload requested, 1.00 GB device-to-host and 0 bytes")
    assert judged_report(report(moving(pair[0], GB, 2 * GB)), GB).state == "warning"


def test_without_a_whole_step_the_bytes_are_unknown_and_that_fails():
    found = judged_report(examples.no_whole_step(), GB)
    assert found.state == "problem"
    assert found.text == (
        "offload requested, bytes unknown, for no whole training step was recorded."
    )


@pytest.mark.parametrize(("d2h", "unknown"), [(0, True), (GB, False)])
def test_where_kernels_seem_to_carry_transfers_missing_copies_are_unknown(pair, d2h, unknown):
    device = moving(pair[0], d2h, GB)
    carried = Finding("kernel_copy", "note", device.id, None, None, 0, 0, {}, "", "")
    shown = replace(report(device), findings=(carried,))
    found = judged_report(shown, GB)
    assert found.state == ("problem" if unknown else "ok")
    assert ("bytes device-to-host unknown" in found.text) is unknown
    other = replace(shown, findings=(replace(carried, device="another"),))
    assert "unknown" not in judged_report(other, GB).text


def test_a_judgement_is_a_gate_that_only_a_problem_fails(pair):
    for size, passed in ((GB, True), (GB * 4 // 5, True), (0, False)):
        shown = report(moving(pair[0], size, GB))
        judgement = judged_report(shown, GB)
        first, second = checked(shown, parse_gates([], ["stall_ms=1s"]), judgement).gates
        assert (first.name, first.kind, first.passed) == ("expect_offload", "check", passed)
        assert (first.limit, first.value, second.name) == (None, None, "stall_ms")
        assert sentence(first) == judgement.text.removesuffix(".")
    with pytest.raises(Exception, match="Gate failed: offload requested, 0 bytes device-to-host"):
        raise_failed(checked(shown, (), judgement))


def test_what_is_not_as_expected_becomes_a_warning(pair):
    shown = report(moving(pair[0], GB, GB))
    assert warned(shown, judged(GB, GB, GB)) is shown
    added = warned(shown, judged(GB, GB, 2 * GB)).trace.warnings[-1]
    assert added == Warning_(
        "offload_bytes",
        "Offload requested, 1.00 GB device-to-host and 2.00 GB host-to-device per step where"
        " 1.00 GB each way were expected.",
    )
