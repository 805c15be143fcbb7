"""The command line of `nsys profile`: what a useful trace takes, as far as this nsys knows it.

===========================  ==========================================================
option                       why it is not left at its default
===========================  ==========================================================
``--trace``                  calls of the operating system only make the report larger
``--cuda-graph-trace=node``  a graph traced as a whole shows no kernel and no copy
``--cuda-event-trace=false`` it can make streams wait for each other
``--sample``, ``--cpuctxsw`` CPU samples slow the host down and need permission
``--discard-environment``    the environment holds secrets
``--capture-range``          start-up, compilation and warm-up are not to be recorded
``--capture-range-end=stop`` the default ends the program before it has written its results
===========================  ==========================================================
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from nsysoffload.errors import UsageError
from nsysoffload.recorders.nsys.tool import Nsys

__all__ = ["HARDWARE", "SOFTWARE", "Profile", "Range", "compose", "parse_range"]

HARDWARE = "cuda"
"""Trace of CUDA as nsys chooses: by hardware where the GPU can."""
SOFTWARE = "cuda-sw"
"""Trace of CUDA by CUPTI's software."""


@dataclass(frozen=True)
class Range:
    """When to record.

    Attributes
    ----------
    kind : str
        ``profiler-api`` (between cudaProfilerStart and cudaProfilerStop), ``nvtx`` (a range of the
        program), ``delay`` (by the clock) or ``whole``.
    name : str
        Of the NVTX range.
    delay_s, duration_s : float or None
        Seconds before recording begins, and for how long.
    """

    kind: str
    name: str = ""
    delay_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True)
class Profile:
    """A composed command line.

    Attributes
    ----------
    words : tuple of str
        ``nsys profile`` and its options, without the command to record.
    left_out : tuple of str
        Options that this nsys does not know.
    """

    words: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say what is recorded, without the output."""
        return self.words[2:-1]

    @property
    def trace(self) -> str:
        """What is traced, such as ``cuda,nvtx``."""
        match = re.search(r"(?:^| )(?:--trace[= ]|-t *)(\S+)", " ".join(self.options))
        return match[1] if match else ""


def parse_range(text: str | None, delay_s: float | None, duration_s: float | None) -> Range:
    """Read ``whole``, ``profiler-api`` or ``nvtx:NAME``, or times in seconds.

    Raises
    ------
    UsageError
        If the text is none of them, or both ways are mixed.
    """
    if delay_s is not None or duration_s is not None:
        if text is not None:
            raise UsageError("--range and --delay or --duration exclude each other; drop one.")
        return Range("delay", delay_s=delay_s, duration_s=duration_s)
    kind, _, name = (text or "whole").partition(":")
    if kind == "nvtx" and name:
        return Range("nvtx", name)
    if kind in ("whole", "profiler-api") and not name:
        return Range(kind)
    raise UsageError(f"'{text}' is no range; write whole, profiler-api or nvtx:NAME.")


def compose(nsys: Nsys, range_: Range, output: str, *, trace: str, more: str = "") -> Profile:
    """Compose a command line.

    Parameters
    ----------
    nsys : Nsys
        Whose options.
    range_ : Range
        When to record.
    output : str
        Report without its suffix; nsys replaces ``%`` forms in it.
    trace : str
        `HARDWARE` or `SOFTWARE`.
    more : str
        Options of the user, quoted as in a shell; each takes the place of ours.

    Raises
    ------
    UsageError
        If the nsys lacks what cannot be left out, or ``more`` cannot be read.
    """
    added = _own(more)
    given = {_name(word) for word in added}
    words: list[str] = []
    left_out: list[str] = []
    for option, value in _wanted(nsys, range_, trace):
        if given & _spellings(option):
            continue
        taken = nsys.knows(option) and nsys.takes(option, value)
        (words if taken else left_out).append(f"{option}={value}")
    lacking = [word for word in left_out if word.startswith(("--trace=", "--capture-range="))]
    if lacking:
        raise UsageError(
            f"nsys {nsys.version} does not know {lacking[0]}; load a newer nsys, or record "
            "otherwise with --range."
        )
    return Profile((nsys.path, "profile", *words, *added, f"--output={output}"), tuple(left_out))


_CAPTURE = {"profiler-api": "cudaProfilerApi", "nvtx": "nvtx"}
_SHORT = {
    "--trace": "-t",
    "--sample": "-s",
    "--capture-range": "-c",
    "--nvtx-capture": "-p",
    "--delay": "-y",
    "--duration": "-d",
}


def _wanted(nsys: Nsys, range_: Range, trace: str) -> Iterator[tuple[str, str]]:
    """Yield options and values in the order in which they are to stand."""
    yield "--trace", f"{trace},nvtx"
    yield "--cuda-graph-trace", "node"
    yield "--cuda-event-trace", "false"
    yield "--sample", "none"
    yield "--cpuctxsw", "none"
    yield "--discard-environment", "true"
    if range_.kind in _CAPTURE:
        yield "--capture-range", _CAPTURE[range_.kind]
        yield "--capture-range-end", "stop"
        if not nsys.knows("--capture-range-end"):
            yield "--kill", "none"  # so that the end of the range does not end the program
    if range_.kind == "nvtx":
        yield "--nvtx-capture", range_.name if "@" in range_.name else f"{range_.name}@*"
    if range_.delay_s is not None:
        yield "--delay", f"{range_.delay_s:g}"
    if range_.duration_s is not None:
        yield "--duration", f"{range_.duration_s:g}"
        yield "--kill", "none"


def _spellings(option: str) -> set[str]:
    return {option, _SHORT.get(option, option)}


def _name(word: str) -> str:
    """Return the option of a word, ``-t`` of ``-tcuda`` included; a value is no option."""
    match = re.match(r"--[\w-]+|-\w", word)
    return match[0] if match else ""


def _own(more: str) -> list[str]:
    try:
        words = shlex.split(more)
    except ValueError as error:
        raise UsageError(f"--nsys-args '{more}' cannot be read ({error}); mend it.") from error
    # Any other word would be taken for the program to run.
    for before, word in zip(["", *words], words, strict=False):
        awaits_value = re.fullmatch(r"--[\w-]+|-\w", before)
        if not _name(word) and not awaits_value:
            raise UsageError(f"--nsys-args takes options alone, and '{word}' is none; drop it.")
    if {_name(word) for word in words} & {"-o", "--output"}:
        raise UsageError("--nsys-args cannot set the output; name the folder with -o instead.")
    return words
