"""The report as GitHub-flavoured Markdown that fits into one comment.

GitHub takes 65,536 characters. A report that would be longer loses rows of its longest lists, and
says how many.
"""

from collections.abc import Iterator, Sequence

from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.cards import Words, by_steps, cards, unit
from nsysoffload.report.gfm import LIMIT, Block, code, fitted, prose, table
from nsysoffload.report.model import (
    Both,
    Device,
    DeviceTrace,
    Direction,
    Gate,
    Link,
    PerStep,
    Prediction,
    Report,
    StepBoth,
    StepDirection,
    Total,
    Transfers,
)
from nsysoffload.report.predicted import BANNER, HONESTY, summary, what
from nsysoffload.report.predicted import made as made_by
from nsysoffload.report.recorded import summary as recorded
from nsysoffload.report.remarks import remarks, steps_text
from nsysoffload.report.wording import firsts, gate, told

__all__ = ["LIMIT", "render"]

_KERNELS = 15
_DEFINITIONS = """\
- *Busy* is the time with at least one copy, *hidden* the part of it during which a compute kernel
  ran, *exposed* the rest, *overlap* hidden over busy. *Both* is the time with a copy of either
  direction, not the sum of the two. Collective kernels (NCCL and kin) hide no copy.
- *Lost* is the time of a step outside compute; every nanosecond of it has one cause. A *stall* is a
  gap between compute kernels that ends with the transfers before it: *proven* by an event, else
  inferred from the times. *Excess* is what takes longer than alone, and no lost time.
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
    return fitted([*_blocks(report)], LIMIT)


def _blocks(report: Report) -> Iterator[str | Block]:
    """Yield the blocks from top to bottom."""
    made = report.prediction
    yield f"## Host transfers in {prose(what(made)) if made else code(report.trace.file)}"
    if report.ranks:
        yield f"The slowest of {len(report.ranks)} ranks; all stand in a table below."
    yield f"> **{prose(report.verdict.text)}**"
    if report.trace.kind == "predicted":
        lines = [BANNER, *(summary(made) if made else [])]
        yield Block(["> [!IMPORTANT]"], [f"> {prose(line)}" for line in lines])
    yield " ".join(map(prose, recorded(report)))
    yield Block([], [f"- {_passed(limit)}" for limit in report.gates])
    yield _cards(report)
    yield from _firsts(report)
    yield Block(["> [!WARNING]"], [f"> - {prose(w.message)}" for w in report.trace.warnings])
    yield _findings(report)
    yield "### Where a step goes" if by_steps(report) else "### Where the time goes"
    yield steps_text(report)
    yield _medians(report)
    yield _per_step(report)
    yield _lost(report)
    yield _phases(report)
    yield _what_if(report)
    yield _steps(report)
    yield _transfers(report)
    yield Block([], [f"- {prose(remark)}" for remark in remarks(report)])
    yield _devices(report)
    yield _ranks(report)
    yield _operations(report)
    yield _contention(report)
    yield _worst_copies(report)
    yield _sizes(report.total)
    yield _kernels(report)
    if made:
        yield from _prediction(made)
    yield "### How it was measured"
    yield _DEFINITIONS
    yield _links(report.devices)
    yield _origin(report)
    if report.recording and report.recording.xla_flags:
        yield f"XLA flags: {code(' '.join(report.recording.xla_flags), 2_000)}"
    yield f"```sh\n{fmt.shorten(fmt.command(report), 2_000)}\n```"


def _passed(limit: Gate) -> str:
    """Say whether a limit is kept; what isn't stands out."""
    return prose(gate(limit)) if limit.passed else f"**{prose(gate(limit))}**"


def _cards(report: Report) -> Block:
    """Headline figures."""
    found = cards(report)
    values = [f"**{prose(_text(card.value))}**" for card in found]
    notes = [prose(_text(card.note)) for card in found]
    return table("", [], [card.title for card in found], [values, notes])


def _text(words: Words) -> str:
    """Text of words and figures."""
    return "".join(map(str, words))


def _firsts(report: Report) -> Iterator[str | Block]:
    """Yield the most costly findings."""
    found, _ = firsts(report)
    if not found:
        return
    yield "### What to change first"
    yield Block(
        [],
        [
            f"{number}. **{prose(finding.title)}** ({code(finding.cause)}): "
            f"{prose(_text(finding.cost))}. {prose(finding.where)}. {prose(finding.advice)}"
            for number, finding in enumerate(found, start=1)
        ],
    )


