import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.errors import TraceError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.ddl import ENUMS, TABLES
from nsysoffload.trace.reader import read
from nsysoffload.trace.schema import MemKind, NvtxKind
from nsysoffload.trace.tables import TABLES as ROWS
from nsysoffload.trace.tables import UNSET, Source
from nsysoffload.trace.writer import write

PROCESS_1 = 1 << 48 | 1 << 24  # globalPid of pid 1 on the first virtual machine
UINT32_UNSET = 4_294_967_295
UUIDS = ("aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        yield db


@pytest.fixture
def rows(tmp_path):
    """Write a trace and return the rows of one table as dicts."""

    def rows(trace: TraceBuilder, table: str, columns: str = "*") -> list[dict]:
        with opened(trace.write(tmp_path / "trace.sqlite")) as db:
            return [dict(row) for row in db.execute(f"SELECT {columns} FROM {table}")]

    return rows


def everything() -> TraceBuilder:
    return (
        TraceBuilder()
        .kernel((0, 10), "gemm", call=(-1, 0))
        .copy("h2d", (0, 4), stream=21)
        .migration("d2h", (4, 5))
        .memset((5, 6))
        .graph((6, 7))
        .sync((7, 8), stream=7, event=3, event_sync=9)
        .event(3, event_sync=9)
        .nvtx("train_step", (0, 40))
    )


# --- Rows, as plain SQLite sees them ---


def test_a_kernel_row_has_every_column_of_the_schema_in_order(rows):
    trace = TraceBuilder().kernel((0, 5.2), "gemm<float>", stream=13, correlation=77)
    (row,) = rows(trace, "CUPTI_ACTIVITY_KIND_KERNEL")
    assert list(row.items()) == [
        ("start", 0),
        ("end", 5_200_000),
        ("deviceId", 0),
        ("contextId", 1),
        ("greenContextId", None),
        ("streamId", 13),
        ("correlationId", 77),
        ("globalPid", PROCESS_1),
        ("demangledName", 1),
        ("shortName", 1),
        ("mangledName", None),
        ("launchType", None),
        ("cacheConfig", None),
        ("registersPerThread", 0),
        ("gridX", 1),
        ("gridY", 1),
        ("gridZ", 1),
        ("blockX", 1),
        ("blockY", 1),
        ("blockZ", 1),
        ("staticSharedMemory", 0),
        ("dynamicSharedMemory", 0),
        ("localMemoryPerThread", 0),
        ("localMemoryTotal", 0),
        ("gridId", 0),
        ("sharedMemoryExecuted", None),
        ("graphNodeId", None),
        ("sharedMemoryLimitConfig", None),
        ("qmdBulkReleaseDone", None),
        ("qmdPreexitDone", None),
        ("qmdLastCtaDone", None),
        ("graphId", None),
        ("clusterX", None),
        ("clusterY", None),
        ("clusterZ", None),
        ("clusterSchedulingPolicy", None),
        ("maxPotentialClusterSize", None),
        ("maxActiveClusters", None),
        ("sharedMemoryRequestedPercentage", None),
        ("tensorSizeMinusOneElements", "[]"),
    ]
    assert rows(trace, "StringIds") == [{"id": 1, "value": "gemm<float>"}]


def test_a_copy_row_has_every_column_of_the_schema_in_order(rows):
    trace = TraceBuilder().copy("d2h", (1, 2), size_bytes=4096, stream=20, correlation=5, pid=2)
    (row,) = rows(trace, "CUPTI_ACTIVITY_KIND_MEMCPY")
    assert list(row.items()) == [
        ("start", 1_000_000),
        ("end", 2_000_000),
        ("deviceId", 0),
        ("contextId", 1),
        ("greenContextId", None),
        ("streamId", 20),
        ("correlationId", 5),
        ("globalPid", 1 << 48 | 2 << 24),
        ("bytes", 4096),
        ("copyKind", 2),
        ("deprecatedSrcId", None),
        ("srcKind", 2),
        ("dstKind", 1),
        ("srcDeviceId", None),
        ("srcContextId", None),
        ("dstDeviceId", None),
        ("dstContextId", None),
        ("migrationCause", None),
        ("graphNodeId", None),
        ("virtualAddress", None),
        ("copyCount", 1),
    ]


def test_a_migration_has_a_cause_and_no_stream_of_its_own(rows):
    trace = TraceBuilder().migration("h2d", (0, 1))
    columns = "contextId, streamId, correlationId, copyKind, srcKind, dstKind, migrationCause"
    (row,) = rows(trace, "CUPTI_ACTIVITY_KIND_MEMCPY", f"{columns}, copyCount")
    assert list(row.values()) == [0, 0, 0, 11, 7, 7, 0, None]


def test_other_gpu_rows_carry_their_kind_of_columns(rows):
    trace = everything()
    where = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
    (memset,) = rows(
        trace, "CUPTI_ACTIVITY_KIND_MEMSET", f"{where}, value, bytes, graphNodeId, memKind"
    )
    assert tuple(memset.values()) == (
        *(5_000_000, 6_000_000, 0, 1, 7, 3, PROCESS_1),
        *(0, 1 << 20, None, None),
    )
    (graph,) = rows(trace, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", f"{where}, graphId, graphExecId")
    assert tuple(graph.values()) == (6_000_000, 7_000_000, 0, 1, 7, 4, PROCESS_1, 0, 0)
    (event,) = rows(trace, "CUPTI_ACTIVITY_KIND_CUDA_EVENT")
    assert tuple(event.values()) == (0, 0, 1, None, 7, 6, PROCESS_1, 3, 9)


def test_an_api_row_is_of_the_runtime_or_the_driver_and_names_its_thread(rows):
    trace = (
        TraceBuilder()
        .kernel((0, 1), "k", correlation=8, call=(-1, 0))
        .call("cuLaunchKernel", (2, 3), pid=4, thread=5, correlation=9, return_value=700)
    )
    assert [tuple(r.values()) for r in rows(trace, "CUPTI_ACTIVITY_KIND_RUNTIME")] == [
        (-1_000_000, 0, 0, PROCESS_1 | 1, 8, 2, 0, None),
        (2_000_000, 3_000_000, 1, 1 << 48 | 4 << 24 | 5, 9, 3, 700, None),
    ]
    assert [r["value"] for r in rows(trace, "StringIds")] == [
        *("k", "cudaLaunchKernel", "cuLaunchKernel")
    ]


def test_an_nvtx_range_that_is_still_open_ends_at_null(rows):
    trace = (
        TraceBuilder()
        .nvtx("step", (0, 1))
        .nvtx("open", (1, None), thread=3, domain=2, event_type=NvtxKind.START_END)
    )
    joined = "NVTX_EVENTS JOIN StringIds ON textId = id"
    columns = "start, end, eventType, globalTid, domainId, text, value"
    assert [tuple(r.values()) for r in rows(trace, joined, columns)] == [
        (0, 1_000_000, 59, PROCESS_1 | 1, 0, None, "step"),
        (1_000_000, None, 60, PROCESS_1 | 3, 2, None, "open"),
    ]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        pytest.param({"stream": 7, "event": 3}, (7, 3, 2), id="stream waits for event"),
        pytest.param({"stream": 7}, (7, UINT32_UNSET, 3), id="host waits for stream"),
        pytest.param({"event": 3}, (UINT32_UNSET, 3, 1), id="host waits for event"),
        pytest.param({}, (UINT32_UNSET, UINT32_UNSET, 4), id="host waits for context"),
    ],
)
def test_a_synchronisation_is_known_by_what_it_has(rows, cells, expected):
    trace = TraceBuilder().sync((0, 1), **cells)
    columns = "streamId, eventId, syncType"
    (row,) = rows(trace, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns)
    assert tuple(row.values()) == expected


