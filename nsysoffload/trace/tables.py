"""A trace as typed tables: the columns, dtypes and units that every later stage relies on.

A `Table` is written once and used to check, to document, to read, to write and to build traces.
`Trace` is what a reader returns and a writer takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from nsysoffload.errors import TraceError
from nsysoffload.trace.prediction import Prediction

__all__ = [
    "COPIES_AS_KERNELS",
    "CALLS",
    "COPIES",
    "EVENTS",
    "GPUS",
    "GRAPH_SPANS",
    "KERNELS",
    "MEMSETS",
    "NO_TIME",
    "NVTX_RANGES",
    "SYNCS",
    "TABLES",
    "UNSET",
    "Column",
    "Source",
    "Table",
    "Trace",
    "TraceWarning",
]

UNSET = -1
"""What an integer cell holds where the export has no value: NULL, or no such column."""


NO_TIME = -(2**63)
"""What a time holds where the export has none; such a row is not believed."""


COPIES_AS_KERNELS = "copies_as_kernels"
"""Code of the warning that copies are among the kernels, without a direction."""


@dataclass(frozen=True)
class Column:
    """One column: its dtype, unit and meaning. ``category`` holds text, the rest is numeric."""

    name: str
    dtype: str
    unit: str
    meaning: str

    def empty(self) -> pd.Series:
        """Return the column without rows."""
        if self.dtype == "category":
            return pd.Series(pd.Categorical([], categories=pd.Index([], dtype=object)))
        return pd.Series([], dtype=self.dtype)


@dataclass(frozen=True)
class Table:
    """A named set of columns."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    def empty(self) -> pd.DataFrame:
        """Return the table without rows."""
        return pd.DataFrame({column.name: column.empty() for column in self.columns})

    def conform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Select, order and cast the columns of `frame`; further columns are left out.

        Raises
        ------
        TraceError
            If a column is missing; the message names all that are.
        """
        missing = [name for name in self.names if name not in frame]
        if missing:
            raise TraceError(f"Table {self.name} lacks {', '.join(missing)}; add these columns.")
        return frame[self.names].astype({c.name: c.dtype for c in self.columns})


def _table(name: str, meaning: str, *columns: tuple[str, str, str, str]) -> Table:
    return Table(name, meaning, tuple(Column(*column) for column in columns))


_WHERE = (
    ("process", "int64", "", "hardware, VM and process bits of globalPid (globalPid >> 24)"),
    ("ordinal", "int64", "", "CUDA ordinal within the process (deviceId)"),
    ("device", "int64", "", "row number in `Trace.gpus`"),
    ("context", "int64", "", "CUDA context id"),
    ("stream", "int64", "", "CUDA stream id, unique within process and context"),
    ("correlation", "int64", "", "correlation id of the API call, unique within the process"),
)
_WHEN = (
    ("start_ns", "int64", "ns", "start; clock of the trace"),
    ("end_ns", "int64", "ns", "end"),
)

GPUS = _table(
    "gpus",
    "one GPU that has rows, ordered by ordinal, then pid",
    ("id", "str", "", "uuid where known, else 'pid:ordinal'"),
    ("ordinal", "int64", "", "deviceId of its rows, of the lowest pid where several share it"),
    ("pid", "int64", "", "operating-system id of that process; UNSET if the rows carry none"),
    ("name", "object", "", "product name or None"),
    ("uuid", "object", "", "GPU uuid or None"),
    ("copy_engines", "int64", "", "asynchronous copy engines as reported, UNSET if not"),
)
KERNELS = _table(
    "kernels",
    "one kernel execution (CUPTI_ACTIVITY_KIND_KERNEL)",
    *_WHERE,
    *_WHEN,
    ("name", "category", "", "demangled name, else short or mangled name"),
    ("shape", "int64", "", "equal for equal grid and block, see `nsysoffload.trace.shapes`"),
    ("graph_node", "int64", "", "graph node id, UNSET outside CUDA graphs"),
)
COPIES = _table(
    "copies",
    "one memory copy or unified-memory migration (CUPTI_ACTIVITY_KIND_MEMCPY)",
    *_WHERE,
    *_WHEN,
    ("size_bytes", "int64", "bytes", "payload, UNSET if not recorded"),
    ("copy_kind", "int64", "", "schema.CopyKind"),
    ("source_kind", "int64", "", "schema.MemKind of the source, UNSET if not recorded"),
    ("target_kind", "int64", "", "schema.MemKind of the target, UNSET if not recorded"),
    ("graph_node", "int64", "", "graph node id, UNSET outside CUDA graphs"),
    ("row_id", "int64", "", "rowid of the row in the export, for evidence"),
)
MEMSETS = _table(
    "memsets",
    "one memset (CUPTI_ACTIVITY_KIND_MEMSET)",
    *_WHERE,
    *_WHEN,
    ("size_bytes", "int64", "bytes", "bytes written, UNSET if not recorded"),
    ("graph_node", "int64", "", "graph node id, UNSET outside CUDA graphs"),
)
GRAPH_SPANS = _table(
    "graph_spans",
    "one CUDA graph launch traced as a whole (CUPTI_ACTIVITY_KIND_GRAPH_TRACE)",
    *_WHERE,
    *_WHEN,
)
CALLS = _table(
    "calls",
    "one CUDA runtime or driver API call (CUPTI_ACTIVITY_KIND_RUNTIME, event classes 0 and 1)",
    ("process", "int64", "", "hardware, VM and process bits of globalTid (globalTid >> 24)"),
    ("thread", "int64", "", "thread bits of globalTid"),
    ("correlation", "int64", "", "correlation id"),
    *_WHEN,
    ("name", "category", "", "API name without its version suffix"),
    ("return_value", "int64", "", "CUDA result, 0 is success"),
)
NVTX_RANGES = _table(
    "nvtx_ranges",
    "one NVTX push/pop or start/end range (NVTX_EVENTS, event types 59 and 60)",
    ("process", "int64", "", "hardware, VM and process bits of globalTid (globalTid >> 24)"),
    ("thread", "int64", "", "thread bits of globalTid"),
    ("start_ns", "int64", "ns", "start; clock of the trace"),
    ("end_ns", "int64", "ns", "end, UNSET for a range still open at the end"),
    ("event_type", "int64", "", "schema.NvtxKind"),
    ("domain", "int64", "", "NVTX domain id, 0 is the default domain"),
    ("text", "category", "", "own or registered string"),
)
SYNCS = _table(
    "syncs",
    "one synchronisation (CUPTI_ACTIVITY_KIND_SYNCHRONIZATION); its type is never trusted",
    *_WHERE,
    *_WHEN,
    ("event", "int64", "", "CUDA event id, UNSET if none"),
    ("event_sync", "int64", "", "links to `EVENTS.event_sync`, UNSET if not recorded"),
)
EVENTS = _table(
    "events",
    "one CUDA event record (CUPTI_ACTIVITY_KIND_CUDA_EVENT)",
    *_WHERE,
    ("event", "int64", "", "CUDA event id"),
    ("event_sync", "int64", "", "links to `SYNCS.event_sync`, UNSET if not recorded"),
)
TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (KERNELS, COPIES, MEMSETS, GRAPH_SPANS, CALLS, NVTX_RANGES, SYNCS, EVENTS)
}
"""Tables of a `Trace` that come from rows of the export, by field name."""


@dataclass(frozen=True)
class TraceWarning:
    """Something the trace lacks, or a reason to doubt it: a stable code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class Source:
    """Where a trace came from. ``kind`` is ``measured`` or ``predicted``.

    ``prediction`` says how a predicted trace was made; None for a measured one, or one that does
    not say.
    """

    path: Path
    kind: str = "measured"
    recorder: str = "nsys"
    nsys_version: str | None = None
    export_schema: str | None = None
    prediction: Prediction | None = None


