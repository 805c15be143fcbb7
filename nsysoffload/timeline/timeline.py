"""Trace -> `Timeline`: the rows that are believed, classified, per device and in order of time."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline import clocks
from nsysoffload.timeline.attribution import Attribution, attribute
from nsysoffload.timeline.belief import believed, believed_sizes
from nsysoffload.timeline.calls import CallIndex
from nsysoffload.timeline.coverage import coverage_warnings
from nsysoffload.timeline.intervals import Intervals, spans_of, union
from nsysoffload.timeline.kernels import KINDS, kinds
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import UNSET, Trace, TraceWarning

__all__ = ["DIRECTIONS", "DeviceTimeline", "Timeline", "build"]

DIRECTIONS = ("h2d", "d2h")
_HOSTS = ("pinned", "pageable", "unknown")
_GPU_TABLES = ("kernels", "copies", "memsets", "graph_spans")


@dataclass(frozen=True)
class DeviceTimeline:
    """What one device did; every frame is sorted by ``start_ns``.

    ``kernels`` are table `KERNELS` with ``kind`` (compute, collective, other). ``transfers`` are
    explicit host copies of table `COPIES` with ``direction`` (h2d, d2h) and ``host`` (pinned,
    pageable, unknown); ``migrations`` are unified-memory ones with ``direction``. ``rest`` are
    device copies, memsets and graphs traced as a whole, with where and when alone. ``other`` is the
    union of device copies, memsets and kernels that are explicit copies, ``graphs`` that of graphs
    traced as a whole. ``recorded`` is from the first row to the
    last. ``ordinals`` are the device numbers that processes used for it. ``doubt`` says why the
    clocks are doubtful.

    Kernels and copies have ``call`` as well: the position of their API call in `Timeline.index` and
    `Timeline.names`, -1 if they have none.
    """

    number: int
    kernels: pd.DataFrame
    transfers: pd.DataFrame
    migrations: pd.DataFrame
    rest: pd.DataFrame
    other: Intervals
    graphs: Intervals
    recorded: tuple[int, int]
    ordinals: frozenset[str]
    doubt: str | None


@dataclass(frozen=True)
class Timeline:
    """A trace, put in order: one entry per GPU of ``trace.gpus`` that has believable rows.

    ``index`` finds API calls, and ``names`` says which NVTX ranges surround each.
    """

    trace: Trace
    index: CallIndex
    names: Attribution
    devices: tuple[DeviceTimeline, ...]
    warnings: tuple[TraceWarning, ...]


def build(
    trace: Trace,
    collective: re.Pattern[str] | None = None,
    not_compute: re.Pattern[str] | None = None,
) -> Timeline:
    """Drop what is not believed, classify kernels and copies, and sort rows per device.

    Parameters
    ----------
    trace : Trace
        With the GPU tables, ``calls`` and ``nvtx_ranges`` read.
    collective, not_compute : pattern, optional
        Corrections to the classes of kernels, see `nsysoffload.timeline.kernels.kinds`.
    """
    index = CallIndex.build(trace.calls)
    tables = {name: _called(getattr(trace, name), index) for name in _GPU_TABLES}
    rows, warnings = believed(tables, trace.calls, index)
    warnings += coverage_warnings(trace.calls, index, list(rows.values()))
    written = [trace.written.get(name, name) for name in trace.kernels["name"].cat.categories]
    warnings += _unmatched(written, collective, not_compute)
    warnings += _traced_whole(len(rows["graph_spans"]))
    rows["kernels"] = _with_kind(rows["kernels"], kinds(written, collective, not_compute))
    copies, doubts = believed_sizes(rows["copies"])
    rows["copies"] = _with_direction(copies)
    rows["graph_spans"] = _placed(rows["graph_spans"], [rows[name] for name in _GPU_TABLES[:3]])
    devices = tuple(
        device
        for number in range(len(trace.gpus))
        if (device := _device(number, {name: _of(number, frame) for name, frame in rows.items()}))
    )
    names = attribute(index, trace.calls, trace.nvtx_ranges)
    return Timeline(trace, index, names, devices, (*warnings, *doubts))


def _called(frame: pd.DataFrame, index: CallIndex) -> pd.DataFrame:
    """Add ``call``, the position of each row's API call."""
    return frame.assign(call=index.of(frame))


# --- Classes ---


def _with_kind(kernels: pd.DataFrame, of_name: NDArray[np.int8]) -> pd.DataFrame:
    names = kernels["name"].cat.codes.to_numpy()
    codes = of_name[names] if len(of_name) else np.empty(0, dtype=np.int8)
    return kernels.assign(kind=pd.Categorical.from_codes(codes, categories=pd.Index(KINDS)))