def _findings(report: Report) -> Block:
    """All findings with their evidence, worst first, then the notes."""
    return table(
        "Findings with their evidence",
        ["Cause", "Where", "Cost", "Found", "Change", "Evidence"],
        [],
        [
            [
                f"{prose(finding.title)} {code(finding.cause)}"
                + (" (note)" if finding.is_note else ""),
                prose(finding.where),
                prose(_text(finding.cost)),
                prose(finding.message),
                prose(finding.advice, 900),
                "<br>".join(
                    [
                        *(
                            f"{prose(name)}: {prose(_text(value))}"
                            for name, value in finding.numbers
                        ),
                        *(f"{prose(name)}: {prose(rows, 200)}" for name, rows in finding.rows),
                    ]
                ),
            ]
            for finding in told(report)
        ],
        note="Each lost nanosecond has one cause; what takes longer than alone is no lost time.",
        folded=True,
    )


def _stepped(report: Report) -> list[tuple[str, Device, PerStep]]:
    """Label, device and medians of each device that has steps, the slowest first."""
    label = fmt.labels(report.devices)
    found = [(label[d.id], d, d.per_step) for d in report.devices if d.per_step]
    return sorted(found, key=lambda item: -item[2].duration_ns)


def _medians(report: Report) -> Block:
    """Medians of each device, or its window."""
    return table(
        "",
        ["GPU"],
        ["Steps", "Duration", "Compute", "Recompute", "Collectives", "Idle", "Lost", "Stall"]
        + ["Proven", "Hideable", "Best", "Rows of no XLA op"],
        [
            [
                label,
                fmt.count(step.steps),
                fmt.duration(step.duration_ns),
                fmt.duration(step.compute_busy_ns),
                _maybe(step.recompute_ns),
                fmt.duration(step.collective_busy_ns),
                fmt.duration(step.idle_ns),
                fmt.duration(step.lost_ns),
                fmt.duration(step.stall_ns),
                fmt.duration(step.stall_proven_ns),
                fmt.duration(step.hideable_ns),
                fmt.duration(step.best_ns),
                fmt.share(step.unattributed),
            ]
            for label, _, step in _stepped(report)
        ],
        note="Medians, each figure's own. Stall: compute waits for transfers. Hideable: what"
        " another schedule could hide of it. Best: the duration without it.",
    )


def _maybe(time_ns: int | None) -> str:
    return fmt.UNKNOWN if time_ns is None else fmt.duration(time_ns)


def _per_step(report: Report) -> Block:
    """Transfers of a step of each device, and what they hold up."""
    return table(
        "",
        ["GPU", "Per step" if by_steps(report) else "In the window"],
        ["Copies", "Bytes", "Busy", "Hidden", "Exposed", "Overlap", "GB/s", "Stall", "Hideable"],
        [
            row
            for label, _, step in _stepped(report)
            for row in (
                _one_way(label, "H2D", step.h2d),
                _one_way(label, "D2H", step.d2h),
                [label, "both", "", "", *_times(step.both)[:4], ""]
                + [fmt.duration(step.stall_ns), fmt.duration(step.hideable_ns)],
            )
        ],
    )


def _one_way(label: str, name: str, way: StepDirection) -> list[str]:
    """Transfers of one direction in a step."""
    return [
        label,
        name,
        fmt.count(way.copies),
        fmt.size(way.bytes),
        *_times(way)[:4],
        fmt.bandwidth(way.gbps),
        fmt.duration(way.stall_ns),
        fmt.duration(way.hideable_ns),
    ]


def _lost(report: Report) -> Block:
    """Lost time of the slowest device by cause: of its median step, adding up, and medians."""
    stepped = _stepped(report)
    shown = next(((d, s) for _, d, s in stepped[:1] if d.median_step is not None), None)
    if shown is None:
        return Block([], [])
    device, medians = shown
    step = next((s for s in device.steps if s.index == device.median_step), None)
    if step is None:
        return Block([], [])
    causes_ = sorted({*step.lost, *medians.lost}, key=lambda c: -step.lost.get(c, 0))
    head = f"Step {step.index}" if by_steps(report) else "Window"
    return table(
        "",
        [f"Lost time of GPU {stepped[0][0]} by cause"],
        [head, "Median"],
        [
            [
                f"{prose(causes.title(cause))} {code(cause)}",
                fmt.duration(step.lost.get(cause, 0)),
                fmt.duration(medians.lost.get(cause, 0)),
            ]
            for cause in causes_
        ],
        [
            ["Adds up to lost time", fmt.duration(step.lost_ns), ""],
            ["and compute", fmt.duration(step.compute_busy_ns), ""],
            [f"is the whole {'step' if by_steps(report) else 'window'}"]
            + [fmt.duration(step.duration_ns), ""],
        ],
    )


def _phases(report: Report) -> Block:
    """Compute time by phase, where XLA's names tell."""
    names = ("forward", "backward", "recompute", "other")
    return table(
        "",
        ["GPU"],
        ["Forward", "Backward", "Recompute", "Other"],
        [
            [label, *(fmt.duration(step.phases[name]) for name in names)]
            for label, _, step in _stepped(report)
            if step.phases
        ],
        note="Compute by phase; recompute is rematerialisation.",
    )


