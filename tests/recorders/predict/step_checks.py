"""A report on an exported trace, held against the record of the same run, step by step."""

from collections import Counter

from nsysoffload.recorders.predict.export import ORIGIN_NS
from nsysoffload.recorders.predict.record import Record, Work, work_of
from nsysoffload.report.model import Device, Report, Step

WAYS = ("h2d", "d2h")
COVER = ("busy_ns", "hidden_ns", "exposed_ns", "hidden_by_collectives_ns")


def the_steps_agree(
    record: Record, device: Device, *, phases: bool = True, stalls: bool = True
) -> None:
    """Compare every step of a device, the first and the last included.

    ``phases`` are not compared where kernels run in graphs, whose launches name no operation, and
    ``stalls`` not where transfers on the compute stream let it wait without an event.
    """
    numbers = sorted({step for step in record.step_of.tolist() if step >= 0})
    times = record.steps()
    assert [step.index for step in device.steps] == list(range(len(times)))
    for number, time, step in zip(numbers, times, device.steps, strict=True):
        assert step.start_ns == time.start_ns + ORIGIN_NS
        assert (step.duration_ns, step.period_ns) == (time.duration_ns, time.period_ns)
        _lost_time_agrees(record, number, step, stalls)
        _transfers_agree(record, number, step)
        if phases and step.phases is not None:
            assert step.phases == record.phase_ns(number)
            assert step.recompute_ns == record.phase_ns(number)["recompute"]


def _lost_time_agrees(record: Record, number: int, step: Step, compare: bool) -> None:
    lost = record.lost_ns(number)
    assert step.lost_ns == sum(lost.values()) == sum(step.lost.values())
    assert step.lost.get("collective_only", 0) == lost["collective"]
    assert step.h2d.stall_ns + step.d2h.stall_ns == step.stall_ns
    if compare:
        proven = [stall for stall in record.stalls(number) if stall.proven]
        assert step.stall_ns == lost["stall"]
        assert step.stall_proven_ns == sum(stall.end_ns - stall.start_ns for stall in proven)


def _transfers_agree(record: Record, number: int, step: Step) -> None:
    for way in (*WAYS, "both"):
        found, own = getattr(step, way), record.transfers(way, number)
        assert [getattr(found, n) for n in COVER] == [getattr(own, n) for n in COVER]
        if way in WAYS:
            assert (found.copies, found.bytes) == (own.copies, own.bytes)


def the_layers_agree(record: Record, report: Report) -> None:
    """Compare how often each operation copies in a step: once per iteration of its loop."""
    issue, steps = record.issue, len(record.steps())
    moving = [
        (issue.ops[op].name, str(issue.ops[op].kind), int(step))
        for op, step in zip(issue.op_of, record.step_of, strict=True)
        if work_of(issue.ops[op]) is Work.TRANSFER and step >= 0
    ]
    expected = {
        (name, way): max(n for (*of, _), n in Counter(moving).items() if of == [name, way])
        for name, way, _ in moving
    }
    copies = Counter((name, way) for name, way, _ in moving)
    found = {(t.op, t.direction): t for t in report.transfers}
    assert {key: max(1, len(t.layers)) for key, t in found.items()} == expected
    assert {key: t.copies for key, t in found.items()} == {
        key: n // steps for key, n in copies.items()
    }
    for group in found.values():
        assert [layer.layer for layer in group.layers] == list(range(len(group.layers)))
