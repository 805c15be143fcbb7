"""Files of ``/proc`` and ``/sys``: short texts, with lists of numbers in them."""

import re
from pathlib import Path

__all__ = ["field", "number", "numbers", "text"]


def text(path: Path) -> str:
    """Return what a file holds; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def field(name: str, lines: str) -> str | None:
    """Return the rest of the line ``name: rest``; None if there is none.

    Examples
    --------
    >>> field("GPU UUID", "GPU UUID: GPU-12")
    'GPU-12'
    """
    found = re.search(rf"^{re.escape(name)}:[ \t]*(.*?)[ \t]*$", lines, re.MULTILINE)
    return found[1] if found else None


def number(path: Path) -> int | None:
    """Return the number that a file holds; None if it holds none, such as ``max``."""
    try:
        return int(text(path))
    except ValueError:
        return None


def numbers(listed: str) -> tuple[int, ...]:
    """Return the numbers of a list of ranges.

    Examples
    --------
    >>> numbers("0-2,8")
    (0, 1, 2, 8)
    """
    found: list[int] = []
    for part in listed.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)
