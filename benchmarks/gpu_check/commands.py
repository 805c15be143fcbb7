"""The parts of the check that need the GPU or the compiler, each in processes of its own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.sizes import Size
from nsysoffload.errors import RecordingError
from nsysoffload.recorders.measured.child import Limits, run

__all__ = ["NSYSOFFLOAD", "VARIANTS", "Commands", "driver_version"]

NSYSOFFLOAD = (sys.executable, "-m", "nsysoffload")
DEVICE = (sys.executable, "-m", "benchmarks.gpu_check.device")
VARIANTS = ("offload", "remat")

_INNER = 0.8  # of the time: a command that ends by its own limit says more
_SHOWN = 20


@dataclass(frozen=True)
class Commands:
    """Runs them.

    Attributes
    ----------
    folder : Path
        For run folders and the log.
    environment : mapping of str to str
        Of the processes.
    """

    folder: Path
    environment: Mapping[str, str]

    def device(self, what: str, seconds: float) -> Any:
        """Return ``facts`` of the device or rates of its ``link``, see `device`."""
        printed = self._run((*DEVICE, what), seconds)
        lines = [line for line in printed.splitlines() if line.startswith(("{", "["))]
        return json.loads(lines[-1])

    def record(self, size: Size, recorder: str, variant: str, seconds: float) -> Path:
        """Record a workload; return its run folder."""
        into = self.folder / recorder
        options = {**size.options(), "recorder": recorder, "variant": variant, "output": into}
        self._capture(options, seconds)
        return into / variant

    def predict(self, size: Size, target: str, seconds: float) -> dict[str, Path]:
        """Predict the same workload for a target; return a run folder by variant."""
        into = self.folder / "predict"
        options = {**size.options(), "recorder": "predict", "target": target, "output": into}
        self._capture(options, seconds, *(f"--variant={variant}" for variant in VARIANTS))
        return {variant: into / variant for variant in VARIANTS}

    def _capture(self, options: Mapping[str, object], seconds: float, *words: str) -> None:
        given = {**options, "timeout": round(_INNER * seconds)}
        self._run(
            (
                *NSYSOFFLOAD,
                "capture",
                *(f"--{name}={value}" for name, value in given.items()),
                *words,
            ),
            seconds,
        )

    def _run(self, command: Sequence[str], seconds: float) -> str:
        """Run a command; return what it printed."""
        ended = run(
            command,
            self.folder / "log.txt",
            environment=self.environment,
            limits=Limits(seconds),
        )
        if ended.status or ended.ended:
            lines = ended.printed.splitlines()
            print("\n".join(f"  | {line}" for line in lines[-_SHOWN:]), file=sys.stderr)
            raise RecordingError(_cause(lines, ended.ended, ended.status, seconds))
        return ended.printed


def _cause(lines: Sequence[str], ended: str, status: int, seconds: float) -> str:
    if ended:
        return f"It was ended after {seconds:.0f} s, for it took too long."
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    return errors[-1] if errors else f"It ended with exit code {status}: {' '.join(lines[-1:])}"


def driver_version() -> str | None:
    """Ask nvidia-smi for the version of the driver; None where it does not say."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, timeout=30, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(answer.stdout.split()), None)
