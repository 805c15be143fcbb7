"""The report as a summary for the terminal, 80 columns wide where there is no more room.

Without a terminal it is plain text; ``NO_COLOR`` is respected. Warnings are not part of it: they
go to standard error.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsysoffload.report import format as fmt
from nsysoffload.report.cards import cards
from nsysoffload.report.model import Both, DeviceTrace, Direction, Link, Report, Total
from nsysoffload.report.predicted import BANNER, summary
from nsysoffload.report.recorded import summary as recorded
from nsysoffload.report.remarks import remarks, steps_text
from nsysoffload.report.wording import firsts, gate

__all__ = ["empty_table", "printed", "render", "text"]

_NARROWEST, _WIDEST = 80, 100  # the tables need the one; lines longer than the other read badly
_NAME, _FILE, _SENTENCE = 22, 30, 600  # characters
_COLOURS = {"hidden": "green", "partly_hidden": "yellow", "exposed": "red", "not_usable": "red"}


def render(report: Report, console: Console | None = None) -> str:
    """Write the summary.

    Parameters
    ----------
    report : Report
        The report.
    console : rich.console.Console, optional
        Where it will be shown, which decides on width and colour. If left out, it is standard
        output, at least 80 columns wide.

    Returns
    -------
    str
        Lines of text, with escape sequences only where the console is a terminal.
    """
    return printed(_parts(report), console)


def printed(parts: Iterable[RenderableType], console: Console | None = None) -> str:
    """Return what a console shows of parts from top to bottom; see `render`."""
    console = console or _standard_output()
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _standard_output() -> Console:
    console = Console()
    console.width = min(max(console.width, _NARROWEST), _WIDEST)
    return console


def _parts(report: Report) -> Iterator[RenderableType]:
    """Yield what to print, from top to bottom."""
    colour = _COLOURS.get(report.verdict.outcome, "")
    yield text(report.verdict.text, f"bold {colour}".rstrip())
    if report.trace.kind == "predicted":
        yield text(BANNER, "bold yellow")
    if report.prediction:
        yield from map(text, summary(report.prediction))
    yield from map(text, recorded(report))
    for limit in report.gates:
        yield text(gate(limit), "green" if limit.passed else "bold red")
    yield _origin(report)
    yield ""
    yield _cards(report)
    yield from _findings(report)
    yield ""
    yield text(steps_text(report), "dim")
    yield from _steps(report)
    yield ""
    yield _devices(report)
    yield ""
    yield _transfers(report)
    for remark in remarks(report):
        yield text(remark)
    if report.ranks:
        yield ""
        yield _ranks(report)


def _origin(report: Report) -> Text:
    """Trace and window."""
    window = report.window
    file = fmt.shorten(report.trace.file, _FILE)
    span = f"{fmt.moment(window.start_ns)} to {fmt.moment(window.end_ns)}"
    return text(f"{file}, window ({window.source}): {span}", "dim")


def _cards(report: Report) -> Table:
    """Headline figures, a line each."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for card in cards(report):
        value, note = ("".join(map(str, words)) for words in (card.value, card.note))
        table.add_row(Text(card.title), Text(value, "bold"), Text(note, "dim"))
    return table


def _findings(report: Report) -> Iterator[RenderableType]:
    """Yield the most costly findings with what to change."""
    found, more = firsts(report)
    if not found:
        return
    yield ""
    yield Text("What to change first", "bold")
    for number, finding in enumerate(found, start=1):
        cost = "".join(map(str, finding.cost))
        yield Text(f"{number}. {finding.title}: {cost}")
        yield Padding(text(f"{finding.where} ({finding.cause})", "dim"), (0, 0, 0, 3))
        yield Padding(text(finding.advice), (0, 0, 0, 3))
    if more:
        yield text(f"Further findings in the report: {more}.", "dim")


def _steps(report: Report) -> Iterator[RenderableType]:
    """Yield the medians of each device."""
    if not any(device.per_step for device in report.devices):
        return
    label = fmt.labels(report.devices)
    numbers = ["Steps", "Duration", "Compute", "Lost", "Stall", "Hideable", "Exposed", "Best"]
    table = empty_table(["GPU"], numbers)
    for device in report.devices:
        if (step := device.per_step) is None:
            continue
        times = (
            step.duration_ns,
            step.compute_busy_ns,
            step.lost_ns,
            step.stall_ns,
            step.hideable_ns,
            step.both.exposed_ns,
            step.best_ns,
        )
        table.add_row(label[device.id], fmt.count(step.steps), *map(fmt.duration, times))
    yield table


