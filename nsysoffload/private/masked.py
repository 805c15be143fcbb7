"""A trace as it may be shown: its texts without their private parts, before anything reads them.

What a report says of a trace is made of these texts. So nothing private can get into it by any way,
and it is the same as that of a redacted copy, in which they are written like this.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pandas as pd

from nsysoffload.private.names import Names
from nsysoffload.timeline.xla import MODULE, THUNK
from nsysoffload.trace.tables import GPUS, Trace
from nsysoffload.trace.text import renamed

__all__ = ["cleaned", "masked"]

_COLUMNS = {"kernels": "name", "calls": "name", "nvtx_ranges": "text"}


def masked(trace: Trace, names: Names) -> Trace:
    """Return a trace with markers for the private parts of all that a report can show of it.

    Of NVTX ranges reports show XLA's alone; the texts of others stay. What stands for which name
    is in ``written``, so that a pattern that a user gives still matches the name itself.

    Parameters
    ----------
    trace : Trace
        As it was read.
    names : Names
        Finds private parts. Equal parts get equal markers, numbered in an order of this trace's.
    """
    shown: dict[str, Any] = {}
    written: dict[str, str] = {}
    for table, column in _COLUMNS.items():
        frame = getattr(trace, table)
        changed = dict(_changed(table, frame[column].cat.categories, names))
        if changed:
            texts = frame[column].array
            new = renamed(texts, [changed.get(text, text) for text in texts.categories])
            shown[table] = frame.assign(**{column: new})
            written |= {new: text for text, new in changed.items()}
    return replace(
        trace,
        **shown,
        gpus=_gpus(trace.gpus, names),
        source=replace(trace.source, prediction=cleaned(trace.source.prediction, names)),
        warnings=cleaned(trace.warnings, names),
        written=written,
    )


def _changed(table: str, texts: "pd.Index[Any]", names: Names) -> Iterator[tuple[str, str]]:
    """Yield the texts that have private parts, and what is shown for them."""
    for text in texts:
        if table != "nvtx_ranges" or text.startswith((THUNK, MODULE)):
            new = names.part(text)
            if new != text:
                yield text, new


def _gpus(gpus: pd.DataFrame, names: Names) -> pd.DataFrame:
    shown = {text: names.uuid(text) for text in gpus["uuid"].dropna()}
    shown |= {text: names.part(text) for text in gpus["name"].dropna()}
    texts = {
        column: pd.Series([shown.get(text, text) for text in gpus[column]], dtype=object)
        for column in ("id", "uuid", "name")
    }
    return GPUS.conform(gpus.assign(**texts))


def cleaned(value: Any, names: Names) -> Any:
    """Return a value of JSON, or of dataclasses, without the private parts of its texts."""
    if isinstance(value, str):
        return names.part(value)
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: cleaned(item, names) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        told = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **cleaned(told, names))
    return value
