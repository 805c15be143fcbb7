"""Text columns: ids of StringIds, texts that rows carry themselves, and what is missing."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, quoted
from nsysoffload.trace.tables import UNSET

__all__ = ["Ids", "renamed", "strings", "text", "without_versions"]

IDS_AT_ONCE = 5_000  # of a query's length SQLite has a limit
_VERSION_SUFFIX = re.compile(r"(?:_v\d+)+$")  # of API names: cudaMemcpyAsync_v3020

Ids = tuple[NDArray[np.int64], NDArray[np.int64]]
"""A code per row, and the string id that each code stands for."""


def strings(export: Export, ids: Iterable[Ids]) -> dict[int, str]:
    """Look up the strings that are asked for; one without an entry is missing in the result."""
    table = {name.lower(): name for name in export.columns}.get("stringids")
    wanted = sorted({int(i) for _, unique in ids for i in unique})
    columns = {name.lower() for name in export.columns.get(table or "", ())}
    if table is None or not {"id", "value"} <= columns:
        return {}
    values: dict[int, str] = {}
    for first in range(0, len(wanted), IDS_AT_ONCE):
        some = ", ".join(map(str, wanted[first : first + IDS_AT_ONCE]))
        sql = f"SELECT CAST(id AS INTEGER) AS id, CAST(value AS BLOB) AS value FROM {quoted(table)}"
        try:
            rows = export.read(f"{sql} WHERE id IN ({some})")
        except TraceError:
            continue  # names are lost, figures are not
        for key, value in zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True):
            if value is not None:
                values[key] = value.decode(errors="replace")
    return values


def text(
    table: pa.Table,
    name: str,
    ids: Ids | None,
    values: Mapping[int, str],
) -> pd.Categorical:
    """Build a text column from string ids, and from the text itself where a row carries it."""
    codes, unique = ids or (np.zeros(len(table), dtype=np.int64), np.array([UNSET]))
    named = [values[i] if i in values else _unnamed(i) for i in unique.tolist()]
    if name in table.column_names:
        own = pc.dictionary_encode(table[name].combine_chunks())
        texts = [own_text.decode(errors="replace") for own_text in own.dictionary.to_pylist()]
        carried = np.array([bool(own_text) for own_text in texts], dtype=bool)
        own_codes = own.indices.to_numpy()
        codes = np.where(carried[own_codes], own_codes, codes + len(texts))
        named = texts + named
    categories, merged = np.unique(np.asarray(named, dtype=object), return_inverse=True)
    return pd.Categorical.from_codes(merged[codes], categories=pd.Index(categories, dtype=object))


def without_versions(names: pd.Categorical) -> pd.Categorical:
    """Strip from API names the version of CUDA that nsys adds; names that become alike merge."""
    return renamed(names, [_VERSION_SUFFIX.sub("", name) for name in names.categories])


def renamed(texts: pd.Categorical, names: Sequence[str]) -> pd.Categorical:
    """Give each distinct text another name; those of one name merge, and missing ones stay so."""
    unique, merged = np.unique(np.asarray(names, dtype=object), return_inverse=True)
    codes = np.append(merged, -1)[texts.codes]
    return pd.Categorical.from_codes(codes, categories=pd.Index(unique, dtype=object))


def _unnamed(string_id: int) -> str:
    return "" if string_id == UNSET else f"string {string_id} (not in the export)"
