"""The verdict on two runs: one sentence, for which the account gives the reasons."""

from collections.abc import Sequence

from nsysoffload.comparison.model import Account, Difference, Part, Reason, StepChange, Verdict
from nsysoffload.comparison.notes import offloaded
from nsysoffload.comparison.runs import Subject
from nsysoffload.comparison.step import Judged
from nsysoffload.report.format import duration, size
from nsysoffload.report.model import Memory

__all__ = ["because", "identical_input", "not_comparable", "percent", "signed", "verdict"]

_PHRASES = {  # of what gets less, and of what gets more
    "recompute": ("recomputing less saves {}", "recomputing more costs {}"),
    "contention": ("less contention saves {}", "contention costs {}"),
    "compute": ("the rest of compute takes {} less", "the rest of compute takes {} more"),
    "stall": ("waiting less for transfers saves {}", "waiting for transfers costs {}"),
    "collectives": ("collectives alone take {} less", "collectives alone take {} more"),
    "other": ("the host and the rest take {} less", "the host and the rest take {} more"),
}
_SMALL = 0.02  # of the largest part: told together
_TELLING = ("exposed_ms", "stall_ms", "recompute_ms")


def identical_input(base: Subject, new: Subject) -> Verdict:
    """Say that both are one recording."""
    text = f"{base.spoken} and {new.spoken} are the same recording; name two different ones."
    return Verdict("identical_input", text)


def not_comparable(reasons: Sequence[Reason]) -> Verdict:
    """Say why two runs cannot be compared."""
    text = "; ".join(reason.text for reason in reasons)
    return Verdict("not_comparable", f"Not comparable: {text}.", tuple(reasons))


def verdict(
    base: Subject,
    new: Subject,
    judged: Judged,
    account: Account | None,
    differences: Sequence[Difference],
    reasons: Sequence[Reason],
) -> Verdict:
    """Say which run is faster, by how much, and why.

    Parameters
    ----------
    base, new : Subject
        The runs.
    judged : Judged
        Of their step times.
    account : Account or None
        Where the difference comes from.
    differences : sequence of Difference
        Metrics of both.
    reasons : sequence of Reason
        What speaks against comparing them at all.
    """
    fit = _fit(base, new)
    outcome = fit or judged.outcome
    text = _sentence(base, new, judged, account, differences)
    if fit or _misfits(base, new):
        text = f"{_memory(base, new)} {text}"
    told = (*reasons, Reason("cannot_tell", judged.why)) if judged.why else tuple(reasons)
    if base.predicted and new.predicted:
        text = f"Predicted: {text}"
    return Verdict(outcome, text, told)


# --- Whether the runs fit ---


def _misfits(base: Subject, new: Subject) -> list[Subject]:
    return [subject for subject in (base, new) if _fits(subject) is False]


def _fits(subject: Subject) -> bool | None:
    memory = subject.report.memory
    if not isinstance(memory, Memory):
        return None
    return memory.device_bytes <= memory.device_limit_bytes


def _fit(base: Subject, new: Subject) -> str | None:
    """Return the outcome where only one of the two can run at all."""
    fits = (_fits(base), _fits(new))
    if fits == (True, False):
        return "worse"
    return "better" if fits == (False, True) else None


def _memory(base: Subject, new: Subject) -> str:
    parts = []
    for subject in _misfits(base, new):
        memory = subject.report.memory
        assert isinstance(memory, Memory)
        need, limit = size(memory.device_bytes), size(memory.device_limit_bytes)
        parts.append(f"{subject.spoken} does not fit ({need} of {limit})")
    other = [s for s in (base, new) if _fits(s)]
    return f"{' and '.join(parts)}{f', {other[0].spoken} does' if other else ''}."


# --- Which is faster ---


