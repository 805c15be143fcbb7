"""Some whole training steps of a trace: which rows a copy needs so that they measure the same.

What hides a transfer may belong to another step. So all that ran while the steps ran is kept, with
its API calls, but not the marks of the other steps: their rows then belong to none::

    host     [train_step 4)[train_step 5)[train_step 6)       5 is kept: its mark,
    GPU           [4  )[4  )[5  )[5  )[5  )[6  )[6  )
    kept                   [5  )[5  )[5  )                    its rows,
    copies           [5   )     [6          )                 and what overlaps them
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.analysis import NEEDED_COLUMNS, NEEDED_TABLES
from nsysoffload.errors import TraceError, UsageError
from nsysoffload.redaction.copying import CHOSEN
from nsysoffload.redaction.kept import Kept
from nsysoffload.timeline.steps import STEP_RANGE, StepRule, Steps, find_steps
from nsysoffload.timeline.timeline import DeviceTimeline, Timeline, build
from nsysoffload.timeline.xla import MODULE, fields
from nsysoffload.trace.export import Export, quoted
from nsysoffload.trace.layout import Layout
from nsysoffload.trace.reader import GPU_TABLES, read
from nsysoffload.trace.tables import NO_TIME, UNSET

__all__ = ["Chosen", "Cut", "StepSpan", "choose_rows", "step_spans"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_FOREVER = np.iinfo(np.int64).max
_BATCH = 100_000


@dataclass(frozen=True)
class Cut:
    """Which steps to keep: so many whole ones, the first that begins at or after a time.

    ``since_ns`` is on the trace's clock; None is the first step that is no warm-up.
    """

    steps: int
    since_ns: int | None = None
    rule: StepRule = StepRule()


@dataclass(frozen=True)
class StepSpan:
    """A step of a device, from its first row to its last; ``index`` counts all that were found."""

    device: str
    index: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Chosen:
    """The steps of a cut, and the row ids that it needs of each table, by our names."""

    steps: tuple[StepSpan, ...]
    rows: Mapping[str, _Ints]

    def note(self, db: sqlite3.Connection, tables: list[Kept]) -> None:
        """Write the row ids into temporary tables for `nsysoffload.redaction.copying`."""
        for kept in tables:
            table = f"temp.{quoted(f'{CHOSEN}_{kept.name}')}"
            db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            ids = self.rows.get(kept.ours, np.empty(0, np.int64))
            db.execute("BEGIN")
            for first in range(0, len(ids), _BATCH):
                rows = ((number,) for number in ids[first : first + _BATCH].tolist())
                db.executemany(f"INSERT INTO {table} VALUES (?)", rows)
            db.execute("COMMIT")


@dataclass(frozen=True)
class _Part:
    """The chosen steps of one device; without any, its part of the time of the others."""

    device: DeviceTimeline
    steps: Steps | None
    first: int
    last: int
    start_ns: int
    end_ns: int


def step_spans(export: Export, rule: StepRule) -> list[StepSpan]:
    """Return the steps that an analysis finds, device by device.

    Raises
    ------
    UsageError
        If no range or kernel matches the rule.
    """
    timeline = _timeline(export)
    return [
        span
        for device in timeline.devices
        for steps in [find_steps(timeline, device, device.recorded, rule)]
        if steps.found_by != "window"
        for span in _spans(timeline, device, steps, 0, len(steps))
    ]


def choose_rows(export: Export, found: Mapping[str, Layout], cut: Cut) -> Chosen:
    """Choose the rows of some steps, on all devices.

    Parameters
    ----------
    export : Export
        The whole.
    found : mapping of Layout
        Its tables by our names.
    cut : Cut
        Which steps.

    Raises
    ------
    UsageError
        If there are no such steps.
    TraceError
        If rows of a table cannot be told from each other.
    """
    timeline = _timeline(export)
    parts = _parts(timeline, cut, export.path.name)
    masks = _masks(timeline, parts, cut.rule)
    rows = {
        name: _row_ids(export, found[name], getattr(timeline.trace, name), name)[mask]
        for name, mask in masks.items()
        if len(mask)
    }
    steps = [
        span
        for part in parts
        if part.steps is not None
        for span in _spans(timeline, part.device, part.steps, part.first, part.last)
    ]
    return Chosen(tuple(steps), rows)


def _timeline(export: Export) -> Timeline:
    timeline = build(read(export.path, NEEDED_TABLES, NEEDED_COLUMNS))
    if not timeline.devices:
        raise TraceError(f"{export.path.name} holds no GPU row that can be believed; record again.")
    return timeline


def _spans(
    timeline: Timeline, device: DeviceTimeline, steps: Steps, first: int, last: int
) -> Iterator[StepSpan]:
    name = str(timeline.trace.gpus["id"].iloc[device.number])
    for place in range(first, last):
        yield StepSpan(
            name, int(steps.index[place]), int(steps.start_ns[place]), int(steps.end_ns[place])
        )


# --- Steps ---


def _parts(timeline: Timeline, cut: Cut, name: str) -> list[_Part]:
    """Choose the steps of each device."""
    found = [find_steps(timeline, device, device.recorded, cut.rule) for device in timeline.devices]
    marked = [
        (d, s) for d, s in zip(timeline.devices, found, strict=True) if s.found_by != "window"
    ]
    if not marked:
        raise UsageError(
            f"No training step is marked in {name}; name its ranges with --step-range, or the"
            " kernel that opens it with --step-kernel."
        )
    parts = [_part(device, steps, cut, name) for device, steps in marked]
    start, end = min(part.start_ns for part in parts), max(part.end_ns for part in parts)
    idle = [d for d, s in zip(timeline.devices, found, strict=True) if s.found_by == "window"]
    return [*parts, *(_Part(device, None, 0, 0, start, end) for device in idle)]


def _part(device: DeviceTimeline, steps: Steps, cut: Cut, name: str) -> _Part:
    since = 0 if cut.since_ns is None else int(np.searchsorted(steps.start_ns, cut.since_ns))
    last = since + cut.steps
    if last > len(steps):
        there = len(steps) - since
        advice = "ask for fewer, or from an earlier time" if there else "ask for an earlier time"
        if not len(steps):
            advice = "skip fewer steps, or attach the whole trace"
        raise UsageError(
            f"{name} has {there or 'no'} whole training step{'s' * (there != 1)} there,"
            f" not {cut.steps}; {advice}."
        )
    end = int(steps.end_ns[since:last].max())
    return _Part(device, steps, since, last, int(steps.start_ns[since]), end)


# --- Rows ---


def _masks(timeline: Timeline, parts: list[_Part], rule: StepRule) -> dict[str, _Bools]:
    """Tell for each row of each table whether it is kept."""
    trace, index = timeline.trace, timeline.index
    has_row, issued = (np.zeros(len(index.keys) + 1, dtype=bool) for _ in range(2))
    masks: dict[str, _Bools] = {}
    members: list[_Ints] = []
    for name in GPU_TABLES:
        frame = getattr(trace, name)
        rows = frame.assign(call=index.of(frame))
        masks[name], member = _of_parts(rows, parts)
        call = rows["call"].to_numpy()
        has_row[call], issued[call[masks[name]]] = True, True
        members.append(call[member & (call >= 0)])
    has_row[-1] = issued[-1] = False
    called = trace.calls["start_ns"].to_numpy()[index.first]
    start = int(called[issued[:-1]].min(initial=min(part.start_ns for part in parts)))
    end = max(part.end_ns for part in parts)
    group = index.group
    masks["calls"] = issued[group] | (_meets(trace.calls, start, end) & ~has_row[group])
    kept = np.zeros(len(index.keys) + 1, dtype=bool)
    kept[group[masks["calls"]]] = True
    kept[-1] = False
    for name in ("syncs", "events"):
        masks[name] = kept[index.of(getattr(trace, name))]
    masks["nvtx_ranges"] = _meets(trace.nvtx_ranges, start, end) & ~_of_other_steps(
        timeline, parts, rule, np.unique(np.concatenate(members))
    )
    return masks


def _of_parts(rows: pd.DataFrame, parts: list[_Part]) -> tuple[_Bools, _Bools]:
    """Tell which GPU rows are kept, and which of them belong to chosen steps."""
    kept, member = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    device = rows["device"].to_numpy()
    for part in parts:
        # A graph that starts on the host has no device of its own.
        there = ((device == part.device.number) | (device == UNSET)) & _meets(
            rows, part.start_ns, part.end_ns
        )
        if part.steps is None:
            kept |= there
            continue
        place = part.steps.of(rows)
        mine = there & (place >= part.first) & (place < part.last)
        member |= mine
        kept |= mine | (there & _belongs_to_none(rows, part))
    return kept, member


def _belongs_to_none(rows: pd.DataFrame, part: _Part) -> _Bools:
    """Tell which rows would be of no step if the other steps were not marked."""
    assert part.steps is not None
    if part.steps.found_by == "step_kernel":
        return rows["start_ns"].to_numpy() < part.start_ns
    has_call: _Bools = rows["call"].to_numpy() >= 0
    return has_call


def _meets(rows: pd.DataFrame, start_ns: int, end_ns: int) -> _Bools:
    """Tell which rows touch a time; a range without an end goes on."""
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    end = np.where(end == UNSET, _FOREVER, end)
    meets: _Bools = (start != NO_TIME) & (start <= end_ns) & (end >= start_ns)
    return meets


# --- Marks of steps ---


def _of_other_steps(timeline: Timeline, parts: list[_Part], rule: StepRule, calls: _Ints) -> _Bools:
    """Tell which NVTX ranges mark steps, and hold none of the calls of chosen ones."""
    ranges = timeline.trace.nvtx_ranges
    found_by = {part.steps.found_by for part in parts if part.steps is not None}
    execution = timeline.names.execution[calls]
    texts = list(ranges["text"].cat.categories)
    marks = np.zeros(len(texts) + 1, dtype=bool)
    if "xla_module" in found_by:
        modules = {*timeline.names.executions["module"].to_numpy()[execution[execution >= 0]]}
        marks[:-1] |= [_module(text) in modules for text in texts]
    if found_by & {"step_range", "train_step"}:
        marks[:-1] |= [_is_mark(text, rule.step_range) for text in texts]
    rows = np.flatnonzero(marks[ranges["text"].cat.codes.to_numpy()])
    others = np.zeros(len(ranges), dtype=bool)
    others[rows] = ~_holding(ranges.iloc[rows], *_moments(timeline, calls, execution))
    return others


def _module(text: str) -> str | None:
    return fields(text).get("hlo_module") if text.startswith(MODULE) else None


def _is_mark(text: str, pattern: re.Pattern[str] | None) -> bool:
    return bool(pattern.fullmatch(text)) if pattern else text == STEP_RANGE


def _moments(timeline: Timeline, calls: _Ints, execution: _Ints) -> tuple[_Ints, _Ints]:
    """When calls count as made, and on which thread: an execution's when that begins."""
    made = timeline.trace.calls.iloc[timeline.index.first[calls]]
    ran = timeline.names.executions.iloc[execution[execution >= 0]]
    at, thread = made["start_ns"].to_numpy().copy(), _threads(made)
    at[execution >= 0] = ran["start_ns"].to_numpy()
    thread[execution >= 0] = _threads(ran)
    return at, thread


