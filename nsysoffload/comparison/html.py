"""The comparison as one HTML page that works offline; see `report.html`."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nsysoffload.comparison import figures
from nsysoffload.comparison.gates import sentence
from nsysoffload.comparison.json import to_dict
from nsysoffload.comparison.model import Comparison, Pair, Run
from nsysoffload.comparison.sections import Section, name, section
from nsysoffload.comparison.tradeoff import tradeoff
from nsysoffload.comparison.verdict import signed
from nsysoffload.comparison.wording import OUTCOMES, PARTS, command, rule, setting, step_text
from nsysoffload.report import causes, predicted
from nsysoffload.report import format as fmt
from nsysoffload.report.figures import Figure
from nsysoffload.report.lane_figure import Track, cause_styles, marks_of, timeline_of, track
from nsysoffload.report.page import MAX_BYTES, Numbers, environment, inlined

__all__ = ["render"]

_PACKAGE = "nsysoffload.comparison"
_UNKNOWN = {
    "step_ns": "no whole training step was found",
    "step_low_ns": "there are too few steps",
    "step_high_ns": "there are too few steps",
    "tokens_per_s": "the tokens of a step are not known",
    "device_bytes": "neither a prediction nor the manifest of a run says it",
    "device_limit_bytes": "no prediction says it",
    "host_bytes": "neither a prediction nor the manifest of a run says it",
    "bytes": "the trace has no sizes",
}
_MOST_WARNINGS = 60
_MOST_FACTS = 6
_SHOWN_ROWS, _SHOWN_OPERATIONS = 200, 60  # of the pair that the page is about
_MOST_GATES = 8  # that are not folded away


@dataclass(frozen=True)
class _Detail:
    """How much the page carries.

    New runs that are listed, pairs in detail, rows and operations of all but the first of these,
    whether timelines are fine, and operations and differences of each pair in the page's copy of
    the JSON; ``None`` for all.
    """

    runs: int
    pairs: int
    rows: int
    operations: int
    fine: bool
    embedded: int | None


_DETAILS = (
    _Detail(runs=200, pairs=40, rows=200, operations=60, fine=True, embedded=None),
    _Detail(runs=200, pairs=40, rows=16, operations=20, fine=True, embedded=50),
    _Detail(runs=200, pairs=40, rows=12, operations=10, fine=False, embedded=20),
    _Detail(runs=100, pairs=10, rows=12, operations=5, fine=False, embedded=5),
    _Detail(runs=40, pairs=1, rows=12, operations=5, fine=False, embedded=2),
)
"""From everything to what is always small enough."""


def render(comparison: Comparison) -> str:
    """Write the comparison as an HTML page of at most 3 MB.

    Parameters
    ----------
    comparison : Comparison
        The comparison.

    Returns
    -------
    str
        A whole page; stylesheet, script, figures and the JSON report are in it.
    """
    data = to_dict(comparison)
    page = ""
    for detail in _DETAILS:
        page = _page(comparison, data, detail)
        if len(page.encode("utf-8", "replace")) <= MAX_BYTES:
            break
    return page


def _page(comparison: Comparison, data: dict[str, Any], detail: _Detail) -> str:
    show = Numbers(data, _UNKNOWN)
    first = _first(comparison)
    shown = section(comparison, show, first, _SHOWN_ROWS, _SHOWN_OPERATIONS)
    rest = [number for number in range(len(comparison.pairs)) if number != first]
    others = [
        section(comparison, show, number, detail.rows, detail.operations)
        for number in rest[: detail.pairs - 1]
    ]
    drawn = [(run, _track(comparison, run)) for run in (comparison.base, comparison.new[first])]
    tracks = [found for _, found in drawn if found]
    styles = cause_styles(*comparison.reports.values()) if tracks else {}
    icon, outcome = OUTCOMES[comparison.verdict.outcome]
    embedded = _embedded(data, detail)
    names = [name(run.name) for run in comparison.new]
    return (
        environment(_PACKAGE)
        .get_template("comparison.html.j2")
        .render(
            comparison=comparison,
            document="comparison",
            embedded=embedded,
            is_cut=embedded is not data,
            show=show,
            heading=_heading(comparison),
            facts=list(_facts(comparison)),
            icon=icon,
            outcome=outcome,
            outcomes=OUTCOMES,
            banner=_banner(comparison),
            gates=[
                (gate.passed, fmt.shorten(fmt.plain(sentence(gate, names)), 400))
                for gate in sorted(comparison.gates, key=lambda gate: gate.passed)[: detail.runs]
            ],
            most_gates=_MOST_GATES,
            gates_left=max(0, len(comparison.gates) - detail.runs),
            base_name=name(comparison.base.name),
            signed=signed,
            steps_text=partial(step_text, comparison),
            several=len(comparison.new) > 1,
            shown=shown,
            others=others,
            others_left=len(rest) - len(others),
            runs=[
                (run, name(run.name), at, pair)
                for run, at, pair in _listed(comparison)[: detail.runs + 1]
            ],
            runs_left=max(0, len(comparison.new) - detail.runs),
            untraced=[_untraced(run) for run, found in drawn if not found],
            causes={cause: (causes.title(cause), *style) for cause, style in styles.items()},
            stall_causes=list(dict.fromkeys(s.cause for t in tracks for s in t.stalls)),
            timeline_text=_timeline_text(tracks),
            memory_text=_memory_text(comparison),
            figures=_figures(comparison, [shown, *others], tracks),
            lanes=marks_of(tracks, styles, fine=detail.fine),
            warnings=_warnings(comparison)[:_MOST_WARNINGS],
            rule=rule(comparison),
            command=fmt.shorten(command(comparison), 2_000),
            style=inlined("style.css") + inlined("comparison.css", _PACKAGE),
        )
    )


def _first(comparison: Comparison) -> int:
    """Return the position of the new run that the page is about: the best, else the nearest."""
    best = [number for number, run in enumerate(comparison.new) if run.best]
    if best:
        return best[0]
    steps = [pair.step for pair in comparison.pairs]
    return min(
        range(len(steps)), key=lambda n: step.relative if (step := steps[n]) else float("inf")
    )


# --- Words ---


def _heading(comparison: Comparison) -> str:
    base, new = name(comparison.base.name), comparison.new
    what = name(new[0].name) if len(new) == 1 else f"{fmt.count(len(new))} runs"
    return f"{what} against {base}"


def _facts(comparison: Comparison) -> Iterator[str]:
    """Yield what the reader must know of the runs, in few words."""
    base = comparison.base
    version = f" {fmt.shorten(fmt.plain(base.nsys_version), 40)}" if base.nsys_version else ""
    recorder = f", {fmt.shorten(fmt.plain(base.recorder), 40)}{version}"
    yield f"{base.kind}{recorder if base.kind == 'measured' else ''}"
    for fact in setting(comparison)[:_MOST_FACTS]:
        yield fmt.shorten(fmt.plain(fact), 120)


def _banner(comparison: Comparison) -> str:
    """Say whose times are modelled."""
    modelled = [run for run in comparison.runs if run.kind == "predicted"]
    if not modelled or len(modelled) == len(comparison.runs):
        return predicted.BANNER if modelled else ""
    return f"{', '.join(name(run.name) for run in modelled)}: {predicted.BANNER}"


def _listed(comparison: Comparison) -> list[tuple[Run, str, Pair | None]]:
    """Return all runs, each with its path in the JSON and, but for the base, with its pair."""
    new = zip(comparison.new, comparison.pairs, strict=True)
    return [
        (comparison.base, "base.", None),
        *((run, f"new.{number}.", pair) for number, (run, pair) in enumerate(new)),
    ]


def _warnings(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return code, runs and text of each warning; what several runs share is said once."""
    runs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in comparison.runs:
        for warning in run.warnings:
            runs[warning.code, warning.message].append(name(run.name))
    return [
        (
            code,
            fmt.shorten(", ".join(dict.fromkeys(names)), 200),
            fmt.shorten(fmt.plain(message), 600),
        )
        for (code, message), names in runs.items()
    ]


