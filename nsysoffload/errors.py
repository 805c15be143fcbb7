"""Errors that end a command: one sentence on what is wrong and what to do, and an exit code."""

__all__ = ["OffloadError", "TraceError", "UsageError"]


class OffloadError(Exception):
    """Base of every error this package raises on purpose; its text is one sentence for users."""

    exit_code = 2


class TraceError(OffloadError):
    """A trace cannot be used: no export, damaged, or without GPU activity."""


class UsageError(OffloadError):
    """An option or argument does not fit the trace, or cannot be read."""
