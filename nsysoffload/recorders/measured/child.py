"""Run a command to its end, in a process group of its own, and end the group with it."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nsysoffload.errors import UsageError

__all__ = ["Ended", "Limits", "run"]

_POLL_S = 0.05
_READ_BYTES = 16_000_000
_PATIENCE_S = 10  # between asking a group to end and ending it


@dataclass(frozen=True)
class Limits:
    """When not to wait any longer.

    Attributes
    ----------
    timeout_s : float or None
        Seconds for the whole command.
    grace_s : float
        Seconds for the command to end once its result is there.
    """

    timeout_s: float | None = None
    grace_s: float = 60


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes
    ----------
    status : int
        Its exit code; 128 and the signal's number where one ended it, as in a shell.
    seconds : float
        How long it ran.
    ended : str
        Why it was ended from here: ``timeout``, ``hung`` (its result was there and it went on), or
        empty where it ended by itself.
    printed : str
        What it printed, of much the last of it.
    """

    status: int
    seconds: float
    ended: str = ""
    printed: str = field(default="", repr=False)


def run(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str],
    limits: Limits,
    result: Callable[[], object] = lambda: None,
) -> Ended:
    """Run a command; it and what it prints are added to a log.

    Its processes are in a group of their own, so that a signal for this process does not reach
    them, and one for them reaches nobody else. However this function is left, the group is ended.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    log : Path
        File for stdout and stderr.
    environment : mapping of str to str
        The whole environment.
    limits : Limits
        When to end it.
    result : function
        Returns something true once the result of the command is there, equal as long as it does not
        change any more.

    Raises
    ------
    UsageError
        If the program cannot be started.
    """
    began = time.monotonic()
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        try:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"'{command[0]}' cannot be run ({error.strerror}); check the command."
            ) from error
        try:
            ended = _wait(child.pid, began, limits, result)
        finally:
            try:
                _end(child.pid)
            finally:
                status = child.wait()
    seconds = time.monotonic() - began
    return Ended(128 - status if status < 0 else status, seconds, ended, _text(log, start))


def _text(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - _READ_BYTES))
        return file.read().decode(errors="replace")


def _wait(pid: int, began: float, limits: Limits, result: Callable[[], object]) -> str:
    """Wait for the leader of the group; say why if it is not to be waited for."""
    there, since = result(), time.monotonic()
    while not _exited(pid):
        time.sleep(_POLL_S)
        now = time.monotonic()
        if limits.timeout_s is not None and now - began > limits.timeout_s:
            return "timeout"
        if result() != there:
            there, since = result(), now
        if there and now - since > limits.grace_s:
            return "hung"
    return ""


def _exited(pid: int) -> bool:
    """Whether a child has ended; it is kept, so that its number stays that of its group."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(group: int) -> None:
    """Ask what is left of a group to end, and end what does not, or at once if hurried."""
    try:
        _ask_then_kill(group)
    except BaseException:  # a second interrupt
        _signal(group, signal.SIGKILL)
        raise


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _ask_then_kill(group: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(group, number)
        deadline = time.monotonic() + _PATIENCE_S
        while _alive(group) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not _alive(group):
            return


def _alive(group: int) -> bool:
    """Whether a group has a process that has not ended; its leader may have, and be kept."""
    if not _exited(group):
        return True
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, pgrp = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                return True
    return False
