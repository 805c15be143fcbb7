"""Folders that a recording writes to: whether it may, and how much fits."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Folder", "folder"]


@dataclass(frozen=True)
class Folder:
    """A folder to write to.

    Attributes
    ----------
    there : bool
        Whether it is there.
    writable : bool
        Whether it can be written to, or made where it is not there yet.
    free_bytes : int or None
        What this user may still write to its disk.
    """

    there: bool
    writable: bool
    free_bytes: int | None


def folder(path: Path) -> Folder:
    """Look at a folder, or at the nearest one above it that is there; nothing is written."""
    nearest = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    try:
        free = shutil.disk_usage(nearest).free
    except OSError:
        free = None
    return Folder(
        there=path.exists(),
        writable=nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
        free_bytes=free,
    )