def _sentence(
    base: Subject,
    new: Subject,
    judged: Judged,
    account: Account | None,
    differences: Sequence[Difference],
) -> str:
    change = judged.change
    if change is None:
        return f"Cannot tell which is faster: {judged.why}."
    times = _times(base, new, change)
    if judged.outcome == "cannot_tell":
        return f"Cannot tell which is faster: {times}; {judged.why}."
    if judged.outcome == "no_difference":
        return f"No difference in step time{_beyond(change)}: {times}{_beside(differences)}."
    why = because(account)
    return f"{_head(base, new, change)}: {times}{f': {why}' if why else ''}."


def _head(base: Subject, new: Subject, change: StepChange) -> str:
    """Return who wins; where one of the two offloads, whether that pays."""
    moving = offloaded(base, new)
    faster = change.relative < 0
    if moving is None:
        return f"{new.spoken} is {'faster' if faster else 'slower'} than {base.spoken}"
    return f"Offloading {'wins' if faster == (moving is new) else 'loses'}"


def _times(base: Subject, new: Subject, change: StepChange) -> str:
    less = f"{percent(abs(change.relative))} {'less' if change.relative < 0 else 'more'}"
    step, of_base = duration(change.new_ns), duration(change.base_ns)
    between = ""
    if change.low is not None and change.high is not None:
        span = f"{signed(change.low)} to {signed(change.high)}"
        between = (
            f" ({span} in the model's range)"
            if change.noise_from == "model"
            else f" (95 % interval {span})"
        )
    if change.per_token and base.workload and new.workload:
        sizes = f"{new.workload.batch} and {base.workload.batch} sequences"
        head = f"{new.spoken} takes {less} per token than {base.spoken}{between}"
        return f"{head}, in steps of {step} and {of_base} with {sizes}"
    if change.relative == 0:
        return f"{new.spoken} and {base.spoken} both take {step} per step"
    return f"{new.spoken} takes {step} per step, {less} than {base.spoken} with {of_base}{between}"


def _beyond(change: StepChange) -> str:
    return "" if change.noise_from == "model" else " beyond noise"


def _beside(differences: Sequence[Difference]) -> str:
    """Return what changed although the step time did not."""
    told = [
        f"{d.metric.removesuffix('_ms')} {_signed_time(round(1e6 * d.change))} per step"
        for d in differences
        if d.metric in _TELLING and d.beyond_noise and d.change
    ]
    return f"; {', '.join(told)}" if told else ""


# --- Why ---


def because(account: Account | None) -> str:
    """Return what saves and what costs, the largest first; small parts are told together."""
    if account is None:
        return ""
    parts = sorted((p for p in account.parts if p.change_ns), key=lambda p: -abs(p.change_ns))
    if not parts:
        return ""
    least = _SMALL * abs(parts[0].change_ns)
    told = [part for part in parts if abs(part.change_ns) >= least]
    rest_ns = sum(part.change_ns for part in parts if part not in told)
    phrases = [_phrase(part) for part in told]
    phrases += [f"the rest makes {_signed_time(rest_ns)}"] * (rest_ns != 0)
    return ", ".join(phrases)


def _phrase(part: Part) -> str:
    less, more = _PHRASES[part.name]
    return (less if part.change_ns < 0 else more).format(duration(abs(part.change_ns)))


def _signed_time(time_ns: int) -> str:
    return f"{'−' if time_ns < 0 else '+'}{duration(abs(time_ns))}"


def percent(fraction: float) -> str:
    """Return a share without a sign, with two significant digits where it is small.

    Examples
    --------
    >>> percent(0.4912), percent(0.00021), percent(3.5)
    ('49.1 %', '0.02 %', '350 %')
    """
    value = 100 * fraction
    if value >= 100:
        return f"{value:,.0f} %"
    return f"{value:.1f} %" if value >= 0.1 or value == 0 else f"{value:.2f} %"


def signed(fraction: float) -> str:
    """Return a share with its sign.

    Examples
    --------
    >>> signed(-0.328), signed(0.1)
    ('−32.8 %', '+10.0 %')
    """
    return f"{'−' if fraction < 0 else '+'}{percent(abs(fraction))}"
