"""Checks of the folders that a recording writes to."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.machine.folders import Folder

__all__ = ["lock_checks", "output_check", "temporary_check"]

_LITTLE_BYTES = 2 * 10**9  # a few recorded steps of a large model and their export
_NO_BYTES = 10**8


def output_check(path: Path, folder: Folder) -> Check:
    """Judge the folder for what is recorded, and say if runs are in it already."""
    check = _judged("output", "The output folder", folder, "name another one with -o.")
    if check.state == "ok" and any(path.glob("*/manifest.json")):
        return replace(check, advice="A run in it is replaced by a new one of its name.")
    return check


def temporary_check(folder: Folder) -> Check:
    """Judge the folder for temporary files, where nsys collects what it records."""
    title, remedy = "The folder for temporary files", "name another one with TMPDIR."
    if not folder.there:
        return Check("temporary", "problem", f"{title} is not there.", f"Make it, or {remedy}")
    return _judged("temporary", title, folder, remedy)


def lock_checks(folder: Folder) -> Iterator[Check]:
    """Warn if nsys cannot write its locks."""
    if not folder.there or not folder.writable:
        text = "nsys wants to write to /var/lock and cannot, so it may fail to start."
        yield Check("locks", "warning", text, "Make it writable; a container can mount one there.")


def _judged(name: str, title: str, folder: Folder, remedy: str) -> Check:
    if not folder.writable:
        text = f"{title} cannot be written to."
        return Check(name, "problem", text, f"Make it writable, or {remedy}")
    if folder.free_bytes is None:
        return Check(name, "ok", f"{title} can be written to.")
    text = f"{title} has {folder.free_bytes / 1e9:.3g} GB free."
    if folder.free_bytes < _NO_BYTES:
        return Check(name, "problem", text, f"Free some, or {remedy}")
    if folder.free_bytes < _LITTLE_BYTES:
        return Check(name, "warning", text, f"A recording may take more: free some, or {remedy}")
    return Check(name, "ok", text)
