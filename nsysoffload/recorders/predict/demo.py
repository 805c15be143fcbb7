"""The two runs of the demo: compiled here where that is possible, else from bundled schedules."""

from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.capture import Request, Run, capture, options_of, timed

__all__ = ["BASE", "REQUEST", "VARIANTS", "bundled", "runs"]

REQUEST = Request(model="llama3.2-1b", target="gb200", mesh="fsdp=8")
VARIANTS = ("offload", "remat")
BASE = "remat"  # what the other is held against


def runs(
    directory: Path,
    *,
    compiling: bool,
    progress: Callable[[str], None],
    fallen_back: Callable[[str], None],
) -> list[Run]:
    """Predict the runs and write their folders.

    Parameters
    ----------
    directory : Path
        Where the folders go.
    compiling : bool
        Whether to compile, rather than to take the bundled schedules at once.
    progress : callable
        Called with a sentence when a variant is compiled.
    fallen_back : callable
        Called with a sentence when the bundled schedules are taken because compiling failed.
    """
    if compiling:
        try:
            return capture(REQUEST, VARIANTS, directory, progress)
        except OffloadError as error:
            fallen_back(f"{error} The schedules that come with the tool are used instead.")
    return [_timed(variant, directory) for variant in VARIANTS]


def bundled(variant: str) -> Path:
    """Return the file of a bundled schedule."""
    return Path(str(resources.files("nsysoffload.recorders.predict") / "bundled")) / (
        f"{variant}.json.gz"
    )


def _timed(variant: str, directory: Path) -> Run:
    note = "The schedule came with the tool; nothing was compiled here."
    options = options_of(REQUEST)
    options = replace(options, notes=(*options.notes, note))
    return timed(REQUEST, variant, load(bundled(variant)), options, directory / variant)
