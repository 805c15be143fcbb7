"""A folder in which tests capture with a fake nsys."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsysoffload.cli import main
from tests.fake_nsys.program import ROOT, install

__all__ = ["TRAINER", "Place"]

TRAINER = (sys.executable, str(ROOT / "tests" / "fake_trainer.py"))
# As `nsysoffload`, also where interrupts and hang-ups are ignored, as in the background of a shell.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from nsysoffload.cli import main; main(prog_name='nsysoffload')"
)


OF_A_LAUNCHER = (
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "XLA_FLAGS",
)


@dataclass(frozen=True)
class Place:
    """A folder, the working one of this process, and the fake nsys in it.

    Attributes
    ----------
    folder : Path
        Runs are below ``out`` in it.
    nsys : Path
        The program.
    """

    folder: Path
    nsys: Path

    @classmethod
    def make(
        cls, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, release: str = "2025.5"
    ) -> "Place":
        """Put an nsys into a folder and work there; exports are kept in a folder for all tests."""
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TMPDIR", str(temporary))
        monkeypatch.setenv("FAKE_NSYS_CACHE", str(shared))
        for name in OF_A_LAUNCHER:
            monkeypatch.delenv(name, raising=False)
        return cls(folder, install(folder / "nsight", release))

    def capture(self, *words: object) -> Result:
        """Run `nsysoffload capture` in this process."""
        return self.command(*self._words(words))

    def command(self, *words: object) -> Result:
        """Run `nsysoffload` in this process."""
        return CliRunner().invoke(main, [str(word) for word in words])

    def train(self, *words: object, options: tuple[object, ...] = ()) -> Result:
        """Capture the fake trainer with these words."""
        return self.capture(*options, "--", *TRAINER, *words)

    @contextmanager
    def capturing(self, *words: object) -> Iterator["subprocess.Popen[str]"]:
        """Run `nsysoffload capture` in a process of its own, which is ended with the test."""
        command = [sys.executable, "-P", "-c", COMMAND, *self._words(words)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def version(self) -> str:
        """Version that the nsys says it is."""
        command = [str(self.nsys), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return said.split()[-1].partition("-")[0]

    def report(self, variant: str = "run") -> dict[str, Any]:
        """Return what the fake nsys wrote down."""
        (path,) = [*self.run(variant).glob("trace.nsys-rep"), *self.run(variant).glob("*.qdrep")]
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    def run(self, variant: str = "run") -> Path:
        """Return the folder of a run."""
        return self.folder / "out" / variant

    def manifest(self, variant: str = "run") -> dict[str, Any]:
        """Return the manifest of a run."""
        manifest: dict[str, Any] = json.loads((self.run(variant) / "manifest.json").read_text())
        return manifest

    def recording(self, variant: str = "run") -> dict[str, Any]:
        """Return what a manifest says of the recording."""
        recording: dict[str, Any] = self.manifest(variant)["recording"]
        return recording

    def _words(self, words: tuple[object, ...]) -> list[str]:
        return ["capture", "--nsys", str(self.nsys), "-o", "out", *map(str, words)]
