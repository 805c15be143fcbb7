"""A window of time as users write it: ``1.5s..2s``."""

import re
from decimal import Decimal

from nsysoffload.errors import UsageError

__all__ = ["parse_window"]

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 10**9}
_TIME = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?)\s*(ns|us|µs|ms|s|)\s*", re.I)


def parse_window(text: str) -> tuple[int, int]:
    """Read a window on the trace's own clock.

    Parameters
    ----------
    text : str
        ``A..B`` with units ns, us, ms or s; without a unit it is seconds.

    Returns
    -------
    tuple of int
        Start and end in nanoseconds.

    Raises
    ------
    UsageError
        If it cannot be read, or does not end after it starts.

    Examples
    --------
    >>> parse_window("1.5s..2s"), parse_window("0ms..250us")
    ((1500000000, 2000000000), (0, 250000))
    """
    parts = text.split("..")
    if len(parts) != 2:
        raise UsageError(f"Window '{text}' is not of the form A..B; write it like 1.5s..2s.")
    start, end = (_nanoseconds(part, text) for part in parts)
    if end <= start:
        raise UsageError(f"Window '{text}' does not end after it starts; swap its ends.")
    return start, end


def _nanoseconds(time: str, window: str) -> int:
    match = _TIME.fullmatch(time)
    if not match:
        raise UsageError(
            f"Window '{window}' has no time in '{time}'; write numbers with ns, us, ms or s."
        )
    value = Decimal(match[1]) * _UNITS[match[2].lower()]
    if abs(value) >= 2**62:
        raise UsageError(f"Window '{window}' lies beyond any trace; check its units.")
    return round(value)
