"""The process that compiles: what it is given, and what its failures mean."""

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from nsysoffload.errors import RecordingError, UsageError
from nsysoffload.recorders.flags import SCHEDULER_LOG, joined, without_profile
from nsysoffload.recorders.predict.versions import INSTALL, JAX_VERSION

__all__ = ["Cancelled", "CompileError", "Process"]

_WORKER = "nsysoffload.recorders.predict._worker"
_POLL_S = 0.05

# What the user has set for own runs would change the compilation without standing in its record.
_NOT_INHERITED = re.compile(r"(XLA|JAX|TF)_\w+")

_UNKNOWN_FLAG = re.compile(r"Unknown flags? in XLA_FLAGS: (.+)")
_BAD_VALUE = re.compile(r"Couldn't interpret value (.*) for flag (\w+)")
_FAILED_ON_ALL_REDUCE = "__triton_collective"  # seen with 64 GPUs, where XLA writes that kernel
_NO_TOOL = re.compile(r"Couldn't find a suitable version of (\w+)|(libdevice) not found")


class CompileError(RecordingError):
    """A program could not be traced or compiled."""


class Cancelled(CompileError):
    """Another thread has given up."""


@dataclass(frozen=True)
class Process:
    """How to run the worker on a program, which errors call by its name."""

    name: str
    timeout_s: float | None
    log: Path | None
    cancelled: Event | None = None

    def answer(
        self, request: Mapping[str, object], flags: tuple[str, ...], folder: Path
    ) -> dict[str, Any]:
        """Run the worker and return its answer.

        Parameters
        ----------
        request : mapping of str to object
            For the worker; it has to be JSON.
        flags : tuple of str
            XLA flags of the process.
        folder : Path
            An empty folder for what the worker writes.

        Raises
        ------
        UsageError
            If the request is not JSON, or the program says what is wrong with its arguments.
        CompileError
            If the worker reports a failure, is killed, or takes too long.
        """
        try:
            text = json.dumps({**request, "folder": str(folder)})
        except TypeError as error:
            raise UsageError(f"The arguments of {self.name} have to be JSON: {error}.") from error
        printed = self.log or folder / "log.txt"
        status = self._run(text, flags, folder, printed)
        answered = folder / "answer.json"
        if not answered.exists():
            raise CompileError(self._ended(status, _text(printed)))
        answer: dict[str, Any] = json.loads(answered.read_text(encoding="utf-8"))
        if answer.get("failed") == "usage":
            raise UsageError(answer["error"])
        if "failed" in answer:
            raise CompileError(self._failed(answer["failed"], answer["error"], _text(printed)))
        return answer

    def _run(self, request: str, flags: tuple[str, ...], scratch: Path, printed: Path) -> int:
        """Return the exit status of the worker; what it prints goes to a file."""
        with printed.open("w", encoding="utf-8") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(flags, scratch),
                text=True,
            )
            # The pipe stays open as long as this process lives, and the worker ends with it.
            with worker:
                try:
                    return self._wait(worker, request)
                finally:
                    worker.kill()

    def _wait(self, worker: "subprocess.Popen[str]", request: str) -> int:
        """Hand over the request and wait for the worker to end."""
        assert worker.stdin
        with suppress(BrokenPipeError):
            worker.stdin.write(request + "\n")
            worker.stdin.flush()
        end = math.inf if self.timeout_s is None else time.monotonic() + self.timeout_s
        while worker.poll() is None:
            if self.cancelled and self.cancelled.is_set():
                raise Cancelled(f"Compiling {self.name} was interrupted.")
            if time.monotonic() > end:
                raise CompileError(
                    f"Compiling {self.name} took longer than {self.timeout_s:g} s; allow more time,"
                    " or try a smaller model first."
                )
            time.sleep(_POLL_S)
        return worker.returncode

    def _ended(self, status: int, printed: str) -> str:
        """Say why the worker ended without an answer."""
        if match := _UNKNOWN_FLAG.search(printed):
            return f"XLA of jax {JAX_VERSION} has no flag {match[1].strip()}; correct it."
        if match := _BAD_VALUE.search(printed):
            return f"XLA cannot read '{match[1]}' as the value of --{match[2]}; correct it."
        if _FAILED_ON_ALL_REDUCE in printed:
            return (
                "The compiler failed on a small all-reduce over this many GPUs; try again with "
                "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false."
            )
        if status == -9:
            return (
                f"The process that compiled {self.name} was killed, most likely for want of "
                "memory; free some, or try a smaller model."
            )
        return f"The process that compiled {self.name} ended with exit code {status}{self._see()}."

    def _failed(self, stage: str, error: str, printed: str) -> str:
        """Say what the worker reported."""
        if stage == "program":
            return f"Tracing {self.name} failed with {error}{self._see()}."
        if match := _NO_TOOL.search(printed):
            return f"XLA found no {match[1] or match[2]}, a part of CUDA's compiler; {INSTALL}"
        return f"Compiling {self.name} failed with {error}{self._see()}."

    def _see(self) -> str:
        return f" (more in {self.log})" if self.log else ""


def _environment(flags: tuple[str, ...], scratch: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not _NOT_INHERITED.fullmatch(k)}
    return inherited | {
        "XLA_FLAGS": joined(flags),
        "TMPDIR": str(scratch),  # what a killed compiler leaves goes with the folder
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # there are no CUDA libraries to check
        **(SCHEDULER_LOG if without_profile(flags) != flags else {}),
    }


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
