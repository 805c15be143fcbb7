import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nsysoffload.errors import GateFailed, UsageError
from nsysoffload.report import json as report_json
from nsysoffload.report.gates import Limit, checked, parse_gates, raise_failed, sentence
from nsysoffload.report.metrics import METRICS
from nsysoffload.report.model import Device, Finding, Gate, Report
from tests.report import examples

DOUBT = "rows of one stream contradict each other"


def changed(device: Device, **of_step) -> Device:
    """A device whose steps have other medians."""
    return replace(device, per_step=replace(device.per_step, **of_step))


def overlapping(device: Device, overlap: float | None, reason: str | None = None) -> Device:
    both = replace(device.per_step.both, overlap=overlap, overlap_null_reason=reason)
    return changed(device, both=both)


def two_devices(first: Device, second: Device) -> Report:
    return replace(examples.stepped(), devices=(first, second))


def gate(report: Report, *, under: str = "", over: str = "") -> Gate:
    (found,) = limited(report, parse_gates([under] * bool(under), [over] * bool(over)))
    return found


def limited(report: Report, limits: Sequence[Limit]) -> list[Gate]:
    """Gates of the limits, without the checks that no limit asks for."""
    return [gate for gate in checked(report, limits).gates if gate.kind != "check"]


@pytest.fixture
def pair() -> tuple[Device, Device]:
    return examples.stepped().devices


# --- Limits as users write them ---


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("overlap=80", 80),
        ("overlap=80%", 80),
        (" overlap = 80.5 % ", 80.5),
        ("overlap=0.5%", 0.5),
        ("overlap=0", 0),
        ("overlap=100", 100),
        ("stall_ms=5", 5),
        ("stall_ms=5ms", 5),
        ("stall_ms=5100us", 5.1),
        ("stall_ms=5100µs", 5.1),
        ("stall_ms=0.5s", 500),
        ("stall_ms=1e-3", 0.001),
        ("gbps.d2h=150 GB/s", 150),
        ("bytes.h2d=16GiB", 16 * 2**30),
        ("bytes.h2d=1.5kB", 1500),
        ("bytes.h2d=1e9", 1e9),
        ("copies.h2d=3", 3),
        ("lost_ms.issued_too_late=.5", 0.5),
    ],
)
def test_a_limit_is_read_in_the_unit_of_its_metric(text, limit):
    name = text.partition("=")[0].strip()
    assert parse_gates([text], []) == (Limit(name, "under", limit),)


def test_several_limits_come_in_a_list_with_commas_or_one_by_one():
    assert parse_gates(["overlap=80,gbps.d2h=150", "gbps.h2d=200"], ["overlap=99"]) == (
        Limit("overlap", "under", 80),
        Limit("gbps.d2h", "under", 150),
        Limit("gbps.h2d", "under", 200),
        Limit("overlap", "over", 99),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Limit '' is not of the form NAME=NUMBER; write it like overlap=80."),
        ("overlap", "Limit 'overlap' is not of the form"),
        ("overlap=", "Limit 'overlap=' is not of the form"),
        ("=5", "Limit '=5' is not of the form"),
        ("overlap=80,", "Limit '' is not of the form"),
        ("overlap=high", "'high' is no number to limit overlap by"),
        ("overlap=nan", "'nan' is no number"),
        ("stall_ms=inf", "'inf' is no number"),
        ("stall_ms=1e999", "stall_ms is never 1e999"),
        ("stall_ms=-1", "stall_ms is never -1"),
        ("overlap=120", "overlap is never 120"),
        ("overlap=5ms", "overlap is in %, not in 'ms'"),
        ("stall_ms=5%", "stall_ms is in ns, us, µs, ms, s, not in '%'"),
        ("gbps.h2d=200GB", "gbps.h2d is in GB/s, not in 'GB'"),
        ("copies.h2d=5B", "copies.h2d has no unit, not in 'B'"),
        ("overlap=0.8", "overlap is in percent, and 0.8 is next to nothing; write overlap=80"),
        ("overlap=1", "or overlap=1% if that is meant"),
        ("overlap=80,overlap=90", "--fail-under limits overlap twice; give it once."),
    ],
)
def test_what_is_no_limit_is_an_error_that_says_why(text, sentence):
    with pytest.raises(UsageError) as raised:
        parse_gates([text], [])
    assert sentence in str(raised.value)


