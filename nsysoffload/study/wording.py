"""A study in words and figures that all outputs share."""

from collections.abc import Iterator

from nsysoffload.comparison.verdict import signed
from nsysoffload.report import causes
from nsysoffload.report import format as fmt
from nsysoffload.report.predicted import HONESTY
from nsysoffload.study.cases import BASE
from nsysoffload.study.model import Figures, Group, Judged, Problem, Row, StudyReport

__all__ = [
    "AGREES",
    "FIGURES",
    "OUTCOMES",
    "agreement",
    "command",
    "cost",
    "facts",
    "figures",
    "fits",
    "gain",
    "group_facts",
    "heading",
    "headline",
    "lost",
    "method",
    "predicted",
    "published",
    "speed",
    "SPEED",
    "subject",
    "tflops",
]

OUTCOMES = {
    "agrees": ("✓", "Agrees with what was published"),
    "partly": ("◐", "Agrees in part with what was published"),
    "differs": ("✗", "Differs from what was published"),
    "cannot_tell": ("?", "Nothing published to hold it against"),
}
"""A mark and words for each outcome."""

AGREES = {True: ("✓", "agrees"), False: ("✗", "differs"), None: ("?", "cannot tell")}
"""A mark and a word for whether a published figure agrees."""

SPEED = (
    "Device",
    "Host",
    "Fits",
    "Step",
    "from",
    "to",
    "TFLOP/s/device",
    "from",
    "to",
    "Gain",
    "from",
    "to",
)
"""Columns on speed and memory."""

FIGURES = (
    "Overlap",
    "Exposed",
    "Stall",
    "Collectives alone",
    "Recompute",
    "of compute",
    "H2D",
    "D2H",
    "Time outside compute",
    "First finding",
)
"""Columns on where the time goes."""

_CAUSES = 3  # of lost time that are named


def tflops(value: float | None) -> str:
    """Return TFLOP/s as a figure without its unit.

    Examples
    --------
    >>> tflops(578.26), tflops(1234.4), tflops(None)
    ('578', '1,234', '–')
    """
    return fmt.figure("tflops", value)


def fits(row: Row) -> str:
    """Say whether a run fits, and where it doesn't."""
    if row.need is None:
        return fmt.UNKNOWN
    places = (("device", row.need.fits_device), ("host", row.need.fits_host))
    full = " and ".join(place for place, fitting in places if not fitting)
    return f"no: {full}" if full else "yes"


def gain(value: float | None) -> str:
    """Return a gain with its sign."""
    return fmt.UNKNOWN if value is None else signed(value)


def speed(row: Row) -> list[str]:
    """Return the cells of `SPEED`."""
    need, step, rate, won = row.need, row.step, row.tflops, row.gain
    times = (step.expected_ns, step.low_ns, step.high_ns) if step else (None,) * 3
    rates = (rate.expected, rate.low, rate.high) if rate else (None,) * 3
    gains = (won.expected, won.low, won.high) if won else (None,) * 3
    return [
        fmt.size(need.device_bytes if need else None),
        fmt.size(need.host_bytes if need else None),
        fits(row),
        *(fmt.UNKNOWN if time is None else fmt.duration(time) for time in times),
        *map(tflops, rates),
        *(["base"] + [""] * 2 if row.variant == BASE else map(gain, gains)),
    ]


def figures(row: Row) -> list[str]:
    """Return the cells of `FIGURES`; dashes where there are no figures."""
    f = row.figures
    if f is None:
        return [fmt.UNKNOWN] * len(FIGURES)
    recompute = fmt.UNKNOWN if f.recompute_ns is None else fmt.duration(f.recompute_ns)
    return [
        fmt.share(f.overlap),
        fmt.duration(f.exposed_ns),
        fmt.duration(f.stall_ns),
        fmt.duration(f.collectives_alone_ns),
        recompute,
        fmt.share(f.recompute_share),
        fmt.size(f.h2d_bytes),
        fmt.size(f.d2h_bytes),
        "; ".join(f"{title} {time}" for title, time, _ in lost(f)) or "none",
        causes.title(row.finding.cause) if row.finding else "none",
    ]


def lost(found: Figures) -> list[tuple[str, str, str]]:
    """Return title, time and name of the causes that cost most time outside compute."""
    worst = sorted(found.lost.items(), key=lambda item: (-item[1], item[0]))[:_CAUSES]
    return [(causes.title(cause), fmt.duration(time_ns), cause) for cause, time_ns in worst]


def cost(finding: Problem) -> str:
    """Return what the first finding of a run costs per step."""
    parts = [fmt.duration(finding.lost_ns_per_step)] * (finding.lost_ns_per_step > 0)
    excess_ns = finding.excess_ns_per_step
    parts += [f"{fmt.duration(excess_ns)} longer than alone"] * (excess_ns > 0)
    return " and ".join(parts)


# --- Groups ---


def subject(group: Group) -> str:
    """Return what a group is called."""
    return f"{group.title}, batch {fmt.count(group.batch)}"


def group_facts(report: StudyReport, group: Group) -> list[str]:
    """Return what is to be known of a group, in few words."""
    active = group.active_parameters
    of_active = "" if active == group.parameters else f", {fmt.count(active)} of them active"
    work = (group.weight_flops + group.attention_flops) / report.about.devices / 1e12
    found = [
        f"{fmt.count(group.parameters)} parameters{of_active}",
        f"mesh {group.mesh or 'of one GPU'}",
        f"{fmt.count(group.tokens)} tokens a step, {tflops(work)} TFLOP for each GPU",
    ]
    if group.policy:
        found.append(f"best policy: {fmt.shorten(fmt.plain(group.policy), 200)}")
    if group.policy_note:
        found.append(fmt.shorten(fmt.plain(group.policy_note), 300))
    return found


