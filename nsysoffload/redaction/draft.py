"""The copy while it is made: a new database beside its place, with the export attached to it.

A new file never held anything else: nothing that was left out is in a page that is not used.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from nsysoffload.errors import TraceError, UsageError
from nsysoffload.trace.export import damaged

__all__ = ["SOURCE", "drafted"]

SOURCE = "export"
"""Schema name of the attached export."""

_UNREAD = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_FORBIDDEN = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_CACHE_KIB = 32_768


@contextmanager
def drafted(export: Path, out: Path) -> Iterator[sqlite3.Connection]:
    """Give an empty database with the export attached; once the block ends it is at its place.

    Parameters
    ----------
    export : Path
        Opened so that it cannot change.
    out : Path
        The copy; an old one is replaced by the complete new one, and stays if the block fails.

    Raises
    ------
    TraceError
        If the export is damaged.
    UsageError
        If the copy cannot be written. Then nothing new is left behind.
    """
    draft = out.with_name(f".nsysoffload-{secrets.token_hex(8)}.part")
    try:
        with _folder(out.parent):
            try:
                with closing(_opened(draft, export)) as db:
                    yield db
                _settle(draft)
                draft.replace(out)
            finally:
                draft.unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise _told(error, export, out) from error
    except OSError as error:
        raise _unwritable(out, error.strerror or "the system refused") from error


def _opened(draft: Path, export: Path) -> sqlite3.Connection:
    db = sqlite3.connect(draft, isolation_level=None, uri=True)
    db.text_factory = lambda text: text.decode(errors="replace")
    # The file has no reader before it is complete, so a journal would protect nothing. What is
    # sorted or looked up meanwhile may be private: it stays in memory.
    for setting in (
        "journal_mode = OFF",
        "synchronous = OFF",
        "temp_store = MEMORY",
        f"cache_size = -{_CACHE_KIB}",
        "trusted_schema = OFF",
    ):
        db.execute(f"PRAGMA {setting}")
    address = f"file:{quote(os.fsencode(export.resolve()))}?mode=ro&immutable=1"
    db.execute(f"ATTACH ? AS {SOURCE}", (address,))
    return db


def _settle(draft: Path) -> None:
    """Wait until all of the file is on the disk."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder for the block; if the block fails, what was made and is empty goes again."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


def _told(error: sqlite3.Error, export: Path, out: Path) -> TraceError | UsageError:
    """Say what went wrong without SQLite's words, which may name tables of the export."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code not in _UNREAD and code & 0xFF in _FULL:
        return _unwritable(out, "there is no space left, or the disk fails")
    if code & 0xFF in _FORBIDDEN:
        return _unwritable(out, "permission is missing")
    return damaged(export)


def _unwritable(out: Path, reason: str) -> UsageError:
    return UsageError(f"{out.name} cannot be written ({reason}); mend that or choose another OUT.")
