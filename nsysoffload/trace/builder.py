"""Traces from a few readable lines, for tests and the demo.

>>> trace = TraceBuilder()
>>> trace.kernel((0, 10), "gemm").copy("d2h", (10, 14), size_bytes=1 << 26, stream=20)
TraceBuilder(kernels=1, copies=1)
>>> trace.build().copies[["start_ns", "end_ns", "stream"]].to_dict("records")
[{'start_ns': 10000000, 'end_ns': 14000000, 'stream': 20}]
"""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack
from uuid import UUID

import pandas as pd

from nsysoffload.trace.ddl import SCHEMA_VERSION
from nsysoffload.trace.schema import CopyKind, MemKind, NvtxKind
from nsysoffload.trace.shapes import shape_of
from nsysoffload.trace.tables import GPUS, TABLES, UNSET, Source, Table, Trace
from nsysoffload.trace.writer import write

__all__ = ["Span", "Time", "TraceBuilder", "Where"]

Time = int | float | str | Fraction | Decimal
"""A time in the builder's unit, such as ``5.2`` or ``"1/3"``; what is written is what is meant."""

Span = tuple[Time, Time]

Cell = int | str

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
VM = 1 << 24  # bit of the first virtual machine, above the pid, as in real exports
COMPUTE_STREAM = 7
GPU_ROWS = ("kernels", "copies", "memsets", "graph_spans")  # rows by which a GPU is known

COPY_KINDS = {
    "h2d": CopyKind.HOST_TO_DEVICE,
    "d2h": CopyKind.DEVICE_TO_HOST,
    "h2a": CopyKind.HOST_TO_ARRAY,
    "a2h": CopyKind.ARRAY_TO_HOST,
    "d2d": CopyKind.DEVICE_TO_DEVICE,
    "h2h": CopyKind.HOST_TO_HOST,
    "p2p": CopyKind.PEER_TO_PEER,
}
MIGRATION_KINDS = {
    "h2d": CopyKind.UNIFIED_HOST_TO_DEVICE,
    "d2h": CopyKind.UNIFIED_DEVICE_TO_HOST,
    "d2d": CopyKind.UNIFIED_DEVICE_TO_DEVICE,
}
HOST_KINDS = {"pinned": MemKind.PINNED, "pageable": MemKind.PAGEABLE}


class Where(TypedDict, total=False):
    """Where a GPU row ran, and the API call that issued it; see `TraceBuilder`."""

    pid: int
    device: int
    context: int
    stream: int
    correlation: int
    call: Span
    call_name: str