def test_unset_is_null_where_the_schema_allows_it_and_zero_elsewhere(rows):
    trace = TraceBuilder().copy(
        "h2d", (0, 1), size_bytes=UNSET, correlation=UNSET, context=UNSET, source_kind=UNSET
    )
    columns = "bytes, correlationId, contextId, srcKind, dstKind, graphNodeId"
    (row,) = rows(trace, "CUPTI_ACTIVITY_KIND_MEMCPY", columns)
    assert list(row.values()) == [0, None, 0, None, 2, None]


def test_rows_without_a_process_have_no_global_ids(tmp_path):
    trace = everything().build()
    without = {
        name: getattr(trace, name).assign(process=UNSET) for name in ("kernels", "calls", "copies")
    }
    path = tmp_path / "trace.sqlite"
    write(replace(trace, **without), path)
    with opened(path) as db:
        for table, column in (("KERNEL", "globalPid"), ("RUNTIME", "globalTid")):
            query = f"SELECT DISTINCT {column} FROM CUPTI_ACTIVITY_KIND_{table}"
            assert [tuple(row) for row in db.execute(query)] == [(None,)]


def test_strings_are_kept_once_and_only_if_a_row_has_them(tmp_path):
    trace = TraceBuilder().kernel((0, 1), "a").kernel((1, 2), "b").kernel((2, 3), "a").build()
    path = tmp_path / "trace.sqlite"
    write(replace(trace, kernels=trace.kernels[trace.kernels["name"] == "a"]), path)
    with opened(path) as db:
        assert [row["value"] for row in db.execute("SELECT value FROM StringIds")] == ["a"]


