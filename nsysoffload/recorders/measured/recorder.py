"""What records a command: the part in which `nsys` and `jax.profiler` differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nsysoffload.recorders.measured.child import Ended
from nsysoffload.recorders.measured.request import Command, Request
from nsysoffload.report.model import Report

__all__ = ["Recorded", "Recorder", "Say"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recorded:
    """What became of recording a command.

    Attributes
    ----------
    report : Report
        Analysis of the ``trace.sqlite`` that was made.
    ended : Ended
        How the command ended.
    nsys_version, trace, capture_range, left_out
        As in the manifest of a run.
    notes : tuple of str
        Sentences on what went otherwise than planned.
    """

    report: Report
    ended: Ended
    nsys_version: str | None
    trace: str | None
    capture_range: str
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


class Recorder(Protocol):
    """Records one command."""

    @property
    def name(self) -> str:
        """As in ``--recorder``."""

    def profiled(self, command: Command, place: Path) -> Command:
        """Return the command that records another one, whose files are to lie in a folder."""

    def record(
        self, request: Request, command: Command, partial: Path, environment: Mapping[str, str]
    ) -> Recorded:
        """Run and record a command into ``trace.sqlite`` of a folder.

        Raises
        ------
        Unfit
            If it could not be recorded, with the cause and the lines of the log that show it.
        """
