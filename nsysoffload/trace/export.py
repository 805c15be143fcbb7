"""An SQLite export of Nsight Systems, opened so that it cannot change.

Reading goes through ADBC, which hands rows over as Arrow columns and lets go of the interpreter
lock meanwhile, so that several tables, and parts of a large one, are read at the same time.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from nsysoffload.errors import TraceError

__all__ = ["Export", "damaged", "quoted", "shown"]

BATCH_ROWS = 65_536
_NOISE = re.compile(r" '?file:[^' ]*'?|^.*\[SQLite\] (Failed to [^:]*: )?|\s+query: .*", re.DOTALL)
"""What an error says beside its reason: the file with its folder, the driver, our query."""
_READING_ERRORS = (adbc.Error, pa.ArrowException, OSError, UnicodeDecodeError)


def damaged(path: Path, reason: object = "") -> TraceError:
    """Return the error for an export that SQLite cannot read to the end."""
    detail = shown(_NOISE.sub("", str(reason))) or "unreadable"
    return TraceError(
        f"{path.name} is damaged ({detail}); export it again from the .nsys-rep file."
    )


def shown(text: str) -> str:
    """Text from a file as it can stand in a sentence: short, printable and on one line."""
    words = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in words)[:160]


@dataclass(frozen=True)
class Export:
    """A readable export and its tables: ``columns[table]`` lists column names.

    ``views`` are not among them: what they would run is the file's and may never end.
    """

    path: Path
    columns: dict[str, tuple[str, ...]]
    views: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: Path) -> "Export":
        """List the tables of the file.

        Raises
        ------
        TraceError
            If the file is not a readable SQLite database.
        """
        # What SQLite made of the schema, which may differ from what sqlite_master says.
        sql = (
            "SELECT CAST(t.name AS BLOB) AS t, CAST(c.name AS BLOB) AS c"
            " FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
            " WHERE t.schema = 'main' AND t.type = 'table' ORDER BY t.name, c.cid"
        )
        columns: dict[str, list[str]] = {}
        for row in cls(path, {}).read(sql).to_pylist():
            table, column = (row[key].decode(errors="replace") for key in "tc")
            columns.setdefault(table, []).append(column)
        sql = (
            "SELECT CAST(name AS BLOB) AS t FROM pragma_table_list"
            " WHERE schema = 'main' AND type IN ('view', 'virtual') ORDER BY name"
        )
        views = [row["t"].decode(errors="replace") for row in cls(path, {}).read(sql).to_pylist()]
        return cls(path, {table: tuple(names) for table, names in columns.items()}, tuple(views))

    def read(self, sql: str) -> pa.Table:
        """Run a query and return its rows as Arrow columns.

        Raises
        ------
        TraceError
            If SQLite cannot carry it out.
        """
        try:
            with (
                self._connect() as connection,
                connection.cursor(
                    adbc_stmt_kwargs={"adbc.sqlite.query.batch_rows": BATCH_ROWS}
                ) as cursor,
            ):
                cursor.execute(sql)
                return cursor.fetch_arrow_table()
        except _READING_ERRORS as error:
            raise damaged(self.path, error) from error

    @contextmanager
    def _connect(self) -> Iterator[adbc.Connection]:
        # `immutable` also keeps SQLite from looking for, or making, -wal and -shm files.
        uri = f"file:{quote(os.fsencode(self.path.resolve()))}?mode=ro&immutable=1"
        with adbc.connect(uri) as connection:
            yield connection

    def last_row(self, table: str) -> int | None:
        """Return the largest rowid of a table, 0 if it is empty, None if it has no rowids."""
        if "rowid" in (column.lower() for column in self.columns[table]):
            return None  # the name means that column
        try:
            rows = self.read(f"SELECT MAX(rowid) AS last FROM {quoted(table)}")
        except TraceError:
            return None
        return int(rows["last"][0].as_py() or 0)


def quoted(name: str) -> str:
    """Quote a table or column name for SQL."""
    return '"' + name.replace('"', '""') + '"'
