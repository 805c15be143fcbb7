"""Findings, gates and the parts of a step, in words and figures that all outputs share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.cards import Figure, Words, unit
from nsysoffload.report.gates import sentence
from nsysoffload.report.model import Device, Finding, Gate, Report, Step

__all__ = ["PARTS", "Told", "drawn", "firsts", "gate", "parts_ns", "told"]

PARTS = (
    "compute alone",
    "compute and transfers",
    "collectives",
    "stall: waiting for transfers",
    "host and others",
)
"""Parts of a step's time, which add up to its duration."""

_FIRST = 3
_ROWS = 40  # ids of one list that are shown


@dataclass(frozen=True)
class Told:
    """A finding in words: where it is, what it costs, its numbers and its rows.

    ``lane`` is the lane of the timeline in which its ``spans`` are marks.
    """

    title: str
    cause: str
    is_note: bool
    device: str
    where: str
    cost: Words
    message: str
    advice: str
    numbers: tuple[tuple[str, Words], ...]
    rows: tuple[tuple[str, str], ...]
    spans: tuple[tuple[int, int], ...]
    lane: str


def told(report: Report) -> tuple[Told, ...]:
    """Put the findings into words, in their order.

    Parameters
    ----------
    report : Report
        The report.
    """
    return tuple(_told(report, number, finding) for number, finding in enumerate(report.findings))


def firsts(report: Report) -> tuple[tuple[Told, ...], int]:
    """Return the most costly findings, and how many more cost anything.

    Advice that was given before is referred to.

    Parameters
    ----------
    report : Report
        The report.
    """
    lost = [finding for finding in told(report) if not finding.is_note]
    shown: list[Told] = []
    for finding in lost[:_FIRST]:
        said = [other.advice for other in shown]
        if finding.advice in said:
            again = f"The same change as for {said.index(finding.advice) + 1}."
            finding = replace(finding, advice=again)
        shown.append(finding)
    return tuple(shown), len(lost) - len(shown)


def gate(limit: Gate) -> str:
    """Return whether a limit is kept, and what the report has.

    Parameters
    ----------
    limit : Gate
        The limit.
    """
    text = fmt.shorten(fmt.plain(sentence(limit)), 400).removesuffix(".")
    return f"{'Passed' if limit.passed else 'Failed'}: {text}."


def parts_ns(step: Step) -> tuple[int, ...]:
    """Return the lengths of the parts in `PARTS`.

    Parameters
    ----------
    step : Step
        The step.
    """
    hidden = min(step.both.hidden_ns, step.compute_busy_ns)
    collectives = step.lost.get("collective_only", 0)
    others = step.lost_ns - collectives - step.stall_ns
    return (step.compute_busy_ns - hidden, hidden, collectives, step.stall_ns, others)


def drawn(report: Report, device: Device) -> tuple[int, int]:
    """Return start and end of what the timeline shows of a device: its median step.

    Parameters
    ----------
    report : Report
        The report.
    device : Device
        One of its devices.
    """
    for step in device.steps:
        if step.index == device.median_step:
            return step.start_ns, step.end_ns
    return report.window.start_ns, report.window.end_ns


def _told(report: Report, number: int, finding: Finding) -> Told:
    at = f"findings.{number}.evidence."
    evidence = [(key, value) for key, value in finding.evidence.items() if key != "spans"]
    label = fmt.labels(report.devices).get(finding.device, "")
    return Told(
        title=causes.title(finding.cause),
        cause=finding.cause,
        is_note=finding.severity == "note",
        device=finding.device,
        where=", ".join(_where(label, finding)),
        cost=tuple(_cost(report, number, finding)),
        message=fmt.shorten(fmt.plain(finding.message), 600),
        advice=fmt.shorten(fmt.plain(finding.advice), 900),
        numbers=tuple(
            (_name(key), _number(at + key, key, value))
            for key, value in evidence
            if not isinstance(value, list | tuple)
        ),
        rows=tuple(
            (_name(key), _listed(value))
            for key, value in evidence
            if isinstance(value, list | tuple) and value
        ),
        spans=tuple((int(start), int(end)) for start, end in finding.evidence.get("spans", ())),
        lane=f"GPU {label}, {'Collectives' if finding.cause == 'collective_only' else 'Stalls'}",
    )


def _where(label: str, finding: Finding) -> Iterator[str]:
    """Yield device, direction and operation."""
    yield f"GPU {label or fmt.UNKNOWN}"
    if finding.direction:
        yield finding.direction.upper()
    if finding.op:
        yield fmt.shorten(fmt.plain(finding.op), 80)


def _cost(report: Report, number: int, finding: Finding) -> Iterator[str | Figure]:
    """Yield what a finding loses and what takes longer, with its share of a step."""
    lost, excess = finding.lost_ns_per_step, finding.excess_ns_per_step
    if lost:
        yield Figure(f"findings.{number}.lost_ns_per_step", fmt.duration(lost))
        yield f" lost {unit(report)}{_share(report, finding.device, lost)}"
    if lost and excess:
        yield "; "
    if excess:
        yield Figure(f"findings.{number}.excess_ns_per_step", fmt.duration(excess))
        yield f" longer than alone {unit(report)}"
    if not lost and not excess:
        yield "costs nothing"


def _share(report: Report, device: str, time_ns: int) -> str:
    """Return the share of a device's median duration, or nothing without steps."""
    steps = [d.per_step for d in report.devices if d.id == device]
    if not steps or steps[0] is None or not steps[0].duration_ns:
        return ""
    of = "window" if report.window.steps_found_by == "window" else "step"
    return f", {fmt.share(time_ns / steps[0].duration_ns)} of the {of}"


def _name(key: str) -> str:
    """Return the name of an evidence figure without its unit."""
    for ending in ("_ns_per_step", "_ns"):
        key = key.removesuffix(ending)
    return fmt.shorten(fmt.plain(key.replace("_", " ").replace("gbps", "bandwidth")), 60)


def _number(path: str, key: str, value: object) -> Words:
    """Return a number as a figure, other evidence as text."""
    text = fmt.shorten(fmt.figure(key, value), 160)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (Figure(path, text),) if is_number else (text,)


def _entry(value: object) -> str:
    """Write an entry of a list; a name may come with its time in nanoseconds."""
    match value:
        case [str(name), int(time_ns)]:
            return f"{name} {fmt.duration(time_ns)}"
        case _:
            return str(value)


def _listed(values: Sequence[object]) -> str:
    """Write a list, cut where it's long."""
    shown = ", ".join(fmt.shorten(fmt.plain(_entry(value)), 60) for value in islice(values, _ROWS))
    more = len(values) - _ROWS
    return f"{shown} and {fmt.count(more)} more" if more > 0 else shown
