"""Measurements -> `Report`: the one place where the report's fields are filled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from nsysoffload.diagnosis.examine import Examined
from nsysoffload.hardware import HostLink, Range
from nsysoffload.overlap.ceilings import savings
from nsysoffload.overlap.transfers import DeviceOverlap, DirectionOverlap
from nsysoffload.overlap.window import cut
from nsysoffload.report.findings import findings
from nsysoffload.report.format import shorten
from nsysoffload.report.groups import stalls, transfer_groups
from nsysoffload.report.labels import transfer_labels
from nsysoffload.report.lanes import COARSE_COLUMNS, Lane, columns_per_lane, lanes
from nsysoffload.report.model import (
    Both,
    Contention,
    Copy,
    Device,
    DeviceTrace,
    Direction,
    Kernel,
    Link,
    Migrations,
    Report,
    SizeClass,
    Tool,
    Total,
    TraceInfo,
    WhatIf,
    Window,
)
from nsysoffload.report.notes import step_warnings, warnings_of
from nsysoffload.report.recorded import numerics_differ, run_warnings
from nsysoffload.report.steps import lost_by_owner, median, median_step, per_step, steps
from nsysoffload.report.verdict import unusable, verdict
from nsysoffload.timeline.intervals import covered_ns, spans_of
from nsysoffload.timeline.kernels import KINDS, is_copy_like
from nsysoffload.timeline.timeline import Timeline
from nsysoffload.trace.run_folder import RunFolder
from nsysoffload.trace.tables import COPIES_AS_KERNELS, UNSET

__all__ = ["compose"]

WORST_COPIES = 20
WORST_IN_LANE = 50
KERNEL_ROWS = 1000
CONTENTION_ROWS = 100
NAME_WIDTH = 200

DRAWN_DEVICES = 16
BELOW = 0.75  # of the range's low end: clearly slow, not merely at the edge


def compose(
    timeline: Timeline,
    examined: Sequence[Examined],
    window: tuple[int, int] | None,
    options: Mapping[str, Any],
    run: RunFolder | None = None,
) -> Report:
    """Fill the report of one trace.

    Parameters
    ----------
    timeline : Timeline
        The trace in order of time.
    examined : sequence of Examined
        What is known of the chosen devices, at least one.
    window : tuple of int or None
        The window that was asked for.
    options : mapping
        Options that were given, for the reader to repeat.
    run : RunFolder, optional
        What the trace's folder says of it.
    """
    run = run or RunFolder()
    overlaps = [one.overlap for one in examined]
    gpus = timeline.trace.gpus
    devices = tuple(_device(gpus.iloc[one.overlap.device.number], one) for one in examined)
    named = [(device.id, one) for device, one in zip(devices, examined, strict=True)]
    total = _total(devices)
    trace = timeline.trace.source
    prediction, recording = trace.prediction, run.recording
    made = (prediction.preset, prediction.flags) if prediction else (None, ())
    preset, flags = (recording.xla_preset, recording.xla_flags) if recording else made
    found = findings(
        [(device.id, one, device.per_step) for device, one in zip(devices, examined, strict=True)],
        preset,
        flags,
    )
    found_by = examined[0].steps.found_by
    report = Report(
        tool=Tool("nsysoffload", version("nsysoffload"), dict(options)),
        verdict=verdict(
            total,
            len(timeline.devices),
            _windows_ns(devices),
            trace.kind,
            chosen=devices,
            findings=found,
            steps_found_by=found_by,
            as_kernels=any(w.code == COPIES_AS_KERNELS for w in timeline.trace.warnings),
        ),
        trace=TraceInfo(
            file=trace.path.name,
            kind=trace.kind,
            recorder=trace.recorder,
            nsys_version=trace.nsys_version,
            export_schema=trace.export_schema,
            warnings=(
                *run_warnings(run),
                *warnings_of(timeline, overlaps, window),
                *step_warnings(named),
            ),
        ),
        window=Window(
            source="requested" if window else "recorded",
            start_ns=min(o.window[0] for o in overlaps),
            end_ns=max(o.window[1] for o in overlaps),
            steps_found_by=found_by,
            skipped_steps=max(len(one.steps.left_out) for one in examined),
        ),
        devices=devices,
        total=total,
        worst_copies=_worst_copies(named),
        kernels=_kernels(overlaps),
        transfers=tuple(
            group
            for name, one in named
            for group in transfer_groups(name, one, timeline.names.thunks)
        ),
        findings=found,
        stalls=tuple(stall for name, one in named for stall in stalls(name, one)),
        contention=tuple(row for name, one in named for row in _contention(name, one)),
        recording=recording,
        memory=prediction.memory if prediction else run.memory,
        range=prediction.step if prediction else None,
        prediction=prediction,
        lanes=_lanes(devices, examined),
    )
    differing = numerics_differ(report)
    if differing:
        return replace(report, verdict=unusable(report.verdict, differing))
    return report


# --- Devices ---


def _device(gpu: "pd.Series[Any]", examined: Examined) -> Device:
    overlap, host_link = examined.overlap, examined.measurements.link
    lost = lost_by_owner(examined)
    drawn = median_step(examined)
    return Device(
        id=gpu["id"],
        ordinal=int(gpu["ordinal"]),
        pid=_set(gpu["pid"]),
        name=gpu["name"],
        uuid=gpu["uuid"],
        copy_engines=_set(gpu["copy_engines"]),
        link=_link(host_link, overlap) if host_link else None,
        trace=_device_trace(overlap),
        steps=steps(examined, lost),
        per_step=per_step(examined, lost, _what_if(examined)),
        median_step=None if drawn is None else int(examined.steps.index[drawn]),
    )


def _what_if(examined: Examined) -> tuple[WhatIf, ...]:
    if not len(examined.steps):
        return ()
    m = examined.measurements
    found = savings(m.stall, m.transfers, m.steps, m.compute, m.lone, m.link)
    return tuple(
        WhatIf(s.name, None if s.saving_ns is None else median(s.saving_ns), s.assumption)
        for s in found
    )


def _contention(name: str, examined: Examined) -> Iterator[Contention]:
    for row in examined.measurements.stretched.table.iloc[:CONTENTION_ROWS].to_dict("records"):
        yield Contention(
            device=name,
            kernel=shorten(row["name"], NAME_WIDTH),
            lone_ns=row["lone_ns"],
            covered_ns=row["covered_ns"],
            lone_count=row["lone_count"],
            covered_count=row["covered_count"],
            excess_ns_per_step=row["excess_ns"] // len(examined.steps),
        )


def _set(value: Any) -> int | None:
    return None if value == UNSET else int(value)


def _link(link: HostLink, overlap: DeviceOverlap) -> Link:
    return Link(
        name=link.name,
        peak_gbps=link.peak_gbps,
        h2d_gbps=(link.h2d.low_gbps, link.h2d.high_gbps),
        d2h_gbps=(link.d2h.low_gbps, link.d2h.high_gbps),
        h2d_verdict=_judged(overlap.directions["h2d"].lone_gbps, link.h2d),
        d2h_verdict=_judged(overlap.directions["d2h"].lone_gbps, link.d2h),
        source=f"H2D: {link.h2d.source}. D2H: {link.d2h.source}. Peak: {link.source}.",
    )


def _judged(gbps: float | None, measured: Range) -> str | None:
    if gbps is None:
        return None
    if gbps < BELOW * measured.low_gbps:
        return "below"
    return "above" if gbps > measured.high_gbps else "within"


def _device_trace(overlap: DeviceOverlap) -> DeviceTrace:
    start, end = overlap.window
    return DeviceTrace(
        window_start_ns=start,
        window_end_ns=end,
        window_ns=end - start,
        kernels=overlap.kernel_count,
        compute_busy_ns=overlap.compute_busy_ns,
        collective_busy_ns=overlap.collective_busy_ns,
        other_busy_ns=overlap.other_busy_ns,
        idle_ns=overlap.idle_ns,
        h2d=_direction(overlap.directions["h2d"]),
        d2h=_direction(overlap.directions["d2h"]),
        both=Both(**vars(overlap.both), concurrent_ns=overlap.concurrent_ns),
        um_h2d=Migrations(*overlap.migrations["h2d"]),
        um_d2h=Migrations(*overlap.migrations["d2h"]),
    )


def _direction(measured: DirectionOverlap) -> Direction:
    return Direction(
        copies=measured.copies,
        bytes=measured.bytes,
        sum_ns=measured.sum_ns,
        **vars(measured.cover),
        gbps=measured.gbps,
        burst_gbps=measured.burst_gbps,
        lone_gbps=measured.lone_gbps,
        sizes=measured.sizes,
    )


# --- All devices ---


def _windows_ns(devices: Sequence[Device]) -> int:
    return sum(device.trace.window_ns for device in devices)


def _total(devices: Sequence[Device]) -> Total:
    traces = [device.trace for device in devices]
    return Total(
        devices=len(devices),
        kernels=sum(trace.kernels for trace in traces),
        compute_busy_ns=sum(trace.compute_busy_ns for trace in traces),
        collective_busy_ns=sum(trace.collective_busy_ns for trace in traces),
        h2d=_added([trace.h2d for trace in traces]),
        d2h=_added([trace.d2h for trace in traces]),
        both=Both(
            **_covers([trace.both for trace in traces]),
            concurrent_ns=sum(trace.both.concurrent_ns for trace in traces),
        ),
    )


def _covers(parts: Sequence[Direction | Both]) -> dict[str, Any]:
    """Add covers of several devices; unknown on one device is unknown in all."""
    names = ("busy_ns", "hidden_ns", "exposed_ns", "hidden_by_collectives_ns", "undetermined_ns")
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in names}
    unknown = [part for part in parts if part.busy_ns and part.overlap is None]
    reason = unknown[0].overlap_null_reason if unknown else None
    if len(parts) > 1 and unknown:
        reason = f"unknown on {len(unknown)} of {len(parts)} devices: {reason}"
    if not sums["busy_ns"]:
        reason = parts[0].overlap_null_reason
    sums["overlap"] = None if reason else sums["hidden_ns"] / sums["busy_ns"]
    sums["overlap_null_reason"] = reason
    return sums


def _added(parts: Sequence[Direction]) -> Direction:
    """Add one direction over devices. A burst is a thing of one device."""
    if len(parts) == 1:
        return parts[0]
    sizes = [part.bytes for part in parts]
    known = None if None in sizes else sum(size for size in sizes if size is not None)
    lone = [part.lone_gbps for part in parts if part.lone_gbps is not None]
    return Direction(
        copies=sum(part.copies for part in parts),
        bytes=known,
        sum_ns=sum(part.sum_ns for part in parts),
        **_covers(parts),
        gbps=_mean_gbps(parts),
        burst_gbps=None,
        lone_gbps=max(lone, default=None),
        sizes=_added_sizes(parts),
    )


def _added_sizes(parts: Sequence[Direction]) -> tuple[SizeClass, ...]:
    classes: dict[int | None, list[SizeClass]] = {}
    for part in parts:
        for size in part.sizes:
            classes.setdefault(size.upto_bytes, []).append(size)
    ends = sorted(classes, key=lambda end: (end is None, end))
    return tuple(_added_size(end, classes[end]) for end in ends)


def _added_size(end: int | None, classes: Sequence[SizeClass]) -> SizeClass:
    best = [size.best_gbps for size in classes if size.best_gbps is not None]
    return SizeClass(
        upto_bytes=end,
        copies=sum(size.copies for size in classes),
        bytes=sum(size.bytes for size in classes),
        sum_ns=sum(size.sum_ns for size in classes),
        busy_ns=sum(size.busy_ns for size in classes),
        gbps=_mean_gbps(classes),
        best_gbps=max(best, default=None),
    )


def _mean_gbps(parts: Sequence[Direction | SizeClass]) -> float | None:
    """Bytes over time of all parts, which is their bandwidth weighted by time."""
    timed = [(part.gbps, part.sum_ns) for part in parts if part.gbps is not None]
    sum_ns = sum(time for _, time in timed)
    return sum(gbps * time for gbps, time in timed) / sum_ns if sum_ns else None


# --- Rows that stand for themselves ---


def _worst(transfers: pd.DataFrame, number: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return positions of the copies with the most exposed time, worst first."""
    exposed = (transfers["end_ns"] - transfers["start_ns"] - transfers["hidden_ns"]).to_numpy()
    order = np.argsort(-exposed, kind="stable")[:number]
    return order[exposed[order] > 0]