def headline(report: StudyReport, group: Group) -> tuple[str, str]:
    """Return the throughput of the fastest run that fits, and what it is."""
    row = next((r for r in report.of_group(group) if r.variant == group.best), None)
    if row is None or row.tflops is None:
        return fmt.UNKNOWN, "no run fits on the device and on the host"
    rate = row.tflops
    span = f"{tflops(rate.low)} to {tflops(rate.high)}"
    won = f"; {gain(row.gain.expected)} over rematerialising" if row.gain else ""
    return f"{tflops(rate.expected)} TFLOP/s", f"{row.title}: {span}{won}"


# --- What was published ---


def published(one: Judged) -> str:
    """Return a published figure.

    Examples
    --------
    >>> from nsysoffload.study.model import Judged
    >>> published(Judged("m", "v", 1, "gain", "", 0.029, None, *[None] * 6))
    '+2.9 %'
    """
    if one.kind == "fits":
        return "runs" if one.fits else "out of memory"
    assert one.value is not None
    return signed(one.value) if one.kind == "gain" else f"{one.value:g} TFLOP/s"


def predicted(one: Judged) -> str:
    """Return the predicted figure with its range."""
    if one.kind == "fits":
        return {True: "fits", False: "does not fit", None: fmt.UNKNOWN}[one.predicted_fits]
    if one.low is None or one.expected is None or one.high is None:
        return fmt.UNKNOWN
    if one.kind == "gain":
        return f"{signed(one.expected)}, {signed(one.low)} to {signed(one.high)}"
    return f"{tflops(one.expected)} TFLOP/s, {tflops(one.low)} to {tflops(one.high)}"


def agreement(one: Judged) -> str:
    """Say whether a published figure agrees, and how."""
    mark, word = AGREES[one.agrees]
    if one.agrees is None or one.kind == "fits" or one.value is None or one.low is None:
        return f"{mark} {word}"
    where = "in the range" if one.agrees else "above" if one.value > (one.high or 0) else "below"
    return f"{mark} {where if one.agrees else f'published is {where} the range'}"


# --- The whole ---


def heading(report: StudyReport) -> str:
    """Return the title of the report."""
    titles = " and ".join(dict.fromkeys(group.title for group in report.groups))
    about = report.about
    return f"{titles} on {fmt.count(about.devices)} {about.target.upper()}, predicted"


def facts(report: StudyReport) -> Iterator[str]:
    """Yield what the reader must know of the study, in few words."""
    about = report.about
    yield f"{fmt.count(about.devices)} × {about.gpu}, none of them here"
    yield f"bf16, sequences of {fmt.count(about.seq)} tokens"
    if report.jax_version:
        yield f"compiled by jax {report.jax_version}"
    if about.layers:
        yield f"cut to {fmt.count(about.layers)} {'layer' if about.layers == 1 else 'layers'}"
    failed = sum(row.failed is not None for row in report.rows)
    yield f"{fmt.count(len(report.rows))} runs" + (f", {failed} without figures" if failed else "")


def method(report: StudyReport) -> list[tuple[str, str]]:
    """Return terms and what they mean, in the order of the report."""
    found = [
        (
            "Predicted",
            f"{HONESTY} The constants, each with its range and origin, are in the report of each"
            " run.",
        ),
        (
            "Range",
            "From the shortest to the longest step over all choices of slow and fast compute, host"
            " link and collectives. A gain is told choice by choice, the same for both runs, so"
            " that its range is narrower than that of two steps.",
        ),
        (
            "TFLOP/s/device",
            "Operations of a step by MaxText's convention over its time and the devices: 6 per"
            " active weight and token without the table that tokens are looked up in, and 3 times"
            " the forward pass of causal attention, half of the square. What is recomputed counts"
            " for nothing. Earlier revisions of MaxText counted the whole square: by them a"
            f" figure is higher by {_whole_square(report)}.",
        ),
        (
            "Fits",
            "On the device: all of its memory, of which JAX takes three quarters by default. On the"
            " host: the memory of the usual machine that belongs to one GPU.",
        ),
        (
            "Best subset",
            "The policy that a search finds fastest within both memories: which named values are"
            " kept, offloaded or recomputed. A fixed policy may be the best one.",
        ),
        (
            "Where the time goes",
            "Medians over the steps, with the expected constants. Overlap is the share of transfer"
            " time behind compute, exposed the rest; a stall is time for which compute waits for"
            " transfers; collectives alone run beside no compute; recompute is what the backward"
            " pass computes again.",
        ),
    ]
    if report.published:
        found.append(("Published", report.about.source))
    return found


def _whole_square(report: StudyReport) -> str:
    """Say what it would add to count the whole square of attention, model by model."""
    shares = {
        group.title: group.attention_flops / (group.weight_flops + group.attention_flops)
        for group in report.groups
    }
    return " and ".join(f"{fmt.share(share)} for {title}" for title, share in shares.items())


def command(report: StudyReport) -> str:
    """Return the command line that makes this report again."""
    return fmt.command_line("study", [report.about.name], report.tool.options)
