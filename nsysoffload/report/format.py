"""Numbers and names as people read them. The only place where figures are rounded.

Every text output uses these functions, so that one figure looks the same in all of them. Sizes are
in decimal units, so that they agree with GB/s; a number is three significant digits. What the
trace cannot tell is an en dash.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nsysoffload.report.model import Device, Report

__all__ = [
    "UNKNOWN",
    "bandwidth",
    "command",
    "command_line",
    "count",
    "duration",
    "enough",
    "figure",
    "labels",
    "limit",
    "moment",
    "plain",
    "share",
    "shorten",
    "size",
    "span",
]

UNKNOWN = "–"

_TIMES = (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9))
_SIZES = (("B", 1), ("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12), ("PB", 10**15))
_LIMITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def duration(time_ns: int) -> str:
    """Length of time in the unit that suits it.

    Examples
    --------
    >>> duration(850), duration(12_345_678), duration(999_600)
    ('850 ns', '12.3 ms', '1.00 ms')
    """
    return _scaled(time_ns, _TIMES)


def moment(time_ns: int) -> str:
    """Point on the trace's clock, cut to microseconds: exact enough to find it in the trace.

    Examples
    --------
    >>> moment(1_234_567_890)
    '1.234567 s'
    """
    seconds, rest_ns = divmod(abs(time_ns), 10**9)
    return f"{'-' if time_ns < 0 else ''}{seconds}.{rest_ns // 1000:06d} s"


def size(size_bytes: int | None) -> str:
    """Amount of data in decimal units.

    Examples
    --------
    >>> size(1_610_612_736), size(512), size(None)
    ('1.61 GB', '512 B', '–')
    """
    return UNKNOWN if size_bytes is None else _scaled(size_bytes, _SIZES)


def enough(size_bytes: int) -> str:
    """Amount of data in decimal units, rounded up: a limit of it lets that much pass.

    Examples
    --------
    >>> enough(7_251_000_000), enough(7_250_000_000), enough(512)
    ('7.26 GB', '7.25 GB', '512 B')
    """
    step = 10 ** max(len(str(size_bytes)) - 3, 0)
    return size(-(-size_bytes // step) * step)


def limit(upto_bytes: int | None) -> str:
    """Upper end of a size class; ends are powers of two and shown exactly.

    Examples
    --------
    >>> limit(65536), limit(100), limit(None)
    ('64 KiB', '100 B', 'larger')
    """
    if upto_bytes is None:
        return "larger"
    for unit, factor in _LIMITS:
        if upto_bytes and upto_bytes % factor == 0:
            return f"{count(upto_bytes // factor)} {unit}"
    return f"{count(upto_bytes)} B"


def share(fraction: float | None) -> str:
    """Fraction as percent; only an exact 0 or 1 is shown as none or all.

    Examples
    --------
    >>> share(0.8341), share(1.0), share(0.9996), share(0.0004), share(None)
    ('83.4 %', '100 %', '>99.9 %', '<0.1 %', '–')
    """
    if fraction is None:
        return UNKNOWN
    if fraction in (0, 1):
        return f"{100 * fraction:.0f} %"
    percent = f"{100 * fraction:.1f} %"
    return {"0.0 %": "<0.1 %", "100.0 %": ">99.9 %"}.get(percent, percent)


def bandwidth(gbps: float | None) -> str:
    """Bandwidth in decimal GB/s, whatever its magnitude, so that figures compare at a glance.

    Examples
    --------
    >>> bandwidth(25.84), bandwidth(0.0004), bandwidth(None)
    ('25.8 GB/s', '<0.001 GB/s', '–')
    """
    if gbps is None:
        return UNKNOWN
    if 0 < gbps < 0.001:
        return "<0.001 GB/s"
    return f"{_significant(gbps)} GB/s"


def span(gbps: tuple[float, float]) -> str:
    """Range of bandwidths.

    Examples
    --------
    >>> span((370.0, 420.5)), span((11.95, 13.2))
    ('370–420 GB/s', '11.9–13.2 GB/s')
    """
    low, high = (f"{end:.3g}" for end in gbps)
    return f"{low}–{high} GB/s"


def count(number: int) -> str:
    """Whole number with its thousands apart.

    Examples
    --------
    >>> count(1234)
    '1,234'
    """
    return f"{number:,}"


def plain(text: str) -> str:
    """Text on one line, without anything that a terminal or a reader would take for a command.

    White space becomes one space. Control characters, escape sequences' first bytes, marks that
    turn the writing direction and halves of surrogate pairs become U+FFFD.

    Examples
    --------
    >>> plain("gemm" + chr(10) + " red")
    'gemm red'
    """
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in words)


def shorten(text: str, width: int) -> str:
    """Text of at most that many characters, its middle replaced by an ellipsis.

    Both ends of a kernel's name tell kernels apart, its middle seldom does.

    Examples
    --------
    >>> shorten("loop_add_fusion_12", 9)
    'loop…n_12'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def figure(key: str, value: Any) -> str:
    """Figure of the report in the unit that the end of its name states.

    Examples
    --------
    >>> figure("stall_ns", 1_500_000), figure("overlap", 0.5), figure("copies", 1234)
    ('1.50 ms', '50.0 %', '1,234')
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(str(value))
    if key in ("start_ns", "end_ns"):
        return moment(int(value))
    if key.endswith(("row_id", "stream")):
        return str(value)
    for endings, text in _BY_ENDING:
        if key.endswith(endings):
            return text(value)
    return count(value) if isinstance(value, int) else _significant(value)


def _scaled(value: int, units: tuple[tuple[str, int], ...]) -> str:
    """Value in the first unit that shows it below 1,000; the smallest unit is exact."""
    unit, factor = next((u for u in units if value < 999.5 * u[1]), units[-1])
    return f"{value:,} {unit}" if factor == 1 else f"{_significant(value / factor)} {unit}"


def _significant(value: float) -> str:
    """Three significant digits, never an exponent."""
    if value == 0 or value >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def labels(devices: Sequence[Device]) -> dict[str, str]:
    """Short name of each device by its id: its ordinal, with the process where that is not enough.

    Parameters
    ----------
    devices : sequence of Device
        All devices of one report.

    Returns
    -------
    dict of str to str
        ``"0"``, or ``"0 (pid 4242)"`` where several processes have a device 0.
    """
    shared = Counter(device.ordinal for device in devices)
    return {
        d.id: f"{d.ordinal} (pid {UNKNOWN if d.pid is None else d.pid})"
        if shared[d.ordinal] > 1
        else str(d.ordinal)
        for d in devices
    }


def command(report: Report) -> str:
    """Command line that makes this report again, from the folder that holds the traces."""
    files = [rank.file for rank in report.ranks or ()] or [report.trace.file]
    return command_line("analyze", files, report.tool.options)


def command_line(command: str, files: Sequence[str], options: Mapping[str, Any]) -> str:
    """Command line of a command of ours, on one line.

    Parameters
    ----------
    command : str
        Its name.
    files : sequence of str
        What it reads, by name.
    options : mapping
        Options that were given, by their names in Python.
    """
    words = ["nsysoffload", command, *files]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [option] if item is True else [option, str(item)]
    return plain(shlex.join(words))


_BY_ENDING: tuple[tuple[tuple[str, ...], Callable[[Any], str]], ...] = (
    (("_ns", "_ns_per_step"), duration),
    (("_ms",), lambda time_ms: duration(round(time_ms * 1e6))),
    (("gbps",), bandwidth),
    (("bytes",), size),
    (("overlap", "share", "unattributed"), share),
)
