"""A redacted copy: nothing private in it, and the same analysis."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.output import render
from nsysoffload.redaction.draft import drafted
from nsysoffload.redaction.redact import Redaction, check, redact
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.export import Export
from nsysoffload.trace.reader import read
from tests.mutations import mutated, relaxed
from tests.redaction.planted import SECRETS, planted
from tests.redaction.predicted import predicted
from tests.test_mutations import complete_export

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


def told(data: bytes) -> set[str]:
    """Return which secrets stand in some bytes."""
    return {
        what
        for what, secret in SECRETS.items()
        if any(secret.encode(encoding) in data for encoding in ENCODINGS)
    }


def analysis(path: Path) -> dict:
    return json.loads(render(nsysoffload.analyze(path), "json"))


def counts(found: Redaction) -> dict[str, int]:
    return {removed.kind: removed.count for removed in found.removed}


def rows(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        return db.execute(sql).fetchall()


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


@pytest.fixture
def trace(tmp_path) -> Path:
    made = TraceBuilder().kernel((0, 10), "gemm", call=(-2, -1)).nvtx("train_step", (-3, 20))
    made.copy("h2d", (8, 14), stream=20, call=(-1, 0))
    return made.write(tmp_path / "trace.sqlite")


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "new" / "trace.sqlite"


# --- Secrets ---


@pytest.fixture(scope="module")
def secrets(tmp_path_factory) -> Path:
    return planted(tmp_path_factory.mktemp("planted") / "trace.sqlite")


@pytest.fixture(scope="module")
def copy(secrets) -> tuple[Path, Redaction]:
    path = secrets.parent / "copy" / "trace.sqlite"
    return path, redact(secrets, path)


def test_all_secrets_are_planted(secrets):
    assert told(secrets.read_bytes()) == set(SECRETS)
    assert len(SECRETS) >= 30


def test_no_secret_stands_in_any_byte_of_the_copy(copy):
    path, found = copy
    assert told(path.read_bytes()) == set()
    assert told(repr(found).encode()) == set()
    assert rows(path, "PRAGMA freelist_count") == [(0,)]


def test_the_copy_passes_its_own_check_and_the_trace_does_not(secrets, copy):
    assert check(secrets).leaks
    again = check(copy[0])
    assert (again.leaks, again.removed, again.ranges) == (False, (), ())


def test_what_was_removed_is_counted(copy):
    found = counts(copy[1])
    assert found["environment and settings of the machine"] == 5
    assert found["settings of capture and export"] == 5
    assert found["names of processes"] == 1
    assert found["messages of the profiler"] == 1
    assert found["strings that no row of the copy refers to"] == 7
    assert found["views, triggers and indexes"] == 3
    assert found["other tables"] == 2
    assert found["NVTX marks, domains and names of threads"] == 3
    assert found["private texts in names: token"] == 1


def test_private_texts_of_ranges_are_listed_by_kind_length_and_place(copy):
    listed = {(t.kinds, t.length, t.ranges, t.place) for t in copy[1].ranges}
    weights = len(f"load {SECRETS['working folder']}/weights.bin")
    assert (("path",), weights, 2, "string 6") in listed
    assert (("url",), len(SECRETS["url"]), 1, "row 12") in listed
    assert (("unreadable",), 2 * len(SECRETS["utf-16"]), 1, "row 14") in listed


def test_names_lose_their_private_part_alone_and_ranges_stay_groups(copy):
    values = dict(rows(copy[0], "SELECT id, value FROM StringIds"))
    assert values[1] == "gemm<<file-1>>::<user-1>(<host-1>)"
    assert values[2] == "norm <token-1>"
    own = "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL"
    texts = [values[5], values[8], values[6], values[7], *(text for (text,) in rows(copy[0], own))]
    assert texts[:2] == ["train_step", "forward"]
    assert sorted(texts[2:]) == [f"nvtx-{number}" for number in range(1, 7)]


def test_kept_ranges_stand_in_the_copy_and_pass_a_check_that_knows(secrets, tmp_path):
    path = tmp_path / "kept.sqlite"
    found = redact(secrets, path, keep_nvtx=True)
    kept = {"working folder", "email", "user", "url", "address", "utf-16", "password"}
    assert told(path.read_bytes()) == kept
    assert found.ranges_kept and len(found.ranges) == 6
    assert check(path).leaks
    assert not check(path, keep_nvtx=True).leaks


def test_no_secret_stands_in_any_byte_of_a_report_of_the_trace_itself(secrets, tmp_path):
    for file in nsysoffload.write(nsysoffload.analyze(secrets), tmp_path / "report"):
        assert told(file.read_bytes()) == set()


def test_the_analysis_is_the_same(secrets, copy):
    before = analysis(secrets)
    assert "gemm<<file-1>>::<user-1>(<host-1>)" in json.dumps(before["kernels"])
    assert analysis(copy[0]) == before


def test_a_copy_of_a_copy_is_the_same_byte_by_byte(copy, tmp_path):
    redact(copy[0], tmp_path / "again.sqlite")
    assert (tmp_path / "again.sqlite").read_bytes() == copy[0].read_bytes()


# --- The same analysis ---


def test_a_real_trace_measures_the_same_to_the_nanosecond(real_trace, tmp_path):
    path = tmp_path / real_trace.name
    try:
        expected = analysis(real_trace)
    except nsysoffload.TraceError as error:
        with pytest.raises(nsysoffload.TraceError) as refused:
            redact(real_trace, path)
        assert str(refused.value) == str(error)
        assert list(tmp_path.iterdir()) == []
        return
    redact(real_trace, path)
    assert analysis(path) == expected
    assert not check(path).leaks


@pytest.mark.parametrize("variant", ["offload", "remat"])
def test_a_predicted_trace_has_nothing_private_and_stays_the_same(variant, tmp_path):
    run = predicted(tmp_path / "runs", variant)
    path = tmp_path / "trace.sqlite"
    assert not redact(run, path).leaks
    assert analysis(path) == analysis(run)
    assert analysis(path)["prediction"]["variant"] == variant


@pytest.mark.parametrize("family", ["cells", "tables"])
def test_an_odd_export_measures_the_same_as_well(family, tmp_path):
    base = complete_export(tmp_path / "base.sqlite")
    path, copy = tmp_path / "trace.sqlite", tmp_path / "copy" / "trace.sqlite"
    compared = 0
    for seed in range(503, 506):
        data, what = mutated(family, relaxed(base) if family == "cells" else base, seed)
        path.write_bytes(data)
        try:
            expected = figures(analysis(path))
            redact(path, copy)
        except nsysoffload.OffloadError:
            continue
        assert figures(analysis(copy)) == expected, what
        assert not check(copy).leaks, what
        compared += 1
    assert compared >= 2


def figures(value):
    """Return the numbers of a report alone: its texts may be private, or speak of the export."""
    if isinstance(value, dict):
        return {key: figures(item) for key, item in value.items() if key != "trace"}
    if isinstance(value, list):
        return [figures(item) for item in value]
    return None if isinstance(value, str) else value


def test_row_ids_and_ids_of_strings_stay(trace, out):
    changed(trace, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET rowid = 77")
    redact(trace, out)
    assert read(out).copies["row_id"].tolist() == [77]
    ids = "SELECT demangledName, shortName FROM CUPTI_ACTIVITY_KIND_KERNEL"
    assert rows(out, ids) == rows(trace, ids)


def test_columns_keep_their_names_and_types_and_missing_ones_stay_missing(trace, out):
    changed(
        trace,
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO START",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN graphNodeId",
    )
    redact(trace, out)
    columns = Export.open(out).columns["CUPTI_ACTIVITY_KIND_KERNEL"]
    assert (
        "START" in columns and "graphNodeId" not in columns and "registersPerThread" not in columns
    )
    assert {"INTEGER"} == {
        kind
        for (kind,) in rows(out, "SELECT type FROM pragma_table_info('CUPTI_ACTIVITY_KIND_KERNEL')")
    }


def test_a_table_that_is_known_by_its_columns_gets_its_usual_name(trace, out):
    changed(trace, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO nightfall")
    before = analysis(trace)
    redact(trace, out)
    after = analysis(out)
    assert [w["code"] for w in before["trace"]["warnings"]] == ["table_renamed"]
    assert after["trace"]["warnings"] == []
    assert after["devices"] == before["devices"]
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in Export.open(out).columns


def test_a_kernel_is_known_by_its_mangled_name_only_where_it_has_no_other(trace, out):
    changed(
        trace,
        "INSERT INTO StringIds VALUES (50, '_Z5alicev')",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET mangledName = 50",
    )
    redact(trace, out)
    assert rows(out, "SELECT mangledName FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(None,)]
    assert rows(out, "SELECT COUNT(*) FROM StringIds WHERE id = 50") == [(0,)]


@pytest.mark.parametrize(
    "message",
    [
        "Not all CUDA events might have been collected.",
        "CUPTI buffers: 49 of 50. Some CUPTI events might be missing from alice's run.",
        "Installed CUDA driver version (13.3) is not supported by this build of Nsight Systems.",
    ],
)
def test_what_nsys_says_of_lost_rows_is_still_said(message, trace, out):
    sentence = message.replace("'", "''")
    changed(
        trace,
        "CREATE TABLE DIAGNOSTIC_EVENT (text TEXT, severity INTEGER)",
        f"INSERT INTO DIAGNOSTIC_EVENT VALUES ('{sentence}', 1)",
    )
    redact(trace, out)
    warnings = analysis(out)["trace"]["warnings"]
    assert warnings == analysis(trace)["trace"]["warnings"] and len(warnings) == 1
    assert b"alice" not in out.read_bytes()


def test_a_profile_of_jax_becomes_an_export(real_traces, tmp_path):
    profile = real_traces / "xplane" / "tf2020-gpu.xplane.pb"
    if not profile.exists():
        pytest.skip("there is no profile among the real traces")
    found = redact(profile, tmp_path / "trace.sqlite")
    before, after = analysis(profile), analysis(tmp_path / "trace.sqlite")
    assert before["devices"] == after["devices"]
    assert before["trace"]["warnings"] == after["trace"]["warnings"]
    assert found.before_bytes == profile.stat().st_size


# --- Files ---


def test_the_trace_and_its_folder_stay_as_they_are(trace, tmp_path, out):
    before = (trace.read_bytes(), trace.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    redact(trace, out)
    check(trace)
    after = (trace.read_bytes(), trace.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    assert after[:2] == before[:2]
    assert set(after[2]) - set(before[2]) == {out.parent}
    assert list(out.parent.iterdir()) == [out]


def test_a_trace_that_nobody_may_write_is_copied(trace, tmp_path, out):
    locked = tmp_path / "locked"
    locked.mkdir()
    shutil.move(trace, locked / "trace.sqlite").chmod(0o444)
    locked.chmod(0o555)
    try:
        redact(locked / "trace.sqlite", out)
    finally:
        locked.chmod(0o755)
    assert len(read(out).kernels) == 1


def test_changes_that_are_not_merged_are_not_read_and_said(trace, out):
    trace.with_name("trace.sqlite-wal").write_bytes(b"unmerged")
    found = redact(trace, out)
    assert [warning.code for warning in found.warnings] == ["unmerged_changes"]


def test_an_old_copy_is_replaced_only_by_a_complete_one(trace, out):
    out.parent.mkdir()
    out.write_text("old")
    broken = trace.with_name("broken.sqlite")
    data = bytearray(trace.read_bytes())
    data[4096 * 2 :] = b"\xff" * (len(data) - 4096 * 2)
    broken.write_bytes(data)
    with pytest.raises(
        nsysoffload.TraceError, match=r"^broken.sqlite is damaged \(.*\.nsys-rep file\.$"
    ):
        redact(broken, out)
    assert out.read_text() == "old"
    assert list(out.parent.iterdir()) == [out]
    redact(trace, out)
    assert out.read_bytes().startswith(b"SQLite format 3")


def test_an_interrupt_leaves_nothing(trace, out):
    with pytest.raises(KeyboardInterrupt), drafted(trace, out) as db:
        db.execute("CREATE TABLE main.StringIds AS SELECT * FROM export.StringIds")
        assert [path.suffix for path in out.parent.iterdir()] == [".part"]
        raise KeyboardInterrupt
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder.sqlite", "folder.sqlite is a folder; name a file that ends in .sqlite."),
        ("copy.db", "The copy is an SQLite export; let its name end in .sqlite."),
        ("trace.sqlite", "trace.sqlite is the trace itself; name another file for the copy."),
        ("link.sqlite", "link.sqlite is the trace itself; name another file for the copy."),
        ("hard.sqlite", "hard.sqlite is the trace itself; name another file for the copy."),
        ("x.sqlite", "x.sqlite-wal would be taken for a part of the copy; remove it first."),
    ],
)
def test_places_where_no_copy_can_be_are_refused(name, message, trace, tmp_path):
    (tmp_path / "folder.sqlite").mkdir()
    (tmp_path / "link.sqlite").symlink_to(trace)
    (tmp_path / "hard.sqlite").hardlink_to(trace)
    (tmp_path / "x.sqlite-wal").touch()
    before = trace.read_bytes()
    with pytest.raises(nsysoffload.UsageError) as refused:
        redact(trace, tmp_path / name)
    assert str(refused.value) == message
    assert trace.read_bytes() == before


def test_a_run_folder_gives_its_trace(trace, out):
    assert redact(trace.parent, out).before_bytes == trace.stat().st_size


@pytest.fixture
def full_disk(tmp_path) -> Iterator[Path]:
    """Return a file system of 16 KiB."""
    disk, mount = tmp_path / "disk", shutil.which("mount")
    disk.mkdir()
    if not mount or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    command = [mount, "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk]
    if (mounted := subprocess.run(command, capture_output=True, text=True)).returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_said_and_left_as_it_was(trace, full_disk):
    with pytest.raises(nsysoffload.UsageError, match="there is no space left"):
        redact(trace, full_disk / "new" / "copy.sqlite")
    assert list(full_disk.iterdir()) == []


def test_a_folder_that_is_a_file_is_said(trace, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(nsysoffload.UsageError, match=r"copy.sqlite cannot be written \(.*OUT\.$"):
        redact(trace, tmp_path / "file" / "copy.sqlite")