def _traced_whole(launches: int) -> list[TraceWarning]:
    if not launches:
        return []
    message = (
        f"CUDA graphs were traced as a whole, {launches:,} times: the kernels and copies inside are"
        " not in this trace; record with --cuda-graph-trace=node."
    )
    return [TraceWarning("graphs_traced_whole", message)]


def _unmatched(names: list[str], *patterns: re.Pattern[str] | None) -> list[TraceWarning]:
    """Name the patterns that match no kernel: most likely they are misspelt."""
    return [
        TraceWarning("pattern_matches_nothing", f"'{pattern.pattern}' matches no kernel's name.")
        for pattern in patterns
        if pattern and not any(pattern.search(name) for name in names)
    ]


_H2D_KINDS = (CopyKind.HOST_TO_DEVICE, CopyKind.HOST_TO_ARRAY)
_D2H_KINDS = (CopyKind.DEVICE_TO_HOST, CopyKind.ARRAY_TO_HOST)
_HOST_KINDS = (MemKind.PAGEABLE, MemKind.PINNED)


def _with_direction(copies: pd.DataFrame) -> pd.DataFrame:
    """Add ``direction`` (missing: not a host copy), ``host`` and ``migrated``."""
    kind, source, target = (
        copies[name].to_numpy() for name in ("copy_kind", "source_kind", "target_kind")
    )
    from_host, to_host = np.isin(source, _HOST_KINDS), np.isin(target, _HOST_KINDS)
    # XLA copies between device pointers and pinned host pointers as "device to device".
    disguised = kind == CopyKind.DEVICE_TO_DEVICE
    up = np.isin(kind, _H2D_KINDS) | (disguised & from_host & ~to_host)
    down = np.isin(kind, _D2H_KINDS) | (disguised & to_host & ~from_host)
    um_up = kind == CopyKind.UNIFIED_HOST_TO_DEVICE
    um_down = kind == CopyKind.UNIFIED_DEVICE_TO_HOST
    direction = np.select([up | um_up, down | um_down], [0, 1], default=-1)
    host = np.where(up, source, np.where(down, target, UNSET))
    host_code = np.select([host == MemKind.PINNED, host == MemKind.PAGEABLE], [0, 1], default=2)
    return copies.assign(
        direction=pd.Categorical.from_codes(direction, categories=pd.Index(DIRECTIONS)),
        host=pd.Categorical.from_codes(host_code, categories=pd.Index(_HOSTS)),
        migrated=um_up | um_down | (kind == CopyKind.UNIFIED_DEVICE_TO_DEVICE),
    )


# --- Devices ---


def _placed(spans: pd.DataFrame, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Repeat graph spans without a device on every device that their process has rows on."""
    nowhere = (spans["device"] == UNSET).to_numpy()
    if not nowhere.any():
        return spans
    where = pd.concat([table[["process", "device"]].drop_duplicates() for table in tables])
    repeated = spans[nowhere].drop(columns="device").merge(where.drop_duplicates(), on="process")
    return pd.concat([spans[~nowhere], repeated[spans.columns]], ignore_index=True)


def _of(number: int, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of one device, sorted by start."""
    mine = frame["device"].to_numpy() == number
    if not mine.all():
        frame = frame[mine]
    start = frame["start_ns"].to_numpy()
    if (start[1:] >= start[:-1]).all():
        return frame
    return frame.take(np.argsort(start, kind="stable"))


def _device(number: int, rows: dict[str, pd.DataFrame]) -> DeviceTimeline | None:
    kernels, copies = rows["kernels"], rows["copies"]
    present = [frame for frame in rows.values() if len(frame)]
    if not present:
        return None
    migrated = copies["migrated"].to_numpy()
    host_copy = copies["direction"].cat.codes.to_numpy() >= 0
    explicit = copies[~migrated]
    columns = ["process", "context", "stream", "start_ns", "end_ns", "call"]
    fills = pd.concat([copies[~migrated & ~host_copy][columns], rows["memsets"][columns]])
    rest = pd.concat([fills, rows["graph_spans"][columns]])
    other = union(spans_of(kernels[(kernels["kind"] == "other").to_numpy()]), spans_of(fills))
    return DeviceTimeline(
        number=number,
        kernels=kernels,
        transfers=copies[~migrated & host_copy],
        migrations=copies[migrated & host_copy],
        rest=rest.sort_values("start_ns", kind="stable"),
        other=other,
        graphs=union(spans_of(rows["graph_spans"])),
        recorded=(
            min(int(frame["start_ns"].min()) for frame in present),
            max(int(frame["end_ns"].max()) for frame in present),
        ),
        ordinals=frozenset(str(n) for frame in present for n in frame["ordinal"].unique()),
        doubt=clocks.doubt([kernels, explicit, rows["memsets"]]),
    )
