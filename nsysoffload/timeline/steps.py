"""Training steps on a device: which rows belong to which, and which of them count.

The host issues work long before the GPU runs it, so a row belongs to the step in which its API call
was made, and a step lasts from its first row on the GPU to its last::

    host     [train_step 0)[train_step 1)
    GPU            [kernel)[copy)[kernel)[kernel)
    belongs        0        0    0       1
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.errors import UsageError
from nsysoffload.timeline.timeline import DeviceTimeline, Timeline
from nsysoffload.trace.tables import UNSET

__all__ = ["FOUND_BY", "OUTSIDE", "STEP_RANGE", "StepRule", "Steps", "find_steps"]

STEP_RANGE = "train_step"
OUTSIDE = "not wholly in the window"
FOUND_BY = ("step_range", "train_step", "xla_module", "step_kernel", "window")

WARM_UP = 1.5  # times the median of the later steps: compiling and autotuning take longer
WHOLE = 0.9  # of the median number of rows; below it the first or last step is cut off
OUTLIER_SHARE = 0.1  # of the median, and
OUTLIER_DEVIATIONS = 5.0  # of the scaled median absolute deviation
_NAMES_SHOWN = 8

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class StepRule:
    """How steps are to be found; by default by the trace's own marks.

    ``step_range`` matches whole NVTX names, ``step_kernel`` is searched for in names of kernels.
    ``skip`` leading steps are left out; None leaves out those that are clearly warm-up. ``shown``
    is how names of other ranges are given in an error.
    """

    step_range: re.Pattern[str] | None = None
    step_kernel: re.Pattern[str] | None = None
    skip: int | None = None
    shown: Callable[[str], str] = str


@dataclass(frozen=True)
class Steps:
    """The steps of one device.

    Attributes
    ----------
    found_by : str
        One of `FOUND_BY`.
    index, start_ns, end_ns, period_ns : int64 array, shape (n,)
        The chosen steps: number over all found steps, first row's start, last row's end, and time
        to the start of the next found step, UNSET for the last.
    outlier : bool array, shape (n,)
        Steps whose duration is far from the median.
    left_out : tuple of (int, str)
        Number of each found step that was not chosen, and why.
    """

    found_by: str
    index: _Ints
    start_ns: _Ints
    end_ns: _Ints
    period_ns: _Ints
    outlier: _Bools
    left_out: tuple[tuple[int, str], ...]
    _belonging: "_Belonging"
    _position: _Ints

    def __len__(self) -> int:
        """Return how many steps were chosen."""
        return len(self.index)

    @property
    def duration_ns(self) -> _Ints:
        """First row to last, of each chosen step."""
        return self.end_ns - self.start_ns

    def of(self, rows: pd.DataFrame) -> _Ints:
        """Return for each row its position among the chosen steps, -1 for none.

        Parameters
        ----------
        rows : DataFrame
            Rows of the device with ``call`` and ``start_ns``.
        """
        position: _Ints = self._position[self._belonging.of(rows)]
        return position


@dataclass(frozen=True)
class _Belonging:
    """Which found step a row belongs to: by its call, or by its start where it has none.

    ``of_call`` is the step of each call, -1 for none; without it all rows go by their start.
    ``opens`` and ``closes`` are sorted intervals of time, ``step`` the step of each.
    """

    of_call: _Ints | None
    opens: _Ints
    closes: _Ints
    step: _Ints

    def of(self, rows: pd.DataFrame) -> _Ints:
        """Return the found step of each row, -1 for none."""
        by_time = _at(rows["start_ns"].to_numpy(), self.opens, self.closes)
        step: _Ints = np.r_[self.step, -1][by_time]
        if self.of_call is None:
            return step
        call = rows["call"].to_numpy()
        return np.where(call >= 0, self.of_call[call], step)


def find_steps(
    timeline: Timeline,
    device: DeviceTimeline,
    window: tuple[int, int],
    rule: StepRule,
) -> Steps:
    """Find the steps of a device.

    Parameters
    ----------
    timeline : Timeline
        The trace.
    device : DeviceTimeline
        One of its devices.
    window : tuple of int
        Part of the recording that is analysed; steps that reach beyond it are left out.
    rule : StepRule
        How to find them.

    Raises
    ------
    UsageError
        If no range or kernel matches a pattern that was given.
    """
    if rule.step_kernel:
        opens = _kernel_starts(device.kernels, rule.step_kernel, timeline.trace.written)
        closes = np.r_[opens[1:], device.recorded[1] + 1]
        return _chosen("step_kernel", device, window, rule, None, opens, closes)
    found_by, of_call, opens, closes = _by_calls(timeline, device, rule)
    if found_by == "window":
        return _whole(window)
    return _chosen(found_by, device, window, rule, of_call, opens, closes)


def _whole(window: tuple[int, int]) -> Steps:
    start, end = (np.array([time], dtype=np.int64) for time in window)
    zero = np.zeros(1, dtype=np.int64)
    # Rows that start where the window ends are in it as well: they have no length.
    return Steps(
        "window",
        zero,
        start,
        end,
        np.full(1, UNSET, dtype=np.int64),
        np.zeros(1, dtype=bool),
        (),
        _Belonging(None, start, end + 1, zero),
        np.array([0, -1], dtype=np.int64),
    )


def _kernel_starts(
    kernels: pd.DataFrame, pattern: re.Pattern[str], written: Mapping[str, str]
) -> _Ints:
    names = kernels["name"].cat
    found = [bool(pattern.search(written.get(name, name))) for name in names.categories]
    hits = np.array(found, dtype=bool)
    opens = kernels["start_ns"].to_numpy()[hits[names.codes.to_numpy()]] if len(hits) else None
    if opens is None or not len(opens):
        raise UsageError(
            f"No kernel's name has '{pattern.pattern}' in it; correct --step-kernel, the report"
            " lists the kernels."
        )
    return np.unique(opens)


# --- Steps by the calls that issued their rows ---


def _by_calls(
    timeline: Timeline, device: DeviceTimeline, rule: StepRule
) -> tuple[str, _Ints | None, _Ints, _Ints]:
    """Return the rule, the step of each call, and the steps' times on the host."""
    found_by, markers = _markers(timeline, device, rule)
    executions = timeline.names.executions
    mine = _process_of(device)
    running = (executions["process"].to_numpy() == mine) & _has_rows(timeline, device)
    if found_by is None and not running.any():
        return "window", None, np.empty(0, np.int64), np.empty(0, np.int64)
    if found_by is None:
        running &= executions["module"].to_numpy() == _main_module(timeline, device, running)
        opens = executions["start_ns"].to_numpy()[running]
        closes = _closed(executions["end_ns"].to_numpy()[running])
        of_execution = np.where(running, np.cumsum(running) - 1, -1)
        return "xla_module", _of_calls(timeline, mine, of_execution, opens, closes), opens, closes
    opens = markers["start_ns"].to_numpy()
    closes = _closed(markers["end_ns"].to_numpy())
    of_execution = np.where(running, _at(executions["start_ns"].to_numpy(), opens, closes), -1)
    return found_by, _of_calls(timeline, mine, of_execution, opens, closes), opens, closes


