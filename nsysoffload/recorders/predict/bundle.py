"""Compiled programs as files: gzipped JSON, so that a schedule can be kept and timed again."""

import gzip
import json
import zlib
from dataclasses import asdict
from pathlib import Path

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.memory import Memory

__all__ = ["load", "save"]


def save(compiled: Compiled, path: Path) -> None:
    """Write a compiled program; the same program gives the same bytes."""
    text = json.dumps(asdict(compiled), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


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
