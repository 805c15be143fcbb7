from dataclasses import replace

from nsysoffload.comparison.changes import findings, operations
from nsysoffload.comparison.model import Moved
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.model import Finding, Report, Transfers
from tests.report.examples import stepped


def subject(*rows: Transfers | Finding) -> Subject:
    report: Report = stepped()
    found = tuple(row for row in rows if isinstance(row, Finding))
    moved = tuple(row for row in rows if isinstance(row, Transfers))
    return Subject("run", replace(report, findings=found, transfers=moved))


DEVICE = Subject("run", stepped()).device.id


def moves(op: str, size: int, stall_ns: int = 0, way: str = "h2d", jax: str = "slice") -> Transfers:
    return Transfers(DEVICE, op, jax, None, "backward", way, 2, size, 100, 60, stall_ns)


def costs(cause: str, lost_ns: int, way: str | None = "h2d", device: str = DEVICE) -> Finding:
    severity = "finding" if lost_ns else "note"
    return Finding(cause, severity, device, way, None, lost_ns, 0, {}, "message", "advice")


def test_causes_are_gained_lost_and_kept_by_what_they_cost_together():
    base = subject(costs("same_stream", 10), costs("same_stream", 5), costs("host_gap", 7, None))
    new = subject(costs("same_stream", 4), costs("issued_too_late", 20, "d2h"), costs("unknown", 0))
    told = [(c.cause, c.direction, c.state, c.base_ns, c.new_ns) for c in findings(base, new)]
    assert told == [
        ("issued_too_late", "d2h", "gained", 0, 20),
        ("same_stream", "h2d", "kept", 15, 4),
        ("host_gap", None, "lost", 7, 0),
    ]


def test_causes_of_devices_that_do_not_speak_for_the_run_do_not_count():
    assert findings(subject(costs("host_gap", 5, device="another")), subject()) == ()


def test_an_operation_is_matched_by_name_and_size_then_by_size_then_by_name():
    base = subject(moves("slice.1", 10, 5), moves("slice.2", 20, 7), moves("slice.9", 90))
    new = subject(moves("slice.1", 20, 3), moves("slice.2", 10, 1), moves("slice.9", 99, 8))
    told = {
        change.op: (change.base.stall_ns, change.new.stall_ns) for change in operations(base, new)
    }
    assert told == {"slice.1 → slice.2": (5, 1), "slice.2 → slice.1": (7, 3), "slice.9": (0, 8)}


def test_an_operation_without_a_match_stands_alone():
    base = subject(moves("slice.1", 10, way="d2h"))
    new = subject(moves("slice.1", 10), moves("other", 10, jax="gather"))
    told = [(c.op, c.direction, c.base, c.new) for c in operations(base, new)]
    moved = Moved(2, 10, 100, 60, 0)
    assert sorted(told, key=str) == [
        ("other", "h2d", None, moved),
        ("slice.1", "d2h", moved, None),
        ("slice.1", "h2d", None, moved),
    ]


def test_each_transfer_is_told_once_however_many_share_a_name():
    base = subject(*[moves("slice", 10, n) for n in range(5)])
    new = subject(*[moves("slice", 10, n) for n in range(3)])
    found = operations(base, new)
    assert len(found) == 5
    assert sum(change.base.stall_ns for change in found if change.base) == 10
    assert sum(change.new.stall_ns for change in found if change.new) == 3


def test_the_most_changed_stall_comes_first():
    base = subject(moves("a", 10, 5), moves("b", 20, 5), moves("c", 30, 5))
    new = subject(moves("a", 10, 6), moves("b", 20, 50), moves("c", 30, 5))
    assert [change.op for change in operations(base, new)] == ["b", "a", "c"]