def test_a_kernel_without_a_name_has_an_empty_one(tmp_path):
    trace = TraceBuilder().kernel((0, 1), "a").kernel((1, 2), "b").build()
    path = tmp_path / "trace.sqlite"
    write(replace(trace, kernels=trace.kernels.assign(name=pd.Categorical(["a", None]))), path)
    joined = "CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON demangledName = id"
    with opened(path) as db:
        query = f"SELECT value FROM {joined} ORDER BY start"
        assert [row["value"] for row in db.execute(query)] == ["a", ""]


# --- What the rows ran on ---


def test_each_process_maps_its_ordinals_to_gpus(rows):
    trace = (
        TraceBuilder()
        .gpu("NVIDIA H100", UUIDS[0], pid=1)
        .gpu("NVIDIA H200", UUIDS[1], pid=2, copy_engines=UNSET)
        .kernel((0, 1), "k", pid=1)
        .kernel((0, 1), "k", pid=2)
    )
    gpus = "id, name, uuid, cuDevice, asyncEngines, chipName <> '' AS named"
    assert [tuple(r.values()) for r in rows(trace, "TARGET_INFO_GPU", gpus)] == [
        (0, "NVIDIA H100", UUIDS[0], 0, 3, 1),
        (1, "NVIDIA H200", UUIDS[1], 0, None, 1),
    ]
    assert [tuple(r.values()) for r in rows(trace, "TARGET_INFO_CUDA_DEVICE")] == [
        (0, 0, 1, UUIDS[0], None),
        (1, 0, 2, UUIDS[1], None),
    ]
    assert [tuple(r.values()) for r in rows(trace, "PROCESSES")] == [
        (PROCESS_1, 1, None),
        (1 << 48 | 2 << 24, 2, None),
    ]


def test_contexts_and_streams_are_listed_without_those_of_migrations(rows):
    trace = everything().kernel((1, 2), "k", device=1, context=2, stream=30)
    columns = "nullStreamId, hwId, vmId, processId, deviceId, contextId"
    contexts = rows(trace, "TARGET_INFO_CUDA_CONTEXT_INFO", columns)
    assert [tuple(r.values()) for r in contexts] == [(7, 0, 1, 1, 0, 1), (7, 0, 1, 1, 1, 2)]
    columns = "processId, contextId, streamId, flag"
    streams = [tuple(r.values()) for r in rows(trace, "TARGET_INFO_CUDA_STREAM", columns)]
    assert sorted(streams) == [(1, 1, 7, 3), (1, 1, 21, 0), (1, 2, 30, 0)]


# --- The file ---


def test_a_kind_without_rows_has_no_table(rows):
    tables = rows(TraceBuilder().nvtx("step", (0, 1)), "sqlite_master", "name")
    assert {row["name"] for row in tables} == {
        "NVTX_EVENTS",
        "StringIds",
        "PROCESSES",
        "TARGET_INFO_SESSION_START_TIME",
        "META_DATA_EXPORT",
        "META_DATA_CAPTURE",
        *ENUMS,
    }


