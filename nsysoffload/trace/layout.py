"""Which table of an export is which of ours, and which columns hold what.

Found by tables and columns, never by a product's version.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, quoted, shown
from nsysoffload.trace.schema import ORIGINS, Origin
from nsysoffload.trace.tables import TraceWarning

__all__ = ["Layout", "layouts"]


@dataclass(frozen=True)
class Layout:
    """A table of ours in an export.

    ``columns`` maps our columns to the export's, ``strings`` our text columns to those that hold
    ids of StringIds for them, ``packed`` those of ours that are computed to their SQL. ``where`` is
    SQL that chooses its rows, ``last_row`` their largest rowid, None if they have none.
    """

    table: str
    columns: Mapping[str, str]
    strings: Mapping[str, tuple[str, ...]]
    packed: Mapping[str, str]
    where: str
    last_row: int | None

    def only(self, columns: Collection[str]) -> "Layout":
        """Return the layout without the other columns of ours."""
        return replace(
            self,
            columns={ours: theirs for ours, theirs in self.columns.items() if ours in columns},
            strings={ours: theirs for ours, theirs in self.strings.items() if ours in columns},
            packed={ours: sql for ours, sql in self.packed.items() if ours in columns},
        )

    def is_empty(self, export: Export) -> bool:
        """Tell whether the table has no row that counts, or none that can be read."""
        sql = f"SELECT 1 AS hit FROM {quoted(self.table)} WHERE {self.where} LIMIT 1"
        try:
            return len(export.read(sql)) == 0
        except TraceError:
            return True


def layouts(export: Export) -> tuple[dict[str, Layout], list[TraceWarning]]:
    """Find each table of `ORIGINS` by name, else by its columns.

    Returns
    -------
    layouts : dict of Layout
        By name of our table; what is not there, or lacks columns that it needs, is left out.
    warnings : list of TraceWarning
        Tables that were recognised by their columns, or cannot be used.
    """
    found: dict[str, Layout] = {}
    warnings: list[TraceWarning] = []
    for name, origin in ORIGINS.items():
        table, renamed = _table(export, origin)
        if table is None:
            continue
        entry, missing = _describe(export, origin, table)
        # Another name than usual may be private.
        which = f"A table that looks like {name}" if renamed else f"Table {shown(table)}"
        if missing:
            message = f"{which} lacks {', '.join(missing)}, so its rows cannot be used."
            warnings.append(TraceWarning("table_unusable", message))
            continue
        found[name] = entry
        if renamed:
            message = f"A table was recognised by its columns and read as {name}."
            warnings.append(TraceWarning("table_renamed", message))
    return found, warnings


def _table(export: Export, origin: Origin) -> tuple[str | None, bool]:
    """Return the export's table for an origin, and whether it bears another name than usual."""
    by_name = {table.lower(): table for table in export.columns}
    for usual in origin.tables:
        if usual.lower() in by_name:
            return by_name[usual.lower()], False
    usual_names = {table.lower() for other in ORIGINS.values() for table in other.tables}
    alike = [
        table
        for table, columns in export.columns.items()
        if _lower(origin.signature) <= _lower(columns)
        and not _lower(origin.foreign) & _lower(columns)
        and table.lower() not in usual_names
    ]
    return (alike[0], True) if len(alike) == 1 else (None, False)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _describe(export: Export, origin: Origin, table: str) -> tuple[Layout, list[str]]:
    """Match the columns of a table; return also the names of those it cannot do without."""
    present = {column.lower(): column for column in export.columns[table]}
    last_row = export.last_row(table)
    if last_row is not None:
        present.setdefault("rowid", "rowid")
    matches = {
        ours: next((present[name.lower()] for name in theirs if name.lower() in present), None)
        for ours, theirs in origin.columns.items()
    }
    missing = [origin.columns[ours][0] for ours in origin.required if matches[ours] is None]
    strings = {
        ours: tuple(present[name.lower()] for name in theirs if name.lower() in present)
        for ours, theirs in origin.strings.items()
    }
    where = " AND ".join(
        f"{quoted(present[column.lower()])} IN ({', '.join(str(int(v)) for v in values)})"
        for column, values in origin.where.items()
        if column.lower() in present
    )
    columns = {ours: column for ours, column in matches.items() if column is not None}
    if "text" in origin.strings and "text" in present:
        columns["text"] = present["text"]
    packed = {
        ours: _packed({present[name.lower()]: bits for name, bits in theirs.items()})
        for ours, theirs in origin.packed.items()
        if _lower(theirs) <= present.keys()
    }
    return Layout(table, columns, strings, packed, where or "1", last_row), sorted(missing)


def _packed(columns: Mapping[str, int]) -> str:
    return " + ".join(f"({quoted(name)} - 1 << {bits})" for name, bits in columns.items()) + " - 1"
