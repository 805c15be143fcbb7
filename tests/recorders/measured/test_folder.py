import os

import pytest

from nsysoffload.errors import RecordingError, UsageError
from nsysoffload.recorders.measured.folder import in_place


def made(folder, **files):
    with in_place(folder) as partial:
        for name, text in files.items():
            (partial / name.replace("_", ".")).write_text(text)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_get_into_the_folder_together(tmp_path):
    made(tmp_path / "a" / "run", trace_sqlite="t", manifest_json="m")
    assert contents(tmp_path / "a" / "run") == {"trace.sqlite": "t", "manifest.json": "m"}


def test_a_new_run_replaces_all_files_of_an_earlier_one(tmp_path):
    made(tmp_path, trace_sqlite="old", trace_qdrep="old", manifest_json="old")
    made(tmp_path, trace_sqlite="new", manifest_json="new")
    assert contents(tmp_path) == {"trace.sqlite": "new", "manifest.json": "new"}


def test_a_failed_recording_is_kept_beside_the_earlier_run(tmp_path):
    made(tmp_path, trace_sqlite="old", manifest_json="old")
    for log in ("first", "second"):
        with pytest.raises(RecordingError), in_place(tmp_path) as partial:
            (partial / "log.txt").write_text(log)
            raise RecordingError("failed")
    assert contents(tmp_path / "failed") == {"log.txt": "second"}
    assert (tmp_path / "trace.sqlite").read_text() == "old"
    made(tmp_path, trace_sqlite="new")
    assert not (tmp_path / "failed").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, UsageError("no"), SystemExit])
def test_nothing_is_left_of_what_was_given_up(tmp_path, error):
    folder = tmp_path / "run"
    with pytest.raises((KeyboardInterrupt, UsageError, SystemExit)), in_place(folder) as partial:
        (partial / "log.txt").write_text("x")
        raise error
    assert not folder.exists()


def test_what_a_killed_process_left_is_cleared(tmp_path):
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / "trace.nsys-rep").write_text("stale")
    made(tmp_path, manifest_json="m")
    assert contents(tmp_path) == {"manifest.json": "m"}


def test_two_runs_are_not_recorded_into_one_folder_at_once(tmp_path):
    with in_place(tmp_path) as partial:
        (partial / "manifest.json").write_text("first")
        with (
            pytest.raises(UsageError, match="Another run is being recorded"),
            in_place(tmp_path),
        ):
            pass
    assert contents(tmp_path) == {"manifest.json": "first"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written to .*Permission denied"):
        made(tmp_path / "run", manifest_json="m")


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match=r"file/run: Not a directory; name another folder"):
        made(tmp_path / "file" / "run", manifest_json="m")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_disk_that_is_full_is_a_failed_recording(tmp_path):
    made(tmp_path, manifest_json="old")
    with pytest.raises(RecordingError, match="No space left on device"), in_place(tmp_path):
        raise OSError(28, "No space left on device")
    assert (tmp_path / "manifest.json").read_text() == "old"