def test_an_unknown_metric_is_an_error_that_names_the_one_that_was_meant_or_all():
    with pytest.raises(UsageError, match="'overlp.h2d' is not known; did you mean 'overlap.h2d'.$"):
        parse_gates([], ["overlp.h2d=80"])
    with pytest.raises(UsageError, match="'zzz' is not known; choose from: ") as raised:
        parse_gates([], ["zzz=80"])
    text = str(raised.value)
    assert text.removesuffix(".").partition("choose from: ")[2].split(", ") == list(METRICS)


# --- Values ---


def test_a_value_is_what_the_json_says_of_the_steps():
    report = replace(examples.stepped(), devices=examples.stepped().devices[:1])
    (device,) = json.loads(report_json.render(report))["devices"]
    step = device["per_step"]
    expected = {
        "overlap": 100 * step["both"]["overlap"],
        "overlap.h2d": 100 * step["h2d"]["overlap"],
        "stall_ms": step["stall_ns"] / 1e6,
        "stall_ms.d2h": step["d2h"]["stall_ns"] / 1e6,
        "exposed_ms": step["both"]["exposed_ns"] / 1e6,
        "exposed_ms.h2d": step["h2d"]["exposed_ns"] / 1e6,
        "hideable_ms": step["hideable_ns"] / 1e6,
        "hideable_ms.h2d": step["h2d"]["hideable_ns"] / 1e6,
        "lost_ms": step["lost_ns"] / 1e6,
        "best_ms": step["best_ns"] / 1e6,
        "step_ms": step["duration_ns"] / 1e6,
        "period_ms": step["period_ns"] / 1e6,
        "compute_ms": step["compute_busy_ns"] / 1e6,
        "recompute_ms": step["recompute_ns"] / 1e6,
        "collective_ms": step["collective_busy_ns"] / 1e6,
        "idle_ms": step["idle_ns"] / 1e6,
        "unattributed": 100 * step["unattributed"],
        "gbps.d2h": step["d2h"]["gbps"],
        "burst_gbps.h2d": device["trace"]["h2d"]["burst_gbps"],
        "lone_gbps.d2h": device["trace"]["d2h"]["lone_gbps"],
        "bytes.h2d": step["h2d"]["bytes"],
        "copies.d2h": step["d2h"]["copies"],
        "lost_ms.issued_too_late": step["lost"]["issued_too_late"] / 1e6,
        "lost_ms.pageable_memory": 0,
    }
    values = {name: METRICS[name].values(report)[0].value for name in expected}
    assert values == pytest.approx(expected, rel=1e-10)


def test_findings_are_counted_without_notes():
    report = examples.stepped()
    severities = [finding.severity for finding in report.findings]
    assert "note" in severities
    assert gate(report, over="findings=0").value == severities.count("finding") > 0


def test_excess_time_is_that_of_the_findings_of_a_cause_on_each_device(pair):
    found = [
        Finding("starved", "finding", pair[0].id, way, None, 0, excess_ns, {}, "", "")
        for way, excess_ns in (("h2d", 2_000_000), ("d2h", 1_000_000))
    ]
    report = replace(examples.stepped(), findings=tuple(found))
    assert [m.value for m in METRICS["excess_ms.starved"].values(report)] == [3, 0]
    assert [m.value for m in METRICS["excess_ms.remote_numa"].values(report)] == [0, 0]


def test_memory_is_known_of_predictions_and_of_runs_whose_manifest_says_so():
    report = examples.predicted()
    assert gate(report, over="device_bytes=150GB").passed
    assert not gate(report, over="host_bytes=69GB").passed
    assert gate(examples.recorded(), over="device_bytes=12GB").value == 12_000_000_000
    assert gate(examples.recorded(), over="host_bytes=3GB").value == 3_000_000_000
    unknown = gate(examples.stepped(), over="device_bytes=150GB")
    assert (unknown.passed, unknown.value) == (False, None)
    assert unknown.reason == (
        "neither a prediction nor the manifest of a run says what memory a step needs"
    )


# --- Gates ---


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"under": "overlap=57"}, True),  # just reached; 100 * 0.57 is not 57 in binary
        ({"under": "overlap=57.001"}, False),
        ({"over": "overlap=57"}, True),
        ({"over": "overlap=56.999"}, False),
    ],
)
def test_a_limit_that_is_just_reached_is_kept(pair, limits, passed):
    report = two_devices(*(overlapping(device, 0.57) for device in pair))
    assert gate(report, **limits).passed is passed


def test_a_limit_must_hold_on_every_device_and_the_worst_is_shown(pair):
    report = two_devices(overlapping(pair[0], 0.9), overlapping(pair[1], 0.6))
    assert gate(report, under="overlap=80") == Gate("overlap", "under", 80, 60, passed=False)
    assert gate(report, over="overlap=80") == Gate("overlap", "over", 80, 90, passed=False)
    stalling = two_devices(changed(pair[0], stall_ns=1), changed(pair[1], stall_ns=7_000_000))
    assert gate(stalling, over="stall_ms=5").value == 7


