"""From a report or a comparison to text and files."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from nsysoffload.comparison.model import Comparison
from nsysoffload.errors import UsageError
from nsysoffload.report.model import Report
from nsysoffload.report.write import write as write_files

__all__ = ["FORMATS", "render", "write"]

_RENDERERS = {"html": "html", "md": "markdown", "json": "json"}  # imported when they are asked for
FORMATS = tuple(_RENDERERS)


def render(document: Report | Comparison, suffix: str) -> str:
    """Render a report or a comparison in one of `FORMATS`.

    Raises
    ------
    UsageError
        If there is no such format.
    """
    if suffix not in _RENDERERS:
        raise UsageError(f"Format '{suffix}' is not known; choose from {', '.join(FORMATS)}.")
    package = "comparison" if isinstance(document, Comparison) else "report"
    renderer = import_module(f"nsysoffload.{package}.{_RENDERERS[suffix]}")
    return str(renderer.render(document))


def write(
    document: Report | Comparison,
    directory: str | os.PathLike[str],
    formats: str | Sequence[str] = FORMATS,
) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``report.json``; old ones stay until all are whole.

    Parameters
    ----------
    document : Report or Comparison
        What to write.
    directory : path
        Folder for the files, made if it is not there.
    formats : str or sequence of str
        Which of `FORMATS` to write.

    Returns
    -------
    list of Path
        The files, in the order of `formats`.

    Raises
    ------
    OffloadError
        If they cannot be written; then nothing is changed.
    """
    suffixes = [formats] if isinstance(formats, str) else formats
    files = {f"report.{suffix}": render(document, suffix) for suffix in suffixes}
    return write_files(files, Path(directory))
