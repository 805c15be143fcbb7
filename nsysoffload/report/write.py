"""Several files written as one: the old ones stay until all the new ones are complete.

Each file is first written without a name, where the system can do that, so that a process that is
killed while it writes leaves nothing behind. Once all are complete, each replaces its old one.
"""

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from nsysoffload.errors import UsageError

__all__ = ["write"]

_OPEN_FILES = Path("/proc/self/fd")  # by its entry here an unnamed file can be given a name
_ELSEWHERE = "choose another folder with -o"
_NO_FOLDER = f"a part of that path is a file, not a folder; {_ELSEWHERE}"
_FORBIDDEN = f"permission is missing; {_ELSEWHERE}"
_ADVICE = {
    errno.ENOSPC: f"there is no space left; free some or {_ELSEWHERE}",
    errno.EDQUOT: f"the disk quota is used up; free some space or {_ELSEWHERE}",
    errno.EFBIG: f"a file would be larger than is allowed; raise the limit or {_ELSEWHERE}",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: f"the file system is read-only; {_ELSEWHERE}",
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.EISDIR: f"a folder has the name of one of its files; remove that or {_ELSEWHERE}",
}


def write(report_files: Mapping[str, str], directory: Path) -> list[Path]:
    """Write text files into a folder, replacing those of the same names.

    Parameters
    ----------
    report_files : mapping of str to str
        Text of each file by its base name. Written as UTF-8; half of a surrogate pair, which has
        no encoding, as a question mark.
    directory : Path
        Folder, made with its parents if it is not there.

    Returns
    -------
    list of Path
        The files, in the order of `report_files`.

    Raises
    ------
    UsageError
        If any file cannot be written. Then the old files are as before, and nothing new is left
        behind.
    """
    targets = [directory / name for name in report_files]
    try:
        with _folder(directory), ExitStack() as open_drafts:
            _refuse_folders(targets)
            drafts = [
                open_drafts.enter_context(_draft(target, text))
                for target, text in zip(targets, report_files.values(), strict=True)
            ]
            for move in drafts:
                move()
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, f"{error.strerror}; {_ELSEWHERE}")
        raise UsageError(f"The report cannot be written to {directory}: {reason}.") from error
    return targets


@contextmanager
def _folder(directory: Path) -> Iterator[None]:
    """Make a folder for the block; if the block fails, what was made and is empty goes again."""
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


def _refuse_folders(targets: Iterable[Path]) -> None:
    """Fail before any file is replaced, where one of them could not be."""
    for target in targets:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))


@contextmanager
def _draft(target: Path, text: str) -> Iterator[Callable[[], None]]:
    """Write a complete file that nobody sees; what is given moves it over the target."""
    hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with _opened(hidden) as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
            yield partial(_move, file, hidden, target)
    finally:
        with suppress(OSError):
            hidden.unlink()


def _opened(hidden: Path) -> BinaryIO:
    """Open a file without a name; with the hidden name where the system wants one."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed and _OPEN_FILES.is_dir():
        with suppress(OSError):
            return os.fdopen(os.open(hidden.parent, unnamed | os.O_WRONLY, 0o666), "wb")
    return hidden.open("xb")


def _move(file: BinaryIO, hidden: Path, target: Path) -> None:
    """Put the file in place of the target, in one step."""
    if not hidden.exists():
        # The path is absolute, so the descriptor has no effect but that Python follows the link.
        os.link(_OPEN_FILES / str(file.fileno()), hidden, src_dir_fd=file.fileno())
    hidden.replace(target)
