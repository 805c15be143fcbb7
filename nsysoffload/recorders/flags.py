"""XLA flags of a compilation or a run, as ``--name=value``.

The compiler's own rematerialisation is left on (``--xla_disable_hlo_passes=rematerialization``
would stop it): it acts where a program exceeds the memory, on the real machine too, and a
prediction that left it out would describe another program. A run without it can be asked for.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from nsysoffload.errors import UsageError

__all__ = [
    "PRESETS",
    "PROFILE_FLAG",
    "SCHEDULER_LOG",
    "joined",
    "run_flags",
    "using",
    "without_paths",
    "without_profile",
    "xla_flags",
]

PROFILE_FLAG = "xla_gpu_pgle_profile_file_or_directory_path"
"""The flag by which XLA's scheduler is given a profile."""

SCHEDULER_LOG: Mapping[str, str] = MappingProxyType(
    {
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": "gpu_hlo_schedule=1,profile_guided_latency_estimator=2",
    }
)
"""Environment in which the scheduler says in the log which costs it takes from a profile."""

_LATENCY_HIDING = {"xla_gpu_enable_latency_hiding_scheduler": "true"}
_PIPELINED = {**_LATENCY_HIDING, "xla_gpu_enable_pipelined_host_offloading": "true"}

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "default": {},
        "lhs": _LATENCY_HIDING,
        "pipelined": _PIPELINED,
        "pipelined+double-buffering": {
            **_PIPELINED,
            "xla_gpu_enable_while_loop_double_buffering": "true",
        },
    }
)
"""Flags that decide how transfers overlap, by the name that a command line takes."""

# Without a GPU nothing is autotuned, and Triton's untuned tiles are not what a GPU would run. So
# matrix products become cuBLAS calls, whose time can be modelled.
_BASE = {"xla_gpu_enable_triton_gemm": "false"}

# Plain streams: each kernel and copy is an operation of its own, as in a trace to be read.
_PLAIN_STREAMS = {"xla_gpu_enable_command_buffer": ""}

# Of POSIX, of a home folder or of Windows, at the start of a flag, a value or an item of a list.
_ABSOLUTE = re.compile(r"""(?:^|(?<=[=,:"']))(?:[~/\\]|[A-Za-z]:[\\/])[^,]*""")

_QUOTES = "\"'"

_FLAG = re.compile(r"--(xla_\w+)=(\S*)")
_INHERITED = re.compile(r"--?(\w+)(?:=(.*))?")


def xla_flags(
    preset: str = "default", *, command_buffers: bool = False, extra: str = ""
) -> tuple[str, ...]:
    """Return the flags of a compilation: those of a preset, with the user's own over them.

    Parameters
    ----------
    preset : str
        A key of `PRESETS`.
    command_buffers : bool
        Leave CUDA graphs on, as the compiler does by default.
    extra : str
        More flags, separated by blanks. One that is set already is replaced.

    Returns
    -------
    tuple of str
        Flags as ``--name=value``, each name once.

    Raises
    ------
    UsageError
        If there is no such preset, or ``extra`` holds anything but ``--xla_name=value``.

    Examples
    --------
    >>> xla_flags(extra="--xla_gpu_enable_triton_gemm=true")
    ('--xla_gpu_enable_triton_gemm=true', '--xla_gpu_enable_command_buffer=')
    """
    return _written({**_BASE, **_chosen(preset, command_buffers), **_parse(extra)})


def run_flags(
    preset: str = "default",
    *,
    command_buffers: bool = True,
    extra: str = "",
    inherited: str = "",
) -> tuple[str, ...]:
    """Return the flags of a run on a GPU, which keep what its environment sets.

    Parameters
    ----------
    preset, command_buffers, extra
        As for `xla_flags`.
    inherited : str
        ``XLA_FLAGS`` of the environment. A flag in it gives way to one that is chosen here.

    Raises
    ------
    UsageError
        As `xla_flags`.

    Examples
    --------
    >>> run_flags("lhs", inherited="--xla_dump_to=dump")
    ('--xla_dump_to=dump', '--xla_gpu_enable_latency_hiding_scheduler=true')
    """
    given = {
        match[1]: match[2]
        for match in map(_INHERITED.fullmatch, _words(inherited))
        if match  # XLA itself passes over what is no flag
    }
    return _written({**given, **_chosen(preset, command_buffers), **_parse(extra)})


def without_paths(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags as they may be shown to others: absolute paths in them become ``PATH``.

    A profile is named by its own name, without where it is.

    Examples
    --------
    >>> without_paths(("--xla_dump_to=/home/me/dump",))
    ('--xla_dump_to=PATH',)
    >>> without_paths(using((), Path("/home/me/profiles/8b")))
    ('--xla_gpu_pgle_profile_file_or_directory_path=8b',)
    """
    return tuple(_without_path(flag) for flag in flags)


def _without_path(flag: str) -> str:
    name, _, value = flag.partition("=")
    if name == f"--{PROFILE_FLAG}":
        return f"{name}={Path(value.strip(_QUOTES)).name}"
    return _ABSOLUTE.sub("PATH", flag)


def using(flags: tuple[str, ...], profile: Path) -> tuple[str, ...]:
    """Return flags with a profile for the scheduler, in place of any other: a folder or a file."""
    return (*without_profile(flags), f"--{PROFILE_FLAG}={profile}")


def without_profile(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags without one that gives a profile."""
    return tuple(flag for flag in flags if not flag.startswith(f"--{PROFILE_FLAG}="))


def joined(flags: Iterable[str]) -> str:
    """Return flags as ``XLA_FLAGS`` takes them.

    Examples
    --------
    >>> joined(["--xla_a=1", "--xla_dump_to=my dump"])
    '--xla_a=1 --xla_dump_to="my dump"'
    """
    return " ".join(map(_quoted, flags))


def _quoted(flag: str) -> str:
    name, equals, value = flag.partition("=")
    return f'{name}="{value}"' if equals and " " in value else flag


def _chosen(preset: str, command_buffers: bool) -> dict[str, str | None]:
    if preset not in PRESETS:
        raise UsageError(f"There is no XLA preset '{preset}'; choose from {', '.join(PRESETS)}.")
    return {**({} if command_buffers else _PLAIN_STREAMS), **PRESETS[preset]}


def _written(flags: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(
        f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()
    )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote, which XLA takes as it is
        return text.split()


def _parse(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for word in text.split():
        match = _FLAG.fullmatch(word)
        if not match:
            raise UsageError(f"'{word}' is no XLA flag; write it as --xla_name=value.")
        found[match[1]] = match[2]
    return found
