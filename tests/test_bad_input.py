"""Files that are no exports, and names that are hard to handle, through the command line."""

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import nsysoffload
from nsysoffload.cli import main
from nsysoffload.trace.builder import TraceBuilder

HANGS_S = 60


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "private folder"
    folder.mkdir()
    return folder


def write_export(path: Path) -> Path:
    trace = TraceBuilder().kernel((0, 10), "gemm")
    return trace.copy("d2h", (5, 15), stream=20, call=(4, 4.1)).write(path)


def analyze(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)])


def in_a_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command where it cannot take the test with it if it hangs."""
    command = [sys.executable, "-m", "nsysoffload", "analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)


def assert_one_sentence(stderr: str, trace: Path, expected: str) -> None:
    name = " ".join(trace.name.split())
    assert stderr.startswith("Error: ")
    assert stderr.endswith(".\n")
    assert stderr.count("\n") == 1
    assert name in stderr
    assert expected in stderr
    assert str(trace.parent) not in stderr


# --- Files ---


def missing(path: Path) -> None:
    pass


def folder(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("Time (%),Total Time (ns),Count\n")


def lfs_pointer(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")


def gzipped(path: Path) -> None:
    path.write_bytes(gzip.compress(write_export(path).read_bytes()))


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.sqlite", b"SQLite format 3\0")


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE customers (id, name)")


def empty_database(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def truncated(path: Path) -> None:
    data = write_export(path).read_bytes()
    path.write_bytes(data[: len(data) // 2])


def without_gpu_rows(path: Path) -> None:
    TraceBuilder().call("cudaMalloc", (0, 1)).write(path)


def only_unbelievable_rows(path: Path) -> None:
    TraceBuilder().kernel((0, 0), "gemm").write(path)


def views(path: Path) -> None:
    write_export(path)
    with closing(sqlite3.connect(path)) as db:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
            db.execute(f"ALTER TABLE {table} RENAME TO my_{table[-6:]}")
            db.execute(f"DROP TABLE my_{table[-6:]}")
            db.execute(
                f"CREATE VIEW {table} AS WITH RECURSIVE n(start) AS"
                " (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n"
            )


FILES: list[tuple[Callable[[Path], None], str]] = [
    (missing, "does not exist"),
    (folder, "is a folder without a trace.sqlite"),
    (empty, "is empty"),
    (text, "is not an Nsight Systems SQLite export"),
    (lfs_pointer, "git lfs pull"),
    (gzipped, "is compressed"),
    (zipped, "is compressed"),
    (foreign_database, "no Nsight Systems export"),
    (empty_database, "is damaged"),
    (truncated, "is damaged"),
    (without_gpu_rows, "holds no GPU activity (no kernel, copy or memset row), only 1 CUDA API"),
    (only_unbelievable_rows, "holds no GPU row that can be believed"),
    (views, "is a view, which is not read"),
]


@pytest.mark.parametrize(("make", "expected"), FILES, ids=[make.__name__ for make, _ in FILES])
def test_a_file_that_cannot_be_analysed_ends_in_a_sentence(
    make: Callable[[Path], None], expected: str, traces: Path, out: Path
):
    trace = traces / "run.sqlite"
    make(trace)
    result = analyze(trace, "-o", out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_one_sentence(result.stderr, trace, expected)
    assert not out.exists()


def test_a_folder_with_a_trace_is_analysed_under_its_own_name(
    traces: Path, monkeypatch: pytest.MonkeyPatch
):
    run = traces / "offload"
    run.mkdir()
    write_export(run / "trace.sqlite")
    monkeypatch.chdir(traces)
    assert analyze("offload").exit_code == 0
    assert (traces / "reports" / "offload" / "report.html").is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_ends_in_a_sentence(traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    trace.chmod(0)
    result = analyze(trace, "-o", out)
    assert result.exit_code == 2
    assert_one_sentence(result.stderr, trace, "cannot be read (Permission denied)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_without_permission_ends_in_a_sentence(traces: Path):
    trace = write_export(traces / "run.sqlite")
    traces.chmod(0)
    with pytest.raises(nsysoffload.OffloadError) as caught:
        nsysoffload.analyze(trace)
    traces.chmod(0o755)
    assert str(caught.value) == "run.sqlite cannot be opened (Permission denied); check it."


def test_a_pipe_is_refused_and_not_waited_for(traces: Path, out: Path):
    trace = traces / "run.sqlite"
    os.mkfifo(trace)
    result = in_a_process(trace, "-o", out)
    assert result.returncode == 2
    assert_one_sentence(result.stderr, trace, "is not a regular file")


def test_a_device_is_refused(out: Path):
    result = in_a_process(os.devnull, "-o", out)
    assert result.returncode == 2
    assert_one_sentence(result.stderr, Path(os.devnull), "is not a regular file")


# --- Rows ---


@pytest.fixture
def edited(traces: Path) -> Callable[..., Path]:
    """Write a trace and change its export by SQL."""

    def edit(trace: TraceBuilder, *statements: str) -> Path:
        path = trace.write(traces / "run.sqlite")
        with closing(sqlite3.connect(path)) as db, db:
            for statement in statements:
                db.execute(statement)
        return path

    return edit


def small_trace() -> TraceBuilder:
    trace = TraceBuilder().kernel((0, 10), "gemm", call=(0, 0.1)).nvtx("step", (0, 20))
    return trace.copy("d2h", (5, 15), size_bytes=1000, stream=20, call=(4, 4.1))


def test_row_ids_far_apart_are_read(edited: Callable[..., Path]):
    path = edited(
        small_trace().kernel((20, 30), "gemm"),
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = rowid * 4000000000000000000",
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET rowid = -5",
    )
    report = nsysoffload.analyze(path)
    assert report.total.kernels == 2
    assert report.total.d2h.hidden_ns == 5_000_000


def test_text_may_begin_after_many_rows_without(edited: Callable[..., Path]):
    row = "SELECT start, end, eventType, globalTid, {text}, textId FROM NVTX_EVENTS WHERE rowid = 1"
    insert = "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, textId) "
    path = edited(
        small_trace(),
        "UPDATE NVTX_EVENTS SET text = NULL, textId = 1",
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 70000) "
        f"{insert}{row.format(text='NULL').replace('FROM', 'FROM n,')}",
        insert + row.format(text="'late'"),
    )
    texts = nsysoffload.load(path).nvtx_ranges["text"]
    assert len(texts) == 70_002
    assert texts.iloc[-1] == "late"
    assert "late" not in set(texts.iloc[:-1])


@pytest.mark.parametrize("size", [-5, 2**62])
def test_a_size_that_cannot_be_true_is_unknown(size: int, edited: Callable[..., Path]):
    path = edited(small_trace(), f"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = {size}")
    report = nsysoffload.analyze(path)
    assert (report.total.d2h.copies, report.total.d2h.bytes) == (1, None)
    assert "sizes_not_believed" in [warning.code for warning in report.trace.warnings]


@pytest.mark.parametrize("time", ["NULL", -(2**63), 2**63 - 1])
def test_a_call_without_a_time_says_nothing_about_its_rows(
    time: str | int, edited: Callable[..., Path]
):
    calls = "CUPTI_ACTIVITY_KIND_RUNTIME"
    path = edited(
        small_trace(),
        f"CREATE TABLE calls AS SELECT * FROM {calls}",
        f"DROP TABLE {calls}",
        f"UPDATE calls SET start = {time}",
        f"ALTER TABLE calls RENAME TO {calls}",
    )
    report = nsysoffload.analyze(path)
    assert (report.total.kernels, report.total.d2h.copies) == (1, 1)


def test_processes_that_share_a_pid_have_devices_of_their_own(edited: Callable[..., Path]):
    trace = small_trace().gpu("NVIDIA H100", pid=2).kernel((0, 1), "gemm", pid=2)
    path = edited(
        trace,
        "DROP TABLE TARGET_INFO_GPU",
        "DROP TABLE TARGET_INFO_CUDA_DEVICE",
        f"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET globalPid = globalPid + {1 << 48}",
    )
    ids = [device.id for device in nsysoffload.analyze(path).devices]
    assert len(set(ids)) == 3


def test_rows_that_name_more_gpus_than_any_machine_has_are_damage(edited: Callable[..., Path]):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600) "
    columns = "start, end, contextId, streamId, globalPid, bytes, copyKind"
    path = edited(
        small_trace(),
        f"{many} INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY ({columns}, deviceId)"
        f" SELECT {columns}, i FROM n, CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    with pytest.raises(nsysoffload.OffloadError, match=r"^run\.sqlite is damaged .* 601 GPUs"):
        nsysoffload.analyze(path)


# --- Names ---

NAMES = [
    "with space.sqlite",
    "what?mode=rwc#frag&%41%.sqlite",
    "grüße-日本.sqlite",
    'it\'s "quoted".sqlite',
    "new\nline.sqlite",
    "no suffix",
    os.fsdecode(b"no utf-8 \xff.sqlite"),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_trace_may_have_any_name(name: str, traces: Path, monkeypatch: pytest.MonkeyPatch):
    write_export(traces / name)
    monkeypatch.chdir(traces)
    result = analyze(name)
    assert result.exit_code == 0, result.stderr
    shown = Path(name.replace("\udcff", "\ufffd"))
    report = json.loads((traces / "reports" / shown.stem / "report.json").read_bytes())
    assert report["trace"]["file"] == shown.name


def test_a_name_too_long_for_the_system_is_refused(traces: Path):
    name = 100 * "long"
    with pytest.raises(nsysoffload.OffloadError, match=f"^{name} cannot be opened .*\\.$"):
        nsysoffload.analyze(traces / name)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_an_absent_trace_may_have_any_name(name: str, traces: Path, out: Path):
    result = analyze(traces / name, "-o", out)
    assert result.exit_code == 2
    shown = Path(name.encode(errors="backslashreplace").decode())
    assert_one_sentence(result.stderr, traces / shown, "check")


# --- What is left behind ---


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of every file in a folder."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.parametrize("extra", ["", "-wal", "-journal", "-shm"])
def test_inputs_and_their_folder_are_left_as_they_were(extra: str, traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    if extra:
        Path(f"{trace}{extra}").write_bytes(bytes(range(256)) * 16)
    before = state(traces)
    result = analyze(trace, "-o", out)
    assert result.exit_code == 0
    assert state(traces) == before
    assert ("[unmerged_changes]" in result.stderr) == (extra == "-wal")


def test_an_export_in_wal_mode_is_read_and_left_as_it_was(traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    with closing(sqlite3.connect(trace)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = state(traces)
    assert analyze(trace, "-o", out).exit_code == 0
    assert state(traces) == before


def test_a_trace_in_a_read_only_folder_is_analysed(traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    trace.chmod(0o444)
    traces.chmod(0o555)
    result = analyze(trace, "-o", out)
    traces.chmod(0o755)
    assert result.exit_code == 0


def test_an_old_report_stays_where_the_new_analysis_fails(traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    assert analyze(trace, "-o", out).exit_code == 0
    before = state(out)
    truncated(trace)
    assert analyze(trace, "-o", out).exit_code == 2
    assert state(out) == before


# --- Several traces ---


def test_a_trace_that_is_given_twice_is_refused(traces: Path, out: Path):
    trace = write_export(traces / "run.sqlite")
    link = traces / "link.sqlite"
    link.symlink_to(trace)
    for again in (trace, link, traces / ".." / traces.name / trace.name):
        result = analyze(trace, again, "-o", out)
        assert result.exit_code == 2
        assert result.stderr == ("Error: A trace is given twice; name each rank's trace once.\n")


def test_a_rank_that_cannot_be_used_is_a_warning(traces: Path, out: Path):
    good, bad = write_export(traces / "rank0.sqlite"), traces / "rank1.sqlite"
    truncated(bad)
    result = in_a_process(good, bad, "-o", out)
    assert result.returncode == 0
    assert "Warning [trace_unusable]: rank1.sqlite is damaged" in result.stderr


def test_ranks_of_which_none_can_be_used_end_in_one_sentence(traces: Path, out: Path):
    ranks = [traces / "rank0.sqlite", traces / "rank1.sqlite"]
    for rank in ranks:
        truncated(rank)
    result = in_a_process(*ranks, "-o", out)
    assert result.returncode == 2
    assert_one_sentence(result.stderr, ranks[0], "is damaged")
    assert not out.exists()


# --- Usage ---


@pytest.mark.parametrize(
    "arguments", [(), ("run.sqlite", "--bogus"), ("a", "--format", "pdf"), ("a", "--link", "isdn")]
)
def test_a_wrong_command_line_shows_the_usage(arguments: tuple[str, ...]):
    result = analyze(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: ")
    assert "\nError: " in result.stderr


@pytest.mark.parametrize(
    "option",
    [("--window", "2s..1s"), ("--device", "7"), ("--collective", "(")],
    ids=lambda option: option[0],
)
def test_an_option_that_does_not_fit_ends_in_a_sentence(
    option: tuple[str, str], traces: Path, out: Path
):
    result = analyze(write_export(traces / "run.sqlite"), "-o", out, *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_debug_shows_where_an_error_came_from(traces: Path, out: Path):
    result = in_a_process(traces / "run.sqlite", "-o", out, "--debug")
    assert result.returncode != 0
    assert "Traceback (most recent call last)" in result.stderr
    assert "run.sqlite does not exist" in result.stderr


# --- Reports of nsys ---

TOO_OLD = 'echo "Cannot open $last: Report was created in 2026.9, which is newer." >&2; exit 1'


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return how to put an nsys on PATH whose ``export`` does what a shell script says.

    The script finds the file to write in ``$output`` and the report in ``$last``.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    own_tmp = tmp_path / "tmp"
    own_tmp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own_tmp))

    def install(export: str) -> Path:
        program = programs / "nsys"
        program.write_text(
            "#!/bin/sh\n"
            "case $1$2 in\n"
            "--version) echo 'NVIDIA Nsight Systems version 2025.3.2.474-2532v0'; exit 0;;\n"
            "export--help) echo '--tables <pattern>'; exit 0;;\n"
            "esac\n"
            'while [ $# -gt 1 ]; do [ "$1" = --output ] && output=$2; shift; done\n'
            f"last=$1\n{export}\n"
        )
        program.chmod(0o755)
        return program

    return install


@pytest.fixture
def report(traces: Path) -> Path:
    path = traces / "run %h.nsys-rep"
    path.write_bytes(b"opaque")
    return path


def assert_nothing_is_left(report: Path) -> None:
    assert [path.name for path in report.parent.iterdir()] == [report.name]
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_a_report_is_exported_aside_and_analysed(
    nsys: Callable[[str], Path], report: Path, out: Path, tmp_path: Path
):
    nsys(f"cp '{write_export(tmp_path / 'exported.sqlite')}' \"$output\"")
    result = analyze(report, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert json.loads((out / "report.json").read_text())["trace"]["file"] == report.name
    assert_nothing_is_left(report)


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        pytest.param(TOO_OLD, "2025.3.2.474 could not export run %h.nsys-rep", id="too old"),
        pytest.param(TOO_OLD, "Report was created in 2026.9, which is newer", id="its words"),
        pytest.param("exit 0", "could not export", id="writes nothing"),
        pytest.param("kill -9 $$", "could not export", id="is killed"),
        pytest.param('echo rubbish > "$output"', "is damaged", id="writes rubbish"),
        pytest.param(': > "$output"', "no Nsight Systems export", id="writes an empty file"),
    ],
)
def test_a_report_that_nsys_cannot_export_ends_in_a_sentence(
    export: str, expected: str, nsys: Callable[[str], Path], report: Path, out: Path
):
    nsys(export)
    result = analyze(report, "-o", out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_one_sentence(result.stderr, report, expected)
    assert tempfile.gettempdir() not in result.stderr
    assert_nothing_is_left(report)


def test_a_report_without_nsys_says_how_to_export_it(
    nsys: Callable[[str], Path], report: Path, out: Path
):
    result = analyze(report, "-o", out)
    assert result.exit_code == 2
    assert_one_sentence(result.stderr, report, "nsys export --type sqlite")


def test_an_nsys_that_is_no_program_is_not_found(
    nsys: Callable[[str], Path], report: Path, out: Path
):
    nsys("exit 0").chmod(0o644)
    result = analyze(report, "-o", out)
    assert result.exit_code == 2
    assert_one_sentence(result.stderr, report, "nsys is not on PATH")


def test_an_nsys_that_does_not_start_ends_in_a_sentence(
    nsys: Callable[[str], Path], report: Path, out: Path
):
    nsys("exit 0").write_text("#!/no/such/interpreter\n")
    result = analyze(report, "-o", out)
    assert result.exit_code == 2
    assert_one_sentence(result.stderr, report, "cannot be run (No such file or directory)")
    assert_nothing_is_left(report)
