"""Commands run as processes of their own, one after the other, with what each cost."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

__all__ = ["Failure", "Run", "interleaved", "run"]

Command = Sequence[str]


class Failure(Exception):
    """A command that crashed; the text ends with what it said on stderr."""


@dataclass(frozen=True)
class Run:
    """What a process cost from its start to its end, threads and children included."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str


def run(command: Command) -> Run:
    """Run a command to its end.

    The kernel counts the peak of a process from that of the one that started it, so the caller
    has to be small itself.

    Raises
    ------
    Failure
        If it ends with another exit code than 0.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said = [_text(file) for file in (output, errors)]
    if process.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit code {process.returncode}\n{said[1]}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, said[0])


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def interleaved(commands: Mapping[str, Command], rounds: int) -> dict[str, list[Run]]:
    """Run the commands in turn, A B A B, so that a change of the machine's load meets all of them.

    A first round, in which files come into the cache, is not counted.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            done = run(command)
            if number:
                runs[name].append(done)
    return runs
