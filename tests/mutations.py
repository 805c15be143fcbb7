"""Ways in which an export can be wrong: its tables, its cells, its schema, its bytes.

`mutated` is a function of the export's bytes and a seed, so that a failing seed can be tried again.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from random import Random
from typing import Any

__all__ = ["FAMILIES", "Mutation", "mutated", "relaxed"]

Mutation = Callable[[bytes, Random], tuple[bytes, str]]
"""Bytes and a source of chance -> other bytes, and what was done to them."""

Change = Callable[[sqlite3.Connection, Random], None]
Bytes = Callable[[bytearray, Random], bytes | bytearray]

_GPU_TABLES = tuple(
    f"CUPTI_ACTIVITY_KIND_{k}" for k in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
_SIDE_TABLES = (
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "StringIds",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "META_DATA_EXPORT",
    "META_DATA_CAPTURE",
)
_EDGES = (0, 1, -1, 2, 7, 1 << 24, 2**31 - 1, 2**32 - 1, 2**32, 1 << 48, 2**61, 2**62, 2**63 - 1)
_INTEGERS = (*_EDGES, *(-edge for edge in _EDGES), -(2**63))
_NO_UTF8 = b"\xff\xfegemm\xc3\x28\xed\xa0\x80"
_JUNK = (
    "",
    "abc",
    "--5",
    "12",
    "1e9",
    "9" * 40,
    "\x00\n\x1b[31m",
    b"",
    b"\xff\x00",
    1.5,
    -1e300,
    1e300,
)
_NAMES = (
    "",
    "</script><b>",
    "|`*_\n#",
    "\x1b[31m\u202e\x00",
    "n" * 70_000,
    "ncclDevKernel",
    "CUDA memcpy",
)


def relaxed(export: bytes) -> bytes:
    """Return an export whose columns have no constraints, so that any cell can hold anything."""
    with closing(_opened(export)) as old, closing(sqlite3.connect(":memory:")) as new:
        for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            rows = old.execute(f"SELECT * FROM {_quoted(name)}")
            columns = [_quoted(column[0]) for column in rows.description]
            new.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            new.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", rows)
        new.commit()
        return new.serialize()


def mutated(family: str, export: bytes, seed: int) -> tuple[bytes, str]:
    """Return the export after one to three changes of a family, and their names."""
    chance = Random(seed)
    done = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        change = chance.choice(FAMILIES[family])
        export, name = change(export, chance)
        done.append(name)
    return export, ", ".join(done)


def _opened(export: bytes) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.text_factory = lambda text: text.decode(errors="replace")
    db.deserialize(export)
    return db


def _by_sql(change: Change) -> Mutation:
    """Make a mutation of a change through SQL; what cannot be done stays as it is."""

    def apply(export: bytes, chance: Random) -> tuple[bytes, str]:
        with closing(_opened(export)) as db:
            db.create_function("chance", 0, chance.random)
            with suppress(sqlite3.Error, UnicodeDecodeError, IndexError):
                change(db, chance)
            return db.serialize(), change.__name__

    return apply


def _of_bytes(change: Bytes) -> Mutation:
    """Make a mutation of a change to the bytes."""

    def apply(export: bytes, chance: Random) -> tuple[bytes, str]:
        return bytes(change(bytearray(export), chance)) if export else b"", change.__name__

    return apply


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({_quoted(table)})")]


def _table(db: sqlite3.Connection, chance: Random) -> str:
    """Return the name of a table, of one with figures most of the time."""
    present = _tables(db)
    wanted = chance.choice((_GPU_TABLES, _GPU_TABLES, _SIDE_TABLES, tuple(present)))
    return chance.choice([name for name in wanted if name in present] or present)


def _column(db: sqlite3.Connection, chance: Random, table: str) -> str:
    return chance.choice(_columns(db, table))


def _set(
    db: sqlite3.Connection, chance: Random, table: str, column: str, values: Sequence[Any]
) -> None:
    """Set one, some or all cells of a column to values by chance."""
    db.create_function("value", 0, lambda: chance.choice(values))
    share = chance.choice((0.01, 0.2, 0.9, 1.0))
    name = _quoted(column)
    db.execute(f"UPDATE {_quoted(table)} SET {name} = value() WHERE chance() < {share}")


def _set_one_of(
    db: sqlite3.Connection, chance: Random, columns: Sequence[str], values: Sequence[Any]
) -> None:
    """Do as `_set` in a GPU table that has one of the columns, if any has."""
    present = [(t, c) for t in _GPU_TABLES for c in _columns(db, t) if c in columns]
    if present:
        _set(db, chance, *chance.choice(present), values)


# --- Tables and columns ---


def drop_table(db: sqlite3.Connection, chance: Random) -> None:
    db.execute(f"DROP TABLE {_quoted(_table(db, chance))}")


def empty_table(db: sqlite3.Connection, chance: Random) -> None:
    db.execute(f"DELETE FROM {_quoted(_table(db, chance))}")


def rename_table(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    name = chance.choice(
        (table.lower() + "x", "MY_" + table, "ta ble\"'\n\x1b[31m", "€", chance.choice(_tables(db)))
    )
    db.execute(f"ALTER TABLE {_quoted(table)} RENAME TO {_quoted(name)}")


def change_case(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    column = _column(db, chance, table)
    db.execute(
        f"ALTER TABLE {_quoted(table)} RENAME COLUMN {_quoted(column)} TO {_quoted(column.upper())}"
    )
    db.execute(f"ALTER TABLE {_quoted(table)} RENAME TO tmp")
    db.execute(f"ALTER TABLE tmp RENAME TO {_quoted(table.lower())}")


def drop_column(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    db.execute(f"ALTER TABLE {_quoted(table)} DROP COLUMN {_quoted(_column(db, chance, table))}")


def rename_column(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    column = _column(db, chance, table)
    name = chance.choice((column + "2", "rowid", "text", "name", "end", 'qu"ote', "€"))
    db.execute(f"ALTER TABLE {_quoted(table)} RENAME COLUMN {_quoted(column)} TO {_quoted(name)}")


def add_column(db: sqlite3.Connection, chance: Random) -> None:
    kind = chance.choice(("TEXT DEFAULT 'x'", "REAL", "AS (1 / 0) VIRTUAL", "BLOB DEFAULT x'ff'"))
    name = chance.choice(("extra", "rowid", "text", "graphNodeId2", "name"))
    db.execute(f"ALTER TABLE {_quoted(_table(db, chance))} ADD COLUMN {_quoted(name)} {kind}")


def repeat_rows(db: sqlite3.Connection, chance: Random) -> None:
    table = _quoted(_table(db, chance))
    for _ in range(chance.choice((1, 1, 4))):
        db.execute(f"INSERT INTO {table} SELECT * FROM {table}")


def as_view(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    source = chance.choice(
        (_quoted(table + "_"), f"{_quoted(table + '_')} WHERE 0", "gone", _quoted(table))
    )
    db.execute(f"ALTER TABLE {_quoted(table)} RENAME TO {_quoted(table + '_')}")
    db.execute(f"CREATE VIEW {_quoted(table)} AS SELECT * FROM {source}")


def view_without_end(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    columns = ", ".join(f"n AS {_quoted(column)}" for column in _columns(db, table))
    db.execute(f"DROP TABLE {_quoted(table)}")
    db.execute(
        f"CREATE VIEW {_quoted(table)} AS"
        f" WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT {columns} FROM s"
    )


def without_rowid(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    columns = ", ".join(map(_quoted, _columns(db, table)))
    db.execute(f"ALTER TABLE {_quoted(table)} RENAME TO tmp")
    db.execute(f"CREATE TABLE {_quoted(table)} ({columns}, PRIMARY KEY ({columns})) WITHOUT ROWID")
    db.execute(f"INSERT OR IGNORE INTO {_quoted(table)} SELECT * FROM tmp")
    db.execute("DROP TABLE tmp")


def strange_rowids(db: sqlite3.Connection, chance: Random) -> None:
    expression = chance.choice(
        (
            "-rowid",
            "rowid - 9223372036854775807",
            "rowid * 1000000000000",
            "9223372036854775807 - rowid",
        )
    )
    db.execute(f"UPDATE {_quoted(_table(db, chance))} SET rowid = {expression}")


def many_tables(db: sqlite3.Connection, chance: Random) -> None:
    columns = ", ".join(f"c{n}" for n in range(chance.choice((1, 100))))
    db.execute("BEGIN")
    for number in range(chance.choice((10, 50))):
        db.execute(f"CREATE TABLE t{number} ({columns})")
    db.execute("COMMIT")


def twin_tables(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    db.execute(f"CREATE TABLE {_quoted(table + '_old')} AS SELECT * FROM {_quoted(table)}")
    if chance.random() < 0.5:
        db.execute(f"DROP TABLE {_quoted(table)}")


# --- Cells ---


def null_cells(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    _set(db, chance, table, _column(db, chance, table), (None,))


def junk_cells(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    _set(db, chance, table, _column(db, chance, table), (*_JUNK, None, 3))


def edge_cells(db: sqlite3.Connection, chance: Random) -> None:
    table = _table(db, chance)
    _set(db, chance, table, _column(db, chance, table), _INTEGERS)


def edge_times(db: sqlite3.Connection, chance: Random) -> None:
    _set_one_of(
        db, chance, ("start", "end"), chance.choice((_INTEGERS, (0,), (2**61,), (-(10**18),)))
    )


def shifted_times(db: sqlite3.Connection, chance: Random) -> None:
    shift = chance.choice((1, -1)) * 10 ** chance.randrange(19)
    columns = chance.choice((("start",), ("end",), ("start", "end")))
    assignments = ", ".join(f"{name} = {name} + {shift}" for name in columns)
    share = chance.choice((0.1, 0.9, 1.0))
    db.execute(f"UPDATE {_quoted(_table(db, chance))} SET {assignments} WHERE chance() < {share}")


def related_times(db: sqlite3.Connection, chance: Random) -> None:
    table = _quoted(chance.choice(_GPU_TABLES))
    change = chance.choice(
        (
            "start = end, end = start",
            "end = start",
            "start = 0, end = 0",
            f"start = (SELECT MIN(start) FROM {table}), end = (SELECT MAX(end) FROM {table})",
            "end = start + 1000000000000",
            "start = start - start % 1000000, end = end - end % 1000000",
        )
    )
    db.execute(f"UPDATE {table} SET {change} WHERE chance() < {chance.choice((0.1, 0.9, 1.0))}")


def random_ids(db: sqlite3.Connection, chance: Random) -> None:
    columns = ("deviceId", "globalPid", "streamId", "contextId", "correlationId", "graphNodeId")
    few = tuple(chance.randrange(4) for _ in range(3))
    any_ = tuple(chance.randrange(-(2**63), 2**63) for _ in range(40))
    many = tuple(chance.randrange(2**24) for _ in range(300))
    _set_one_of(db, chance, columns, chance.choice((few, any_, many, _INTEGERS)))


def distinct_ids(db: sqlite3.Connection, chance: Random) -> None:
    """Give every row an id of its own: as many devices, processes, streams or names as rows."""
    table = _quoted(chance.choice(_GPU_TABLES))
    columns = ("deviceId", "globalPid", "streamId", "contextId", "demangledName")
    column, factor = chance.choice(columns), chance.choice((1, 1 << 24))
    end = chance.choice(("end", "end + 1"))
    db.execute(f"UPDATE {table} SET {column} = {factor} * rowid, end = {end}")


def kinds_out_of_range(db: sqlite3.Connection, chance: Random) -> None:
    _set_one_of(db, chance, ("copyKind", "srcKind", "dstKind"), (*range(-3, 20), 2**62, None))


def sizes(db: sqlite3.Connection, chance: Random) -> None:
    _set_one_of(db, chance, ("bytes",), chance.choice((_INTEGERS, (0,), (2**62,), (-1,), (-5, 1))))


def calls(db: sqlite3.Connection, chance: Random) -> None:
    columns = ("start", "end", "correlationId", "globalTid", "nameId", "eventClass")
    values = chance.choice((_INTEGERS, (None,), (0,), (1, 2)))
    _set(db, chance, "CUPTI_ACTIVITY_KIND_RUNTIME", chance.choice(columns), values)


def strings(db: sqlite3.Connection, chance: Random) -> None:
    db.execute(f"DELETE FROM StringIds WHERE chance() < {chance.choice((0, 0.3, 1))}")
    _set(db, chance, "StringIds", chance.choice(("id", "value")), (*_NAMES, _NO_UTF8, None, 1, 2))
    if chance.random() < 0.5:
        db.execute(
            f"UPDATE StringIds SET value = CAST(x'{_NO_UTF8.hex()}' AS TEXT) WHERE chance() < 0.5"
        )


def gpu_descriptions(db: sqlite3.Connection, chance: Random) -> None:
    table = chance.choice(("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"))
    for _ in range(chance.choice((1, 3, 10))):
        _set(db, chance, table, _column(db, chance, table), (*_JUNK, *_NAMES, *_INTEGERS, None))


# --- Schema ---


def rewrite_schema(db: sqlite3.Connection, chance: Random) -> None:
    db.execute("PRAGMA writable_schema = ON")
    change = chance.choice(
        (
            "sql = 'CREATE TABLE'",
            "sql = NULL",
            "sql = 'CREATE VIEW x AS SELECT * FROM x'",
            "sql = replace(sql, 'TABLE', 'VIEW')",
            "sql = replace(sql, ',', '')",
            "sql = CAST(x'ff00fe' AS TEXT)",
            "sql = replace(sql, '(', '(' || char(0))",
            "sql = 'CREATE TABLE ' || name || '(a PRIMARY KEY) WITHOUT ROWID'",
            "sql = 'CREATE VIRTUAL TABLE ' || name || ' USING nothing(a)'",
            "sql = 'CREATE VIRTUAL TABLE ' || name || ' USING fts5(a)', rootpage = 0",
            "sql = sql || '; DROP TABLE x'",
            "name = CAST(x'ff28' AS TEXT)",
            "name = ''",
            "name = 'sqlite_master'",
            "tbl_name = 'other'",
            "type = 'view'",
            "type = 'nothing'",
            "type = 'index'",
            f"rootpage = {chance.choice((0, 1, 2, -1, 5, 10**6, 2**31, 2**40))}",
            "rootpage = (SELECT rootpage FROM sqlite_master ORDER BY chance() LIMIT 1)",
        )
    )
    which = chance.choice((f"name = '{_table(db, chance)}'", "chance() < 0.3", "1"))
    db.execute(f"UPDATE sqlite_master SET {change} WHERE {which}")


def cyclic_views(db: sqlite3.Connection, chance: Random) -> None:
    table = _quoted(_table(db, chance))
    db.execute(f"DROP TABLE {table}")
    db.execute(f"CREATE VIEW {table} AS SELECT * FROM other")
    db.execute(f"CREATE VIEW other AS SELECT * FROM {table}")


def page_size(db: sqlite3.Connection, chance: Random) -> None:
    db.execute(f"PRAGMA page_size = {chance.choice((512, 1024, 8192, 65536))}")
    db.execute(f"PRAGMA auto_vacuum = {chance.choice((0, 1, 2))}")
    db.execute("VACUUM")


def encoding(db: sqlite3.Connection, chance: Random) -> None:
    """Write the database anew as UTF-16."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        new.execute(f"PRAGMA encoding = '{chance.choice(('UTF-16le', 'UTF-16be'))}'")
        for line in db.iterdump():
            new.execute(line)
        export = new.serialize()
    db.deserialize(export)