def _worst_copies(named: Sequence[tuple[str, Examined]]) -> tuple[Copy, ...]:
    copies = []
    for name, one in named:
        calls = one.measurements.transfer_calls
        rows = one.overlap.transfers.assign(called=calls.start_ns, returned=calls.end_ns)
        worst = rows.iloc[_worst(rows, WORST_COPIES)]
        copies += [_copy(name, row) for row in worst.to_dict("records")]
    copies.sort(key=lambda copy: (-copy.exposed_ns, copy.start_ns))
    return tuple(copies[:WORST_COPIES])


def _copy(device: str, row: Mapping[Any, Any]) -> Copy:
    length_ns = int(row["end_ns"] - row["start_ns"])
    size = _set(row["size_bytes"])
    called = row["call"] >= 0
    return Copy(
        device=device,
        direction=row["direction"],
        row_id=_set(row["row_id"]),
        stream=_set(row["stream"]),
        host=row["host"],
        start_ns=int(row["start_ns"]),
        end_ns=int(row["end_ns"]),
        bytes=size,
        hidden_ns=int(row["hidden_ns"]),
        exposed_ns=length_ns - int(row["hidden_ns"]),
        gbps=size / length_ns if size is not None and length_ns else None,
        queue_ns=int(row["start_ns"] - row["called"]) if called else None,
        call_ns=int(row["returned"] - row["called"]) if called else None,
    )


