"""The `nsys` of this machine: where it is, its version, and which options it knows."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import UsageError

__all__ = ["Nsys", "find", "installed"]

_INSTALLS = (
    "opt/nvidia/nsight-systems/*/bin/nsys",
    "opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/local/bin/nsys",
)
_VERSION = re.compile(r"version (\d+(?:\.\d+)+)")
_HEADING = re.compile(r"^\s{0,12}(?:-\w,\s+)?(--[\w-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Nsys:
    """An nsys that runs.

    Attributes
    ----------
    path : str
        The program.
    version : str
        Such as ``2025.5.1.121``; ``unknown`` where it does not say.
    help : str
        What ``nsys profile --help`` prints.
    """

    path: str
    version: str
    help: str

    def knows(self, option: str) -> bool:
        """Whether `nsys profile` has a long option, such as ``--cuda-event-trace``."""
        return bool(re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", self.help))

    def offers(self, option: str, value: str) -> bool:
        """Whether the help of an option names a value."""
        named = re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", self._about(option))
        return named is not None

    def takes(self, option: str, value: str) -> bool:
        """Whether nothing in the help of an option speaks against a value.

        Of a list only the first value is looked for. Where no values are listed, any may do.
        """
        listed = "possible values" in self._about(option).lower()
        return not listed or self.offers(option, value.partition(",")[0])

    def _about(self, option: str) -> str:
        """Return the help's part on an option, up to the next one."""
        headings = list(_HEADING.finditer(self.help))
        for heading, following in zip(headings, [*headings[1:], None], strict=True):
            if heading[1] == option:
                return self.help[heading.end() : following.start() if following else None]
        return ""


def find(path: str | None = None, root: Path = Path("/")) -> Nsys:
    """Find nsys and ask it what it is.

    Parameters
    ----------
    path : str, optional
        The program; else the one on PATH, else the newest in one of the usual places.
    root : Path
        Where the usual places are.

    Raises
    ------
    UsageError
        If there is none, or it does not run.
    """
    program = shutil.which(path) if path else installed(root)
    if program is None:
        if path:
            raise UsageError(f"'{path}' is no program that can be run; name the nsys to use.")
        raise UsageError(
            "nsys is not on PATH, nor where it is usually installed; install Nsight Systems, load "
            "its module, or name it with --nsys."
        )
    version = _VERSION.search(_said(program, "--version"))
    text = _said(program, "profile", "--help")
    if "--trace" not in text:
        raise UsageError(
            f"'{program} profile --help' lists no options, so it is not an nsys that can record "
            "here; name another with --nsys."
        )
    return Nsys(program, version[1] if version else "unknown", text)


def installed(root: Path = Path("/")) -> str | None:
    """Return the nsys on PATH, else the newest in one of the usual places, else None."""
    on_path = shutil.which("nsys")
    if on_path:
        return on_path
    found = [str(path) for place in _INSTALLS for path in root.glob(place)]
    usable = [path for path in found if os.access(path, os.X_OK)]
    return max(usable, key=_numbers, default=None)


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def _said(program: str, *words: str) -> str:
    """Return what nsys prints; old ones print their help to stderr."""
    try:
        done = subprocess.run(
            [program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{program} cannot be run ({error}); name another with --nsys.") from error
    return done.stdout