def _what_if(report: Report) -> Block:
    """Tabulate what a step of the slowest device would save."""
    stepped = _stepped(report)[:1]
    return table(
        "",
        ["What if", "Assumption"],
        ["Saving"],
        [
            [prose(what.name.replace("_", " ")), prose(what.assumption), _maybe(what.saving_ns)]
            for _, _, step in stepped
            for what in step.what_if
        ],
        note="One assumption each; savings don't add up.",
    )


def _steps(report: Report) -> Block:
    """Every step of the slowest device."""
    if not by_steps(report):
        return Block([], [])
    label, device, _ = _stepped(report)[0]
    return table(
        f"Steps of GPU {label}",
        ["Step"],
        ["Start", "Duration", "Period", "Compute", "Lost", "Stall", "Exposed", "Overlap", "Best"],
        [
            [
                f"{step.index}"
                + ", median" * (step.index == device.median_step)
                + ", far off" * step.outlier,
                fmt.moment(step.start_ns),
                fmt.duration(step.duration_ns),
                _maybe(step.period_ns),
                fmt.duration(step.compute_busy_ns),
                fmt.duration(step.lost_ns),
                fmt.duration(step.stall_ns),
                fmt.duration(step.both.exposed_ns),
                fmt.share(step.both.overlap),
                fmt.duration(step.best_ns),
            ]
            for step in device.steps
        ],
        note="Compute and lost time add up to a step's duration.",
        folded=True,
    )


def _operations(report: Report) -> Block:
    """Transfers by operation."""
    label = fmt.labels(report.devices)
    return table(
        "Transfers by operation",
        ["Operation", "GPU", "Direction", "Phase"],
        ["Layers", "Copies", "Bytes", "Busy", "Hidden", "Stall"],
        [
            [
                code(group.op),
                label.get(group.device, fmt.UNKNOWN),
                group.direction.upper(),
                group.phase or fmt.UNKNOWN,
                _layers(group),
                fmt.count(group.copies),
                fmt.size(group.bytes),
                fmt.duration(group.busy_ns),
                fmt.duration(group.hidden_ns),
                fmt.duration(group.stall_ns),
            ]
            for group in report.transfers
        ],
        note=f"{unit(report).capitalize()}. Stall: a kernel waited for these copies.",
        folded=True,
    )


def _layers(group: Transfers) -> str:
    """Return how many layers there are, or which it is."""
    if group.layers:
        return fmt.count(len(group.layers))
    return fmt.UNKNOWN if group.layer is None else f"layer {group.layer}"


def _contention(report: Report) -> Block:
    """Kernels that run longer under transfers."""
    label = fmt.labels(report.devices)
    return table(
        "Kernels that run longer under transfers",
        ["Kernel", "GPU"],
        ["Alone", "of", "Under transfers", "of", f"Excess {unit(report)}"],
        [
            [
                code(row.kernel),
                label.get(row.device, fmt.UNKNOWN),
                fmt.duration(row.lone_ns),
                fmt.count(row.lone_count),
                fmt.duration(row.covered_ns),
                fmt.count(row.covered_count),
                fmt.duration(row.excess_ns_per_step),
            ]
            for row in report.contention[:_KERNELS]
        ],
        note="Median durations. The excess is no part of lost time.",
        folded=True,
    )


def _transfers(report: Report) -> Block:
    """Transfers of each device, per direction and both together; the sums stay at the end."""
    label = fmt.labels(report.devices)
    rows = [
        row
        for device in report.devices
        for row in _directions(label[device.id], device.trace, device.link)
    ]
    return table(
        "Transfers in the whole window",
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


def _times(way: Direction | Both | StepDirection | StepBoth) -> list[str]:
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
        [
            "Window",
            "Step",
            "Stall",
            "GPUs",
            "Kernels",
            "Compute",
            "Transfers",
            "Exposed",
            "Overlap",
            "Warnings",
        ],
        [
            [
                code(rank.file),
                fmt.duration(rank.window_ns),
                _maybe(rank.step_ns),
                _maybe(rank.stall_ns),
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
        ["Row", "Stream", "Start", "Queued", "Bytes", "Hidden", "Exposed", "GB/s"],
        [
            [
                label[copy.device],
                copy.direction.upper(),
                copy.host,
                fmt.UNKNOWN if copy.row_id is None else str(copy.row_id),
                fmt.UNKNOWN if copy.stream is None else str(copy.stream),
                fmt.moment(copy.start_ns),
                fmt.UNKNOWN if copy.queue_ns is None else fmt.duration(copy.queue_ns),
                fmt.size(copy.bytes),
                fmt.duration(copy.hidden_ns),
                fmt.duration(copy.exposed_ns),
                fmt.bandwidth(copy.gbps),
            ]
            for copy in report.worst_copies
        ],
        note="Row: row id in the trace's memcpy table. Start: on the trace's own clock. "
        "Queued: from the start of the copy's API call to its own.",
        folded=True,
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
        folded=True,
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
        folded=True,
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
