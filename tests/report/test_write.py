import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.report.write import write

ROOT = Path(__file__).parents[2]
OLD = {"report.html": "old page", "report.md": "old text", "report.json": "old data"}
NEW = {"report.html": "new page", "report.md": "new µ🚀", "report.json": "new data\n"}
UNNAMED = hasattr(os, "O_TMPFILE")


@pytest.fixture(params=["unnamed", "named"])
def drafts(request, monkeypatch):
    """Both ways to write a file that nobody sees yet."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not UNNAMED:
        pytest.skip("this system has no files without a name")


@pytest.fixture
def folder(tmp_path):
    """A folder with an older report."""
    write(OLD, tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """Text of all files in a folder, hidden ones included."""
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def run(script: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    # A shell that runs the tests in the background has them, and what they start, ignore SIGINT.
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path\nfrom nsysoffload.report.write import write\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code + textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_files_are_written_in_order_into_a_new_folder(tmp_path, drafts):
    folder = tmp_path / "a" / "b"
    assert write(NEW, folder) == [folder / name for name in NEW]
    assert contents(folder) == NEW


def test_files_are_replaced_and_others_are_left_alone(folder, drafts):
    (folder / "notes.txt").write_text("mine")
    write(NEW, folder)
    assert contents(folder) == NEW | {"notes.txt": "mine"}


def test_half_a_surrogate_pair_is_written_as_a_question_mark(tmp_path, drafts):
    write({"a.txt": "x\ud800y"}, tmp_path)
    assert contents(tmp_path) == {"a.txt": "x?y"}


def test_lines_end_as_they_are_given(tmp_path, drafts):
    write({"a.txt": "a\nb\r\n"}, tmp_path)
    assert (tmp_path / "a.txt").read_bytes() == b"a\nb\r\n"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, drafts, umask):
    before = os.umask(umask)
    try:
        write(NEW, tmp_path)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o666 & ~umask}


def test_a_link_to_a_file_elsewhere_is_replaced_and_that_file_stays(tmp_path, drafts):
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("mine")
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.md").symlink_to(elsewhere)
    write(NEW, folder)
    assert elsewhere.read_text() == "mine"
    assert contents(folder) == NEW


# --- What cannot be written ---


def refused(files: dict[str, str], folder: Path) -> str:
    """The sentence a user gets."""
    with pytest.raises(UsageError) as caught:
        write(files, folder)
    assert caught.value.exit_code == 2
    sentence = str(caught.value)
    assert re.fullmatch(r"The report cannot be written to .*: .*; .*-o\.", sentence)
    return sentence


def test_a_folder_with_the_name_of_a_file_refuses_all_files(folder, drafts):
    (folder / "report.json").unlink()
    (folder / "report.json").mkdir()
    assert "a folder has the name of one of its files" in refused(NEW, folder)
    (folder / "report.json").rmdir()
    assert contents(folder) == {name: OLD[name] for name in ("report.html", "report.md")}


@pytest.mark.parametrize("below", ["report.md", "report.md/deeper/still"])
def test_a_path_through_a_file_is_refused(folder, drafts, below):
    assert "is a file, not a folder" in refused(NEW, folder / below)
    assert contents(folder) == OLD


def test_a_name_that_is_too_long_is_refused_and_the_folder_made_for_it_is_removed(tmp_path, drafts):
    assert "too long" in refused({"a.md": "a", "x" * 300: "b"}, tmp_path / "made" / "here")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_and_is_empty_stays(tmp_path, drafts):
    refused({"x" * 300: "b"}, tmp_path)
    assert tmp_path.is_dir()


@pytest.fixture
def another_user() -> Iterator[None]:
    """Root may write anywhere; the test is about those who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are those of POSIX")
def test_a_folder_without_permission_is_refused(drafts, request):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(OLD, folder)
        folder.chmod(0o555)
        request.getfixturevalue("another_user")
        assert "permission is missing" in refused(NEW, folder)
        assert "permission is missing" in refused(NEW, folder / "new")
        assert contents(folder) == OLD
        if os.getuid() == 0:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def full_disk(tmp_path) -> Iterator[Path]:
    """A file system of 64 KiB, most of it free."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if not mount or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    command = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_leaves_the_old_files_and_nothing_else(full_disk, drafts):
    write(OLD, full_disk)
    files = NEW | {"report.json": "x" * 100_000}
    assert "there is no space left" in refused(files, full_disk)
    assert contents(full_disk) == OLD
    assert "there is no space left" in refused(files, full_disk / "new")
    assert contents(full_disk) == OLD


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
def test_a_limit_on_file_size_leaves_the_old_files_and_nothing_else(folder, named):
    script = """
    import os, resource
    from nsysoffload.errors import UsageError
    if sys.argv[2] == "True":
        del os.O_TMPFILE
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        write({"report.html": "new", "report.md": "x" * 100_000}, Path(sys.argv[1]))
    except UsageError as error:
        print(error)
    """
    said, _ = run(script, folder, named and UNNAMED).communicate(timeout=60)
    assert "a file would be larger than is allowed" in said
    assert contents(folder) == OLD


def test_any_other_failure_is_a_sentence_too(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert os.strerror(errno.ELOOP) in refused(NEW, loop / "x")


# --- Killed, interrupted, and not alone ---

SLOW = """
    import time

    class Slow(dict):
        def values(self):
            yield "new page"
            print("written", flush=True)
            time.sleep(600)

    write(Slow({"report.html": "", "report.md": ""}), Path(sys.argv[1]))
"""


@pytest.mark.skipif(not UNNAMED, reason="this system has no files without a name")
def test_a_process_killed_while_it_writes_leaves_nothing_behind(folder):
    process = run(SLOW, folder)
    assert process.stdout and process.stdout.readline() == "written\n"
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert contents(folder) == OLD


def test_an_interrupted_process_removes_the_folders_it_made(tmp_path):
    process = run(SLOW, tmp_path / "a" / "b")
    assert process.stdout and process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_several_writers_at_once_leave_whole_files_of_one_of_them(tmp_path, drafts):
    names, length = ("report.html", "report.json"), 200_000

    def write_often(letter: str) -> None:
        for _ in range(10):
            write(dict.fromkeys(names, letter * length), tmp_path)

    def check_often(_: int) -> None:
        for _ in range(50):
            for name in names:
                text = (tmp_path / name).read_text()
                assert text == text[0] * length

    write_often("z")
    with ThreadPoolExecutor(4) as pool:
        for work in [*(pool.submit(write_often, x) for x in "abc"), pool.submit(check_often, 0)]:
            work.result()
    assert {path.name for path in tmp_path.iterdir()} == set(names)