@dataclass(frozen=True)
class Trace:
    """One trace: a frame per table of `TABLES`, the GPUs they ran on, and what is missing.

    ``print(trace)`` lists the tables that have rows; `TABLES` says what their columns mean.
    ``absent`` names the tables that the export does not have, or has without rows, whether or not
    they were asked for. ``written`` has names as the export has them, by what stands here for them.
    """

    source: Source
    gpus: pd.DataFrame = field(default_factory=GPUS.empty)
    kernels: pd.DataFrame = field(default_factory=KERNELS.empty)
    copies: pd.DataFrame = field(default_factory=COPIES.empty)
    memsets: pd.DataFrame = field(default_factory=MEMSETS.empty)
    graph_spans: pd.DataFrame = field(default_factory=GRAPH_SPANS.empty)
    calls: pd.DataFrame = field(default_factory=CALLS.empty)
    nvtx_ranges: pd.DataFrame = field(default_factory=NVTX_RANGES.empty)
    syncs: pd.DataFrame = field(default_factory=SYNCS.empty)
    events: pd.DataFrame = field(default_factory=EVENTS.empty)
    absent: frozenset[str] = frozenset()
    warnings: tuple[TraceWarning, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the number of rows of each table that has some."""
        counts = {name: len(getattr(self, name)) for name in ("gpus", *TABLES)}
        rows = ", ".join(f"{name}={count:,}" for name, count in counts.items() if count)
        return f"Trace({self.source.path.name}: {rows})"
