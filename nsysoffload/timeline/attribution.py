"""GPU row -> API call -> NVTX ranges around it: XLA's operation, its program's execution, others.

A GPU row belongs to a range in which its API call begins, on the call's own thread. Of XLA's ranges
the innermost counts: those of loops, conditions and command buffers surround those of their parts.
The domain of a range says nothing; exports number domains as they come.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.timeline.calls import CallIndex
from nsysoffload.timeline.phase import phase_of
from nsysoffload.timeline.ranges import innermost
from nsysoffload.timeline.xla import MODULE, THUNK, fields, op_name
from nsysoffload.trace.tables import NO_TIME, UNSET

__all__ = ["Attribution", "attribute"]

Ints = NDArray[np.int64]

_THREAD_BITS = 24
_MOST_DIGITS = 19  # that fit an int64 in any case


@dataclass(frozen=True)
class Attribution:
    """What surrounds each API call: positions by position in `CallIndex.keys`.

    ``thunk``, ``execution`` and ``range_`` have one element more than there are keys, which is -1,
    so that they can be asked for call -1, that is for rows without a call. They are rows of
    ``thunks``, rows of ``executions`` and positions in ``range_texts``; -1 for none.

    ``thunks`` has a row per text of a thunk and per program: ``hlo_op``, ``op_name`` (JAX's path,
    whole), ``phase`` and ``module``, empty where the text does not say. ``executions`` has a row
    per range of a program, sorted by start: ``process``, ``thread``, ``start_ns``, ``end_ns``
    (UNSET if still open), ``module`` and ``program_id`` (UNSET if not said). ``range_`` is the
    innermost range that is not XLA's.
    """

    thunks: pd.DataFrame
    executions: pd.DataFrame
    range_texts: list[str]
    thunk: Ints
    execution: Ints
    range_: Ints


def attribute(index: CallIndex, calls: pd.DataFrame, ranges: pd.DataFrame) -> Attribution:
    """Find the NVTX ranges around API calls.

    Parameters
    ----------
    index : CallIndex
        The calls by process and correlation id.
    calls : DataFrame
        Table `CALLS`, from which the index was built.
    ranges : DataFrame
        Table `NVTX_RANGES`.
    """
    known = (ranges["start_ns"] != NO_TIME) & (ranges["process"] != UNSET)
    ranges = ranges if known.all() else ranges[known.to_numpy()]
    texts = list(ranges["text"].cat.categories)
    text = ranges["text"].cat.codes.to_numpy().astype(np.int64)
    is_thunk, is_module = (_begin_with(texts, kind)[text] for kind in (THUNK, MODULE))
    modules = np.flatnonzero(is_module)
    modules = modules[np.argsort(ranges["start_ns"].to_numpy()[modules], kind="stable")]
    called = calls[["process", "thread", "start_ns"]].take(index.first)
    in_thunk, execution, in_other = (
        _around(called, ranges, rows)
        for rows in (np.flatnonzero(is_thunk), modules, np.flatnonzero(~is_thunk & ~is_module))
    )
    thunks, thunk = _thunks(
        texts,
        _at(text[is_thunk], in_thunk),
        _at(text[modules], execution),
    )
    range_texts, range_ = _compact(_at(text[~is_thunk & ~is_module], in_other))
    return Attribution(
        thunks=thunks,
        executions=_executions(ranges.iloc[modules], texts),
        range_texts=[texts[code] for code in range_texts],
        thunk=thunk,
        execution=execution,
        range_=range_,
    )


def _begin_with(texts: list[str], kind: str) -> NDArray[np.bool_]:
    """Tell for each text whether it is of a kind; one more than there are, as no text is none."""
    return np.array([*(text.startswith(kind) for text in texts), False], dtype=bool)


def _around(called: pd.DataFrame, ranges: pd.DataFrame, rows: Ints) -> Ints:
    """Return for each call, and for none, the position in `rows` of the innermost range."""
    start, end = (ranges[name].to_numpy()[rows] for name in ("start_ns", "end_ns"))
    thread, at_thread = _threads(ranges)[rows], _threads(called)
    found: Ints = innermost(start, end, thread, called["start_ns"].to_numpy(), at_thread)
    return np.append(found, -1)


def _threads(rows: pd.DataFrame) -> Ints:
    """Pack process and thread into one integer again, as exports have it."""
    packed: Ints = rows["process"].to_numpy() << _THREAD_BITS | rows["thread"].to_numpy()
    return packed


def _at(values: Ints, positions: Ints) -> Ints:
    """Return the values at positions, and -1 at position -1."""
    found: Ints = np.r_[values, -1][positions]
    return found


def _compact(codes: Ints) -> tuple[Ints, Ints]:
    """Return the codes that occur, and each code's place among them; -1 stays."""
    found, seen = pd.factorize(codes)  # much faster than sorting all codes
    used = np.unique(seen[seen >= 0])
    place = np.where(seen < 0, -1, np.searchsorted(used, seen))
    return used, place[found]


def _thunks(texts: list[str], thunk: Ints, module: Ints) -> tuple[pd.DataFrame, Ints]:
    """Return a row per thunk text and module text that occur together, and each call's row."""
    none = len(texts)
    pair = np.where(thunk < 0, -1, thunk * (none + 1) + np.where(module < 0, none, module))
    used, row = _compact(pair)
    parsed = [
        (fields(texts[of_thunk]), fields(texts[of_module]) if of_module < none else {})
        for of_thunk, of_module in zip(*np.divmod(used, none + 1), strict=True)
    ]
    names = [op_name(op.get("name", ""), program.get("prefix", "")) for op, program in parsed]
    columns = {
        "hlo_op": [op.get("hlo_op", "") for op, _ in parsed],
        "op_name": names,
        "phase": [phase_of(name) for name in names],
        "module": [program.get("hlo_module", "") for _, program in parsed],
    }
    return pd.DataFrame(columns, dtype=object), row


def _executions(ranges: pd.DataFrame, texts: list[str]) -> pd.DataFrame:
    used, place = _compact(ranges["text"].cat.codes.to_numpy().astype(np.int64))
    programs = [fields(texts[code]) for code in used]
    names = np.array([program.get("hlo_module", "") for program in programs], dtype=object)
    ids = np.array([_number(program.get("program_id", "")) for program in programs], dtype=np.int64)
    frame = ranges[["process", "thread", "start_ns", "end_ns"]].reset_index(drop=True)
    return frame.assign(module=names[place], program_id=ids[place])


def _number(digits: str) -> int:
    return int(digits) if digits.isdecimal() and len(digits) < _MOST_DIGITS else UNSET