def empty_table(names: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table without rows; its first column gives way where the line is too short."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name != names[0])
    for name in numbers:
        table.add_column(name, justify="right", overflow="fold", no_wrap=True)
    return table


def text(sentence: str, style: str = "") -> Text:
    """Return a sentence, which may hold names from a trace, in which nothing is markup."""
    return Text(fmt.shorten(fmt.plain(sentence), _SENTENCE), style)


def _name(text: str) -> Text:
    """Name from the trace; a dash if it has none."""
    return Text(fmt.shorten(fmt.plain(text), _NAME) or fmt.UNKNOWN)


def _devices(report: Report) -> Table:
    """Name, link and window of each device."""
    label = fmt.labels(report.devices)
    table = empty_table(["GPU", "Name", "Link"], ["Kernels", "Window", "Compute", "Coll.", "Idle"])
    for device in report.devices:
        trace = device.trace
        table.add_row(
            label[device.id],
            _name((device.name or "").removeprefix("NVIDIA ")),
            _name(device.link.name if device.link else ""),
            fmt.count(trace.kernels),
            fmt.duration(trace.window_ns),
            fmt.duration(trace.compute_busy_ns),
            fmt.duration(trace.collective_busy_ns),
            fmt.duration(trace.idle_ns),
        )
    return table


def _transfers(report: Report) -> Table:
    """Transfers of each device, per direction and both together, then the sums."""
    label = fmt.labels(report.devices)
    numbers = ["Copies", "Bytes", "Busy", "Hidden", "Exposed", "Overlap", "GB/s", "burst", "link"]
    table = empty_table(["GPU", ""], numbers)
    for device in report.devices:
        _add(table, label[device.id], device.trace, device.link)
    if len(report.devices) > 1:
        _add(table, "all", report.total, None)
    return table


def _add(table: Table, label: str, figures: DeviceTrace | Total, link: Link | None) -> None:
    """Add the rows of H2D, D2H and both of one device or of all."""
    h2d, d2h = figures.h2d, figures.d2h
    table.add_row(label, "H2D", *_way(h2d), _range(link.h2d_gbps if link else None))
    table.add_row("", "D2H", *_way(d2h), _range(link.d2h_gbps if link else None))
    table.add_row("", "both", "", "", *_times(figures.both))


def _way(way: Direction) -> list[str]:
    """Figures of one direction; the unit of bandwidths is in the head of their columns."""
    speeds = [fmt.bandwidth(gbps).removesuffix(" GB/s") for gbps in (way.gbps, way.burst_gbps)]
    return [fmt.count(way.copies), fmt.size(way.bytes), *_times(way), *speeds]


def _times(way: Direction | Both) -> list[str]:
    """Busy, hidden, exposed, and overlap."""
    times = [fmt.duration(ns) for ns in (way.busy_ns, way.hidden_ns, way.exposed_ns)]
    return [*times, fmt.share(way.overlap)]


def _range(gbps: tuple[float, float] | None) -> str:
    return fmt.span(gbps).removesuffix(" GB/s") if gbps else ""


def _ranks(report: Report) -> Table:
    """Figures of all traces, the slowest first."""
    numbers = ["Window", "Step", "Stall", "Compute", "Transfers", "Exposed", "Overlap"]
    table = empty_table(["Trace, slowest first"], numbers)
    for rank in report.ranks or ():
        table.add_row(
            _name(rank.file),
            fmt.duration(rank.window_ns),
            fmt.UNKNOWN if rank.step_ns is None else fmt.duration(rank.step_ns),
            fmt.UNKNOWN if rank.stall_ns is None else fmt.duration(rank.stall_ns),
            fmt.duration(rank.compute_busy_ns),
            fmt.duration(rank.busy_ns),
            fmt.duration(rank.exposed_ns),
            fmt.share(rank.overlap),
        )
    return table
