"""What is to be said of two runs beside their figures: memory, numerics, clocks, and doubts."""

from collections.abc import Iterator

import numpy as np

from nsysoffload.comparison.comparable import numerics
from nsysoffload.comparison.model import Note
from nsysoffload.comparison.runs import Subject
from nsysoffload.report.format import size
from nsysoffload.report.model import Kernel
from nsysoffload.trace.workload import is_offload

__all__ = ["notes", "offloaded"]

CLOCKS = 0.05
"""Share by which kernels that both runs have may differ before clocks are suspected."""

COMMON = 0.5
"""Share of the compute time of both that such kernels have to have."""

_MORE = 2.0  # times the bytes: offloading, and not one value more


def offloaded(base: Subject, new: Subject) -> Subject | None:
    """Return which of two runs offloads, by the bytes that it moves; None if neither does more."""
    ours, theirs = (_moved_bytes(subject) or 0 for subject in (base, new))
    if max(ours, theirs) <= _MORE * min(ours, theirs):
        return None
    return base if ours > theirs else new


def _moved_bytes(subject: Subject) -> int | None:
    """Return the bytes that go to the host and back in a step; the lesser of the two ways."""
    step = subject.device.per_step if subject.device else None
    if step is None or step.d2h.bytes is None or step.h2d.bytes is None:
        return None
    return min(step.d2h.bytes, step.h2d.bytes)


def notes(base: Subject, new: Subject, outcome: str) -> tuple[Note, ...]:
    """Return what is to be said of a pair, findings first.

    Parameters
    ----------
    base, new : Subject
        Runs that can be compared.
    outcome : str
        What came out for the new run.
    """
    found = [
        *_not_in_effect(base, new),
        *_flags(base, new),
        *_memory(base, new, outcome),
        *_numerics(base, new),
        *_clocks(base, new),
        *_unknown(base, new),
    ]
    return tuple(sorted(found, key=lambda note: note.severity != "finding"))


def _not_in_effect(base: Subject, new: Subject) -> Iterator[Note]:
    for subject in (base, new):
        asked = is_offload(subject.variant or "")
        carried = any(f.cause == "kernel_copy" for f in subject.report.findings)
        if asked and not carried and _moved_bytes(subject) == 0:
            yield Note(
                "offload_not_in_effect",
                "finding",
                f"{subject.spoken} was to offload, and moves no bytes to the host and back.",
                "See whether the policy names values that the model has, and what XLA made of"
                " them.",
            )


def _flags(base: Subject, new: Subject) -> Iterator[Note]:
    """Say by which XLA flags the runs differ, where both are known."""
    ours, theirs = (_flags_of(subject) for subject in (base, new))
    if ours is None or theirs is None or ours == theirs:
        return
    sides = [
        f"{subject.spoken} has {' '.join(sorted(own)) or 'none of its own'}"
        for subject, own in ((base, ours - theirs), (new, theirs - ours))
    ]
    yield Note(
        "other_flags",
        "note",
        f"The runs were compiled with different XLA flags, to which a part of the change may be"
        f" due: {'; '.join(sides)}.",
        "Where the policies are to be told apart, record both with the same flags.",
    )


def _flags_of(subject: Subject) -> frozenset[str] | None:
    made, recorded = subject.report.prediction, subject.report.recording
    flags = made.flags if made else recorded.xla_flags if recorded else None
    return frozenset(flags) if flags else None


def _memory(base: Subject, new: Subject, outcome: str) -> Iterator[Note]:
    """Say where offloading saves no device memory, which is all that it is for."""
    moving = offloaded(base, new)
    if moving is None:
        return
    other = base if moving is new else new
    ours, theirs = moving.report.memory, other.report.memory
    if not ours or not theirs or ours.device_bytes < theirs.device_bytes:
        return
    is_slower = outcome == ("worse" if moving is new else "better")
    yield Note(
        "no_memory_gain",
        "finding" if is_slower else "note",
        f"{moving.spoken} offloads, and a step needs {size(ours.device_bytes)} on the device where"
        f" {other.spoken} needs {size(theirs.device_bytes)}.",
        "Offload fewer and larger values, or use the policy that needs less.",
    )


def _numerics(base: Subject, new: Subject) -> Iterator[Note]:
    if base.predicted:
        return
    found = numerics(base, new)
    text = f"{found.text[0].upper()}{found.text[1:]}."
    if found.agree is None:
        advice = "Record both with 'nsysoffload capture', which keeps their losses."
        yield Note("numerics_unknown", "note", text, advice)
    else:
        yield Note("numerics_agree", "note", text, None)


def _clocks(base: Subject, new: Subject) -> Iterator[Note]:
    """Compare kernels that both runs have; a GPU with a lower clock slows them all alike."""
    if base.predicted:
        return
    ours, theirs = ({k.name: k for k in _compute(s)} for s in (base, new))
    common = [name for name in ours if name in theirs]
    busy = np.array([min(ours[n].busy_ns, theirs[n].busy_ns) for n in common], dtype=np.float64)
    whole = min(sum(k.busy_ns for k in kernels.values()) for kernels in (ours, theirs))
    if not whole or busy.sum() < COMMON * whole:
        return
    ratios = np.array([_mean_ns(theirs[n]) / _mean_ns(ours[n]) for n in common])
    order = np.argsort(ratios)
    at = np.searchsorted(np.cumsum(busy[order]), busy.sum() / 2)
    ratio = float(ratios[order][at])
    if abs(ratio - 1) <= CLOCKS:
        return
    word = "longer" if ratio > 1 else "less long"
    yield Note(
        "other_clocks",
        "note",
        f"Kernels of the same names take {abs(ratio - 1):.0%} {word} in {new.spoken} than in"
        f" {base.spoken}: their GPUs may run at other clocks.".replace("%", " %"),
        "Record both on one machine, one after the other; see 'nvidia-smi -q -d CLOCK'.",
    )


def _compute(subject: Subject) -> Iterator[Kernel]:
    return (k for k in subject.report.kernels if k.class_ == "compute" and k.busy_ns and k.count)


def _mean_ns(kernel: Kernel) -> float:
    return kernel.busy_ns / kernel.count


def _unknown(base: Subject, new: Subject) -> Iterator[Note]:
    versions = [subject.report.trace.nsys_version for subject in (base, new)]
    if versions[0] != versions[1] and None not in versions:
        text = f"nsys was {versions[0]} for {base.spoken} and {versions[1]} for {new.spoken}; the"
        yield Note("other_build", "note", f"{text} schema of their exports is the same.", None)
    if not (base.workload and new.workload) and not base.report.prediction:
        text = "That both train the same model is taken for granted; the traces do not say it."
        yield Note("workload_unknown", "note", text, None)
