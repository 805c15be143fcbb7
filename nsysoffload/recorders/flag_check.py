"""Whether XLA takes its flags, found out before a run that would be aborted by one it does not."""

import mmap
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from nsysoffload.errors import UsageError

__all__ = ["Refused", "check_flags", "refused_flags"]

_PYTHON = re.compile(r"python[\d.]*")
_TIMEOUT_S = 120

# The cheapest call that reads XLA_FLAGS: 0.2 s, without a device. The flags of all backends are
# fields of one message, so jaxlib knows those for GPUs too, and CUDA's plugin knows no others.
_READ = """
import sys
try:
    from jaxlib import xla_client
except ImportError:
    sys.exit()
xla_client.CompileOptions()
"""
_UNKNOWN = re.compile(r"Unknown flags? in XLA_FLAGS: (.+)")
_BAD_VALUE = re.compile(r"Couldn't interpret value .* for flag (\w+)|Illegal value for --(\w+)")

_LOCATE = "import importlib.util as u; print(*u.find_spec('jaxlib').submodule_search_locations)"
_LIBRARY = "libjax_common.so"
_NAME = re.compile(rb"\0(xla_[a-z][a-z0-9_]+)(?=\0)")  # by itself among the library's strings


@dataclass(frozen=True)
class Refused:
    """Flags that XLA does not take.

    Attributes
    ----------
    unknown : tuple of str
        Those it does not know, as they were given.
    bad_values : tuple of str
        Names of those whose value it cannot read; XLA looks at them first, and then at no others.
    """

    unknown: tuple[str, ...] = ()
    bad_values: tuple[str, ...] = ()


def check_flags(python: str, flags: str) -> None:
    """Check that XLA takes its flags.

    Parameters
    ----------
    python : str
        The Python of the run, whose jaxlib is asked. Nothing is checked where it has none, or where
        the program is no Python.
    flags : str
        ``XLA_FLAGS`` of the run.

    Raises
    ------
    UsageError
        If XLA does not know one of them or cannot read its value.
    """
    refused = refused_flags(python, flags)
    if refused.bad_values:
        given = [f"--{name}={_value(flags, name)}" for name in refused.bad_values]
        raise UsageError(
            f"XLA cannot read the value of {' and '.join(given)}; correct it, for it would end "
            "every run at once."
        )
    if refused.unknown:
        raise UsageError(
            f"XLA of the installed jaxlib does not know {_with_guesses(python, refused.unknown)}; "
            "correct or drop it, for it would end every run at once."
        )


def refused_flags(python: str, flags: str) -> Refused:
    """Return the flags that the XLA of a Python does not take; see `check_flags`."""
    if not flags or not _PYTHON.fullmatch(Path(python).name):
        return Refused()
    printed = _printed(python, _READ, flags)
    unknown = [word for found in _UNKNOWN.findall(printed) for word in found.split()]
    return Refused(
        tuple(word for word in unknown if word.startswith("-")),
        tuple(name or other for name, other in _BAD_VALUE.findall(printed)),
    )


def _value(flags: str, name: str) -> str:
    found = re.search(rf"-{name}=(\S*)", flags)
    return found[1] if found else ""


def _with_guesses(python: str, unknown: Iterable[str]) -> str:
    known = _known(python)
    told = []
    for flag in unknown:
        close = get_close_matches(flag.lstrip("-").partition("=")[0], known, 1, cutoff=0.8)
        told.append(f"{flag} (did you mean --{close[0]}?)" if close else flag)
    return " and ".join(told)


def _known(python: str) -> list[str]:
    """Return the names of XLA's flags, and a few like them, from its library."""
    for folder in _printed(python, _LOCATE, "").splitlines():
        library = Path(folder, _LIBRARY)
        if library.is_file():
            with (
                library.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
            ):
                return sorted({name.decode() for name in _NAME.findall(text)})
    return []


def _printed(python: str, code: str, flags: str) -> str:
    """Return what a Python prints on some code; nothing where it cannot be run."""
    try:
        return subprocess.run(
            [python, "-c", code],
            env={**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
