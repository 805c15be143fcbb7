"""Which options and values `nsys profile` and `nsys export` have, from 2021 to 2026.

From the documentation and the help texts of these versions as far as they are public; where the
release that brought an option is not documented, the first one that is known to have it stands
here.
"""

import re
import sys
from dataclasses import dataclass
from typing import NoReturn

__all__ = ["BUILDS", "Parsed", "Version", "complain", "help_of", "parse", "refuse", "say"]

Version = tuple[int, int]

BUILDS = {
    "2021.3": "2021.3.3.2-b99c4d6",
    "2021.5": "2021.5.2.53-28d0e6e",
    "2022.4": "2022.4.2.1-df9881f",
    "2023.4": "2023.4.4.54-234433681190v0",
    "2024.6": "2024.6.2.225-246235244400v0",
    "2025.5": "2025.5.1.121-255136380782v0",
    "2026.1": "2026.1.3.425-261337402120v0",
    "2026.4": "2026.4.1.152-264137900511v0",
}
"""What `nsys --version` says, by year and release."""

USAGE = {
    "profile": "usage: nsys profile [<args>] [application] [<application args>]",
    "export": "usage: nsys export [<args>] [nsys-rep-file]",
}


@dataclass(frozen=True)
class Option:
    """An option as one or more versions know it.

    Attributes
    ----------
    names : str
        Short, if any, and long name.
    values : str
        Those that its help lists, separated by blanks; empty where anything goes. ``[...]`` may be
        left out, and ``N`` is a number.
    many : bool
        Whether several values may stand, separated by commas.
    since, until : Version
        First version that knows it, and first that knows it no more.
    """

    names: str
    values: str = ""
    many: bool = False
    since: Version = (0, 0)
    until: Version = (9999, 0)

    @property
    def long(self) -> str:
        """The long name."""
        return self.names.split()[-1]

    def takes(self, value: str) -> bool:
        """Whether a value is one of those listed."""
        patterns = [_pattern(listed) for listed in self.values.split()]
        given = value.split(",") if self.many else [value]
        return not patterns or all(_matches(each, patterns) for each in given)

    def help(self) -> str:
        """Return its part of the help."""
        head = f"\t{', '.join(self.names.split())}=\n\n"
        listed = [f"'{value}'" for value in self.values.split()]
        if not listed:
            return f"{head}\t   See the documentation.\n"
        return f"{head}\t   Possible values are {', '.join(listed[:-1])} or {listed[-1]}.\n"


def _pattern(value: str) -> str:
    text = value.replace("[", "(?:").replace("]", ")?")
    return re.sub(r"\bN\b", r"\\d+", text)


def _matches(text: str, patterns: list[str]) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns)


BOOL = "true false"
API = "cuda nvtx osrt cublas cudnn opengl opengl-annotations mpi openacc openmp vulkan none"
MORE_API = f"{API} cusparse cublas-verbose cusparse-verbose oshmem ucx python-gil"
RANGE_END = "none stop stop-shutdown repeat[:N] repeat-shutdown:N"
MODE = "(defer|sync|async)"
RANGE_END_MODES = f"none stop stop-shutdown repeat[:N][:{MODE}] repeat-shutdown:N[:{MODE}]"
SIDES = "(host-only|host-and-device)"
NVTX = "(nvtx-live|nvtx-precapture)"