@pytest.mark.parametrize("kind", ["under", "over"])
def test_an_unknown_value_on_one_device_fails_with_its_reason(pair, kind):
    report = two_devices(pair[0], overlapping(pair[1], None, f"{DOUBT}."))
    reason = f"GPU {pair[1].ordinal}: {DOUBT}"
    assert gate(report, **{kind: "overlap=50"}) == Gate("overlap", kind, 50, None, False, reason)


def test_times_that_rest_on_overlap_are_unknown_where_it_is(pair):
    device = overlapping(pair[0], None, DOUBT)
    report = replace(examples.stepped(), devices=(device,))
    for name in ("stall_ms", "exposed_ms", "hideable_ms", "lost_ms", "best_ms", "lost_ms.unknown"):
        assert gate(report, over=f"{name}=1e9").reason == DOUBT
    assert gate(report, over="step_ms=1e9").passed


def test_without_transfers_nothing_stalls_and_overlap_is_unknown():
    report = examples.no_transfers()
    assert gate(report, over="stall_ms=0").passed
    assert gate(report, under="overlap=80").reason == "no transfers"
    assert gate(report, under="overlap.h2d=80").reason == examples.NO_COPIES
    assert gate(report, under="gbps.h2d=1").reason == "no timed H2D copies of known size"
    assert gate(report, under="bytes.d2h=1B") == Gate("bytes.d2h", "under", 1, 0, passed=False)


def test_without_a_whole_step_everything_per_step_is_unknown():
    report = examples.no_whole_step()
    names = [
        name for name in METRICS if not name.startswith(("burst", "lone", "device_b", "host_b"))
    ]
    assert len(names) > 40
    for name in names:
        found = gate(report, over=f"{name}=50")
        assert (found.passed, found.value) == (False, None)
        assert found.reason == "no whole training step was recorded"


@pytest.mark.parametrize("example", examples.EXAMPLES)
def test_every_metric_has_a_value_or_a_reason_on_every_report(example):
    gates = limited(examples.EXAMPLES[example](), [Limit(n, "over", 50) for n in METRICS])
    assert len(gates) == len(METRICS)
    for found in gates:
        assert (found.value is None) == bool(found.reason)
        assert found.passed == (found.value is not None and found.value <= 50)
        assert sentence(found).startswith(found.name)


def test_a_report_without_devices_keeps_no_limit():
    report = replace(examples.one_device(), devices=())
    assert gate(report, over="stall_ms=5").reason == "the report has no device"


def test_gates_are_in_the_json():
    report = checked(examples.one_device(), parse_gates(["overlap=80"], ["stall_ms=1s"]))
    names = [(g["name"], g["kind"], g["limit"]) for g in report_json.to_dict(report)["gates"]]
    assert names == [("overlap", "under", 80), ("stall_ms", "over", 1000)]


def test_failed_gates_are_one_error_with_a_line_each():
    gates = (
        Gate("overlap", "under", 80, 61.23, passed=False),
        Gate("stall_ms", "over", 5, 4.2, passed=True),
        Gate("gbps.d2h", "under", 100, None, passed=False, reason="no copies"),
    )
    with pytest.raises(GateFailed) as raised:
        raise_failed(replace(examples.one_device(), gates=gates))
    assert raised.value.exit_code == 1
    assert str(raised.value).splitlines() == [
        "Gate failed: overlap 61.2 % is under 80 %",
        "Gate failed: gbps.d2h is unknown, and must not be under 100 GB/s: no copies",
    ]
    raise_failed(replace(examples.one_device(), gates=gates[1:2]))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Gate("overlap", "under", 80, 79.99, False), "overlap 79.99 % is under 80 %"),
        (Gate("overlap", "under", 80, 80, True), "overlap 80 % is not under 80 %"),
        (Gate("stall_ms", "over", 5, 5.000001, False), "stall_ms 5.000001 ms is over 5 ms"),
        (Gate("step_ms", "over", 12000, 12345.678, False), "step_ms 12346 ms is over 12000 ms"),
        (Gate("bytes.h2d", "under", 17179869184, 4096, False),
         "bytes.h2d 4096 B is under 17179869184 B"),
        (Gate("findings", "over", 0, 3, False), "findings 3 is over 0"),
    ],
)  # fmt: skip
def test_a_value_is_told_apart_from_its_limit(found, text):
    assert sentence(found) == text
