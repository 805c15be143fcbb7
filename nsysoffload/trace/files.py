"""From what a user names to an SQLite export: a file, a run folder, or a report to be exported."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysoffload.errors import TraceError
from nsysoffload.trace.nsys_export import exported

__all__ = ["export_of", "located", "report_name"]

_SQLITE = b"SQLite format 3\0"
_REPORTS = (".nsys-rep", ".qdrep")


def located(path: Path) -> Path:
    """Return the trace that a path names: itself, or the ``trace.sqlite`` of a run folder.

    Raises
    ------
    TraceError
        If there is no such file, or it cannot be read.
    """
    try:
        return _located(path)
    except OSError as error:
        raise TraceError(f"{path.name} cannot be opened ({error.strerror}); check it.") from error


def _located(path: Path) -> Path:
    if path.is_dir():
        inside = path / "trace.sqlite"
        if not inside.is_file():
            raise TraceError(
                f"{path.name or path} is a folder without a trace.sqlite; name a trace in it."
            )
        return inside
    if not path.exists():
        raise TraceError(f"{path.name or path} does not exist; check the path.")
    if not path.is_file():
        raise TraceError(f"{path.name} is not a regular file; save the trace to disk first.")
    return path


def report_name(path: Path) -> str:
    """Return the name of a trace's report: its stem, or its folder's name for a trace.sqlite."""
    name = path.resolve().parent.name if path.name == "trace.sqlite" else path.stem
    # A folder's name that is no UTF-8 could not be printed.
    return os.fsencode(name).decode(errors="replace") or "trace"


@contextmanager
def export_of(path: Path) -> Iterator[Path]:
    """Give the SQLite export of a trace; a report is exported into a temporary folder.

    Raises
    ------
    TraceError
        If the file is neither an export nor a report that can be exported here.
    """
    if path.suffix in _REPORTS:
        with tempfile.TemporaryDirectory(prefix="nsysoffload-") as folder:
            export = exported(path, Path(folder))
            yield export.rename(export.with_name(path.name))  # by which later errors name it
    else:
        _check(path)
        yield path


def _check(path: Path) -> None:
    """Raise the error that fits a file which is no SQLite database."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read ({error.strerror}); check it.") from error
    if head.startswith(_SQLITE):
        return
    what = "is not an Nsight Systems SQLite export"
    if not head:
        what = "is empty"
    elif head.startswith(b"version https://git-lfs"):
        raise TraceError(f"{path.name} is a Git LFS pointer; get the file with 'git lfs pull'.")
    elif head.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")):
        raise TraceError(f"{path.name} is compressed; unpack it first.")
    raise TraceError(f"{path.name} {what}; make one with 'nsys export --type sqlite'.")