def test_not_null_columns_are_those_of_the_schema(rows):
    where = "deviceId contextId streamId"
    expected = {
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"start end {where} bytes copyKind",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"start end {where} value bytes",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"start end {where} graphId graphExecId",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass nameId returnValue",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"start end {where} syncType eventId",
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"{where} eventId",
        "NVTX_EVENTS": "start eventType",
        "StringIds": "id value",
        "TARGET_INFO_GPU": "vmId id",
        "TARGET_INFO_CUDA_DEVICE": "cudaId pid",
        "META_DATA_EXPORT": "name",
    }
    query = 'sqlite_master AS t, pragma_table_info(t.name) AS c WHERE c."notnull"'
    found: dict[str, list[str]] = {}
    for row in rows(everything(), query, "t.name AS t, c.name AS c"):
        found.setdefault(row["t"], []).append(row["c"])
    assert {table: found[table] for table in expected} == {
        table: columns.split() for table, columns in expected.items()
    }


def test_every_cell_has_the_type_its_column_declares(tmp_path):
    with opened(everything().write(tmp_path / "trace.sqlite")) as db:
        columns = db.execute(
            "SELECT t.name, c.name, c.type FROM sqlite_master AS t, pragma_table_info(t.name) AS c"
        ).fetchall()
        assert len(columns) > 200
        for table, column, declared in columns:
            query = f'SELECT DISTINCT typeof("{column}") FROM {table}'
            types = {row[0] for row in db.execute(query)}
            assert types <= {declared.lower(), "null"}, (table, column)


def test_an_export_says_its_schema_and_what_recorded_it(tmp_path):
    source = Source(Path("x"), kind="predicted", recorder="predict")
    path = tmp_path / "trace.sqlite"
    write(replace(everything().build(), source=source), path, {"NSYSOFFLOAD:TARGET": "gb200"})
    with opened(path) as db:
        assert dict(db.execute("SELECT name, value FROM META_DATA_CAPTURE").fetchall()) == {
            "NSYSOFFLOAD:KIND": "predicted",
            "NSYSOFFLOAD:RECORDER": "predict",
            "NSYSOFFLOAD:TARGET": "gb200",
        }
        assert dict(db.execute("SELECT name, value FROM META_DATA_EXPORT").fetchall()) == {
            "EXPORT_PRODUCT_NAME": "nsysoffload",
            "EXPORT_SCHEMA_VERSION": "3.25.0",
            "EXPORT_SCHEMA_VERSION_MAJOR": "3",
            "EXPORT_SCHEMA_VERSION_MINOR": "25",
            "EXPORT_SCHEMA_VERSION_MICRO": "0",
        }


def test_rows_recorded_by_nsight_systems_keep_its_version(rows):
    metadata = {r["name"]: r["value"] for r in rows(TraceBuilder(), "META_DATA_EXPORT")}
    assert metadata["EXPORT_PRODUCT_NAME"] == "NVIDIA Nsight Systems"
    assert metadata["EXPORT_PRODUCT_VERSION"] == "2026.2.1.210"


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    one, two = everything().write(tmp_path / "1.sqlite"), everything().write(tmp_path / "2.sqlite")
    assert one.read_bytes() == two.read_bytes()


def test_tables_have_the_columns_of_the_newest_real_exports(real_traces, tmp_path):
    newest: dict[str, list[tuple]] = {}
    for path in sorted(real_traces.glob("nsys2026*.sqlite")):
        with opened(path) as db:
            for table in TABLES:
                if columns := db.execute(f"PRAGMA table_info({table})").fetchall():
                    newest[table] = [tuple(column) for column in columns]
    with opened(everything().write(tmp_path / "trace.sqlite")) as db:
        ours = {
            table: [tuple(column) for column in db.execute(f"PRAGMA table_info({table})")]
            for table in newest
        }
    assert len(newest) == len(TABLES) - 1  # graph spans are in no export at hand
    assert ours == newest


