"""Predicted runs, from the schedules that come with the tool."""

from pathlib import Path

from nsysoffload.recorders.predict.demo import runs


def predicted(folder: Path, variant: str) -> Path:
    """Write the runs of the demo and return the folder of one."""
    made = runs(folder, compiling=False, progress=print, fallen_back=print)
    return next(run.folder for run in made if run.variant == variant)
