"""Texts of the copy: strings that its rows refer to, and the own texts of NVTX ranges."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from nsysoffload.private.names import Names
from nsysoffload.redaction.copying import chosen_rows
from nsysoffload.redaction.draft import SOURCE
from nsysoffload.redaction.kept import Kept
from nsysoffload.trace.export import quoted

__all__ = [
    "SHOWN",
    "PrivateRange",
    "copy_strings",
    "own_texts",
    "string_table",
    "taken_names",
]

SHOWN = "shown"
"""Temporary table ``(written, shown)``: what stands in the copy for a range's own text."""

_BATCH = 10_000


@dataclass(frozen=True)
class PrivateRange:
    """A text of NVTX ranges that looks private, without the text.

    ``kinds`` say what it seems to hold, ``length`` is in characters, ``ranges`` how many ranges
    have it, and ``place`` where its owner finds it in the export.
    """

    kinds: tuple[str, ...]
    length: int
    ranges: int
    place: str


def string_table(columns: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the export's table of strings, as the reader finds it."""
    table = {name.lower(): name for name in columns}.get("stringids")
    if table is None or not {"id", "value"} <= {column.lower() for column in columns[table]}:
        return None
    return table


def taken_names(db: sqlite3.Connection, strings: str | None, tables: list[Kept]) -> set[str]:
    """Return the texts of the export that could be mistaken for the new names of ranges."""
    places = [(kept.source, kept.own) for kept in tables if kept.own]
    places += [(strings, "value")] if strings else []
    return {
        str(text)
        for table, column in places
        for (text,) in db.execute(
            f"SELECT DISTINCT {quoted(column)} FROM {SOURCE}.{quoted(table)}"
            f" WHERE {quoted(column)} GLOB 'nvtx-[0-9]*'"
        )
    }


def own_texts(
    db: sqlite3.Connection, kept: Kept, names: Names, keep: bool, chosen: bool
) -> list[PrivateRange]:
    """Fill `SHOWN` with the private texts that ranges carry themselves, and list these.

    Parameters
    ----------
    db : Connection
        The draft, with the export attached.
    kept : Kept
        A table with a column for texts.
    names : Names
        Finds private parts.
    keep : bool
        List them only.
    chosen : bool
        Look only at the rows chosen.
    """
    db.execute(f"CREATE TEMP TABLE IF NOT EXISTS {SHOWN} (written BLOB PRIMARY KEY, shown TEXT)")
    row = "MIN(rowid)" if kept.last_row is not None else "NULL"
    rows = db.execute(
        f"SELECT CAST({quoted(str(kept.own))} AS BLOB) AS written, COUNT(*), {row}"
        f" FROM {SOURCE}.{quoted(kept.source)} WHERE {kept.where}{chosen_rows(kept, chosen)}"
        f" AND {quoted(str(kept.own))} IS NOT NULL GROUP BY 1 HAVING written != x''"
    )
    found = []
    for written, ranges, first in rows:
        text = written.decode(errors="replace")
        if private := _private(names, text, ranges, f"row {first}"):
            found.append(private)
            if not keep:
                db.execute(f"INSERT INTO temp.{SHOWN} VALUES (?, ?)", (written, names.whole(text)))
    return found


def copy_strings(
    db: sqlite3.Connection, table: str, tables: list[Kept], names: Names, keep: bool
) -> list[PrivateRange]:
    """Copy the strings that rows of the copy refer to, and list those of ranges that are private.

    Parameters
    ----------
    db : Connection
        The draft, with the tables of rows in it and the export attached.
    table : str
        The export's StringIds.
    tables : list of Kept
        What is in the draft.
    names : Names
        Finds private parts.
    keep : bool
        Whether the texts of ranges stay as they are.
    """
    _note_used(db, tables)
    db.execute("CREATE TABLE main.StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    rows = db.execute(
        "SELECT CAST(s.id AS INTEGER), CAST(s.value AS BLOB), u.named, u.ranges"
        f" FROM {SOURCE}.{quoted(table)} AS s CROSS JOIN temp.used AS u ON u.id = s.id"
        " WHERE s.value IS NOT NULL"
    )
    private: list[PrivateRange] = []
    db.execute("BEGIN")
    while batch := rows.fetchmany(_BATCH):
        shown = []
        for number, written, named, ranges in batch:
            text = written.decode(errors="replace")
            if ranges and (found := _private(names, text, ranges, f"string {number}")):
                private.append(found)
            shown.append((number, _shown(names, text, bool(named), keep)))
        # An id that occurs twice stands for the last string, as for the reader.
        db.executemany("INSERT OR REPLACE INTO main.StringIds VALUES (?, ?)", shown)
    db.execute("COMMIT")
    return private


def _shown(names: Names, text: str, is_name: bool, keep: bool) -> str:
    """Return what stands for a string; one that also names a kernel or call keeps its form."""
    if is_name:
        return names.part(text)
    return text if keep else names.whole(text)


def _private(names: Names, text: str, ranges: int, place: str) -> PrivateRange | None:
    kinds = tuple(sorted({kind for _, _, kind in names.spans(text)}))
    return PrivateRange(kinds, len(text), ranges, place) if kinds else None


def _note_used(db: sqlite3.Connection, tables: list[Kept]) -> None:
    """Note which ids rows refer to: as a name of a kernel or call, or as the text of ranges."""
    db.execute("CREATE TEMP TABLE used (id INTEGER PRIMARY KEY, named INTEGER, ranges INTEGER)")
    for kept in sorted(tables, key=lambda kept: kept.is_ranges):
        for column in map(quoted, kept.ids):
            one = "0, 1" if kept.is_ranges else "1, 0"
            db.execute(
                f"INSERT INTO temp.used SELECT {column}, {one} FROM main.{quoted(kept.name)}"
                f" WHERE {column} IS NOT NULL ON CONFLICT (id) DO "
                + ("UPDATE SET ranges = ranges + 1" if kept.is_ranges else "NOTHING")
            )
