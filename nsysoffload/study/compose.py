"""Runs of a study -> its report: the one place where its fields are filled."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from nsysoffload.comparison.compare import compare
from nsysoffload.comparison.model import Comparison, Run
from nsysoffload.comparison.ranking import ranking
from nsysoffload.hardware import TARGETS, Target
from nsysoffload.recorders.flags import run_flags
from nsysoffload.report.model import Device, Memory, Report, Tool
from nsysoffload.report.verdict import slowest
from nsysoffload.study.cases import BASE, Case, Statement, Study, Subject
from nsysoffload.study.model import (
    About,
    Figures,
    Gain,
    Group,
    Need,
    Problem,
    Row,
    StudyReport,
    Throughput,
)
from nsysoffload.study.published import judged, verdict
from nsysoffload.trace.prediction import Prediction
from workloads.config import Config, model, parameters
from workloads.flops import published_flops

__all__ = ["Outcome", "Search", "compose"]

_CUT = "The models are cut to {layers} layers to try the study: no published figure is about them."
_ROUTING = (
    "Every expert is taken to be full to its capacity; a real routing is uneven, and drops tokens"
    " or takes longer."
)
_SHARE = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_POOL = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"


@dataclass(frozen=True)
class Outcome:
    """What became of a run: its report, or why there is none.

    ``policy`` is None where the best one was asked for and none was found. ``page`` is the run's
    own report, relative to the folder of the study, where it was written.
    """

    case: Case
    policy: str | None
    report: Report | None = None
    failed: str | None = None
    page: str | None = None


@dataclass(frozen=True)
class Search:
    """What the search for the best policy of a group found, and what it says beside that."""

    policy: str | None
    note: str | None


def compose(
    study: Study,
    outcomes: Sequence[Outcome],
    searches: Mapping[str, Search],
    options: Mapping[str, Any],
) -> StudyReport:
    """Fill the report.

    Parameters
    ----------
    study : Study
        What was asked for.
    outcomes : sequence of Outcome
        What became of each of its cases, in their order.
    searches : mapping of str to Search
        By the folder of the group.
    options : mapping of str to Any
        Options that were given, for the reader to repeat.
    """
    target = TARGETS[study.target]
    bases = {o.case.group: o for o in outcomes if o.case.variant.key == BASE}
    rows = [_row(study, o, bases.get(o.case.group), target) for o in outcomes]
    by_key = {(row.model, row.batch, row.variant): row for row in rows}
    groups = [_group(study, subject, batch, rows, searches) for subject, batch in study.groups]
    held = () if study.layers else tuple(judged(s, by_key) for s in _asked(study))
    compilers = [p.jax_version for p in map(_prediction, outcomes) if p]
    return StudyReport(
        tool=Tool("nsysoffload", version("nsysoffload"), dict(options)),
        verdict=verdict(held, study.layers),
        about=About(
            name=study.name,
            target=study.target,
            gpu=target.name,
            devices=_devices(study),
            seq=study.seq,
            layers=study.layers,
            source=study.source,
        ),
        jax_version=compilers[0] if compilers else None,
        published=held,
        groups=tuple(groups),
        rows=tuple(rows),
        notes=tuple(_notes(study)),
        comparisons=dict(_comparisons(outcomes, rows, groups)),
    )


def _devices(study: Study) -> int:
    from workloads.sharding import parse_mesh

    return max(math.prod(parse_mesh(subject.mesh).values()) for subject in study.subjects)


def _asked(study: Study) -> list[Statement]:
    """Return the published figures about models and batches that are studied."""
    chosen = {(subject.model, batch) for subject, batch in study.groups}
    return [s for s in study.statements if (s.model, s.batch) in chosen]


def _notes(study: Study) -> list[str]:
    cut = [_CUT.format(layers=study.layers)] if study.layers else []
    routed = any(model(subject.model, study.layers).moe_layers for subject in study.subjects)
    return [*cut, *[_ROUTING] * routed]


def _prediction(outcome: Outcome | None) -> Prediction | None:
    return outcome.report.prediction if outcome and outcome.report else None


# --- Rows ---


def _row(study: Study, outcome: Outcome, base: Outcome | None, target: Target) -> Row:
    case, report, prediction = outcome.case, outcome.report, _prediction(outcome)
    row = Row(
        model=case.subject.model,
        batch=case.batch,
        variant=case.variant.key,
        title=case.variant.title,
        policy=outcome.policy,
        preset=case.variant.preset,
        folder=case.folder,
        report=outcome.page,
        failed=outcome.failed,
    )
    device = slowest(report.devices) if report else None
    if report is None or prediction is None or device is None:
        return row
    config = model(case.subject.model, study.layers)
    return replace(
        row,
        need=_need(prediction, target, case.variant.preset),
        step=prediction.step,
        tflops=_throughput(config, case.batch, study.seq, prediction),
        gain=_gain(_prediction(base), prediction),
        figures=_figures(device),
        finding=_finding(report, device),
    )


def _need(prediction: Prediction, target: Target, preset: str) -> Need | None:
    memory = prediction.memory
    if memory is None:
        return None
    return Need(
        device_bytes=memory.device_bytes,
        device_limit_bytes=memory.device_limit_bytes,
        fits_device=memory.device_bytes <= memory.device_limit_bytes,
        host_bytes=memory.host_bytes,
        host_limit_bytes=target.host_memory_bytes,
        fits_host=memory.host_bytes <= target.host_memory_bytes,
        environment=tuple(_environment(memory)),
        flags=run_flags(preset),
    )


def _environment(memory: Memory) -> list[str]:
    """Return the variables without which JAX would refuse the memory that the run needs."""
    found = []
    if memory.default_limit_bytes < memory.device_bytes <= memory.device_limit_bytes:
        share = math.ceil(100 * memory.device_bytes / memory.device_limit_bytes) / 100
        found.append(f"{_SHARE}={share:.2f}")
    if memory.host_bytes > memory.host_limit_bytes:
        found.append(f"{_POOL}={math.ceil(memory.host_bytes / 2**30)}")
    return found


def _throughput(config: Config, batch: int, seq: int, prediction: Prediction) -> Throughput:
    """Return operations over time: a step of 1 ns with 1,000 of them makes 1 TFLOP/s."""
    each = published_flops(config, batch, seq).total / prediction.devices / 1000
    step = prediction.step
    return Throughput(each / step.high_ns, each / step.expected_ns, each / step.low_ns)


def _gain(base: Prediction | None, run: Prediction) -> Gain | None:
    """Return by how much the steps of a run are more for their time than those of the base."""
    if base is None or base is run:
        return None
    rank = ranking(base, run)
    low, expected, high = (1 / (1 + c) - 1 for c in (rank.high, rank.expected, rank.low))
    return Gain(str(rank.order), low, expected, high)


def _figures(device: Device) -> Figures | None:
    step = device.per_step
    if step is None:
        return None
    recompute, compute = step.recompute_ns, step.compute_busy_ns
    known = recompute is not None and compute > 0
    return Figures(
        compute_ns=compute,
        overlap=step.both.overlap,
        overlap_null_reason=step.both.overlap_null_reason,
        exposed_ns=step.both.exposed_ns,
        stall_ns=step.stall_ns,
        lost=step.lost,
        collectives_alone_ns=step.lost.get("collective_only", 0),
        recompute_ns=recompute,
        recompute_share=(recompute or 0) / compute if known else None,
        h2d_bytes=step.h2d.bytes,
        d2h_bytes=step.d2h.bytes,
    )


def _finding(report: Report, device: Device) -> Problem | None:
    found = [f for f in report.findings if f.severity == "finding" and f.device == device.id]
    if not found:
        return None
    first = found[0]
    return Problem(
        first.cause,
        first.lost_ns_per_step,
        first.excess_ns_per_step,
        first.message,
        first.advice,
    )


# --- Groups ---


def _group(
    study: Study, subject: Subject, batch: int, rows: Sequence[Row], searches: Mapping[str, Search]
) -> Group:
    config = model(subject.model, study.layers)
    counted, work = parameters(config), published_flops(config, batch, study.seq)
    search = searches.get(f"{subject.model}/b{batch}", Search(None, None))
    own = [r for r in rows if (r.model, r.batch) == (subject.model, batch) and r.fits and r.step]
    best = min(own, key=lambda row: row.step.expected_ns if row.step else math.inf, default=None)
    return Group(
        model=subject.model,
        title=subject.title,
        mesh=subject.mesh,
        batch=batch,
        tokens=batch * study.seq,
        parameters=counted.total,
        active_parameters=counted.active,
        weight_flops=work.weights,
        attention_flops=work.attention,
        policy=search.policy,
        policy_note=search.note,
        best=best.variant if best else None,
    )


def _comparisons(
    outcomes: Sequence[Outcome], rows: Sequence[Row], groups: Sequence[Group]
) -> dict[str, Comparison]:
    """Compare the runs of each group that has its base and another one."""
    made = {}
    for group in groups:
        folder = f"{group.model}/b{group.batch}"
        own = {r.variant: r for r in rows if (r.model, r.batch) == (group.model, group.batch)}
        reports = {
            o.case.variant.key: o.report
            for o in sorted(outcomes, key=lambda o: o.case.variant.key != BASE)
            if o.case.group == folder and o.report
        }
        if len(reports) > 1 and BASE in reports:
            made[folder] = _fitting(compare(reports), own, group.best)
    return made


def _fitting(comparison: Comparison, rows: Mapping[str, Row], best: str | None) -> Comparison:
    """Let a run fit only where its host has the memory as well, which a comparison doesn't ask."""

    def told(run: Run) -> Run:
        row = rows[run.name]
        return replace(run, name=row.title, fits=row.fits, best=run.name == best)

    return replace(
        comparison, base=told(comparison.base), new=tuple(map(told, comparison.new)), reports={}
    )