PROFILE = (
    Option("-b --backtrace", "lbr fp dwarf none", until=(2026, 1)),
    Option("-b --backtrace", "auto fp lbr dwarf none", since=(2026, 1)),
    Option("-c --capture-range", "none cudaProfilerApi nvtx hotkey"),
    Option("--stop-on-range-end", BOOL, until=(2021, 5)),
    Option("--capture-range-end", RANGE_END, since=(2021, 5), until=(2026, 1)),
    Option("--capture-range-end", RANGE_END_MODES, since=(2026, 1)),
    Option("--cpuctxsw", "process-tree system-wide none"),
    Option("--cuda-event-trace", "auto true false", since=(2025, 1)),
    Option("--cuda-flush-interval"),
    Option("--cuda-graph-trace", "graph node", since=(2022, 1), until=(2024, 1)),
    Option(
        "--cuda-graph-trace",
        f"graph[:{SIDES}] node[:{SIDES}]",
        since=(2024, 1),
        until=(2026, 1),
    ),
    Option(
        "--cuda-graph-trace",
        f"graph[:{SIDES}][:{NVTX}] node[:{SIDES}][:{NVTX}]",
        since=(2026, 1),
    ),
    Option("--cuda-memory-usage", BOOL),
    Option("--cuda-trace-all-apis", BOOL, since=(2025, 1)),
    Option("--cuda-trace-scope", "process-tree system-wide", since=(2025, 5)),
    Option("--cudabacktrace", "all none kernel[:N] memory[:N] sync[:N] other[:N]", many=True),
    Option("-y --delay"),
    Option("--discard-environment", BOOL, since=(2025, 2)),
    Option("-d --duration"),
    Option("-e --env-var"),
    Option("--export", "arrow hdf json sqlite text none", many=True),
    Option("--flush-on-cudaprofilerstop", BOOL, since=(2022, 1)),
    Option("-f --force-overwrite", BOOL),
    Option("--gpu-metrics-device", since=(2021, 5), until=(2024, 5)),
    Option("--gpu-metrics-devices", since=(2024, 5)),
    Option("--gpu-metrics-frequency", since=(2021, 5)),
    Option("--gpu-metrics-set", since=(2021, 5)),
    Option("-n --inherit-environment", BOOL),
    Option("--kill", "none sigkill sigterm N"),
    Option("--nccl-trace", "none all api ce-coll group gpu", many=True, since=(2026, 1)),
    Option("-p --nvtx-capture"),
    Option("-o --output"),
    Option("--python-backtrace", "cuda none", since=(2023, 1)),
    Option("--python-sampling", BOOL, since=(2023, 1)),
    Option("--resolve-symbols", BOOL, since=(2023, 1)),
    Option("-s --sample", "cpu none", until=(2022, 1)),
    Option("-s --sample", "process-tree system-wide none", since=(2022, 1), until=(2026, 1)),
    Option("-s --sample", "process-tree system-wide xhv xhv-system-wide none", since=(2026, 1)),
    Option("-w --show-output", BOOL),
    Option("--stats", BOOL),
    Option("-x --stop-on-exit", BOOL),
    Option("-t --trace", API, many=True, until=(2023, 1)),
    Option("-t --trace", MORE_API, many=True, since=(2023, 1), until=(2025, 3)),
    Option("-t --trace", f"{MORE_API} cuda-sw gds nccl", many=True, since=(2025, 3)),
    Option("--trace-fork-before-exec", BOOL),
    Option("--wait", "primary all"),
)

EXPORT = (
    Option("-f --force-overwrite", BOOL),
    Option("--include-blobs", BOOL, since=(2024, 1)),
    Option("--include-json", BOOL, since=(2024, 1)),
    Option("-l --lazy", BOOL, since=(2022, 1)),
    Option("-o --output"),
    Option("-q --quiet", BOOL),
    Option("--separate-strings", BOOL, until=(2026, 1)),
    Option("--tables", since=(2024, 1)),
    Option("--times", since=(2025, 1)),
    Option("--ts-normalize", BOOL, since=(2022, 1)),
    Option("--ts-shift", since=(2022, 1)),
    Option("-t --type", "hdf info json sqlite text", until=(2024, 1)),
    Option("-t --type", "arrow arrowdir hdf info jsonlines parquetdir sqlite", since=(2024, 1)),
)

COMMANDS = {"profile": PROFILE, "export": EXPORT}
# Still taken, with a warning, and not in the help.
RENAMED = {"--gpu-metrics-device": "--gpu-metrics-devices"}

Parsed = dict[str, str]
"""Values by the long names of the options that were given."""


def _known(command: str, version: Version) -> list[Option]:
    return [each for each in COMMANDS[command] if each.since <= version < each.until]


def help_of(command: str, version: Version) -> str:
    """Return what ``nsys COMMAND --help`` prints."""
    return "\n".join([f"{USAGE[command]}\n", *(each.help() for each in _known(command, version))])


def parse(command: str, version: Version, words: list[str]) -> tuple[Parsed, list[str]]:
    """Read options up to the first word that is none; return them and the words from there on.

    What this version does not know, a value that it does not list and an option that is given twice
    end the program as `refuse` does.
    """
    known = {name: each for each in _known(command, version) for name in each.names.split()}
    given: Parsed = {}
    left = list(words)
    while left and left[0].startswith("-"):
        name, value = _split(left.pop(0))
        if name in RENAMED and name not in known and RENAMED[name] in known:
            say(f"Warning: '{name}' is deprecated. Use '{RENAMED[name]}' instead.")
            name = RENAMED[name]
        if name not in known:
            refuse(command, f"unrecognised option '{name}'")
        option = known[name]
        if value is None and not left:
            refuse(command, f"the required argument for option '{option.long}' is missing")
        value = left.pop(0) if value is None else value
        if option.long in given:
            refuse(command, f"option '{option.long}' cannot be specified more than once")
        if not option.takes(value):
            refuse(command, f"Illegal {option.long} argument '{value}'.")
        given[option.long] = value
    return given, left


def _split(word: str) -> tuple[str, str | None]:
    """Return an option and its value, which may stand in the same word or not."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], word[2:] or None


def refuse(command: str, reason: str) -> NoReturn:
    """End the program because of its options."""
    advice = f"Try 'nsys {command} --help' for more information."
    complain(f"{reason}\n\n{USAGE[command]}\n{advice}")
    raise SystemExit(1)


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Print a line on what is wrong."""
    sys.stderr.write(f"{text}\n")
