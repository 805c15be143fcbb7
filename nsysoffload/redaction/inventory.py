"""What of an export is not in its copy, by kind and count, and which of it says anything.

Numbers in tables and columns that every export has say nothing of anyone. All else that is left out
might: texts, whatever stands under unknown names, and rows that were deleted and are still there.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.redaction.about import DIAGNOSTICS, GPU_TABLES, METADATA, gpu_columns
from nsysoffload.redaction.draft import SOURCE
from nsysoffload.redaction.kept import Kept
from nsysoffload.redaction.texts import string_table
from nsysoffload.trace.ddl import ENUMS, TABLES
from nsysoffload.trace.export import quoted

__all__ = ["Removed", "inventory"]

_KINDS = {
    "environment and settings of the machine": ("TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_PROCESS"),
    "names of processes": ("PROCESSES",),
    "names of threads": ("ThreadNames",),
    "files and their contents": (
        "ProcessStreams",
        "OSRT_FILE_ACCESS_EVENTS",
        "OSRT_FILE_ACCESS_DESCRIPTORS",
        "ANALYSIS_FILE",
    ),
    "calls of the operating system": ("OSRT_API", "SCHED_EVENTS"),
}
_KIND_OF = {table: kind for kind, tables in _KINDS.items() for table in tables}
_SQLITES_OWN = ("sqlite_schema", "sqlite_master")
_NOTHING = "('', '[]')"  # texts of columns that have a text in every row
_NUMBERS = "numbers that no measure needs (columns)"


@dataclass(frozen=True)
class Removed:
    """How many of a kind are not in the copy; ``leaks`` unless they say nothing of anyone."""

    kind: str
    count: int
    leaks: bool = True


def inventory(
    db: sqlite3.Connection,
    export: Path,
    columns: Mapping[str, tuple[str, ...]],
    tables: Collection[Kept],
) -> list[Removed]:
    """Compare the export with the draft.

    Parameters
    ----------
    db : Connection
        The finished draft, with the export attached.
    export : Path
        The export.
    columns : mapping of tuple of str
        The export's tables and their columns.
    tables : collection of Kept
        Its tables of rows that are kept.
    """
    counts: Counter[tuple[str, bool]] = Counter()
    for kind, count, leaks in (
        *_tables(db, columns, tables),
        *_columns(db, columns, tables),
        *_cells(db, tables),
        *_rows(db, columns, tables),
        *_schema(db),
        *_pages(db, export),
    ):
        counts[kind, leaks] += count
    return [Removed(kind, count, leaks) for (kind, leaks), count in counts.items() if count]


Found = Iterator[tuple[str, int, bool]]


def _tables(
    db: sqlite3.Connection, columns: Mapping[str, tuple[str, ...]], tables: Collection[Kept]
) -> Found:
    """Yield tables that are left out: some by their rows, others as tables."""
    kept = {t.source for t in tables} | {*GPU_TABLES, *METADATA, DIAGNOSTICS, *_SQLITES_OWN}
    for table in columns.keys() - kept - {string_table(columns)}:
        names = columns[table]
        if _numbers_only(db, table, names) or _is_enumeration(db, table, names):
            yield _NUMBERS, len(names), False
        elif table in _KIND_OF:
            yield _KIND_OF[table], _count(db, table), True
        else:
            yield "other tables", 1, True


def _columns(
    db: sqlite3.Connection, columns: Mapping[str, tuple[str, ...]], tables: Collection[Kept]
) -> Found:
    """Yield columns that are left out of tables that are kept."""
    kept: dict[str, Iterable[str]] = {t.source: t.columns for t in tables}
    kept |= {table: gpu_columns(columns.get(table, ())) for table in GPU_TABLES}
    kept |= dict.fromkeys(METADATA, ("name", "value")) | {DIAGNOSTICS: ("text",)}
    for table, names in kept.items():
        other = [name for name in columns.get(table, ()) if name not in names]
        told = _numbers_only(db, table, other) if other else True
        yield (_NUMBERS, len(other), False) if told else ("other columns", len(other), True)


def _cells(db: sqlite3.Connection, tables: Iterable[Kept]) -> Found:
    for kept in tables:
        wrong = " OR ".join(map(_is_text, kept.numbers))
        yield "rows with texts where numbers belong", _count(db, kept.source, wrong), True


def _rows(
    db: sqlite3.Connection, columns: Mapping[str, tuple[str, ...]], tables: Iterable[Kept]
) -> Found:
    """Yield rows that are left out of tables that are kept."""
    for kept in tables:
        if kept.where != "1":
            kind = "NVTX marks, domains and names of threads" if kept.is_ranges else "other calls"
            yield kind, _count(db, kept.source, f"NOT ({kept.where})"), kept.is_ranges
    kinds = dict.fromkeys(METADATA, "settings of capture and export")
    kinds[DIAGNOSTICS] = "messages of the profiler"
    if strings := string_table(columns):
        kinds[strings] = "strings that no row of the copy refers to"
    for table, kind in kinds.items():
        if table in columns:
            yield kind, _count(db, table) - _copied(db, table), True


def _schema(db: sqlite3.Connection) -> Found:
    is_virtual = "sql LIKE 'CREATE VIRTUAL%'"
    tells = " OR ".join(f"instr(sql, {mark}) > 0" for mark in ("''''", "'--'", "'/*'"))
    for kind, which in (
        ("views, triggers and indexes", f"type != 'table' OR {is_virtual}"),
        ("texts in definitions of tables", f"type = 'table' AND ({tells})"),
    ):
        yield kind, _count(db, "sqlite_master", f"sql IS NOT NULL AND ({which})"), True


def _pages(db: sqlite3.Connection, export: Path) -> Found:
    """Yield pages that no table has, in which deleted rows may still stand."""
    size, pages, free = (
        db.execute(f"PRAGMA {SOURCE}.{what}").fetchone()[0]
        for what in ("page_size", "page_count", "freelist_count")
    )
    behind = max(0, export.stat().st_size // size - pages)
    yield "pages that are not in use", free + behind, True


# --- Cells ---


def _count(db: sqlite3.Connection, table: str, where: str = "1", schema: str = SOURCE) -> int:
    sql = f"SELECT COUNT(*) FROM {schema}.{quoted(table)} WHERE {where}"
    return int(db.execute(sql).fetchone()[0])


def _copied(db: sqlite3.Connection, table: str) -> int:
    """Return how many rows the copy has of a table, which it need not have."""
    names = "SELECT 1 FROM main.sqlite_master WHERE name = ? COLLATE NOCASE"
    return _count(db, table, schema="main") if db.execute(names, (table,)).fetchone() else 0


def _numbers_only(db: sqlite3.Connection, table: str, names: Iterable[str]) -> bool:
    """Tell whether columns are known ones, by their names, and hold no word."""
    known = {column.split()[0] for column in TABLES.get(table, ())}
    if not known.issuperset(names):
        return False
    told = " OR ".join(f"({_is_text(c)} AND {quoted(c)} NOT IN {_NOTHING})" for c in names)
    sql = f"SELECT 1 FROM {SOURCE}.{quoted(table)} WHERE {told} LIMIT 1"
    return db.execute(sql).fetchone() is None


def _is_text(column: str) -> str:
    """Return SQL that is true for texts and blobs: numbers sort before both."""
    return f"{quoted(column)} >= ''"


def _is_enumeration(db: sqlite3.Connection, table: str, names: tuple[str, ...]) -> bool:
    """Tell whether a table says what numbers mean, as every export does."""
    if names != ("id", "name", "label"):
        return False
    rows = db.execute(f"SELECT id, name, label FROM {SOURCE}.{quoted(table)} LIMIT 100")
    return set(rows) <= set(ENUMS.get(table, ()))
