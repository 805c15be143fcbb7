"""Rows of kept tables, from the export into the copy, by SQL alone."""

import sqlite3
from collections.abc import Iterator

from nsysoffload.redaction.draft import SOURCE
from nsysoffload.redaction.kept import Kept
from nsysoffload.trace.export import quoted

__all__ = ["CHOSEN", "chosen_rows", "copy_rows", "declared_types"]

CHOSEN = "chosen"
"""Temporary table per table, ``chosen_TABLE(id)``: row ids to which its rows are restricted."""

_CHUNK_ROWS = 250_000  # after so many an interrupt is heard
_TYPES = ("INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB")
_OF_TEXTS = "TEXT"  # in a column of this type numbers would become texts


def copy_rows(db: sqlite3.Connection, kept: Kept, shown: str | None, chosen: bool) -> None:
    """Make a table of the copy and fill it.

    Parameters
    ----------
    db : Connection
        The draft, with the export attached.
    kept : Kept
        The table.
    shown : str or None
        Temporary table ``(written, shown)`` of texts to replace in its own column, if any.
    chosen : bool
        Whether only the rows of its table of `CHOSEN` are copied.
    """
    types = declared_types(db, kept.source)
    types |= {c: "" for c in kept.numbers if types[c] == _OF_TEXTS}
    columns = ", ".join(f"{quoted(c)} {types[c]}".strip() for c in kept.columns)
    db.execute(f"CREATE TABLE main.{quoted(kept.name)} ({columns})")
    cells = dict(kept.numbers) | ({kept.own: _own(kept.own, shown)} if kept.own else {})
    into, what = list(map(quoted, kept.columns)), [cells[c] for c in kept.columns]
    if kept.last_row is not None:
        into, what = ["rowid", *into], ["rowid", *what]
    sql = (
        f"INSERT INTO main.{quoted(kept.name)} ({', '.join(into)}) SELECT {', '.join(what)}"
        f" FROM {SOURCE}.{quoted(kept.source)} WHERE {kept.where}"
    )
    sql += chosen_rows(kept, chosen)
    db.execute("BEGIN")
    for rows in _chunks(kept.last_row):
        db.execute(f"{sql} AND {rows}")
    db.execute("COMMIT")


def chosen_rows(kept: Kept, chosen: bool) -> str:
    """Return SQL that restricts the rows of a table to those chosen, if they are to be."""
    return f" AND rowid IN (SELECT id FROM temp.{CHOSEN}_{kept.name})" if chosen else ""


def declared_types(db: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return the type of each column of an export's table, nothing for types SQLite has not."""
    rows = db.execute("SELECT name, UPPER(type) FROM pragma_table_info(?, ?)", (table, SOURCE))
    return {name: kind if kind in _TYPES else "" for name, kind in rows}


def _own(column: str, shown: str | None) -> str:
    text = f"CAST({quoted(column)} AS TEXT)"
    if shown:
        found = f"(SELECT shown FROM temp.{shown} WHERE written = CAST({quoted(column)} AS BLOB))"
        text = f"COALESCE({found}, {text})"
    return f"NULLIF({text}, '')"


def _chunks(last_row: int | None) -> Iterator[str]:
    """Yield conditions that part a table by row id; ids need not be dense, nor positive."""
    if last_row is None or last_row <= _CHUNK_ROWS:
        yield "1"
        return
    step = max(_CHUNK_ROWS, last_row // 256)
    edges = range(step, last_row, step)
    yield f"rowid <= {edges[0]}"
    for first, last in zip(edges, [*edges[1:], None], strict=True):
        yield f"rowid > {first}" + ("" if last is None else f" AND rowid <= {last}")