# --- Failures ---


def test_a_missing_folder_is_an_error_that_names_it(tmp_path):
    with pytest.raises(TraceError, match=r"The folder .*absent does not exist; create it"):
        everything().write(tmp_path / "absent" / "trace.sqlite")


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    (tmp_path / "trace.sqlite").mkdir()
    with pytest.raises(TraceError, match=r"^trace.sqlite cannot be written \(Is a directory\)"):
        everything().write(tmp_path / "trace.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.sqlite"]


def test_when_space_runs_out_the_old_export_stays(tmp_path):
    path = tmp_path / "trace.sqlite"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, hard))  # as a full disk would
    try:
        with pytest.raises(TraceError, match=r"^trace.sqlite cannot be written \(.*\); free space"):
            everything().write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_trace_that_breaks_half_way_leaves_nothing_behind(tmp_path):
    trace = everything().build()
    broken = replace(trace, events=trace.events.drop(columns="event"))
    with pytest.raises(KeyError):
        write(broken, tmp_path / "trace.sqlite")
    assert list(tmp_path.iterdir()) == []


# --- Round trip ---

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("gemm_v2")
time = st.integers(-(2**40), 2**60)
span = st.tuples(time, time)
small = st.integers(0, 2)
node = st.sampled_from([UNSET, 5])
where = {
    "pid": st.integers(1, 3),
    "device": small,
    "context": small,
    "stream": st.integers(0, 40),
    "correlation": st.sampled_from([UNSET, 0, 1, 2**32 - 1]),
}
host = {"pid": st.integers(1, 3), "thread": st.integers(0, 2**24 - 1)}


def calls_of(method, *positional, **keyword):
    """Strategy for a call of a builder's method."""
    return st.tuples(st.just(method), st.tuples(*positional), st.fixed_dictionaries(keyword))


any_row = st.one_of(
    calls_of("kernel", span, text, graph_node=node, **where),
    calls_of(
        "copy",
        st.sampled_from(["h2d", "d2h", "d2d", "p2p"]),
        span,
        size_bytes=st.integers(0, 2**50),
        host=st.sampled_from(["pinned", "pageable"]),
        source_kind=st.sampled_from([None, UNSET, MemKind.MANAGED]),
        graph_node=node,
        **where,
    ),
    calls_of("migration", st.sampled_from(["h2d", "d2h"]), span, device=small),
    calls_of("memset", span, graph_node=node, **where),
    calls_of("graph", span, **where),
    calls_of("sync", span, event=node, event_sync=node, **where),
    calls_of("event", small, event_sync=node, **where),
    calls_of(
        "call", st.sampled_from(["cudaMemcpy", "cuLaunchKernel"]), span, return_value=small, **host
    ),
    calls_of(
        "nvtx",
        text,
        st.tuples(time, time | st.none()),
        domain=small,
        event_type=st.sampled_from([NvtxKind.PUSH_POP, NvtxKind.START_END]),
        **host,
    ),
)
any_gpu = calls_of(
    "gpu",
    st.sampled_from(["NVIDIA H100", "NVIDIA GB200"]),
    st.sampled_from([None, *UUIDS]),
    pid=st.integers(1, 3),
    device=small,
    copy_engines=st.sampled_from([UNSET, 1, 3]),
)


@settings(max_examples=40)
@given(st.lists(any_gpu, max_size=4), st.lists(any_row, max_size=12))
def test_what_is_written_is_what_is_read(gpus, some_rows):
    builder = TraceBuilder(unit="ns").kernel((0, 1), "k")  # without one there is nothing to read
    for method, positional, keyword in gpus + some_rows:
        getattr(builder, method)(*positional, **keyword)
    written = builder.build()
    with tempfile.TemporaryDirectory() as folder:
        path = builder.write(Path(folder) / "trace.sqlite")
        found = read(path)
    assert found.source == replace(written.source, path=path)
    assert found.absent == written.absent
    for name in ("gpus", *ROWS):
        pd.testing.assert_frame_equal(
            getattr(found, name), getattr(written, name), check_categorical=False, obj=name
        )