# --- Bytes ---


def truncate(data: bytearray, chance: Random) -> bytes | bytearray:
    return data[
        : chance.choice(
            (chance.randrange(len(data)), chance.randrange(200), len(data) // 512 // 2 * 512)
        )
    ]


def flip_bits(data: bytearray, chance: Random) -> bytes | bytearray:
    for _ in range(chance.choice((1, 5, 50, 1000))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def random_range(data: bytearray, chance: Random) -> bytes | bytearray:
    start, length = chance.randrange(len(data)), chance.choice((1, 4, 64, 4096))
    data[start : start + length] = chance.randbytes(len(data[start : start + length]))
    return data


def random_header(data: bytearray, chance: Random) -> bytes | bytearray:
    for _ in range(chance.choice((1, 1, 4))):
        at, value = chance.randrange(16, 100), chance.choice((0, 1, 2, 255, chance.randrange(256)))
        data[at : at + 1] = bytes([value])
    return data


def header_page_size(data: bytearray, chance: Random) -> bytes | bytearray:
    data[16:18] = chance.choice((0, 1, 256, 512, 1024, 3000, 4096, 8192, 32768, 65535)).to_bytes(2)
    data[20:21] = bytes([chance.choice((0, 0, 8, 255))])
    return data


def random_in_page_heads(data: bytearray, chance: Random) -> bytes | bytearray:
    """Change page types, cell counts and pointers, where the structure of the file is."""
    for _ in range(chance.choice((1, 3, 20))):
        page = chance.randrange(max(1, len(data) // 4096)) * 4096
        data[min(page + chance.randrange(64), len(data) - 1)] = chance.choice(
            (0, 2, 5, 10, 13, 255)
        )
    return data


def copy_page(data: bytearray, chance: Random) -> bytes | bytearray:
    """Put one page in the place of others, so that the tree of pages may have cycles."""
    pages = max(2, len(data) // 4096)
    for _ in range(chance.choice((1, 2, 10))):
        source, target = chance.randrange(pages) * 4096, chance.randrange(1, pages) * 4096
        data[target : target + 4096] = data[source : source + 4096]
    return data


def zero_pages(data: bytearray, chance: Random) -> bytes | bytearray:
    start = chance.randrange(len(data))
    size = min(chance.choice((100, 4096, 40960)), len(data) - start)
    data[start : start + size] = bytes(size)
    return data


def insert_bytes(data: bytearray, chance: Random) -> bytes | bytearray:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.choice((1, 100, 4096))) + data[at:]


def append_bytes(data: bytearray, chance: Random) -> bytes | bytearray:
    return data + chance.choice((bytes(5000), bytes(data), chance.randbytes(4096)))


FAMILIES: dict[str, tuple[Mutation, ...]] = {
    "tables": tuple(
        map(
            _by_sql,
            (
                drop_table,
                empty_table,
                rename_table,
                change_case,
                drop_column,
                rename_column,
                add_column,
                repeat_rows,
                as_view,
                view_without_end,
                without_rowid,
                strange_rowids,
                many_tables,
                twin_tables,
            ),
        )
    ),
    "cells": tuple(
        map(
            _by_sql,
            (
                null_cells,
                junk_cells,
                edge_cells,
                edge_times,
                shifted_times,
                related_times,
                random_ids,
                distinct_ids,
                kinds_out_of_range,
                sizes,
                calls,
                strings,
                gpu_descriptions,
            ),
        )
    ),
    "schema": (*map(_by_sql, (rewrite_schema, rewrite_schema, cyclic_views, page_size, encoding)),),
    "bytes": tuple(
        map(
            _of_bytes,
            (
                truncate,
                flip_bits,
                random_range,
                random_header,
                header_page_size,
                random_in_page_heads,
                copy_page,
                zero_pages,
                insert_bytes,
                append_bytes,
            ),
        )
    ),
}
"""Mutations by what they change."""
