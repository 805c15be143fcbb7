"""Errors that end a command: one sentence on what is wrong and what to do, and an exit code."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "GateFailed",
    "OffloadError",
    "RecordingError",
    "TraceError",
    "UsageError",
    "unknown_name",
]


class OffloadError(Exception):
    """Base of every error this package raises on purpose; its text is one sentence for users."""

    exit_code = 2


class TraceError(OffloadError):
    """A trace cannot be used: no export, damaged, or without GPU activity."""


class UsageError(OffloadError):
    """An option or argument does not fit the trace, or cannot be read."""


class RecordingError(OffloadError):
    """A run could not be recorded, or its recording is not what it seems."""

    exit_code = 3


class GateFailed(OffloadError):
    """A report was made and breaks a limit that it was given; one line for each such limit."""

    exit_code = 1


def unknown_name(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return an error that says which name was perhaps meant, or lists all there are.

    Examples
    --------
    >>> print(unknown_name("Metric", "overlop", ["overlap", "stall_ms"]))
    Metric 'overlop' is not known; did you mean 'overlap'?
    """
    names = list(known)
    close = get_close_matches(name, names, 1)
    guess = f"did you mean '{close[0]}'?" if close else f"choose from: {', '.join(names)}."
    return UsageError(f"{what} '{name[:60]}' is not known; {guess}")
