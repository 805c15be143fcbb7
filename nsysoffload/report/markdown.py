"""The report as GitHub-flavoured Markdown that fits into one comment.

GitHub takes 65,536 characters. A report that would be longer loses rows of its longest lists, and
says how many.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from nsysoffload.report import format as fmt
from nsysoffload.report.gfm import Block, code, prose, table
from nsysoffload.report.model import (
    Both,
    Device,
    DeviceTrace,
    Direction,
    Link,
    Prediction,
    Report,
    Total,
)
from nsysoffload.report.predicted import BANNER, HONESTY, summary, what
from nsysoffload.report.predicted import made as made_by
from nsysoffload.report.remarks import remarks

__all__ = ["LIMIT", "render"]

LIMIT = 65_000  # GitHub's 65,536, less room for a few words around the report

_KERNELS = 15
_DEFINITIONS = """\
- *Busy* is the time with at least one copy, *hidden* the part of it during which a compute kernel
  ran, *exposed* the rest, *overlap* hidden over busy. *Both* is the time with a copy of either
  direction, not the sum of the two. Collective kernels (NCCL and kin) hide no copy.
- *GB/s* is bytes over the sum of the copies' durations. A *burst* is a run of copies without a
  kernel start between them, pauses included. *Lone* is the fastest pinned copy of 16 MiB or more
  with nothing beside it, which is what is held against the link's measured range: *below* is under
  three quarters of the range's low end.