def _markers(
    timeline: Timeline, device: DeviceTimeline, rule: StepRule
) -> tuple[str | None, pd.DataFrame]:
    """Return the ranges that mark steps of the device's process, one at a time, and their rule."""
    ranges = timeline.trace.nvtx_ranges
    pattern, written = rule.step_range, timeline.trace.written
    texts = ranges["text"].cat
    named = [
        bool(pattern.fullmatch(written.get(t, t))) if pattern else t == STEP_RANGE
        for t in texts.categories
    ]
    hits = np.array([*named, False], dtype=bool)[texts.codes.to_numpy()]
    if pattern and not hits.any():
        shown = ", ".join(_other_names(list(texts.categories), rule.shown)) or "none"
        raise UsageError(
            f"No NVTX range is named '{pattern.pattern}'; correct --step-range, the ranges are:"
            f" {shown}."
        )
    marked = ranges[hits & (ranges["process"].to_numpy() == _process_of(device))]
    if marked.empty:
        return None, marked
    marked = _one_thread(timeline, device, marked.sort_values("start_ns", kind="stable"))
    return ("step_range" if pattern else "train_step"), _outermost(marked)


def _other_names(names: Sequence[str], shown: Callable[[str], str]) -> list[str]:
    plain = [name for name in names if name and not name.startswith(("Thunk:", "XlaModule:"))]
    more = [f"and {len(plain) - _NAMES_SHOWN} more"] if len(plain) > _NAMES_SHOWN else []
    return [*(f"'{shown(name)[:60]}'" for name in plain[:_NAMES_SHOWN]), *more]


