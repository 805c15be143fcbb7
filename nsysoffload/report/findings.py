"""Diagnosis -> findings of the report: what a cause costs per step, in sentences."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nsysoffload.diagnosis import unknown
from nsysoffload.diagnosis.diagnose import Owned
from nsysoffload.diagnosis.examine import Examined
from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report.format import bandwidth, count, duration, share, shorten
from nsysoffload.report.model import Finding, PerStep
from nsysoffload.report.steps import median, median_step
from nsysoffload.timeline.intervals import Intervals, covered_ns, intersection

__all__ = ["MIN_SHARE", "UNKNOWN_SHARE", "findings"]

MIN_SHARE = 0.001  # of the step; what costs less is a note
UNKNOWN_SHARE = 0.05  # of the step: every program has short pauses between kernels
_MOST_OPS = 5  # of one cause and direction; the rest becomes one finding
_MOST_SPANS = 10
_COUNTED = frozenset(EXPLANATIONS) - {"collective_only", "remote_numa"}  # say what they count
_CONTENDED = ("starved", "bidirectional_contention", "remote_numa")
_NOTED = ("pageable_memory", "host_sync", "kernel_copy")  # said even where they cost nothing


def findings(
    devices: Sequence[tuple[str, Examined, PerStep | None]],
    preset: str | None = None,
    flags: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Write the findings of all devices, worst first, then the notes.

    Parameters
    ----------
    devices : sequence of (str, Examined, PerStep or None)
        Id of each device, what is known of it, and the medians of its steps.
    preset : str, optional
        Name of the XLA flags of the run: what is on already is not advised.
    flags : collection of str, optional
        Those flags, as ``--name=value``.
    """
    moving = {name: device.measurements.moving for name, device, _ in devices}
    found = [
        replace(_shared(finding, moving), advice=_fitting(finding, device, step, preset, flags))
        for name, device, step in devices
        for finding in _of_device(name, device)
    ]
    return tuple(
        sorted(
            found,
            key=lambda f: (f.severity != "finding", -f.lost_ns_per_step - f.excess_ns_per_step),
        )
    )


def _of_device(name: str, device: Examined) -> Iterator[Finding]:
    if not len(device.steps):
        return
    groups: dict[tuple[str, str | None], list[Owned]] = {}
    for owned in device.diagnosis.owned:
        groups.setdefault((owned.claim.cause, owned.claim.direction), []).append(owned)
    step_ns = median(device.steps.duration_ns)
    for (cause, direction), members in groups.items():
        costs = [_cost(device, owned) for owned in members]
        ranked = [
            (owned, lost, excess)
            for owned, (lost, excess) in zip(members, costs, strict=True)
            if lost + excess or cause in _NOTED
        ]
        ranked.sort(key=lambda item: -item[1] - item[2])
        yield from _worst(name, device, cause, direction, ranked[:_MOST_OPS], step_ns)
        yield from _rest(name, device, cause, direction, ranked[_MOST_OPS:], step_ns)


def _cost(device: Examined, owned: Owned) -> tuple[int, int]:
    """Time lost and excess time per step: the median, and the mean of what has no step."""
    spans = device.measurements.steps
    lost = median(covered_ns(spans, owned.spans)) if len(owned.spans) else 0
    return lost, max(0, owned.claim.excess_ns) // len(spans)


def _worst(
    name: str,
    device: Examined,
    cause: str,
    direction: str | None,
    ranked: Sequence[tuple[Owned, int, int]],
    step_ns: int,
) -> Iterator[Finding]:
    for owned, lost, excess in ranked:
        op = device.measurements.ops[owned.claim.op] if owned.claim.op >= 0 else None
        said = owned.claim.evidence or {}
        if cause == "unknown":  # what it is about is what it got, not what it claimed
            said = unknown.evidence(device.measurements, owned.spans)
        evidence = {**said, "spans": _spans(device, owned)}
        yield _finding(name, device, cause, direction, op, lost, excess, evidence, step_ns)


