"""What the rules of diagnosis look at: one device, its steps and stalls, as arrays."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.hardware import HostLink
from nsysoffload.overlap.contention import SlowTransfers, StretchedKernels
from nsysoffload.overlap.stalls import PAUSE_NS, Stalls
from nsysoffload.overlap.waits import Waits
from nsysoffload.timeline.coverage import names_matching
from nsysoffload.timeline.intervals import (
    Intervals,
    covered_ns,
    difference,
    intersection,
    spans_of,
    union,
)
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["Calls", "Claim", "Measurements"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
NO_OP = -1
_MOST_OPS = 5  # of those whose copies run in stalls


@dataclass(frozen=True)
class Claim:
    """A cause, the time that it claims, and what speaks for it.

    Attributes
    ----------
    cause : str
        Id of the cause.
    spans : int64 array, shape (n, 2)
        Union of the time that it claims of the time outside compute; empty where it owns none.
    direction : str, optional
        ``h2d`` or ``d2h``, where it is about one.
    op : int
        Position in `Measurements.ops` of what it is about, `NO_OP` for none.
    evidence : mapping
        Numbers, and lists of row ids.
    excess_ns : int
        Time by which something took longer than alone, over all chosen steps.
    places : int64 array, shape (n, 2)
        Where to look, worst first; by default the longest of what it owns.
    """

    cause: str
    spans: Intervals
    direction: str | None = None
    op: int = NO_OP
    evidence: Mapping[str, Any] | None = None
    excess_ns: int = 0
    places: Intervals | None = None


@dataclass(frozen=True)
class Calls:
    """The API calls that issued rows, by row: start and end, -1 for a row without a call."""

    start_ns: _Ints
    end_ns: _Ints


@dataclass(frozen=True)
class Measurements:
    """One device.

    Attributes
    ----------
    kernels, transfers : DataFrame
        Its rows in the window, sorted by start.
    kernel_calls, transfer_calls : Calls
        Their calls.
    kernel_stream, transfer_stream : int64 array
        A code per stream, the same in both.
    transfer_op : int64 array, shape (len(transfers),)
        Position in ``ops``.
    transfer_thunk : int64 array, shape (len(transfers),)
        Row of ``thunks``, -1 where XLA's operation is not known: findings then go by direction.
    ops : tuple of str
        Labels of XLA operations; without them direction, size class and stream.
    has_xla : bool
        Whether the trace names XLA operations: advice then speaks of XLA and JAX, else of CUDA.
    calls : DataFrame
        API calls of the device's process: ``start_ns``, ``end_ns``, ``name``.
    steps : int64 array, shape (n, 2)
        The chosen steps.
    kernel_chosen, transfer_chosen : bool array
        Rows that belong to a chosen step.
    hideable_ns, exposed_ns : mapping of str to int
        By direction, added over the chosen steps.
    compute, collective, other, graphs : int64 array, shape (n, 2)
        Unions of what ran.
    stalls, waits, stretched, slow
        See `nsysoffload.overlap`.
    lone : bool array, shape (len(transfers),)
        Copies with nothing beside them.
    link : HostLink or None
        What is known of the device's host link.
    thunks : DataFrame
        XLA's operations: ``hlo_op``, ``op_name``.
    kernel_thunk : int64 array, shape (len(kernels),)
        Row of ``thunks`` of each kernel, -1 for none.
    """

    kernels: pd.DataFrame
    transfers: pd.DataFrame
    kernel_calls: Calls
    transfer_calls: Calls
    kernel_stream: _Ints
    transfer_stream: _Ints
    transfer_op: _Ints
    transfer_thunk: _Ints
    ops: tuple[str, ...]
    has_xla: bool
    calls: pd.DataFrame
    steps: Intervals
    kernel_chosen: _Bools
    transfer_chosen: _Bools
    hideable_ns: Mapping[str, int]
    exposed_ns: Mapping[str, int]
    compute: Intervals
    collective: Intervals
    other: Intervals
    graphs: Intervals
    stalls: Stalls
    waits: Waits
    stretched: StretchedKernels
    slow: SlowTransfers
    lone: _Bools
    link: HostLink | None
    thunks: pd.DataFrame
    kernel_thunk: _Ints

    # --- Transfers ---

    @cached_property
    def spans(self) -> Intervals:
        """Start and end of each transfer."""
        return spans_of(self.transfers)

    @cached_property
    def length_ns(self) -> _Ints:
        """Duration of each transfer."""
        return self.spans[:, 1] - self.spans[:, 0]

    @cached_property
    def size_bytes(self) -> _Ints:
        """Size of each transfer, UNSET if unknown."""
        size: _Ints = self.transfers["size_bytes"].to_numpy()
        return size

    @cached_property
    def moving(self) -> Intervals:
        """Union of all transfers."""
        return union(self.spans)

    @cached_property
    def way(self) -> _Ints:
        """Position in `DIRECTIONS` of each transfer."""
        return self.transfers["direction"].cat.codes.to_numpy().astype(np.int64)

    @cached_property
    def blocked_ns(self) -> _Ints:
        """How long each transfer's API call lasted, 0 without one."""
        return self.transfer_calls.end_ns - self.transfer_calls.start_ns

    @cached_property
    def queue_ns(self) -> _Ints:
        """From the start of each transfer's API call to its own, 0 without a call."""
        called = self.transfer_calls.start_ns
        return np.where(self.transfer_calls.end_ns >= 0, self.spans[:, 0] - called, 0)

    @cached_property
    def head(self) -> _Ints:
        """First transfer of the run of back-to-back copies that each belongs to.

        Of one stream and direction, with pauses of 20 us at most.
        """
        order = np.lexsort((self.spans[:, 0], self.way, self.transfer_stream))
        start, end = self.spans[order].T
        key = self.transfer_stream[order] * 2 + self.way[order]
        opens = np.r_[True, (key[1:] != key[:-1]) | (start[1:] - end[:-1] > PAUSE_NS)]
        head = np.empty(len(order), dtype=np.int64)
        if len(order):
            head[order] = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
        return head

    @cached_property
    def kernel_spans(self) -> Intervals:
        """Start and end of each kernel."""
        return spans_of(self.kernels)

    @cached_property
    def kernel_ends(self) -> _Ints:
        """Ends of compute kernels and collectives, sorted."""
        working = (self.kernels["kind"].cat.codes < 2).to_numpy()
        return np.sort(self.kernel_spans[working, 1])

    @cached_property
    def ready_ns(self) -> _Ints:
        """When each transfer could have begun: it was issued, and what it waits for had ended."""
        ready = np.where(
            self.transfer_calls.end_ns >= 0, self.transfer_calls.end_ns, self.spans[:, 0]
        )
        ready = np.minimum(ready, self.spans[:, 0])  # a blocking call ends later
        blocking = self.transfer_calls.end_ns > self.spans[:, 0]
        ready[blocking] = np.minimum(self.transfer_calls.start_ns, self.spans[:, 0])[blocking]
        np.maximum.at(ready, self.waits.waiting, self.kernel_spans[self.waits.awaited, 1])
        return ready

    @cached_property
    def compute_streams(self) -> _Ints:
        """Streams that run compute kernels."""
        return np.unique(self.kernel_stream[(self.kernels["kind"] == "compute").to_numpy()])

    def row_ids(self, rows: _Ints) -> list[int]:
        """Row ids of transfers in the export."""
        found: list[int] = self.transfers["row_id"].to_numpy()[rows].tolist()
        return found

    def by_op(self, transfers: _Ints, values: _Ints) -> Iterator[tuple[str, int, _Ints]]:
        """Yield values by direction and operation of their transfers; `NO_OP` without XLA's.

        Parameters
        ----------
        transfers : int64 array, shape (n,)
            Positions of transfers.
        values : int64 array, shape (n,)
            What to group.
        """
        op = np.where(self._named[transfers], self.transfer_op[transfers], NO_OP)
        way = self.way[transfers]
        for code, number in sorted(set(zip(way.tolist(), op.tolist(), strict=True))):
            yield DIRECTIONS[code], number, values[(way == code) & (op == number)]

    @cached_property
    def _named(self) -> _Bools:
        """Tell of which transfers XLA's operation is known."""
        named: _Bools = self.transfer_thunk >= 0
        return named

    # --- Stalls ---

    @property
    def stall(self) -> pd.DataFrame:
        """The stalls."""
        return self.stalls.stalls

    @cached_property
    def stall_spans(self) -> Intervals:
        """Start and end of each stall."""
        return spans_of(self.stall)

    @cached_property
    def stall_ns(self) -> _Ints:
        """Length of each stall."""
        return self.stall_spans[:, 1] - self.stall_spans[:, 0]

    @cached_property
    def blocker(self) -> _Ints:
        """The transfer that each stall ends with."""
        rows: _Ints = self.stall["blocker"].to_numpy()
        return rows

    @cached_property
    def beside_stream(self) -> _Bools:
        """Tell whether the blocker ran on another stream than the kernels around the stall."""
        around = [self._stream_of(self.stall[name].to_numpy()) for name in ("next", "previous")]
        stream = self.transfer_stream[self.blocker]
        beside: _Bools = (around[0] != stream) & (around[1] != stream)
        return beside

    def _stream_of(self, kernels: _Ints) -> _Ints:
        return np.append(self.kernel_stream, -1)[kernels]

    def of_stalls(
        self,
        cause: str,
        mask: _Bools,
        evidence: Callable[[_Ints], Mapping[str, Any]] = lambda _: {},
    ) -> Iterator[Claim]:
        """Yield a claim on stalls per direction and operation of their blockers.

        Parameters
        ----------
        cause : str
            Who claims them.
        mask : bool array, shape (len(stall),)
            Which stalls.
        evidence : callable, optional
            Evidence from the positions of some stalls, beside what all have.
        """
        rows = np.flatnonzero(mask)
        if not len(rows):
            return
        for direction, op, mine in self.by_op(self.blocker[rows], rows):
            longest = mine[np.argsort(-self.stall_ns[mine], kind="stable")]
            blockers = self.blocker[longest]
            spans = union(self.stall_spans[mine])
            moving = self._moving_in(spans, direction)
            yield Claim(
                cause,
                spans,
                direction,
                op,
                {
                    "stalls": len(mine),
                    "proven": int(self.stall["proven"].to_numpy()[mine].sum()),
                    "copy_ns": int(self.length_ns[blockers].sum()),
                    "copy_row_ids": self.row_ids(blockers[:10]),
                    # What waits is the last of its queue, and most of the wait may be for others.
                    **({"copies_in_stalls_ns": moving} if len(moving) > 1 else {}),
                    **evidence(longest),
                },
                places=self.stall_spans[longest[:10]],
            )

    def _moving_in(self, spans: Intervals, direction: str) -> list[list[Any]]:
        """Return the operations whose copies of a direction ran in a union, and how long each.

        The longest first, at most `_MOST_OPS`; nothing where XLA's operations are not known.
        """
        rows = np.flatnonzero((self.transfers["direction"] == direction) & self._named)
        time_ns = covered_ns(self.spans[rows], spans)
        total = np.zeros(len(self.ops), dtype=np.int64)
        np.add.at(total, self.transfer_op[rows], time_ns)
        longest = np.argsort(-total, kind="stable")[:_MOST_OPS]
        return [[self.ops[op], int(total[op])] for op in longest if total[op]]

    # --- Gaps and calls ---

    @cached_property
    def late_gaps(self) -> Intervals:
        """Union of the gaps whose next kernel was launched when the GPU had run dry."""
        gaps = self.stalls.gaps
        launched = np.append(self.kernel_calls.end_ns, -1)[gaps["next"].to_numpy()]
        late = launched > gaps["start_ns"].to_numpy()
        return spans_of(gaps[late])

    def called(self, pattern: Any) -> pd.DataFrame:
        """Return the API calls whose names match, without those that end before they start."""
        calls = self.calls[names_matching(self.calls["name"], pattern)]
        return calls[(calls["end_ns"] >= calls["start_ns"]).to_numpy()]

    def idle_in(self, spans: Intervals) -> Intervals:
        """Return the part of a union in which no transfer and nothing else ran."""
        return difference(spans, union(self.moving, self.other, self.graphs))

    def lost_in(self, spans: Intervals) -> Intervals:
        """Return the part of a union that lies outside compute, within steps."""
        return intersection(spans, self.stalls.lost)

    def runs(self, longest_pause_ns: int | None = None) -> Iterator[_Ints]:
        """Yield runs of four or more copies of one direction with no kernel start in between.

        Parameters
        ----------
        longest_pause_ns : int, optional
            A longer pause ends a run as well.
        """
        starts = self.kernel_spans[:, 0]
        for code in range(len(DIRECTIONS)):
            rows = np.flatnonzero((self.way == code) & (self.length_ns > 0))
            if len(rows) < 4:
                continue
            begins = self.spans[rows, 0]
            before = np.searchsorted(starts, begins, side="left")
            until = np.searchsorted(starts, begins, side="right")
            apart = before[1:] > until[:-1]
            if longest_pause_ns is not None:
                apart |= begins[1:] - self.spans[rows[:-1], 1] > longest_pause_ns
            first = np.flatnonzero(np.r_[True, apart])
            last = np.r_[first[1:], len(rows)]
            for run in np.flatnonzero(last - first >= 4):
                yield rows[first[run] : last[run]]
