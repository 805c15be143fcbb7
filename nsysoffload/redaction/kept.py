"""Which tables and columns a copy has: those that the reader reads, as it reads them.

All else is left out, so nothing has to be known of what an export may hold. Cells of number columns
become the numbers that the reader would make of them: a text in such a column is gone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nsysoffload.trace.export import quoted
from nsysoffload.trace.layout import Layout
from nsysoffload.trace.schema import ORIGINS, Origin

__all__ = ["Kept", "kept_tables"]

_TIMESTAMP = "timestamp"  # of CUDA events: whether there is one says how they were traced
_LAST_CHOICE = "mangledName"  # a name without word boundaries, in which no private word is found


@dataclass(frozen=True)
class Kept:
    """A table of the copy, and where it comes from.

    Attributes
    ----------
    ours, name, source : str
        The table by our name, in the copy, and in the export.
    numbers : dict of str
        SQL of each number column, by name in the export.
    ids : tuple of str
        Number columns that hold ids of StringIds.
    own : str or None
        Column that holds the row's own text.
    where : str
        SQL that chooses the rows that count.
    last_row : int or None
        Largest rowid, None if the table has no rowids.
    """

    ours: str
    name: str
    source: str
    numbers: Mapping[str, str]
    ids: tuple[str, ...]
    own: str | None
    where: str
    last_row: int | None

    @property
    def is_ranges(self) -> bool:
        """Whether its texts are those of NVTX ranges."""
        return self.ours == "nvtx_ranges"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (*self.numbers, *([self.own] if self.own else []))


def kept_tables(found: Mapping[str, Layout], columns: Mapping[str, tuple[str, ...]]) -> list[Kept]:
    """Say what is kept of an export's tables.

    Parameters
    ----------
    found : mapping of Layout
        The tables that the reader knows, by our names.
    columns : mapping of tuple of str
        All columns of each table of the export.
    """
    return [
        _kept(ours, ORIGINS[ours], layout, columns[layout.table]) for ours, layout in found.items()
    ]


def _kept(ours: str, origin: Origin, layout: Layout, present: tuple[str, ...]) -> Kept:
    usual = {name.lower() for name in origin.tables}
    by_name = {column.lower(): column for column in present}
    ids = tuple(column for columns in layout.strings.values() for column in columns)
    own = layout.columns.get("text") if "text" in origin.strings else None
    plain = {*layout.columns.values(), *_there(by_name, (*origin.where, _TIMESTAMP))} - {own}
    packed = _there(by_name, [c for cell in layout.packed for c in origin.packed[cell]])
    numbers = {
        **{column: f"CAST({quoted(column)} AS INTEGER)" for column in plain},
        **{column: f"CAST({quoted(column)} AS NUMERIC)" for column in packed},  # as it is reckoned
        **{column: _id(column, ids, own) for column in ids},
    }
    return Kept(
        ours=ours,
        name=layout.table if layout.table.lower() in usual else origin.tables[0],
        source=layout.table,
        numbers={column: numbers[column] for column in present if column in numbers},
        ids=tuple(column for column in present if column in ids),
        own=own,
        where=layout.where,
        last_row=layout.last_row,
    )


def _there(by_name: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
    names = [name.lower() for name in wanted]
    return [by_name[name] for name in names if name in by_name]


def _id(column: str, ids: tuple[str, ...], own: str | None) -> str:
    """Return the SQL of a string's id; none where the row is named without it."""
    cell = f"CAST({quoted(column)} AS INTEGER)"
    better = [quoted(other) for other in ids if other != column]
    if own:
        return f"CASE WHEN COALESCE(CAST({quoted(own)} AS BLOB), x'') = x'' THEN {cell} END"
    if column.lower() == _LAST_CHOICE.lower() and better:
        return f"CASE WHEN COALESCE({', '.join([*better, 'NULL'])}) IS NULL THEN {cell} END"
    return cell
