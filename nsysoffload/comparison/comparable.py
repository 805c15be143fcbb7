"""Whether two runs can be compared: what a difference between them would be a difference of."""

from collections.abc import Iterator
from itertools import chain

from nsysoffload.comparison.model import Reason
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.format import plain, shorten
from nsysoffload.report.recorded import numerics_differ
from nsysoffload.trace.numerics import Numerics, compare

__all__ = ["identical", "numerics", "obstacles"]

_WIDTH = 60


def identical(base: Subject, new: Subject) -> bool:
    """Tell whether both are one recording, by what is in it and not by its name."""
    ours, theirs = base.report, new.report
    return (
        ours.trace.kind == theirs.trace.kind
        and ours.window == theirs.window
        and ours.devices == theirs.devices
        and ours.kernels == theirs.kernels
        and ours.prediction == theirs.prediction
    )


def numerics(base: Subject, new: Subject) -> Numerics:
    """Hold the losses of both runs against each other, where their folders have them."""
    ours, theirs = base.report.recording, new.report.recording
    if not (ours and theirs and ours.losses and theirs.losses):
        return Numerics(None, "the losses of both are not known, so it is not known if they agree")
    return compare(ours.losses, theirs.losses)


def obstacles(base: Subject, new: Subject) -> tuple[Reason, ...]:
    """Return what makes the two no pair; nothing where they can be compared."""
    found = chain(_recorded(base, new), _ran_on(base, new), _trained(base, new), _wrong(base, new))
    return tuple(found)


def _recorded(base: Subject, new: Subject) -> Iterator[Reason]:
    ours, theirs = base.report.trace, new.report.trace
    if ours.kind != theirs.kind:
        yield Reason("other_kind", f"{base.spoken} is {ours.kind}, {new.spoken} is {theirs.kind}")
    elif ours.recorder != theirs.recorder:
        text = f"{base.spoken} was recorded by {ours.recorder}, {new.spoken} by {theirs.recorder}"
        yield Reason("other_recorder", text)
    elif _series(ours.export_schema) != _series(theirs.export_schema):
        text = (
            f"the schema of the export is {ours.export_schema or 'unknown'} for {base.spoken} and"
            f" {theirs.export_schema or 'unknown'} for {new.spoken}; export both with one nsys"
        )
        yield Reason("other_schema", text)


def _series(version: str | None) -> tuple[str, ...]:
    """Return what of a schema's version tells its tables and columns; the last part does not."""
    return tuple((version or "").split(".")[:2])


def _ran_on(base: Subject, new: Subject) -> Iterator[Reason]:
    ours, theirs = base.report, new.report
    kinds = [sorted({_text(device.name) for device in r.devices}) for r in (ours, theirs)]
    if kinds[0] != kinds[1]:
        text = f"{base.spoken} ran on {', '.join(kinds[0])}, {new.spoken} on {', '.join(kinds[1])}"
        yield Reason("other_device", text)
    counts = [len(ours.devices), len(theirs.devices)]
    if counts[0] != counts[1]:
        text = f"{base.spoken} has {_gpus(counts[0])}, {new.spoken} has {_gpus(counts[1])}"
        yield Reason("missing_device", text)
    ranks = [len(r.ranks) if r.ranks else 1 for r in (ours, theirs)]
    if ranks[0] != ranks[1]:
        text = f"{base.spoken} has {ranks[0]} ranks, {new.spoken} {ranks[1]}"
        yield Reason("missing_rank", text)
    if ours.prediction and theirs.prediction:
        if (ours.prediction.target, ours.prediction.devices) != (
            theirs.prediction.target,
            theirs.prediction.devices,
        ):
            places = [f"{p.devices} × {p.target}" for p in (ours.prediction, theirs.prediction)]
            text = f"{base.spoken} is for {places[0]}, {new.spoken} for {places[1]}"
            yield Reason("other_device", text)
        elif ours.prediction.constants != theirs.prediction.constants:
            text = "they were predicted with different constants; predict both with the same"
            yield Reason("other_constants", text)


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' * (number != 1)}"


def _trained(base: Subject, new: Subject) -> Iterator[Reason]:
    ours, theirs = base.workload, new.workload
    if ours is None or theirs is None:
        programs = [s.report.prediction.program for s in (base, new) if s.report.prediction]
        if len(set(programs)) > 1:
            text = f"{base.spoken} is {_text(programs[0])}, {new.spoken} {_text(programs[1])}"
            yield Reason("other_model", text)
        return
    for name, what in (
        ("model", "model"),
        ("layers", "number of layers"),
        ("seq", "sequence length"),
        ("mesh", "mesh"),
        ("optimizer", "optimizer"),
    ):
        values = [getattr(workload, name) for workload in (ours, theirs)]
        if values[0] != values[1]:
            text = f"the {what} is {_text(values[0])} for {base.spoken} and {_text(values[1])}"
            yield Reason("other_model", f"{text} for {new.spoken}")


def _wrong(base: Subject, new: Subject) -> Iterator[Reason]:
    found = numerics(base, new)
    if found.agree is False:
        yield Reason("numerics_differ", f"{found.text} (against {base.spoken})")
        return
    for subject in (base, new):
        if differing := numerics_differ(subject.report):
            yield Reason("numerics_differ", f"{subject.spoken} is not to be used: {differing}")


def _text(value: object) -> str:
    return shorten(plain(str(value)), _WIDTH) if value not in (None, "") else "none"