def _one_thread(timeline: Timeline, device: DeviceTimeline, marked: pd.DataFrame) -> pd.DataFrame:
    """Of threads that are in steps at the same time, keep the one that drives the device."""
    start, end = marked["start_ns"].to_numpy(), _closed(marked["end_ns"].to_numpy())
    threads = marked["thread"].to_numpy()
    if not ((threads[1:] != threads[:-1]) & (np.maximum.accumulate(end)[:-1] > start[1:])).any():
        return marked
    calls = timeline.trace.calls["thread"].to_numpy()[timeline.index.first]
    used = device.kernels["call"].to_numpy()
    launching = calls[used[used >= 0]]
    candidates = np.unique(threads)
    rows = [(launching == thread).sum() for thread in candidates]
    chosen: pd.DataFrame = marked[threads == candidates[int(np.argmax(rows))]]
    return chosen


def _outermost(marked: pd.DataFrame) -> pd.DataFrame:
    """Leave out ranges that begin inside an earlier one."""
    start, end = marked["start_ns"].to_numpy(), _closed(marked["end_ns"].to_numpy())
    reach = np.r_[start[0], np.maximum.accumulate(end)[:-1]]
    outer: pd.DataFrame = marked[start >= reach]
    return outer


def _closed(end_ns: _Ints) -> _Ints:
    """Return the ends of ranges; one still open at the end of the recording never ends."""
    return np.where(end_ns == UNSET, np.iinfo(np.int64).max, end_ns)


def _rows_of(device: DeviceTimeline) -> tuple[pd.DataFrame, ...]:
    """Return all rows of a device that calls launch."""
    return device.kernels, device.transfers, device.rest


def _process_of(device: DeviceTimeline) -> int:
    """Process with the most rows on the device."""
    frames = [frame["process"].to_numpy() for frame in _rows_of(device)]
    values, counts = np.unique(np.concatenate(frames), return_counts=True)
    return int(values[np.argmax(counts)]) if len(values) else UNSET


def _has_rows(timeline: Timeline, device: DeviceTimeline) -> _Bools:
    """Tell which executions launched something on the device."""
    has = np.zeros(len(timeline.names.executions) + 1, dtype=bool)
    for frame in _rows_of(device):
        has[timeline.names.execution[frame["call"].to_numpy()]] = True
    return has[:-1]


def _main_module(timeline: Timeline, device: DeviceTimeline, among: _Bools) -> object:
    """Return the module with the most time on the device."""
    executions = timeline.names.executions
    codes, modules = pd.factorize(executions["module"].to_numpy())
    time = np.zeros(len(modules) + 1)
    of_module = np.r_[np.where(among, codes, -1), -1]
    for frame in _rows_of(device):
        module = of_module[timeline.names.execution[frame["call"].to_numpy()]]
        length = (frame["end_ns"] - frame["start_ns"]).to_numpy()
        time += np.bincount(module + 1, length, minlength=len(time))
    return modules[int(np.argmax(time[1:]))]


def _of_calls(
    timeline: Timeline, process: int, of_execution: _Ints, opens: _Ints, closes: _Ints
) -> _Ints:
    """Step of each call of the index, and -1 for none at the end.

    What an execution launched belongs to that execution's step; other calls of the process belong
    to the step during which they were made.
    """
    execution = timeline.names.execution
    step: _Ints = np.r_[of_execution, -1][execution]
    calls = timeline.trace.calls
    first = timeline.index.first
    free = np.flatnonzero((execution[:-1] < 0) & (calls["process"].to_numpy()[first] == process))
    step[free] = _at(calls["start_ns"].to_numpy()[first[free]], opens, closes)
    return step


def _at(times: _Ints, opens: _Ints, closes: _Ints) -> _Ints:
    """Position of the interval that holds each time, -1 for none; intervals are sorted by start."""
    if not len(opens):
        return np.full(len(times), -1, dtype=np.int64)
    at = np.searchsorted(opens, times, side="right") - 1
    return np.where((at >= 0) & (times < closes[at]), at, -1)


# --- Which count ---