# --- Figures ---


def _track(comparison: Comparison, run: Run) -> Track | None:
    """Return what the timeline draws of a run, if there is anything."""
    report = comparison.reports.get(run.name)
    device = next((d for d in report.devices if d.id == run.device), None) if report else None
    if report is None or device is None:
        return None
    title = name(run.name)
    made = track(report, device, title, f"{title}, step {device.median_step}")
    return made if made.lanes else None


def _untraced(run: Run) -> str:
    """Say why a run has no timeline."""
    if run.device is None:
        return f"{name(run.name)}: no whole training step was found, so there is none to draw."
    return f"{name(run.name)}: the timeline needs the trace; give it instead of its report."


def _memory_text(comparison: Comparison) -> str:
    """Say whose memory it is, and how much the GPUs have."""
    limits = sorted({r.device_limit_bytes for r in comparison.runs if r.device_limit_bytes})
    have = f" The GPU has {' or '.join(fmt.size(n) for n in limits[:4])}." if limits else ""
    more = max(0, len(comparison.runs) - figures.MOST_RUNS)
    left = f" The first {figures.MOST_RUNS} of {len(comparison.runs)} runs." if more else ""
    return f"What a step needs per GPU, by the compiler.{have}{left}"


def _timeline_text(tracks: Sequence[Track]) -> str:
    """Say what the timelines show."""
    merged = not all(lane.exact for found in tracks for lane in found.lanes)
    return (
        "The median step of each run, both from their start. The filled height of a transfer is the"
        " share of it that is hidden."
        + " Rows that start in one pixel column are merged; zooming in splits them."
        * merged
    )


def _figures(
    comparison: Comparison, sections: Sequence[Section], tracks: Sequence[Track]
) -> dict[str, Figure]:
    """Return the figures of the page by name; those without data are left out."""
    made: dict[str, Figure | None] = {}
    if tracks:
        made["timeline"] = timeline_of(tracks, cause_styles(*comparison.reports.values()))
    made["tradeoff"] = tradeoff(comparison)
    made["memory"] = figures.memory(comparison)
    for shown in sections:
        account = shown.pair.account
        if account:
            names = (comparison.base.name, shown.name)
            titles = [PARTS[part.name] for part in account.parts]
            made[shown.waterfall] = figures.waterfall(account, names, titles)
    return {key: figure for key, figure in made.items() if figure}


def _embedded(data: dict[str, Any], detail: _Detail) -> dict[str, Any]:
    """Return the JSON report, its long lists cut."""
    most, runs = detail.embedded, detail.runs
    if most is None:
        return data
    pairs = [pair | {"operations": pair["operations"][:most]} for pair in data["pairs"][:runs]]
    return data | {
        "new": data["new"][:runs],
        "pairs": pairs,
        "differences": data["differences"][: most * runs],
        "gates": data["gates"][:runs],
    }