class TraceBuilder:
    """Collects rows; `build` makes a trace of them, `write` an export.

    Every row is of process 1, device 0, context 1 and stream 7 unless ``pid=``, ``device=``,
    ``context=`` or ``stream=`` say otherwise. A GPU row with ``call=(start, end)`` adds the API
    call that issued it, under the same correlation id. Correlation ids count up in each process
    unless ``correlation=`` gives one. Methods return the builder.

    Parameters
    ----------
    gpu : str or None
        Product name of every GPU that `gpu` does not declare. A device number means the same
        physical GPU in every process.
    unit : {"ms", "ns", "us", "s"}
        Unit of all times; they become whole nanoseconds, exactly where they are such.
    source : Source, optional
        What the trace says about its origin; that of a current Nsight Systems by default.
    """

    def __init__(
        self,
        gpu: str | None = "NVIDIA GH200 120GB",
        unit: str = "ms",
        source: Source | None = None,
    ) -> None:
        self._gpu_name = gpu
        self._unit_ns = UNITS_NS[unit]
        self._source = source or Source(
            Path("trace.sqlite"), nsys_version="2026.2.1.210", export_schema=SCHEMA_VERSION
        )
        self._rows: dict[str, list[dict[str, Cell]]] = {name: [] for name in TABLES}
        self._gpus: dict[tuple[int, int], dict[str, Cell | None]] = {}
        self._last_correlation: Counter[int] = Counter()

    def __repr__(self) -> str:
        """Show how many rows of each kind there are."""
        counts = ", ".join(f"{name}={len(rows)}" for name, rows in self._rows.items() if rows)
        return f"TraceBuilder({counts})"

    def gpu(
        self,
        name: str | None,
        uuid: str | None = None,
        *,
        pid: int = 1,
        device: int = 0,
        copy_engines: int = 3,
    ) -> Self:
        """Declare what a process's device is; without a uuid it is a GPU of its own."""
        self._gpus[pid, device] = {"name": name, "uuid": uuid, "copy_engines": copy_engines}
        return self

    # --- Rows of GPUs ---

    def kernel(
        self,
        when: Span,
        name: str,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        graph_node: int = UNSET,
        **where: Unpack[Where],
    ) -> Self:
        """Add a kernel, launched as one block or as a grid of them."""
        return self._issued(
            "kernels",
            when,
            "cudaLaunchKernel",
            where,
            name=name,
            shape=shape_of(grid),
            graph_node=graph_node,
        )

    def copy(
        self,
        direction: str,
        when: Span,
        *,
        size_bytes: int = 1 << 20,
        host: str = "pinned",
        source_kind: MemKind | None = None,
        target_kind: MemKind | None = None,
        graph_node: int = UNSET,
        **where: Unpack[Where],
    ) -> Self:
        """Add a copy: ``h2d``, ``d2h``, ``d2d``, ``p2p``, ...; `host` memory is pinned or pageable.

        `source_kind` and `target_kind` override what the direction implies.
        """
        side = {"h": HOST_KINDS[host], "a": MemKind.ARRAY}
        source, target = (side.get(letter, MemKind.DEVICE) for letter in direction.split("2"))
        return self._issued(
            "copies",
            when,
            "cudaMemcpyAsync",
            where,
            size_bytes=size_bytes,
            copy_kind=COPY_KINDS[direction],
            source_kind=source if source_kind is None else source_kind,
            target_kind=target if target_kind is None else target_kind,
            graph_node=graph_node,
        )

    def migration(
        self, direction: str, when: Span, *, size_bytes: int = 1 << 16, **where: Unpack[Where]
    ) -> Self:
        """Add a unified-memory migration; it has no context, stream or API call of its own."""
        nowhere: Where = {"context": 0, "stream": 0, "correlation": 0}
        return self._issued(
            "copies",
            when,
            "",
            {**nowhere, **where},
            size_bytes=size_bytes,
            copy_kind=MIGRATION_KINDS[direction],
            source_kind=MemKind.UNKNOWN,
            target_kind=MemKind.UNKNOWN,
            graph_node=UNSET,
        )

    def memset(
        self,
        when: Span,
        *,
        size_bytes: int = 1 << 20,
        graph_node: int = UNSET,
        **where: Unpack[Where],
    ) -> Self:
        """Add a memset."""
        return self._issued(
            "memsets", when, "cudaMemsetAsync", where, size_bytes=size_bytes, graph_node=graph_node
        )

    def graph(self, when: Span, **where: Unpack[Where]) -> Self:
        """Add a CUDA graph launch that was traced as a whole."""
        return self._issued("graph_spans", when, "cudaGraphLaunch", where)

    def sync(
        self, when: Span, *, event: int = UNSET, event_sync: int = UNSET, **where: Unpack[Where]
    ) -> Self:
        """Add a synchronisation.

        With `event` and ``stream=`` the stream waits for the event, with one of them the host
        waits for it, with none for the context.
        """
        anywhere: Where = {"stream": UNSET}
        names = {
            (True, True): "cudaStreamWaitEvent",
            (True, False): "cudaStreamSynchronize",
            (False, True): "cudaEventSynchronize",
            (False, False): "cudaDeviceSynchronize",
        }
        name = names["stream" in where, event != UNSET]
        return self._issued(
            "syncs", when, name, {**anywhere, **where}, event=event, event_sync=event_sync
        )

    def event(self, event: int, *, event_sync: int = UNSET, **where: Unpack[Where]) -> Self:
        """Add the record of an event on a stream."""
        return self._issued(
            "events", None, "cudaEventRecord", where, event=event, event_sync=event_sync
        )

    # --- Rows of the host ---

    def call(
        self,
        name: str,
        when: Span,
        *,
        pid: int = 1,
        thread: int | None = None,
        correlation: int | None = None,
        return_value: int = 0,
    ) -> Self:
        """Add an API call, on the main thread unless `thread` says otherwise."""
        return self._add(
            "calls",
            pid,
            when,
            thread=pid if thread is None else thread,
            correlation=self._correlation(pid, correlation),
            name=name,
            return_value=return_value,
        )

    def nvtx(
        self,
        text: str,
        when: tuple[Time, Time | None],
        *,
        pid: int = 1,
        thread: int | None = None,
        domain: int = 0,
        event_type: NvtxKind = NvtxKind.PUSH_POP,
    ) -> Self:
        """Add an NVTX range; one that ends at None is still open."""
        return self._add(
            "nvtx_ranges",
            pid,
            when,
            thread=pid if thread is None else thread,
            event_type=event_type,
            domain=domain,
            text=text,
        )

    # --- Results ---

    def build(self) -> Trace:
        """Return the trace, as a reader would return it from the file that `write` makes."""
        gpus, device_of = self._devices()
        frames: dict[str, Any] = {
            name: self._frame(table, device_of) for name, table in TABLES.items()
        }
        absent = frozenset(name for name, rows in self._rows.items() if not rows)
        return Trace(self._source, gpus, **frames, absent=absent)

    def write(self, path: Path) -> Path:
        """Write the trace as an export and return the path."""
        write(self.build(), path)
        return path

    # --- Parts ---

    def _frame(self, table: Table, device_of: dict[tuple[int, int], int]) -> pd.DataFrame:
        rows = self._rows[table.name]
        if not rows:
            return table.empty()
        frame = pd.DataFrame.from_records(rows).assign(row_id=range(1, len(rows) + 1))
        if "device" in table.names:
            pairs = zip(frame["process"], frame["ordinal"], strict=True)
            frame["device"] = [device_of.get(pair, UNSET) for pair in pairs]
        for column in table.columns:
            if column.dtype == "category":
                frame[column.name] = _category(list(frame[column.name]))
        return table.conform(frame)

    def _issued(
        self, table: str, when: Span | None, call_name: str, where: Where, /, **cells: Cell
    ) -> Self:
        """Add a row on a GPU, and the API call that issued it where its times are given."""
        pid = where.get("pid", 1)
        correlation = self._correlation(pid, where.get("correlation"))
        self._add(
            table,
            pid,
            when,
            ordinal=where.get("device", 0),
            context=where.get("context", 1),
            stream=where.get("stream", COMPUTE_STREAM),
            correlation=correlation,
            **cells,
        )
        if "call" in where:
            name = where.get("call_name", call_name)
            self.call(name, where["call"], pid=pid, correlation=correlation)
        return self

    def _add(
        self, table: str, pid: int, when: tuple[Time, Time | None] | None, /, **cells: Cell
    ) -> Self:
        row = {"process": VM | pid, **cells}
        if when is not None:
            row["start_ns"], row["end_ns"] = map(self._ns, when)
        self._rows[table].append(row)
        return self

    def _ns(self, time: Time | None) -> int:
        # A float stands for the decimal number it is written as: 5.2 ms are 5,200,000 ns.
        return UNSET if time is None else round(Fraction(str(time)) * self._unit_ns)

    def _correlation(self, pid: int, given: int | None) -> int:
        if given is not None:
            return given
        self._last_correlation[pid] += 1
        return self._last_correlation[pid]

    def _devices(self) -> tuple[pd.DataFrame, dict[tuple[int, int], int]]:
        """Return the GPUs that have rows, and the row number of each (process, ordinal)."""
        used = {
            (int(row["process"]), int(row["ordinal"]))
            for name in GPU_ROWS
            for row in self._rows[name]
        }
        known = {(process, ordinal): self._gpu(process - VM, ordinal) for process, ordinal in used}
        first = {str(known[place]["id"]): place for place in sorted(used, reverse=True)}
        order = sorted(first, key=lambda gpu: first[gpu][::-1])
        rows = pd.DataFrame([known[first[gpu]] for gpu in order], columns=GPUS.names, dtype=object)
        device_of = {place: order.index(str(gpu["id"])) for place, gpu in known.items()}
        return GPUS.conform(rows), device_of

    def _gpu(self, pid: int, ordinal: int) -> dict[str, Cell | None]:
        usual: dict[str, Cell | None] = {
            "name": self._gpu_name,
            "uuid": str(UUID(int=ordinal + 1)),
            "copy_engines": 3,
        }
        gpu = self._gpus.get((pid, ordinal), usual)
        return {"id": gpu["uuid"] or f"{pid}:{ordinal}", "ordinal": ordinal, "pid": pid, **gpu}


def _category(texts: list[str]) -> pd.Categorical:
    return pd.Categorical(texts, categories=pd.Index(sorted(set(texts)), dtype=object))
