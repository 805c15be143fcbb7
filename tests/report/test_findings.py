"""From causes to findings: what counts per step, what is only a note, and how it is said."""

import pytest

from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report.findings import MIN_SHARE, UNKNOWN_SHARE
from nsysoffload.timeline.steps import STEP_RANGE
from nsysoffload.trace.builder import TraceBuilder
from tests.examined import report_of

RATE = 200_000  # bytes per us, which is 200 GB/s


def steps(*gaps, length=10_000, moved=None, xla=False, ranges=True):
    """One step per gap, in us: kernels of which the second waits for a copy as long as the gap.

    ::

        gemm  [0                )<gap>[        length)
        h2d                      [    )                     [another, hidden)
    """
    trace = TraceBuilder("NVIDIA GB200", unit="us")
    for number, gap in enumerate(gaps):
        host, at = 100 * number + 1, 1_000 + 2 * length * number
        if ranges:
            trace.nvtx(STEP_RANGE, (host, host + 90))
        if xla:
            trace.nvtx("XlaModule:#hlo_module=jit_step,program_id=1#", (host, host + 90))
        call = (host + 1, host + 2)
        where = {"stream": 20, "call": call}
        half = length // 2
        trace.kernel((at, at + half), "gemm", call=call)
        if moved is None and gap:
            trace.copy("h2d", (at + half, at + half + gap), size_bytes=gap * RATE, **where)
        trace.kernel((at + half + gap, at + length), "gemm", call=call)
        hidden = (at + length - 2_000, at + length - 1_000)
        trace.copy("h2d", hidden, size_bytes=1_000 * RATE, **where)
    return trace


def findings(trace):
    report = report_of(trace.build())
    return [(f.cause, f.severity, f.lost_ns_per_step) for f in report.findings]


def test_a_finding_costs_the_median_over_the_steps():
    assert findings(steps(100, 300, 900)) == [("issued_too_late", "finding", 300_000)]


def test_what_happens_in_fewer_than_half_of_the_steps_costs_nothing_per_step():
    assert findings(steps(300, 0, 0)) == []


@pytest.mark.parametrize(("gap", "severity"), [(10, "finding"), (9, "note")])
def test_what_costs_less_than_a_thousandth_of_the_step_is_a_note(gap, severity):
    assert MIN_SHARE == 0.001
    assert findings(steps(gap, gap, gap)) == [("issued_too_late", severity, gap * 1_000)]


@pytest.mark.parametrize(("gap", "severity"), [(500, "finding"), (499, "note")])
def test_unexplained_time_is_a_note_below_a_twentieth_of_the_step(gap, severity):
    assert UNKNOWN_SHARE == 0.05
    found = findings(steps(gap, gap, gap, moved=False))
    assert found == [("unknown", severity, gap * 1_000)]


def test_unexplained_time_means_nothing_without_steps_or_under_graphs():
    without = findings(steps(900, 900, 900, moved=False, ranges=False))
    assert ("unknown", "finding") not in {(cause, severity) for cause, severity, _ in without}
    under = steps(900, 900, 900, moved=False).graph((2_000, 2_010))
    assert all(severity == "note" for cause, severity, _ in findings(under) if cause == "unknown")


@pytest.mark.parametrize("xla", [False, True])
def test_advice_names_xla_only_where_the_trace_does(xla):
    (finding,) = report_of(steps(300, 300, xla=xla).build()).findings
    told = EXPLANATIONS["issued_too_late"]
    assert told.advice_xla != told.advice_cuda
    assert finding.advice.startswith(told.advice_xla if xla else told.advice_cuda)


def test_findings_stand_by_their_cost_and_notes_behind_them():
    #  in each step: h2d 100, d2h 300, and a gap of 4 us that nothing explains
    trace = TraceBuilder("NVIDIA GB200", unit="us")
    for number in range(3):
        host, at = 100 * number + 1, 1_000 + 20_000 * number
        trace.nvtx(STEP_RANGE, (host, host + 90))
        call = (host + 1, host + 2)
        for begin, end in ((0, 3_000), (3_100, 5_000), (5_300, 9_000), (9_004, 10_000)):
            trace.kernel((at + begin, at + end), "gemm", call=call)
        trace.copy("h2d", (at + 3_000, at + 3_100), stream=20, call=call)
        trace.copy("d2h", (at + 5_000, at + 5_300), stream=21, call=call)
    found = report_of(trace.build()).findings
    assert [(f.cause, f.direction, f.severity, f.lost_ns_per_step) for f in found] == [
        ("issued_too_late", "d2h", "finding", 300_000),
        ("issued_too_late", "h2d", "finding", 100_000),
        ("unknown", None, "note", 4_000),
    ]
    for finding in found[:2]:
        assert finding.evidence["stalls"] == 3
        assert len(finding.evidence["copy_row_ids"]) == 3
        assert finding.evidence["spans"]


def queued(*ops):
    """Steps in which a kernel waits for copies of these operations, 100 us each, on one stream."""
    trace = TraceBuilder("NVIDIA GB200", unit="us")
    for number in range(3):
        host, at = 100 * number + 1, 1_000 + 5_000 * number
        trace.nvtx(STEP_RANGE, (host, host + 90))
        trace.kernel((at, at + 1_000), "gemm", call=(host + 1, host + 2))
        for place, op in enumerate(ops):
            call = (host + 10 + 4 * place, host + 11 + 4 * place)
            trace.nvtx(f"Thunk:#name=jit(f),hlo_op={op}#", (call[0] - 1, call[1] + 1))
            begin = at + 1_000 + 100 * place
            trace.copy("d2h", (begin, begin + 100), stream=20, call=call)
        begin = at + 1_000 + 100 * len(ops)
        trace.kernel((begin, at + 4_000), "gemm", call=(host + 80, host + 81))
    return trace.build()


def test_a_stall_names_the_copies_that_ran_in_it_beside_the_one_that_was_waited_for():
    (finding,) = report_of(queued("large.1", "large.2", "large.1", "small")).findings
    assert (finding.op, finding.lost_ns_per_step) == ("small", 400_000)
    assert finding.evidence["copies_in_stalls_ns"] == [
        ["large.1", 600_000],  # two of 100 us in each of three steps
        ["large.2", 300_000],
        ["small", 300_000],
    ]


def test_a_stall_of_one_operation_alone_says_no_more():
    (finding,) = report_of(queued("small", "small")).findings
    assert "copies_in_stalls_ns" not in finding.evidence