def _chosen(
    found_by: str,
    device: DeviceTimeline,
    window: tuple[int, int],
    rule: StepRule,
    of_call: _Ints | None,
    opens: _Ints,
    closes: _Ints,
) -> Steps:
    belonging = _Belonging(of_call, opens, closes, np.arange(len(opens)))
    frames = _rows_of(device)
    if of_call is not None and any((frame["call"].to_numpy() >= 0).any() for frame in frames):
        # Rows without a call belong by time: to what the others say of the steps on the GPU.
        known = [frame[frame["call"].to_numpy() >= 0] for frame in frames]
        start, end, rows = _spans(known, belonging, len(opens))
        order = np.argsort(start, kind="stable")[: int((rows > 0).sum())]
        belonging = _Belonging(of_call, start[order], end[order] + 1, order)
    start, end, rows = _spans(frames, belonging, len(opens))
    # In order of time on the GPU, where a step may overtake the one before.
    present = np.argsort(start, kind="stable")[: int((rows > 0).sum())]
    start, end, rows = start[present], end[present], rows[present]
    period = np.r_[np.diff(start), UNSET][: len(start)]
    never_ends = of_call is not None and closes[present] == np.iinfo(np.int64).max
    open_end = np.zeros(len(present), dtype=bool) | never_ends
    left_out = _left_out(start, end, period, rows, open_end, window, rule.skip)
    keep = np.array([number not in left_out for number in range(len(start))], dtype=bool)
    position = np.full(len(opens) + 1, -1, dtype=np.int64)
    position[present] = np.where(keep, np.cumsum(keep) - 1, -1)
    return Steps(
        found_by,
        np.flatnonzero(keep),
        start[keep],
        end[keep],
        period[keep],
        _outliers((end - start)[keep]),
        tuple(sorted(left_out.items())),
        belonging,
        position,
    )


def _spans(
    frames: Sequence[pd.DataFrame], belonging: _Belonging, steps: int
) -> tuple[_Ints, _Ints, _Ints]:
    """First start, last end and number of rows of each found step."""
    start = np.full(steps + 1, np.iinfo(np.int64).max)
    end = np.full(steps + 1, np.iinfo(np.int64).min)
    rows = np.zeros(steps + 1, dtype=np.int64)
    for frame in frames:
        step = belonging.of(frame)
        np.minimum.at(start, step, frame["start_ns"].to_numpy())
        np.maximum.at(end, step, frame["end_ns"].to_numpy())
        rows += np.bincount(np.where(step < 0, steps, step), minlength=steps + 1)
    return start[:-1], end[:-1], rows[:-1]


def _left_out(
    start: _Ints,
    end: _Ints,
    period: _Ints,
    rows: _Ints,
    open_end: _Bools,
    window: tuple[int, int],
    skip: int | None,
) -> dict[int, str]:
    """Why steps do not count, by number."""
    reasons: dict[int, str] = {}
    for number in np.flatnonzero((start < window[0]) | (end > window[1])).tolist():
        reasons[number] = OUTSIDE
    ends = [n for n in (0, len(start) - 1) if 0 <= n < len(start) and n not in reasons]
    usual = np.median(rows) if len(rows) > 2 else 0
    for number in ends:
        if open_end[number] or rows[number] < WHOLE * usual:
            reasons.setdefault(number, "not recorded whole")
    if skip is not None:
        return {n: "skipped" for n in range(min(skip, len(start)))} | reasons
    return reasons | _warm_up(
        end - start, period, [n for n in range(len(start)) if n not in reasons]
    )


def _warm_up(duration: _Ints, period: _Ints, candidates: list[int]) -> dict[int, str]:
    """Leading steps that take much longer than the later ones, of which there are two or more."""
    reasons: dict[int, str] = {}
    for place, number in enumerate(candidates[:-2]):
        later = candidates[place + 1 :]
        usual = np.median(duration[later])
        periods = period[later][period[later] != UNSET]
        slow_host = len(periods) and period[number] > WARM_UP * np.median(periods)
        if duration[number] <= WARM_UP * usual and not slow_host:
            break
        reasons[number] = "warm-up"
    return reasons


def _outliers(duration: _Ints) -> _Bools:
    if len(duration) < 3:
        return np.zeros(len(duration), dtype=bool)
    middle = np.median(duration)
    off = np.abs(duration - middle)
    spread = 1.4826 * np.median(off)
    outlier: _Bools = off > max(OUTLIER_SHARE * middle, OUTLIER_DEVIATIONS * spread)
    return outlier