def _threads(rows: pd.DataFrame) -> _Ints:
    packed: _Ints = (rows["process"].to_numpy() << 24) | rows["thread"].to_numpy()
    return packed


def _holding(ranges: pd.DataFrame, at_ns: _Ints, at_thread: _Ints) -> _Bools:
    """Tell which ranges hold a moment: of their thread, or of one of their process without any."""
    start, end = ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    end = np.where(end == UNSET, _FOREVER, end)
    threads = _threads(ranges)
    free = ~np.isin(at_thread, threads)
    holds = np.zeros(len(ranges), dtype=bool)
    for thread in np.unique(threads):
        mine = threads == thread
        near = free & (at_thread >> 24 == thread >> 24)
        moments = np.sort(at_ns[near | (at_thread == thread)])
        first, last = (np.searchsorted(moments, edge[mine], "left") for edge in (start, end))
        holds[mine] = last > first
    return holds


# --- Row ids ---


def _row_ids(export: Export, layout: Layout, frame: pd.DataFrame, name: str) -> _Ints:
    """Return the row id of each row of a table, in the order in which it was read."""
    column, missing = (
        ("correlation", UNSET) if name in ("syncs", "events") else ("start_ns", NO_TIME)
    )
    told = (
        f"CAST({quoted(layout.columns[column])} AS INTEGER)" if column in layout.columns else "NULL"
    )
    if layout.last_row is None:
        raise TraceError(f"{export.path.name} has tables without row ids; export it again.")
    rows = export.read(
        f"SELECT rowid AS id, COALESCE({told}, {missing}) AS told FROM {quoted(layout.table)}"
        f" WHERE {layout.where} ORDER BY rowid"
    )
    if not np.array_equal(rows["told"].to_numpy(), frame[column].to_numpy()):
        raise TraceError(f"{export.path.name} has indexes that reorder its rows; export it again.")
    ids: _Ints = rows["id"].to_numpy().astype(np.int64)
    return ids
