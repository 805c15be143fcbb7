"""Transfers of each operation, and the stalls of the step that is drawn."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.diagnosis.diagnose import OWNERS
from nsysoffload.diagnosis.examine import Examined
from nsysoffload.report.format import shorten
from nsysoffload.report.model import Layer, Stall, Transfers
from nsysoffload.report.steps import median_step
from nsysoffload.timeline.intervals import covered_ns, grouped_union
from nsysoffload.timeline.ranges import occurrences
from nsysoffload.timeline.timeline import DIRECTIONS
from nsysoffload.trace.tables import UNSET

__all__ = ["MOST_GROUPS", "MOST_STALLS", "stalls", "transfer_groups"]

MOST_GROUPS = 500
MOST_LAYERS = 512
MOST_STALLS = 400
_NAME_WIDTH = 300
_OF_LAYER = ("copies", "busy_ns", "hidden_ns", "stall_ns")

_Ints = NDArray[np.int64]


def transfer_groups(name: str, device: Examined, thunks: pd.DataFrame) -> tuple[Transfers, ...]:
    """Transfers of the chosen steps by operation, those that hold compute up most first.

    Parameters
    ----------
    name : str
        Id of the device.
    device : Examined
        What is known of it.
    thunks : DataFrame
        XLA's operations.
    """
    m = device.measurements
    rows = np.flatnonzero(device.transfer_step >= 0)
    if not len(rows):
        return ()
    steps = len(device.steps)
    stalled = np.zeros(len(m.transfers), dtype=np.int64)
    np.add.at(stalled, m.blocker, m.stall_ns)
    # An operation can be in programs, or go both ways where XLA gives no names.
    group, keys = pd.factorize(
        m.transfer_op[rows] * len(DIRECTIONS) + m.way[rows], use_na_sentinel=False
    )
    layer = occurrences(group.astype(np.int64) * steps + device.transfer_step[rows])
    by_group = _sums(device, rows, group, stalled)
    order = sorted(
        range(len(keys)), key=lambda g: (-by_group["stall_ns"][g], -by_group["busy_ns"][g])
    )[:MOST_GROUPS]
    layers = _layers(device, rows, group, layer, stalled)
    first = np.unique(group, return_index=True)[1]
    return tuple(
        Transfers(
            device=name,
            op=shorten(m.ops[keys[g] // len(DIRECTIONS)], _NAME_WIDTH),
            **_named(thunks, device, rows[first[g]]),
            layer=layers[g][0].layer if len(layers[g]) == 1 else None,
            direction=DIRECTIONS[keys[g] % len(DIRECTIONS)],
            copies=int(by_group["copies"][g]) // steps,
            bytes=None if by_group["unsized"][g] else int(by_group["bytes"][g]) // steps,
            busy_ns=int(by_group["busy_ns"][g]) // steps,
            hidden_ns=int(by_group["hidden_ns"][g]) // steps,
            stall_ns=int(by_group["stall_ns"][g]) // steps,
            layers=layers[g] if len(layers[g]) > 1 else (),
        )
        for g in order
    )


def _named(thunks: pd.DataFrame, device: Examined, row: int) -> dict[str, str | None]:
    thunk = device.transfer_thunk[row]
    if thunk < 0:
        return {"op_name": None, "phase": None}
    known = thunks.iloc[thunk]
    return {
        "op_name": shorten(known["op_name"], _NAME_WIDTH) or None,
        "phase": known["phase"],
    }


def _sums(device: Examined, rows: _Ints, group: _Ints, stalled: _Ints) -> dict[str, _Ints]:
    """Add up the copies of each group over all chosen steps, and count those without a size."""
    m = device.measurements
    start, end = m.spans[rows].T
    own, of_group = grouped_union(start, end, group)
    size = m.size_bytes[rows]
    parts = {
        "copies": (group, np.ones(len(rows), dtype=np.int64)),
        "bytes": (group, size),
        "unsized": (group, (size == UNSET).astype(np.int64)),
        "busy_ns": (of_group, own[:, 1] - own[:, 0]),
        "hidden_ns": (of_group, covered_ns(own, m.compute)),
        "stall_ns": (group, stalled[rows]),
    }
    total = {name: np.zeros(int(group.max()) + 1, dtype=np.int64) for name in parts}
    for name, (where, values) in parts.items():
        np.add.at(total[name], where, values)
    return total


def _layers(
    device: Examined, rows: _Ints, group: _Ints, layer: _Ints, stalled: _Ints
) -> list[tuple[Layer, ...]]:
    """Return per group its layers: the nth copy of the operation within each step."""
    steps = len(device.steps)
    shown = layer < MOST_LAYERS
    pair = group[shown] * MOST_LAYERS + layer[shown]
    code, keys = pd.factorize(pair, sort=True)
    found: list[list[Layer]] = [[] for _ in range(int(group.max()) + 1)]
    sums = _sums(device, rows[shown], code, stalled)
    for number, key in enumerate(keys.tolist()):
        of_group, nth = divmod(key, MOST_LAYERS)
        figures = {name: int(sums[name][number]) // steps for name in _OF_LAYER}
        found[of_group].append(Layer(layer=nth, **figures))
    return [tuple(layers) for layers in found]


def stalls(name: str, device: Examined) -> tuple[Stall, ...]:
    """Stalls of the step whose duration is the median, the longest if there are many, by time."""
    step = median_step(device)
    if step is None:
        return ()
    return tuple(_stalls(name, device, step))


def _stalls(name: str, device: Examined, step: int) -> Iterator[Stall]:
    m = device.measurements
    rows = np.flatnonzero(m.stall["step"].to_numpy() == step)
    rows = np.sort(rows[np.argsort(-m.stall_ns[rows], kind="stable")[:MOST_STALLS]])
    by_cause = device.diagnosis.by_cause()
    owned = np.array(
        [covered_ns(m.stall_spans[rows], by_cause[c]) for c in OWNERS if c in by_cause]
    )
    causes = [cause for cause in OWNERS if cause in by_cause]
    for place, row in enumerate(rows):
        stall = m.stall.iloc[row]
        blocker, following = int(stall["blocker"]), int(stall["next"])
        row_id = int(m.transfers["row_id"].iloc[blocker])
        start, end = m.stall_spans[row]
        # Transfers that run within it.
        began = np.searchsorted(m.spans[:, 0], end, side="left")
        ended = np.searchsorted(np.sort(m.spans[:, 1]), start, side="right")
        yield Stall(
            device=name,
            step=int(device.steps.index[step]),
            start_ns=int(start),
            end_ns=int(end),
            cause=causes[int(np.argmax(owned[:, place]))],
            direction=DIRECTIONS[m.way[blocker]],
            op=shorten(m.ops[m.transfer_op[blocker]], _NAME_WIDTH),
            transfers=int(began - ended),
            blocker_row_id=None if row_id == UNSET else row_id,
            blocker_start_ns=int(m.spans[blocker, 0]),
            blocker_end_ns=int(m.spans[blocker, 1]),
            kernel=shorten(str(m.kernels["name"].iloc[following]), 200) if following >= 0 else None,
            proven=bool(stall["proven"]),
        )