def _kernels(overlaps: Sequence[DeviceOverlap]) -> tuple[Kernel, ...]:
    """List kernels by name, longest first; beyond a number of names the rest is one row a class."""
    sample = overlaps[0].kernels
    names = sample["name"].cat.categories
    totals = sum((o.kernel_names for o in overlaps[1:]), start=overlaps[0].kernel_names)
    kind = np.zeros(len(names), dtype=np.int8)
    for overlap in overlaps:
        kind[overlap.kernels["name"].cat.codes.to_numpy()] = overlap.kernels["kind"].cat.codes
    totals = totals.assign(name=names, kind=kind)
    totals = totals[totals["count"] > 0].sort_values(
        ["busy_ns", "name"], ascending=[False, True], kind="stable"
    )
    shown, rest = totals.iloc[:KERNEL_ROWS], totals.iloc[KERNEL_ROWS:]
    rows = [_kernel(row) for row in shown.to_dict("records")]
    for number, kind_name in enumerate(KINDS):
        group = rest[rest["kind"] == number]
        if group.empty:
            continue
        label = f"({len(group):,} more {kind_name} kernels)"
        summed = group[["count", "busy_ns"]].sum()
        rows.append(_kernel({"name": label, "kind": number, **summed.to_dict()}))
    return tuple(rows)


