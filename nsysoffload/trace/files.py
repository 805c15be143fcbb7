"""From what a user names to an SQLite export: a file, a run folder, a report or profile to export.

A profile of `jax.profiler` is a file ``HOST.xplane.pb`` in ``FOLDER/plugins/profile/DATE``.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysoffload.errors import TraceError
from nsysoffload.trace.nsys_export import exported
from nsysoffload.trace.xplane.convert import export

__all__ = ["export_of", "located", "public", "report_name"]

_SQLITE = b"SQLite format 3\0"
_REPORTS = (".nsys-rep", ".qdrep")
_PROFILE = ".xplane.pb"
_PROFILES = ("plugins", "profile")  # below the folder that jax.profiler was given
_SHOWN = 4  # of the profiles of a folder


def located(path: Path) -> Path:
    """Return the trace that a path names: itself, or the one of a folder.

    That is the ``trace.sqlite`` of a run folder, else the latest profile in the folder.

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
        return inside if inside.is_file() else _profile(path)
    if not path.exists():
        raise TraceError(f"{_spoken(path)} does not exist; check the path.")
    if not path.is_file():
        raise TraceError(f"{path.name} is not a regular file; save the trace to disk first.")
    return path


def _profile(folder: Path) -> Path:
    """Return the profile of a folder, of several dates the latest."""
    dated = sorted(folder.joinpath(*_PROFILES).glob("*/"))
    found = [sorted(place.glob(f"*{_PROFILE}")) for place in (*dated, folder)]
    latest = next((files for files in reversed(found) if files), [])
    if not latest:
        runs = sorted(place.parent.name for place in folder.glob("*/trace.sqlite"))
        advice = (
            f"name one of its runs, such as {_spoken(folder) / runs[0]}" if runs else "name a trace"
        )
        raise TraceError(
            f"{_spoken(folder)} is a folder without a trace.sqlite or a profile of jax.profiler;"
            f" {advice}."
        )
    if len(latest) > 1:
        names = ", ".join(file.name for file in latest[:_SHOWN])
        more = f" and {len(latest) - _SHOWN} more" if len(latest) > _SHOWN else ""
        raise TraceError(
            f"{folder.name or folder} holds profiles of several processes ({names}{more}); name one"
            " of these files, or all as ranks."
        )
    return latest[0]


def _spoken(path: Path) -> Path:
    """Return a path as an error names it: logs of a build are public, and homes are not."""
    return Path(path.name or path) if path.is_absolute() else path


def public(path: Path) -> Path:
    """Return the path by whose name a report shows a trace.

    jax.profiler names a profile after the host; it is shown under the name of the folder that
    jax.profiler was given.
    """
    place = path.resolve()
    if not path.name.endswith(_PROFILE) or place.parts[-4:-2] != _PROFILES:
        return path
    return path.with_name(f"{place.parents[3].name}{_PROFILE}")


def report_name(path: Path) -> str:
    """Return the name of a trace's report: its stem, or its folder's name for a trace.sqlite."""
    if path.name == "trace.sqlite":
        name = path.resolve().parent.name
    else:
        shown = public(path)
        name = shown.name.removesuffix(_PROFILE) if shown.name.endswith(_PROFILE) else shown.stem
    # A folder's name that is no UTF-8 could not be printed.
    return os.fsencode(name).decode(errors="replace") or "trace"


@contextmanager
def export_of(path: Path) -> Iterator[Path]:
    """Give the SQLite export of a trace; others are exported into a temporary folder.

    Raises
    ------
    TraceError
        If the file is neither an export nor a report or profile that can be exported here.
    """
    if path.suffix in _REPORTS or path.name.endswith(_PROFILE):
        with tempfile.TemporaryDirectory(prefix="nsysoffload-") as folder:
            place = Path(folder)
            if path.suffix in _REPORTS:
                made = exported(path, place)
            else:
                made = place / "export.sqlite"
                export(path, made)
            yield made.rename(place / path.name)  # by which later errors name it
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
