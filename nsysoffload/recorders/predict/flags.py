"""XLA flags of a compilation, as ``--name=value``.

The compiler's own rematerialisation is left on (``--xla_disable_hlo_passes=rematerialization``
would stop it): it acts where a program exceeds the memory, on the real machine too, and a
prediction that left it out would describe another program. A run without it can be asked for.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from nsysoffload.errors import UsageError

__all__ = ["PRESETS", "without_paths", "xla_flags"]

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

_FLAG = re.compile(r"--(xla_\w+)=(\S*)")


def xla_flags(
    preset: str = "default", *, command_buffers: bool = False, extra: str = ""
) -> tuple[str, ...]:
    """Return the flags of a preset, with the user's own over them.

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
    if preset not in PRESETS:
        raise UsageError(f"There is no XLA preset '{preset}'; choose from {', '.join(PRESETS)}.")
    streams = {} if command_buffers else _PLAIN_STREAMS
    chosen = {**_BASE, **streams, **PRESETS[preset], **_parse(extra)}
    return tuple(f"--{name}={value}" for name, value in chosen.items())


def without_paths(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags as they may be shown to others: absolute paths in them become ``PATH``.

    Examples
    --------
    >>> without_paths(("--xla_dump_to=/home/me/dump",))
    ('--xla_dump_to=PATH',)
    """
    return tuple(_ABSOLUTE.sub("PATH", flag) for flag in flags)


def _parse(text: str) -> dict[str, str]:
    found = {}
    for word in text.split():
        match = _FLAG.fullmatch(word)
        if not match:
            raise UsageError(f"'{word}' is no XLA flag; write it as --xla_name=value.")
        found[match[1]] = match[2]
    return found
