"""Exports of all shapes, seen through the public reader."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.errors import TraceError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read
from nsysoffload.trace.tables import NO_TIME, UNSET

KERNEL, MEMCPY = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"


@pytest.fixture
def export(tmp_path):
    """Write an export and change it with SQL."""

    def make(*statements: str, trace: TraceBuilder | None = None) -> Path:
        trace = trace or TraceBuilder().kernel((10, 20), "gemm", call=(9, 9.5)).copy(
            "h2d", (15, 25), stream=20, size_bytes=1000
        )
        path = trace.write(tmp_path / "trace.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)
        return path

    return make


def codes(path: Path) -> list[str]:
    return [warning.code for warning in nsysoffload.analyze(path).trace.warnings]


def test_a_renamed_table_is_found_by_its_columns(export):
    path = export(f"ALTER TABLE {MEMCPY} RENAME TO GPU_COPIES")
    assert nsysoffload.analyze(path).devices[0].trace.h2d.bytes == 1000
    assert "table_renamed" in codes(path)


def test_names_of_tables_and_columns_differ_in_case(export):
    path = export(
        f"ALTER TABLE {MEMCPY} RENAME TO x",
        f"ALTER TABLE x RENAME TO {MEMCPY.lower()}",
        f"ALTER TABLE {KERNEL} RENAME COLUMN demangledName TO DEMANGLEDNAME",
    )
    assert nsysoffload.analyze(path).kernels[0].name == "gemm"


def test_a_copy_of_a_table_is_not_taken_for_it(export):
    path = export(f"CREATE TABLE backup AS SELECT * FROM {KERNEL}")
    assert nsysoffload.analyze(path).devices[0].trace.kernels == 1


@pytest.mark.parametrize("column", ["start", "end"])
def test_kernels_without_times_are_as_good_as_none(export, column):
    path = export(f"ALTER TABLE {KERNEL} DROP COLUMN {column}")
    report = nsysoffload.analyze(path)
    assert report.devices[0].trace.h2d.overlap is None
    assert {"table_unusable", "no_kernels"} <= set(codes(path))


def test_a_missing_size_is_unknown_and_not_zero(export):
    h2d = (
        nsysoffload.analyze(export(f"ALTER TABLE {MEMCPY} DROP COLUMN bytes")).devices[0].trace.h2d
    )
    assert (h2d.copies, h2d.bytes, h2d.gbps, h2d.sizes) == (1, None, None, ())
    assert h2d.overlap == 0.5


@pytest.mark.parametrize(
    "column", ["globalPid", "contextId", "streamId", "correlationId", "srcKind"]
)
def test_figures_do_not_hang_on_columns_that_a_version_may_lack(export, column):
    path = export(
        *(
            f"ALTER TABLE {t} DROP COLUMN {column}"
            for t in (KERNEL, MEMCPY)
            if t == MEMCPY or column != "srcKind"
        )
    )
    trace = nsysoffload.analyze(path).devices[0].trace
    assert (trace.h2d.overlap, trace.h2d.bytes, trace.kernels) == (0.5, 1000, 1)


def test_further_columns_and_tables_change_nothing(export):
    path = export(
        f"ALTER TABLE {KERNEL} ADD COLUMN kernel_name TEXT",
        f"ALTER TABLE {KERNEL} ADD COLUMN tensorShape BLOB",
        "CREATE TABLE something (start, end, deviceId)",
    )
    assert nsysoffload.analyze(path).devices[0].trace.h2d.overlap == 0.5


def test_a_string_without_an_entry_is_named_by_its_id(export):
    path = export("DELETE FROM StringIds WHERE value = 'gemm'")
    (kernel,) = nsysoffload.analyze(path).kernels
    assert kernel.name.startswith("string ")
    assert kernel.name.endswith(" (not in the export)")


def test_a_null_name_falls_back_to_the_short_one(export):
    path = export(
        f"CREATE TABLE k AS SELECT * FROM {KERNEL}",
        f"DROP TABLE {KERNEL}",
        "UPDATE k SET demangledName = NULL",
        f"ALTER TABLE k RENAME TO {KERNEL}",
    )
    assert nsysoffload.analyze(path).kernels[0].name == "gemm"


def test_text_that_is_no_utf8_is_replaced(export):
    path = export("UPDATE StringIds SET value = CAST(x'67ff6d' AS TEXT) WHERE value = 'gemm'")
    assert nsysoffload.load(path).kernels["name"][0] == "g\ufffdm"


def test_an_export_without_strings_has_figures_and_no_names(export):
    path = export("DROP TABLE StringIds")
    assert nsysoffload.analyze(path).devices[0].trace.h2d.overlap == 0.5


def test_a_null_time_is_not_a_time(export):
    path = export(
        f"CREATE TABLE k AS SELECT * FROM {KERNEL}",
        f"DROP TABLE {KERNEL}",
        "INSERT INTO k SELECT * FROM k",
        "UPDATE k SET start = NULL WHERE rowid = 2",
        f"ALTER TABLE k RENAME TO {KERNEL}",
    )
    assert read(path).kernels["start_ns"].tolist() == [10_000_000, NO_TIME]
    assert nsysoffload.analyze(path).devices[0].trace.kernels == 1
    assert "rows_not_believed" in codes(path)


def test_backtraces_do_not_repeat_calls(export):
    path = export(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start, end, 67, globalTid, correlationId,"
        " nameId, returnValue, callchainId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    )
    assert len(read(path).calls) == 1


def test_versions_of_api_names_are_stripped(export):
    path = export("UPDATE StringIds SET value = 'cudaLaunchKernel_v7000' WHERE value LIKE 'cudaL%'")
    assert read(path).calls["name"].tolist() == ["cudaLaunchKernel"]


def test_tables_that_nobody_asked_for_are_empty_and_yet_known_to_be_there(export):
    path = export(trace=TraceBuilder().kernel((1, 2), "gemm").nvtx("step", (0, 3)))
    trace = read(path, ("kernels",))
    assert len(trace.nvtx_ranges) == 0
    assert "nvtx_ranges" not in trace.absent
    assert "copies" in trace.absent


def test_registered_and_own_strings_of_ranges_are_mixed(export):
    trace = TraceBuilder().kernel((1, 2), "gemm").nvtx("own", (0, 3)).nvtx("registered", (1, 2))
    path = export(
        "UPDATE NVTX_EVENTS SET text = 'own', textId = NULL WHERE rowid = 1",
        "INSERT OR REPLACE INTO StringIds VALUES (77, 'registered')",
        "UPDATE NVTX_EVENTS SET text = NULL, textId = 77 WHERE rowid = 2",
        trace=trace,
    )
    assert read(path).nvtx_ranges["text"].tolist() == ["own", "registered"]


def test_progress_counts_rows_up_to_what_there_is(export):
    seen: list[tuple[int, int]] = []
    read(export(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == 3


def test_large_tables_are_read_in_parts_that_join(export, monkeypatch):
    monkeypatch.setattr("nsysoffload.trace.rows.CHUNK_ROWS", 7)
    trace = TraceBuilder(unit="ns")
    for i in range(100):
        trace.kernel((i + 1, i + 2), f"k{i % 5}")
    path = export(f"UPDATE {KERNEL} SET rowid = rowid - 20", trace=trace)  # some are negative
    kernels = read(path).kernels
    assert kernels["start_ns"].tolist() == list(range(1, 101))
    assert kernels["name"].tolist() == [f"k{i % 5}" for i in range(100)]


def test_a_database_of_something_else_is_no_export(tmp_path):
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE places (id, url)")
    with pytest.raises(TraceError, match="is an SQLite database but no Nsight Systems export"):
        nsysoffload.analyze(path)


def test_unset_means_not_recorded(export):
    path = export(f"ALTER TABLE {MEMCPY} DROP COLUMN srcKind")
    assert read(path).copies["source_kind"].tolist() == [UNSET]
