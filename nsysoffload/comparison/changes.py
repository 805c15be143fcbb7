"""Findings and transfers of two runs, matched by cause and by operation."""

from collections import defaultdict
from collections.abc import Hashable, Mapping

from nsysoffload.comparison.model import FindingChange, Moved, OperationChange
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.model import Transfers

__all__ = ["findings", "operations"]

_Cause = tuple[str, str | None]


def findings(base: Subject, new: Subject) -> tuple[FindingChange, ...]:
    """Return the causes that cost time in either run, those whose cost changed most first."""
    ours, theirs = _costs(base), _costs(new)
    changes = [
        FindingChange(
            cause,
            direction,
            _state((cause, direction) in ours, (cause, direction) in theirs),
            base_ns := ours.get((cause, direction), 0),
            new_ns := theirs.get((cause, direction), 0),
            new_ns - base_ns,
        )
        for cause, direction in {**ours, **theirs}
    ]
    return tuple(sorted(changes, key=lambda c: (-abs(c.change_ns), c.cause, c.direction or "")))


def _state(before: bool, after: bool) -> str:
    return "kept" if before and after else "gained" if after else "lost"


def _costs(subject: Subject) -> Mapping[_Cause, int]:
    """Add up what each cause costs the device that speaks for the run, without what is a note."""
    device = subject.device
    costs: dict[_Cause, int] = defaultdict(int)
    for finding in subject.report.findings:
        if device and finding.device == device.id and finding.severity == "finding":
            cost = finding.lost_ns_per_step + finding.excess_ns_per_step
            costs[finding.cause, finding.direction] += cost
    return costs


def operations(base: Subject, new: Subject) -> tuple[OperationChange, ...]:
    """Return the transfers of both runs by operation, the most changed first.

    XLA numbers operations anew in every program. So two are one operation where name and size
    agree, else where the JAX operation and the size do, else where the name does.
    """
    ours, theirs = _groups(base), _groups(new)
    pairs: list[tuple[Transfers | None, Transfers | None]] = []
    for key in (_name_and_size, _size, _name):
        waiting: dict[Hashable, list[Transfers]] = defaultdict(list)
        for group in ours:
            waiting[key(group)].append(group)
        found = [(waiting[key(g)].pop(0), g) for g in theirs if waiting[key(g)]]
        pairs += found
        matched = {id(group) for pair in found for group in pair}
        ours = [group for group in ours if id(group) not in matched]
        theirs = [group for group in theirs if id(group) not in matched]
    pairs += [(group, None) for group in ours] + [(None, group) for group in theirs]
    return tuple(sorted((_change(*pair) for pair in pairs), key=_by_change))


def _groups(subject: Subject) -> list[Transfers]:
    device = subject.device
    return [t for t in subject.report.transfers if device and t.device == device.id]


def _name(group: Transfers) -> tuple[Hashable, ...]:
    return (group.op, group.direction, group.phase, group.op_name)


def _size(group: Transfers) -> tuple[Hashable, ...]:
    return (group.op_name or group.op, group.direction, group.phase, group.copies, group.bytes)


def _name_and_size(group: Transfers) -> tuple[Hashable, ...]:
    return (*_name(group), *_size(group))


def _change(base: Transfers | None, new: Transfers | None) -> OperationChange:
    either = new or base
    assert either
    return OperationChange(
        f"{base.op} → {new.op}" if base and new and base.op != new.op else either.op,
        either.direction,
        either.phase,
        _moved(base),
        _moved(new),
    )


def _moved(group: Transfers | None) -> Moved | None:
    if group is None:
        return None
    return Moved(group.copies, group.bytes, group.busy_ns, group.hidden_ns, group.stall_ns)


def _by_change(change: OperationChange) -> tuple[int, int, str]:
    stalls, busy = (
        [getattr(side, name) if side else 0 for side in (change.base, change.new)]
        for name in ("stall_ns", "busy_ns")
    )
    return (-abs(stalls[1] - stalls[0]), -abs(busy[1] - busy[0]), change.op)
