"""Which kernels were told, by CUDA events or by their stream, to wait for which transfers.

An event recorded on a copy's stream behind the copy, and a wait for that event on a kernel's stream
before the kernel, prove that the kernel could not start before the copy had ended::

    copy stream     [copy)(record 7)
    kernel stream                   (wait 7)[kernel)

Records and waits have no time on the GPU; their order is that of the API calls that made them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.calls import CallIndex
from nsysoffload.timeline.streams import stream_codes
from nsysoffload.timeline.timeline import Timeline
from nsysoffload.trace.tables import UNSET

__all__ = ["Waits", "proven_waits"]

_Ints = NDArray[np.int64]
_Codes = NDArray[np.integer[Any]]
_UNSET_IDS = (UNSET, 0xFFFFFFFF)


@dataclass(frozen=True)
class Waits:
    """Proven waits of one device, as pairs of positions of rows.

    ``kernel`` waits for ``transfer``, and the transfer ``waiting`` for the kernel ``awaited``, by
    events. ``follower`` is a kernel that was launched on the stream of the transfer ``leader``,
    right behind it and before it had ended.
    """

    transfer: _Ints
    kernel: _Ints
    waiting: _Ints
    awaited: _Ints
    leader: _Ints
    follower: _Ints


def proven_waits(
    timeline: Timeline, kernels: pd.DataFrame, transfers: pd.DataFrame, rest: pd.DataFrame
) -> Waits:
    """Pair the kernels and transfers of one device that events order.

    Parameters
    ----------
    timeline : Timeline
        The trace, with its syncs and events read.
    kernels, transfers, rest : DataFrame
        Rows of the device, with ``call``; the last are all others, which come between these.

    Notes
    -----
    Kinds of synchronisation are never trusted: a row with a stream and an event is a stream's wait.
    Records are found by ``event_sync``; where the export has none, by event id and order.
    """
    nothing = np.empty(0, dtype=np.int64)
    if transfers.empty or kernels.empty:
        return Waits(nothing, nothing, nothing, nothing, nothing, nothing)
    syncs, events = timeline.trace.syncs, timeline.trace.events
    syncs = syncs[~syncs["stream"].isin(_UNSET_IDS) & ~syncs["event"].isin(_UNSET_IDS)]
    called = _Called.of(timeline)
    waited_at, recorded_at = called.at(syncs), called.at(events)
    record = _record_of(syncs, events, waited_at, recorded_at)
    known = (record >= 0) & (waited_at >= 0)
    syncs, waited_at, record = syncs[known], waited_at[known], record[known]
    events, recorded_at = events.take(record), recorded_at[record]
    order = _Order.of([kernels, transfers, rest], called, syncs, events)
    rows, every = len(kernels), len(kernels) + len(transfers)
    before = order.last_before(recorded_at)
    after, kernel = order.first_after(waited_at), order.only(rows).first_after(waited_at)
    holds = (before >= rows) & (before < every) & (kernel >= 0)
    held_up = (before >= 0) & (before < rows) & (after >= rows) & (after < every)
    leader, follower = order.neighbours(rows, every)
    issued = called.end_ns[kernels["call"].to_numpy()[follower]]
    in_time = issued <= transfers["end_ns"].to_numpy()[leader]
    return Waits(
        before[holds] - rows,
        kernel[holds],
        after[held_up] - rows,
        before[held_up],
        leader[in_time],
        follower[in_time],
    )


@dataclass(frozen=True)
class _Called:
    """When the calls of rows were made."""

    index: CallIndex
    start_ns: _Ints
    end_ns: _Ints

    @classmethod
    def of(cls, timeline: Timeline) -> "_Called":
        start, end = (
            np.append(timeline.trace.calls[name].to_numpy()[timeline.index.first], -1)
            for name in ("start_ns", "end_ns")
        )
        return cls(timeline.index, start, end)

    def at(self, rows: pd.DataFrame) -> _Ints:
        return self.start_ns[self.index.of(rows)]


def _record_of(
    syncs: pd.DataFrame, events: pd.DataFrame, waited_at: _Ints, recorded_at: _Ints
) -> _Ints:
    """Position in `events` of the record that each wait is for, -1 for none."""
    linked = (syncs["event_sync"] > 0).any() and (events["event_sync"] > 0).any()
    keys = ["process", "event_sync" if linked else "event"]
    both = pd.concat([events[keys], syncs[keys]])
    code = both.groupby(keys, sort=False).ngroup().to_numpy()
    of_event, of_sync = code[: len(events)], code[len(events) :]
    order = np.lexsort((recorded_at, of_event))
    if not len(order):
        return np.full(len(syncs), -1, dtype=np.int64)
    # The last record of the same event before the wait was made.
    place = _packed_search(of_event[order], recorded_at[order], of_sync, waited_at, "right") - 1
    found = np.where(place >= 0, order[place], -1)
    matches = (place >= 0) & (of_event[found] == of_sync)
    if linked:
        matches &= (syncs["event_sync"] > 0).to_numpy()
    return np.where(matches, found, -1)


@dataclass(frozen=True)
class _Order:
    """Rows of several tables, one after the other, in the order in which their streams got them.

    ``waits`` and ``records`` are the streams of the waits and records that are looked up.
    """

    stream: _Ints
    called: _Ints
    row: _Codes
    waits: _Ints
    records: _Ints

    @classmethod
    def of(
        cls,
        frames: Sequence[pd.DataFrame],
        called: _Called,
        syncs: pd.DataFrame,
        events: pd.DataFrame,
    ) -> "_Order":
        *of_rows, waits, records = stream_codes([*frames, syncs, events])
        rows = np.concatenate(of_rows)
        call, start = (
            np.concatenate([frame[name].to_numpy() for frame in frames])
            for name in ("call", "start_ns")
        )
        at = called.start_ns[call]
        # Rows of one call, a graph's, are in order of time.
        by_start = np.argsort(start, kind="stable")
        by_start = by_start[call[by_start] >= 0]
        order = by_start[np.argsort(_packed(rows[by_start], at[by_start]), kind="stable")]
        return cls(rows[order], at[order], order, waits, records)

    def only(self, rows: int) -> "_Order":
        """Keep the first rows alone: those of the first table."""
        mine = self.row < rows
        return replace(self, stream=self.stream[mine], called=self.called[mine], row=self.row[mine])

    def last_before(self, recorded_at: _Ints) -> _Ints:
        """Row that was the last of its stream when each record was made, -1 for none."""
        place = _packed_search(self.stream, self.called, self.records, recorded_at, "left") - 1
        return self._row(place, self.records)

    def first_after(self, waited_at: _Ints) -> _Ints:
        """Row that was the first of its stream after each wait, -1 for none."""
        place = _packed_search(self.stream, self.called, self.waits, waited_at, "right")
        return self._row(place, self.waits)

    def neighbours(self, kernels: int, every: int) -> tuple[_Ints, _Ints]:
        """Transfers, and the kernels that follow each right behind on its stream."""
        same = self.stream[1:] == self.stream[:-1]
        leads = (self.row[:-1] >= kernels) & (self.row[:-1] < every)
        pair = np.flatnonzero(same & leads & (self.row[1:] < kernels))
        return self.row[pair].astype(np.int64) - kernels, self.row[pair + 1].astype(np.int64)

    def _row(self, place: _Ints, stream: _Ints) -> _Ints:
        found = np.r_[self.row, -1]
        of_stream = np.r_[self.stream, -1]
        place = np.where((place >= 0) & (place < len(self.row)), place, len(self.row))
        row: _Ints = np.where(of_stream[place] == stream, found[place], -1)
        return row


def _packed(group: _Ints, time: _Ints) -> _Ints:
    """Group and time as one number that sorts by group, then time."""
    if not len(time):
        return time
    (since,), span = _since_first(int(group.max()) + 1, time)
    packed: _Ints = group * span + since
    return packed


def _packed_search(
    group: _Codes, time: _Ints, of_group: _Codes, at: _Ints, side: Literal["left", "right"]
) -> _Ints:
    """Search times within groups: both are packed into one key; `group`, `time` are sorted."""
    if not len(time) or not len(at):
        return np.zeros(len(at), dtype=np.int64)
    groups = max(int(group.max()), int(of_group.max())) + 1
    (since, sought), span = _since_first(groups, time, at)
    keys = group.astype(np.int64) * span + since
    return np.searchsorted(keys, of_group.astype(np.int64) * span + sought, side).astype(np.int64)


def _since_first(groups: int, *times: _Ints) -> tuple[list[_Ints], int]:
    """Return times from 0 up, and a span above all; as ranks where spans of groups do not fit."""
    joined = np.concatenate(times)
    origin = int(joined.min())
    span = int(joined.max()) - origin + 2
    if span <= (1 << 62) // groups:
        return [time - origin for time in times], span
    distinct = np.unique(joined)
    return [np.searchsorted(distinct, time).astype(np.int64) for time in times], len(distinct) + 1
