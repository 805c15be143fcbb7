"""The folder of a run: made aside, moved into place whole, and an earlier run kept until then."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nsysoffload.errors import RecordingError, UsageError

__all__ = ["FAILED", "PARTIAL", "in_place"]

PARTIAL = ".partial"
FAILED = "failed"
_LAST = "manifest.json"  # a run is whole once it has one
_FILES = ("trace.nsys-rep", "trace.qdrep", "trace.xplane.pb", "trace.sqlite", "schedule.hlo.gz")


@contextmanager
def in_place(folder: Path) -> Iterator[Path]:
    """Give an empty folder for the files of a run, which then replace those of an earlier one.

    Parameters
    ----------
    folder : Path
        Of the run. The empty folder is ``.partial`` in it.

    Raises
    ------
    UsageError
        If the folder cannot be made, or another run is being recorded into it.
    RecordingError
        As the body raises it, or if its files cannot be written; what was made so far is then in
        ``failed``, and the earlier run as it was.
    """
    partial = folder / PARTIAL
    with _alone(folder):
        try:
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            partial.mkdir()
            yield partial
            _replace(partial, folder)
        except RecordingError:
            _keep_failed(partial, folder)
            raise
        except OSError as error:
            _keep_failed(partial, folder)
            raise RecordingError(_refused(folder, error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            with suppress(OSError):
                folder.rmdir()  # if nothing is in it


def _refused(folder: Path, error: OSError) -> str:
    reason = error.strerror or error
    return f"The run cannot be written to {folder}: {reason}; name another folder, or make room."


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock, which the system gives back however this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(_refused(folder, error)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UsageError(
            f"Another run is being recorded into {folder}; wait for it, or name another folder."
        ) from None
    except OSError:
        pass  # some network file systems have no locks
    try:
        yield
    finally:
        os.close(handle)


def _replace(partial: Path, folder: Path) -> None:
    made = {path.name for path in partial.iterdir()}
    (folder / _LAST).unlink(missing_ok=True)  # of files that are no run any more
    for name in sorted(made, key=lambda name: name == _LAST):
        (partial / name).replace(folder / name)
    for name in {*_FILES} - made:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / FAILED, ignore_errors=True)


def _keep_failed(partial: Path, folder: Path) -> None:
    shutil.rmtree(folder / FAILED, ignore_errors=True)
    with suppress(OSError):
        partial.rename(folder / FAILED)
