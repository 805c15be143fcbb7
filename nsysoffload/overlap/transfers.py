"""How much of the transfers runs behind compute, on one device and in one window.

All lengths are of unions, so that two streams never count twice and hidden + exposed = busy::

    compute    [0        6)         [9    12)
    transfer        [4          10)               busy 6, hidden 2 + 1, exposed 3
    collective         [5    8)                   of it hidden by collectives 2
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.overlap.link import (
    SizeClass,
    burst_gbps,
    lone,
    row_gbps,
    size_classes,
)
from nsysoffload.overlap.window import clamped, cut
from nsysoffload.timeline.intervals import (
    Intervals,
    clip,
    covered_ns,
    difference,
    grouped_length_ns,
    intersection,
    intervals,
    length_ns,
    spans_of,
    union,
)
from nsysoffload.timeline.timeline import DIRECTIONS, DeviceTimeline
from nsysoffload.trace.tables import UNSET

__all__ = ["Cover", "DeviceOverlap", "DirectionOverlap", "measure"]

MIN_LONE_BYTES = 16 << 20  # smaller copies show latency, and say little of the link


@dataclass(frozen=True)
class Cover:
    """How a set of transfers is covered: ``hidden_ns + exposed_ns == busy_ns``."""

    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    hidden_by_collectives_ns: int
    undetermined_ns: int
    overlap: float | None
    overlap_null_reason: str | None


@dataclass(frozen=True)
class DirectionOverlap:
    """Transfers of one direction; fields as in `nsysoffload.report.model.Direction`."""

    cover: Cover
    copies: int
    bytes: int | None
    sum_ns: int
    gbps: float | None
    burst_gbps: float | None
    lone_gbps: float | None
    sizes: tuple[SizeClass, ...]


@dataclass(frozen=True)
class DeviceOverlap:
    """The measurements of one device in ``window``.

    ``kernels`` and ``transfers`` are the timeline's rows in the window, clipped to it; transfers
    have ``hidden_ns`` as well, the part of each under compute. ``kernel_names`` has per name code
    the ``count`` and ``busy_ns`` of its rows. ``compute``, ``collective``, ``other`` and ``graphs``
    are unions of what ran, ``unknown`` says why no overlap can be told on the device at all.
    """

    device: DeviceTimeline
    window: tuple[int, int]
    kernels: pd.DataFrame
    transfers: pd.DataFrame
    kernel_names: pd.DataFrame
    kernel_count: int
    compute: Intervals
    collective: Intervals
    other: Intervals
    graphs: Intervals
    idle_ns: int
    unknown: str | None
    directions: dict[str, DirectionOverlap]
    both: Cover
    concurrent_ns: int
    migrations: dict[str, tuple[int, int]]

    @property
    def compute_busy_ns(self) -> int:
        """Time with a compute kernel."""
        return length_ns(self.compute)

    @property
    def collective_busy_ns(self) -> int:
        """Time with a collective."""
        return length_ns(self.collective)

    @property
    def other_busy_ns(self) -> int:
        """Time with other device work."""
        return length_ns(self.other)

    @property
    def is_empty(self) -> bool:
        """Whether the device did nothing at all in the window."""
        start, end = self.window
        rows = len(self.kernels) + len(self.transfers)
        rows += sum(copies for copies, _ in self.migrations.values())
        return rows == 0 and self.idle_ns == end - start


def measure(device: DeviceTimeline, window: tuple[int, int] | None = None) -> DeviceOverlap:
    """Measure one device.

    Parameters
    ----------
    device : DeviceTimeline
        Its rows.
    window : tuple of int, optional
        Start and end on the trace's clock; clamped to what was recorded on the device. Rows that
        cross an edge are cut there, their bytes in proportion.
    """
    start, end = clamped(device.recorded, window)
    kernels = cut(device.kernels, start, end, window)
    transfers = cut(device.transfers, start, end, window)
    of_kind = {kind: _spans(kernels, "kind", kind) for kind in ("compute", "collective")}
    compute, collective = (union(spans) for spans in of_kind.values())
    other, graphs = (union(clip(spans, start, end)) for spans in (device.other, device.graphs))
    moved = {name: _spans(transfers, "direction", name) for name in DIRECTIONS}
    moving = {name: union(spans) for name, spans in moved.items()}
    beside = union(compute, collective, other, graphs)
    transfers = transfers.assign(hidden_ns=covered_ns(spans_of(transfers), compute))
    unknown = _unknown(device, start, end)
    directions = {
        name: _direction(
            transfers[(transfers["direction"] == name).to_numpy()],
            _cover(moving[name], compute, collective, graphs, unknown),
            spans_of(transfers[(transfers["end_ns"] > transfers["start_ns"]).to_numpy()]),
            beside,
            kernels["start_ns"].to_numpy(),
        )
        for name in DIRECTIONS
    }
    everything = union(beside, *moving.values())
    migrations = cut(device.migrations, start, end, window)
    return DeviceOverlap(
        device=device,
        window=(start, end),
        kernels=kernels,
        transfers=transfers,
        kernel_names=_by_name(kernels),
        kernel_count=sum(len(spans) for spans in of_kind.values()),
        compute=compute,
        collective=collective,
        other=other,
        graphs=graphs,
        idle_ns=end - start - length_ns(everything),
        unknown=unknown,
        directions=directions,
        both=_cover(union(*moving.values()), compute, collective, graphs, unknown),
        concurrent_ns=length_ns(intersection(moving["h2d"], moving["d2h"])),
        migrations={name: _moved(migrations, name) for name in DIRECTIONS},
    )


# --- Measures ---


def _unknown(device: DeviceTimeline, start: int, end: int) -> str | None:
    """Say why no overlap can be told on this device at all, or None."""
    if device.doubt:
        return device.doubt
    if device.kernels.empty:
        return "no kernel was recorded on this device"
    if end <= start:
        return "nothing was recorded in this window"
    return None


def _cover(
    moving: Intervals,
    compute: Intervals,
    collective: Intervals,
    graphs: Intervals,
    unknown: str | None,
) -> Cover:
    exposed = difference(moving, compute)
    busy_ns, exposed_ns = length_ns(moving), length_ns(exposed)
    undetermined_ns = length_ns(intersection(exposed, graphs))
    reason = unknown
    if busy_ns == 0:
        reason = "no transfer time was recorded"
    elif reason is None and undetermined_ns:
        reason = f"{undetermined_ns:,} ns of it lie under CUDA graphs traced as a whole"
    return Cover(
        busy_ns=busy_ns,
        hidden_ns=busy_ns - exposed_ns,
        exposed_ns=exposed_ns,
        hidden_by_collectives_ns=length_ns(intersection(exposed, collective)),
        undetermined_ns=undetermined_ns,
        overlap=None if reason else (busy_ns - exposed_ns) / busy_ns,
        overlap_null_reason=reason,
    )


def _direction(
    rows: pd.DataFrame,
    cover: Cover,
    transfers: Intervals,
    beside: Intervals,
    kernel_start_ns: NDArray[np.int64],
) -> DirectionOverlap:
    start, end, size = (rows[name].to_numpy() for name in ("start_ns", "end_ns", "size_bytes"))
    duration = end - start
    sized = bool((size != UNSET).all())
    alone = lone(intervals(start, end), transfers, beside) & (rows["host"] == "pinned").to_numpy()
    return DirectionOverlap(
        cover=cover,
        copies=len(rows),
        bytes=int(size.sum()) if sized else None,
        sum_ns=int(duration.sum()),
        gbps=row_gbps(size, duration) if sized else None,
        burst_gbps=burst_gbps(start, end, size, kernel_start_ns) if sized else None,
        lone_gbps=_best(size, duration, alone & (size >= MIN_LONE_BYTES)),
        sizes=tuple(size_classes(start, end, size)) if sized else (),
    )


def _best(
    size: NDArray[np.int64], duration: NDArray[np.int64], among: NDArray[np.bool_]
) -> float | None:
    among = among & (duration > 0)
    return float((size[among] / duration[among]).max()) if among.any() else None


def _by_name(kernels: pd.DataFrame) -> pd.DataFrame:
    codes = kernels["name"].cat.codes.to_numpy()
    names = len(kernels["name"].cat.categories)
    start, end = kernels["start_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    return pd.DataFrame(
        {
            "count": np.bincount(codes, minlength=names),
            "busy_ns": grouped_length_ns(start, end, codes, names),
        }
    )


def _moved(migrations: pd.DataFrame, direction: str) -> tuple[int, int]:
    size = migrations["size_bytes"].to_numpy()[(migrations["direction"] == direction).to_numpy()]
    return len(size), int(size[size != UNSET].sum())


def _spans(rows: pd.DataFrame, column: str, value: str) -> Intervals:
    return spans_of(rows[["start_ns", "end_ns"]][(rows[column] == value).to_numpy()])
