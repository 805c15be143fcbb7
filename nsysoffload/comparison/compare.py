"""Reports -> `Comparison`: the base against each new run, and which of all runs is best."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from nsysoffload.comparison.account import account
from nsysoffload.comparison.changes import findings, operations
from nsysoffload.comparison.comparable import identical, obstacles
from nsysoffload.comparison.differences import differences
from nsysoffload.comparison.gates import Regression, checks, of_report
from nsysoffload.comparison.model import Comparison, Difference, Gate, Pair, Reason, Verdict
from nsysoffload.comparison.notes import notes
from nsysoffload.comparison.runs import Subject, summary
from nsysoffload.comparison.step import judged, scale
from nsysoffload.comparison.verdict import identical_input, not_comparable, verdict
from nsysoffload.errors import UsageError
from nsysoffload.report.model import Memory, Report, Tool

__all__ = ["compare"]

_UNJUDGED = ("not_comparable", "identical_input")


def compare(
    reports: Mapping[str, Report],
    regressions: Sequence[Regression] = (),
    options: Mapping[str, Any] | None = None,
    *,
    anyway: bool = False,
) -> Comparison:
    """Hold each run against the first.

    Parameters
    ----------
    reports : mapping of str to Report
        By the name of the run, the base first; two or more.
    regressions : sequence of Regression
        By how much a new run may be worse.
    options : mapping, optional
        Options that were given, for the reader to repeat.
    anyway : bool
        Whether to compare runs that are no pair; what speaks against it is said all the same. Runs
        that compute different things are never compared.

    Raises
    ------
    UsageError
        If there are fewer than two.
    """
    if len(reports) < 2:
        raise UsageError("A comparison takes two runs or more; name a base and what is new.")
    base, *others = (Subject(name, report) for name, report in reports.items())
    made = [_pair(base, new, run, anyway) for run, new in enumerate(others)]
    pairs = [pair for pair, _ in made]
    best = _best(base, others, pairs)
    return Comparison(
        tool=Tool("nsysoffload", version("nsysoffload"), dict(options or {})),
        verdict=_overall(base, others, pairs, best),
        base=summary(base, best=base is best),
        new=tuple(summary(new, best=new is best) for new in others),
        pairs=tuple(pairs),
        differences=tuple(d for _, found in made for d in found),
        gates=tuple(
            gate
            for new, pair in zip(others, pairs, strict=True)
            for gate in _gates(base, new, pair, regressions)
        ),
        reports=dict(reports),
    )


def _pair(
    base: Subject, new: Subject, run: int, anyway: bool
) -> tuple[Pair, tuple[Difference, ...]]:
    """Compare two runs; of what is no pair, only the metrics are set side by side."""
    against = obstacles(base, new)
    refused = [r for r in against if not anyway or r.code == "numerics_differ"]
    if identical(base, new) or refused:
        answer = not_comparable(against) if refused else identical_input(base, new)
        side_by_side = tuple(differences(base, new, run))
        return Pair(run, answer, None, None, (), (), ()), side_by_side
    return _compared(base, new, run, against)


def _compared(
    base: Subject, new: Subject, run: int, against: Sequence[Reason]
) -> tuple[Pair, tuple[Difference, ...]]:
    found = judged(base, new)
    change = found.change
    same_size = scale(base, new) == 1
    why = account(base, new) if same_size else None
    all_differences = tuple(differences(base, new, run))
    answer = verdict(base, new, found, why, all_differences, against)
    pair = Pair(
        run=run,
        verdict=answer,
        step=change,
        account=why,
        notes=notes(base, new, answer.outcome),
        findings=findings(base, new),
        operations=operations(base, new),
    )
    return pair, all_differences


def _gates(
    base: Subject, new: Subject, pair: Pair, regressions: Sequence[Regression]
) -> list[Gate]:
    """Return the gates of a new run; that its numerics differ is said once."""
    found = [*of_report(new.report, pair.run), *checks(base, new, pair, regressions)]
    return list({(gate.name, gate.kind): gate for gate in found}.values())


# --- Several runs ---


def _best(base: Subject, others: Sequence[Subject], pairs: Sequence[Pair]) -> Subject | None:
    """Return the run that is fastest, per token, of those that can be compared and fit."""
    usable = [base] + [
        new
        for new, pair in zip(others, pairs, strict=True)
        if pair.verdict.outcome not in _UNJUDGED
    ]
    timed = [s for s in usable if s.step_ns and not _is_too_large(s)]
    if len(usable) < 2 or not timed:
        return None
    return min(timed, key=lambda s: scale(base, s) * (s.step_ns or 0))


def _is_too_large(subject: Subject) -> bool:
    memory = subject.report.memory
    return isinstance(memory, Memory) and memory.device_bytes > memory.device_limit_bytes


def _overall(
    base: Subject, others: Sequence[Subject], pairs: Sequence[Pair], best: Subject | None
) -> Verdict:
    """Return the verdict of the only new run, or of the best of several."""
    if len(pairs) == 1:
        return pairs[0].verdict
    if best is None:
        return pairs[0].verdict
    of_all = f"Of {len(others) + 1} runs"
    if best is not base:
        answer = pairs[others.index(best)].verdict
        return replace(answer, text=f"{of_all} {best.spoken} is fastest. {answer.text}")
    judged_pairs = [p for p in pairs if p.verdict.outcome not in _UNJUDGED]
    nearest = min(judged_pairs, key=lambda p: p.step.relative if p.step else float("inf"))
    text = f"{of_all} the base, {base.spoken}, is fastest. {nearest.verdict.text}"
    return replace(nearest.verdict, text=text)