- Sizes and GB/s are decimal, size classes binary. A dash: the trace cannot tell."""


def render(report: Report) -> str:
    """Write the report as Markdown.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        GitHub-flavoured Markdown of at most `LIMIT` characters, ending in a newline.
    """
    blocks = [*_blocks(report)]
    longest = max(len(block.lines) for block in blocks if isinstance(block, Block))
    text = _join(blocks, longest)
    if len(text) <= LIMIT:
        return text
    fitting = bisect_right(range(longest), LIMIT, key=lambda rows: len(_join(blocks, rows)))
    return _join(blocks, fitting - 1)


def _join(blocks: Sequence[str | Block], rows: int) -> str:
    """Text of all blocks, with at most so many rows of each list."""
    texts = (block if isinstance(block, str) else block.text(rows) for block in blocks)
    return "\n\n".join(text for text in texts if text) + "\n"


def _blocks(report: Report) -> Iterator[str | Block]:
    """Yield the blocks from top to bottom."""
    made = report.prediction
    yield f"## Host transfers in {prose(what(made)) if made else code(report.trace.file)}"
    if report.ranks:
        yield f"The longest window of {len(report.ranks)} ranks; all stand in a table below."
    yield f"> **{prose(report.verdict.text)}**"
    if report.trace.kind == "predicted":
        lines = [BANNER, *(summary(made) if made else [])]
        yield Block(["> [!IMPORTANT]"], [f"> {prose(line)}" for line in lines])
    yield _cards(report)
    yield Block(["> [!WARNING]"], [f"> - {prose(w.message)}" for w in report.trace.warnings])
    yield _transfers(report)
    yield Block([], [f"- {prose(remark)}" for remark in remarks(report)])
    yield _devices(report)
    yield _ranks(report)
    yield _worst_copies(report)
    yield _sizes(report.total)
    yield _kernels(report)
    if made:
        yield from _prediction(made)
    yield "### How it was measured"
    yield _DEFINITIONS
    yield _links(report.devices)
    yield _origin(report)
    yield f"```sh\n{fmt.shorten(fmt.command(report), 2_000)}\n```"


def _cards(report: Report) -> Block:
    """Headline figures over all devices."""
    total = report.total
    row = [
        f"**{fmt.share(total.both.overlap)}**",
        fmt.duration(total.both.exposed_ns),
        fmt.duration(total.both.busy_ns),
        *[_card(way, key, report.devices) for way, key in ((total.h2d, "h2d"), (total.d2h, "d2h"))],
        fmt.count(total.devices),
    ]
    unknown = total.both.busy_ns and total.both.overlap is None
    exposed = "Exposed, or cannot tell" if unknown else "Exposed"
    return table("", [], ["Overlap", exposed, "Transfers", "H2D", "D2H", "GPUs"], [row])


def _card(way: Direction, key: str, devices: Sequence[Device]) -> str:
    """Payload and bandwidth of one direction, against the link where all devices have the same."""
    if not way.copies:
        return "none"
    links = {_range(device.link, key) for device in devices} - {""}
    link = f"<br>link: {links.pop()}" if len(links) == 1 else ""
    return f"{fmt.size(way.bytes)} at {fmt.bandwidth(way.gbps)}{link}"


def _transfers(report: Report) -> Block:
    """Transfers of each device, per direction and both together; the sums stay at the end."""
    label = fmt.labels(report.devices)
    rows = [
        row
        for device in report.devices
        for row in _directions(label[device.id], device.trace, device.link)
    ]
    return table(
        "Transfers",
        ["GPU", "Direction"],
        ["Copies", "Bytes", "Busy", "Hidden", "Exposed", "Overlap", "Under collectives"]
        + ["GB/s", "Burst", "Lone", "Link"],
        rows,
        _directions("all", report.total, None) if len(report.devices) > 1 else (),
        "Under collectives: the part of the exposed time that ran beside collective kernels only.",
    )


def _directions(label: str, figures: DeviceTrace | Total, link: Link | None) -> Iterator[list[str]]:
    """Yield the rows of H2D, D2H and both of one device or of all."""
    for name, key, way in (("H2D", "h2d", figures.h2d), ("D2H", "d2h", figures.d2h)):
        copies = [fmt.count(way.copies), fmt.size(way.bytes)]
        speeds = [fmt.bandwidth(gbps) for gbps in (way.gbps, way.burst_gbps, way.lone_gbps)]
        yield [label, name, *copies, *_times(way), *speeds, _judged(link, key)]
    yield [label, "both", "", "", *_times(figures.both), "", "", "", ""]


def _times(way: Direction | Both) -> list[str]:
    """Busy, hidden, exposed, overlap, and the exposed time under collectives."""
    busy, hidden, exposed, collectives = map(
        fmt.duration, (way.busy_ns, way.hidden_ns, way.exposed_ns, way.hidden_by_collectives_ns)
    )
    return [busy, hidden, exposed, fmt.share(way.overlap), collectives]


def _range(link: Link | None, key: str) -> str:
    """Measured range of one direction of a link; empty for an unknown link."""
    return fmt.span(getattr(link, f"{key}_gbps")) if link else ""


def _judged(link: Link | None, key: str) -> str:
    """Measured range, and where the fastest lone copy lies against it."""
    verdict = getattr(link, f"{key}_verdict", None)
    return f"{_range(link, key)}, {verdict}" if verdict else _range(link, key)


def _devices(report: Report) -> Block:
    """Name, link and the rest of the window of each device."""
    label = fmt.labels(report.devices)
    return table(
        "GPUs",
        ["GPU", "Name", "Link"],
        ["Copy engines", "Window", "Kernels", "Compute", "Collectives", "Other", "Idle"]
        + ["Both directions at once"],
        [
            [
                label[device.id],
                code(device.name or ""),
                code(device.link.name if device.link else ""),
                fmt.UNKNOWN if device.copy_engines is None else fmt.count(device.copy_engines),
                fmt.duration(device.trace.window_ns),
                fmt.count(device.trace.kernels),
                fmt.duration(device.trace.compute_busy_ns),
                fmt.duration(device.trace.collective_busy_ns),
                fmt.duration(device.trace.other_busy_ns),
                fmt.duration(device.trace.idle_ns),
                fmt.duration(device.trace.both.concurrent_ns),
            ]
            for device in report.devices
        ],
        note="Other: memsets and copies on the device.",
    )


def _ranks(report: Report) -> Block:
    """Figures of all traces, the slowest first."""
    return table(
        "Ranks",
        ["Trace"],
        ["Window", "GPUs", "Kernels", "Compute", "Transfers", "Exposed", "Overlap", "Warnings"],
        [
            [
                code(rank.file),
                fmt.duration(rank.window_ns),
                fmt.count(rank.devices),
                fmt.count(rank.kernels),
                fmt.duration(rank.compute_busy_ns),
                fmt.duration(rank.busy_ns),
                fmt.duration(rank.exposed_ns),
                fmt.share(rank.overlap),
                fmt.count(rank.warnings),
            ]
            for rank in report.ranks or ()
        ],
        note="Slowest first; all other sections are about the first one.",
    )


def _worst_copies(report: Report) -> Block:
    """Most exposed copies, by their rows in the trace."""
    label = fmt.labels(report.devices)
    return table(
        "Worst copies",
        ["GPU", "Direction", "Host memory"],
        ["Row", "Stream", "Start", "Bytes", "Hidden", "Exposed", "GB/s"],
        [
            [
                label[copy.device],
                copy.direction.upper(),
                copy.host,
                fmt.UNKNOWN if copy.row_id is None else str(copy.row_id),
                fmt.UNKNOWN if copy.stream is None else str(copy.stream),
                fmt.moment(copy.start_ns),
                fmt.size(copy.bytes),
                fmt.duration(copy.hidden_ns),
                fmt.duration(copy.exposed_ns),
                fmt.bandwidth(copy.gbps),
            ]
            for copy in report.worst_copies
        ],
        note="Row: row id in the trace's memcpy table. Start: on the trace's own clock.",
    )


def _sizes(total: Total) -> Block:
    """Size classes of each direction, over all devices."""
    return table(
        "Copies by size",
        ["Direction"],
        ["Up to", "Copies", "Bytes", "Busy", "GB/s", "Fastest"],
        [
            [
                name,
                fmt.limit(row.upto_bytes),
                fmt.count(row.copies),
                fmt.size(row.bytes),
                fmt.duration(row.busy_ns),
                fmt.bandwidth(row.gbps),
                fmt.bandwidth(row.best_gbps),
            ]
            for name, way in (("H2D", total.h2d), ("D2H", total.d2h))
            for row in way.sizes
        ],
    )


def _kernels(report: Report) -> Block:
    """Longest-running kernels, and what they were taken for."""
    others = len(report.kernels) - _KERNELS
    return table(
        "Kernels",
        ["Kernel", "Taken for"],
        ["Count", "Time"],
        [
            [
                code(kernel.name),
                f"{kernel.class_}, copy-like" if kernel.copy_like else kernel.class_,
                fmt.count(kernel.count),
                fmt.duration(kernel.busy_ns),
            ]
            for kernel in report.kernels[:_KERNELS]
        ],
        note=f"Names with less time, not shown: {fmt.count(others)}." if others > 0 else "",
    )


def _prediction(made: Prediction) -> Iterator[str | Block]:
    """How the trace was predicted: what was compiled, the range, the constants, the doubts."""
    yield "### How it was predicted"
    yield f"{prose(made_by(made))}. {prose(HONESTY)}"
    yield Block([], [f"- {prose(note)}" for note in made.notes])
    yield table(
        "",
        ["Constants"],
        ["Step", "H2D exposed", "D2H exposed"],
        [
            [
                prose(corner.name),
                fmt.duration(corner.step_ns),
                fmt.duration(corner.h2d_exposed_ns),
                fmt.duration(corner.d2h_exposed_ns),
            ]
            for corner in made.corners
        ],
    )
    yield table(
        "",
        ["Constant", "Unit", "Origin"],
        ["Low", "Expected", "High"],
        [
            [
                code(constant.name),
                prose(constant.unit),
                prose(constant.origin),
                *(f"{number:g}" for number in (constant.low, constant.expected, constant.high)),
            ]
            for constant in made.constants
        ],
    )
    if made.flags:
        yield f"XLA flags: {code(' '.join(made.flags))}"


def _links(devices: Sequence[Device]) -> Block:
    """Say where the figures of each kind of link come from."""
    links = dict.fromkeys(device.link for device in devices if device.link)
    lines = [
        f"Link {code(link.name)}: peak {fmt.bandwidth(link.peak_gbps)} per direction. "
        + prose(link.source)
        for link in links
    ]
    return Block([], lines)


def _origin(report: Report) -> str:
    """Versions and window; the command to repeat it all follows."""
    trace, window, tool = report.trace, report.window, report.tool
    export = f"Nsight Systems {code(trace.nsys_version or '')}, export schema "
    export += code(trace.export_schema or "")
    return (
        f"Trace {code(trace.file)}: {trace.kind}, recorder {code(trace.recorder)}, {export}. "
        f"Window ({prose(window.source)}): {fmt.moment(window.start_ns)} to "
        f"{fmt.moment(window.end_ns)} on the trace's clock. "
        f"Analysed with {prose(tool.name)} {prose(tool.version)}:"
    )