def _rest(
    name: str,
    device: Examined,
    cause: str,
    direction: str | None,
    ranked: Sequence[tuple[Owned, int, int]],
    step_ns: int,
) -> Iterator[Finding]:
    """Yield one finding for all operations beyond the worst."""
    if not ranked:
        return
    lost, excess = sum(item[1] for item in ranked), sum(item[2] for item in ranked)
    evidence: dict[str, Any] = {"operations": len(ranked)}
    for owned, _, _ in ranked:
        for key, value in (owned.claim.evidence or {}).items():
            if isinstance(value, int) and key not in ("hideable_ns", "exposed_ns", "stream"):
                evidence[key] = evidence.get(key, 0) + value
    evidence["spans"] = _spans(device, ranked[0][0])
    op = f"{len(ranked)} more operations"
    yield _finding(name, device, cause, direction, op, lost, excess, evidence, step_ns)


def _spans(device: Examined, owned: Owned) -> list[list[int]]:
    """Where to look, worst first; those of the step that is drawn before others."""
    places = owned.claim.places
    if places is None:
        lengths = owned.spans[:, 1] - owned.spans[:, 0]
        places = owned.spans[np.argsort(-lengths, kind="stable")[:_MOST_SPANS]]
    drawn = median_step(device)
    if drawn is None:
        return []
    step = device.measurements.steps[drawn]
    inside = intersection(owned.spans, step[None, :]) if len(owned.spans) else places[:0]
    lengths = inside[:, 1] - inside[:, 0]
    first = inside[np.argsort(-lengths, kind="stable")[: _MOST_SPANS // 2]]
    both = [*first.tolist(), *places.tolist()]
    return [span for n, span in enumerate(both) if span not in both[:n]][:_MOST_SPANS]


def _finding(
    name: str,
    device: Examined,
    cause: str,
    direction: str | None,
    op: str | None,
    lost: int,
    excess: int,
    evidence: Mapping[str, Any],
    step_ns: int,
) -> Finding:
    explanation = EXPLANATIONS[cause]
    xla = device.measurements.has_xla
    return Finding(
        cause=cause,
        severity="finding" if _matters(device, cause, lost, excess, step_ns) else "note",
        device=name,
        direction=direction,
        op=shorten(op, 200) if op else None,
        lost_ns_per_step=lost,
        excess_ns_per_step=excess,
        evidence=evidence,
        message=_message(device, cause, direction, lost, excess, evidence, step_ns),
        advice=explanation.advice_xla if xla else explanation.advice_cuda,
    )


def _matters(device: Examined, cause: str, lost: int, excess: int, step_ns: int) -> bool:
    if lost + excess == 0:
        return False
    if cause != "unknown":
        return lost + excess >= MIN_SHARE * step_ns
    # Where not all was seen, or no step is known, time that nothing explains means nothing.
    m = device.measurements
    seen = len(m.compute) and not len(m.graphs) and device.overlap.unknown is None
    return bool(seen) and device.steps.found_by != "window" and lost >= UNKNOWN_SHARE * step_ns


def _shared(finding: Finding, moving: Mapping[str, Intervals]) -> Finding:
    """Name the other GPUs that copied at the same time: they may share the link or memory."""
    places = np.array(finding.evidence.get("spans", ()), dtype=np.int64).reshape(-1, 2)
    others = [
        name
        for name, transfers in moving.items()
        if name != finding.device and covered_ns(places, transfers).any()
    ]
    if finding.cause not in _CONTENDED or not others:
        return finding
    said = f" Other GPUs copied at the same time and may share the link: {', '.join(others)}."
    return replace(
        finding,
        evidence={**finding.evidence, "other_gpus_copying": others},
        message=finding.message + said,
    )


# --- Sentences ---


def _fitting(
    finding: Finding,
    device: Examined,
    step: PerStep | None,
    preset: str | None,
    flags: Collection[str],
) -> str:
    """Fit the advice to the run: what is on already, and what the change would save here."""
    advice = finding.advice
    if finding.cause in _HIDING and device.measurements.has_xla:
        is_on = _LATENCY_HIDING in flags or (preset or "default") != "default"
        return _HIDING[finding.cause] if is_on else advice
    if finding.cause != "issued_too_late":
        return advice
    if (preset or "").startswith("pipelined") or _PIPELINING in flags:
        advice = _PIPELINED[_DOUBLE_BUFFERING in flags or "double-buffering" in (preset or "")]
        if device.measurements.has_xla and not any(_PROFILE_FLAG in flag for flag in flags):
            advice += _PROFILE
    earlier = [w for w in step.what_if if w.name == "prefetch_one_layer_earlier"] if step else []
    if earlier and earlier[0].saving_ns:
        advice += (
            f" Started one stall earlier, all such copies together would save up to"
            f" {duration(earlier[0].saving_ns)} per step here."
        )
    return advice


_LATENCY_HIDING = "--xla_gpu_enable_latency_hiding_scheduler=true"  # in all presets but one
_HIDING = {
    "collective_only": (
        "The latency hiding scheduler is on already: raise"
        " --xla_gpu_experimental_parallel_collective_overlap_limit so that several collectives may"
        " be under way, or let it go by the times of this program, from nsysoffload profile."
    ),
    "same_stream": (
        "Use jax 0.12 or later, whose runtime has a stream for each direction of copies. There,"
        " such a copy is one that XLA's schedule makes synchronous, though its latency hiding"
        " scheduler is on: run the layers in jax.lax.scan and name values inside the layer, as"
        " copies of unrolled layers may be serialised or dropped."
    ),
}
_PIPELINING = "--xla_gpu_enable_pipelined_host_offloading=true"
_DOUBLE_BUFFERING = "--xla_gpu_enable_while_loop_double_buffering=true"
_PROFILE_FLAG = "--xla_gpu_pgle_profile_file_or_directory_path="
_PROFILE = (
    " XLA places them by built-in costs, which know nothing of this program. With several GPUs,"
    " give it the times of this trace: write them with nsysoffload profile, whose --check says what"
    " they change, and record again with that profile."
)
_PIPELINED = (
    "Pipelined offloading is on already and leaves these copies exposed: add"
    " --xla_gpu_enable_while_loop_double_buffering=true (preset pipelined+double-buffering), or"
    " offload fewer values, so that what is left fits behind one layer.",
    "Pipelined offloading and double buffering are on already and leave these copies exposed:"
    " offload fewer values, or keep those of the first and last layers, so that what is left fits"
    " behind the compute between them.",
)


def _message(
    device: Examined,
    cause: str,
    direction: str | None,
    lost: int,
    excess: int,
    evidence: Mapping[str, Any],
    step_ns: int,
) -> str:
    by_steps = device.steps.found_by != "window"
    per, of = (" per step", "of the step") if by_steps else ("", "of the window")
    costs = []
    if lost:
        costs.append(f"{duration(lost)} lost{per}, {share(lost / step_ns)} {of}")
    if excess:
        costs.append(f"{duration(excess)}{per} longer than alone")
    what = _WHAT[cause](evidence, (direction or "").upper())
    # Counts and times of evidence are sums, costs are per step: a reader must not mix them.
    over = f", over {_many(len(device.steps), 'step')}" if cause in _COUNTED and by_steps else ""
    return f"{what}{over}{': ' if costs else ''}{' and '.join(costs)}."


def _many(number: int, what: str) -> str:
    """Write a number of things, in words that agree with it."""
    if number == 1:
        return f"1 {what}"
    plural = {"y": f"{what[:-1]}ies", "h": f"{what}es"}.get(what[-1], f"{what}s")
    return f"{count(number)} {plural}"


def _stall(reason: str) -> Any:
    def said(e: Mapping[str, Any], way: str) -> str:
        proven = f" ({count(e['proven'])} proven by events)" if e.get("proven") else ""
        return f"Compute waited {_many(e['stalls'], 'time')}{proven} for {way} copies {reason}"

    return said


_WHAT = {
    "collective_only": lambda e, way: "Collectives ran with no compute beside them",
    "pageable_memory": lambda e, way: (
        f"{_many(e['copies'], f'{way} copy')} of pageable memory blocked the host for"
        f" {duration(e['blocked_ns'])}"
    ),
    "same_stream": _stall("on the kernels' own stream"),
    "pinned_allocation": lambda e, way: (
        f"{_many(e['calls'], 'call')} to lock or free host pages"
        f" ({', '.join(e['functions'][:3])}) took"
        f" {duration(e['call_ns'])} within steps"
    ),
    "host_callback": lambda e, way: (
        f"The GPU was idle in {_many(e['gaps'], 'gap')} while a host function was due"
    ),
    "host_sync": lambda e, way: (
        f"The host waited {duration(e['sync_ns'])} in {_many(e['calls'], 'synchronising call')}:"
        f" {duration(e['waiting_for_copies_ns'])} for copies,"
        f" {duration(e['waiting_for_compute_ns'])} for compute,"
        f" {duration(e['waiting_for_nothing_seen_ns'])} for nothing seen"
    ),
    "queued_behind_copy": _stall("that queued behind others of their direction"),
    "shared_copy_stream": _stall("that waited for the other direction on their own stream"),
    "small_copies": lambda e, way: (
        f"{_many(e['copies'], f'{way} copy')} of {count(e['median_bytes'])} bytes (median) with"
        f" {duration(e['pause_ns'])} of pauses for {duration(e['copy_ns'])} of copying"
    ),
    "staging_gaps": lambda e, way: (
        f"{_many(e['copies'], f'equal {way} copy')} at {bandwidth(e['row_gbps'])} with idle pauses"
        " between them: staged in chunks on the host, and the pauses cost the time, not the link"
    ),
    "transfer_bound": _stall("with next to no compute left to hide them behind"),
    "step_boundary": _stall("before the first or after the last kernel"),
    "issued_too_late": _stall("that started only when the kernel before had ended"),
    "host_gap": lambda e, way: f"The next launch came late in {_many(e['gaps'], 'gap')}",
    "unknown": lambda e, way: (
        "Time outside compute that nothing in the trace explains"
        + (
            f" ({duration(e['under_transfers_ns'])} of it under transfers that no kernel was seen"
            " to wait for)"
            if e["under_transfers_ns"]
            else ""
        )
    ),
    "starved": lambda e, way: (
        f"{_many(e['copies'], f'{way} copy')} reached {bandwidth(e['gbps'])} beside kernels against"
        f" {bandwidth(e['lone_gbps'])} alone: hidden by time, not in effect"
        if "gbps" in e
        else f"{_many(e['copies'], f'{way} copy')} ran slowly beside kernels"
    ),
    "bidirectional_contention": lambda e, way: (
        f"{_many(e['copies'], f'{way} copy')} reached {bandwidth(e['gbps'])} beside the other"
        f" direction against {bandwidth(e['lone_gbps'])} alone"
        if "gbps" in e
        else f"{_many(e['copies'], f'{way} copy')} ran slowly beside the other direction"
    ),
    "compute_contention": lambda e, way: (
        f"{_many(e['launches'], 'launch')} of {_many(e['kernels'], 'kernel')} ran longer under"
        " transfers than without"
    ),
    "remote_numa": lambda e, way: (
        f"{_many(e['copies'], f'lone pinned {way} copy')} reached {bandwidth(e['gbps'])}, where"
        f" {e['link']} has been measured at {bandwidth(e['range_low_gbps'])} or more"
    ),
    "kernel_copy": lambda e, way: (
        f"{_many(e['kernels'], 'kernel launch')} may carry transfers, whose bytes are"
        " not in the trace"
    ),
}
