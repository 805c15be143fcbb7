"""Compiled programs as files: gzipped JSON, so that a schedule can be kept and timed again."""

import gzip
import json
import zlib
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.memory import Memory

__all__ = ["load", "save", "zipped"]


def save(compiled: Compiled, path: Path) -> None:
    """Write a compiled program; the same program gives the same bytes."""
    path.write_bytes(zipped(json.dumps(asdict(compiled), sort_keys=True)))


def zipped(text: str) -> bytes:
    """Compress a text; unlike those of `gzip.compress`, the bytes do not vary with Python."""
    with BytesIO() as made:
        with gzip.GzipFile(filename="", mode="wb", fileobj=made, mtime=0) as file:
            file.write(text.encode())
        return made.getvalue()


def load(path: Path) -> Compiled:
    """Read a compiled program.

    Raises
    ------
    OffloadError
        If the file is none.
    """
    try:
        values = json.loads(gzip.decompress(path.read_bytes()))
        values |= {"memory": Memory(**values["memory"]), "flags": tuple(values["flags"])}
        return Compiled(**values)
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise OffloadError(f"{path.name} is no compiled program; compile it again.") from error
