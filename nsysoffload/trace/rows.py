"""Rows of an export's tables as Arrow columns: in parallel, and large tables in parts."""

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, quoted
from nsysoffload.trace.layout import Layout
from nsysoffload.trace.tables import TraceWarning

__all__ = ["Progress", "read_rows"]

CHUNK_ROWS = 250_000
MAX_PARTS = 256  # row ids need not be dense

Progress = Callable[[int, int], None]
"""Called with the rows read so far and the rows to read, from several threads."""


def read_rows(
    export: Export,
    wanted: Mapping[str, Layout],
    needed: Collection[str],
    progress: Progress | None = None,
) -> tuple[dict[str, pa.Table], list[TraceWarning]]:
    """Read tables.

    Parameters
    ----------
    export : Export
        Where from.
    wanted : mapping of Layout
        The tables, by our names.
    needed : collection of str
        Tables without which nothing can be done; another one that is damaged is left out.
    progress : callable, optional
        Called as rows arrive.

    Returns
    -------
    rows : dict of pyarrow.Table
        Columns by our names; ids of strings end in ``_id``.
    warnings : list of TraceWarning
        Tables that were left out.

    Raises
    ------
    TraceError
        If a needed table cannot be read.
    """
    tasks = [(name, sql) for name, layout in wanted.items() for sql in _queries(layout)]
    total = sum(layout.last_row or 0 for layout in wanted.values())
    done = 0

    def run(task: tuple[str, str]) -> pa.Table | TraceError:
        nonlocal done
        try:
            rows = export.read(task[1])
        except TraceError as error:
            return error
        done += len(rows)
        if progress:
            progress(done, total)
        return rows

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        results = list(pool.map(run, tasks))
    parts: dict[str, list[Any]] = {name: [] for name in wanted}
    for (name, _), part in zip(tasks, results, strict=True):
        parts[name].append(part)
    return _joined(wanted, needed, parts)


def _joined(
    wanted: Mapping[str, Layout], needed: Collection[str], parts: Mapping[str, list[Any]]
) -> tuple[dict[str, pa.Table], list[TraceWarning]]:
    rows: dict[str, pa.Table] = {}
    warnings = []
    for name, pieces in parts.items():
        errors = [piece for piece in pieces if isinstance(piece, TraceError)]
        if errors and name in needed:
            raise errors[0]
        if errors:
            message = f"The table of {name} cannot be read and was left out."
            warnings.append(TraceWarning("table_damaged", message))
            continue
        # Without rows, a column has no type either.
        rows[name] = pa.concat_tables([part for part in pieces if len(part)] or pieces[:1])
    return rows, warnings


def _queries(layout: Layout) -> list[str]:
    """Return the query of a table, split by row id where it is large."""
    select = ", ".join(
        [f"{_cell(ours, _sql(column))} AS {ours}" for ours, column in layout.columns.items()]
        + [f"{_cell(ours, sql)} AS {ours}" for ours, sql in layout.packed.items()]
        + [
            f"CAST({_coalesce(ids)} AS INTEGER) AS {ours}_id"
            for ours, ids in layout.strings.items()
            if ids
        ]
    )
    query = f"SELECT {select} FROM {quoted(layout.table)} WHERE {layout.where}"
    if layout.last_row is None:
        return [query]
    step = max(CHUNK_ROWS, layout.last_row // MAX_PARTS)
    edges = range(step, layout.last_row - step // 2, step)
    lower = ["1", *(f"rowid > {edge}" for edge in edges)]
    upper = [*(f"rowid <= {edge}" for edge in edges), "1"]
    return [f"{query} AND {low} AND {high}" for low, high in zip(lower, upper, strict=True)]


def _sql(column: str) -> str:
    return column if column == "rowid" else quoted(column)


def _cell(ours: str, column: str) -> str:
    if ours != "text":
        return f"CAST({column} AS INTEGER)"
    # Text need not be UTF-8. ADBC takes a column's type from the first rows, and NULL has none.
    return f"COALESCE(CAST({column} AS BLOB), x'')"


def _coalesce(columns: tuple[str, ...]) -> str:
    names = ", ".join(map(quoted, columns))
    return f"COALESCE({names})" if len(columns) > 1 else names