def _kernel(row: Mapping[Any, Any]) -> Kernel:
    kind = KINDS[int(row["kind"])]
    return Kernel(
        name=shorten(row["name"], NAME_WIDTH),
        class_=kind,
        count=int(row["count"]),
        busy_ns=int(row["busy_ns"]),
        copy_like=kind == "compute" and is_copy_like(row["name"]),
    )


def _lanes(devices: Sequence[Device], examined: Sequence[Examined]) -> tuple[Lane, ...]:
    drawn = list(zip(devices, examined, strict=True))[:DRAWN_DEVICES]
    fine = columns_per_lane(4 * len(drawn))
    made: list[Lane] = []
    for device, one in drawn:
        step = median_step(one)
        span = one.overlap.window if step is None else one.measurements.steps[step].tolist()
        start, end = span
        kernels, transfers = (
            cut(rows, start, end, (start, end))
            for rows in (
                one.overlap.kernels,
                one.overlap.transfers.assign(label=transfer_labels(one)),
            )
        )
        transfers = transfers.assign(hidden_ns=covered_ns(spans_of(transfers), one.overlap.compute))
        keep = np.zeros(len(transfers), dtype=bool)
        keep[_worst(transfers, WORST_IN_LANE)] = True
        made += lanes(device.id, kernels, transfers, (start, end), fine, COARSE_COLUMNS, keep)
    return tuple(made)
