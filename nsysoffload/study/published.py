"""Published figures beside predicted ones: which of them lie in the predicted range."""

from collections.abc import Mapping, Sequence

from nsysoffload.study.cases import BASE, Statement
from nsysoffload.study.model import Judged, Row, Verdict

__all__ = ["judged", "verdict"]


def judged(statement: Statement, rows: Mapping[tuple[str, int, str], Row]) -> Judged:
    """Hold a published figure against the run that it is about.

    Parameters
    ----------
    statement : Statement
        What was published.
    rows : mapping of tuple to Row
        Runs by model, batch and variant.
    """
    row = rows.get((statement.model, statement.batch, statement.variant))
    span, predicted_fits, remark = None, None, "it was not run"
    if row is not None:
        predicted_fits = row.fits if row.need else None
        span = {"tflops": row.tflops, "gain": row.gain}.get(statement.kind)
        remark = _remark(statement, row)
    if statement.kind == "fits":
        agrees = None if predicted_fits is None else predicted_fits == statement.fits
    else:
        assert statement.value is not None
        agrees = span.low <= statement.value <= span.high if span else None
    return Judged(
        model=statement.model,
        variant=statement.variant,
        batch=statement.batch,
        kind=statement.kind,
        text=statement.text,
        value=statement.value,
        fits=statement.fits,
        low=span.low if span else None,
        expected=span.expected if span else None,
        high=span.high if span else None,
        predicted_fits=predicted_fits,
        agrees=agrees,
        remark=remark or None,
    )


def _remark(statement: Statement, row: Row) -> str:
    """Say why it cannot be told, or that what is held against it would not run."""
    if row.failed:
        return row.failed
    if statement.kind == "gain" and row.gain is None:
        return "there is no run to tell the gain against"
    assert row.need is not None
    places = (("the device", row.need.fits_device), ("the host", row.need.fits_host))
    full = " and ".join(place for place, fits in places if not fits)
    if full:
        return f"the memory of {full} is too small for the run"
    if row.variant != BASE and not row.need.host_bytes:
        return "the run moves nothing to the host"
    return ""


def verdict(found: Sequence[Judged], layers: int | None) -> Verdict:
    """Sum up how the predictions agree with what was published.

    Parameters
    ----------
    found : sequence of Judged
        All published figures.
    layers : int or None
        Layers that the models were cut to.
    """
    told = [one for one in found if one.agrees is not None]
    agreeing = sum(bool(one.agrees) for one in told)
    if not told:
        why = (
            f"the models were cut to {layers} {'layer' if layers == 1 else 'layers'}"
            if layers
            else "none of the runs that they are about is there"
        )
        text = f"No published figure is held against a predicted one: {why}."
        return Verdict("cannot_tell", text, 0, 0)
    outcome = "agrees" if agreeing == len(told) else "partly" if agreeing else "differs"
    open_ = len(found) - len(told)
    rest = f"; {open_} cannot be told" if open_ else ""
    figures = "figure" if len(told) == 1 else "figures"
    agree = "agrees" if agreeing == 1 else "agree"
    text = f"{agreeing} of {len(told)} published {figures} {agree} with what is predicted{rest}."
    return Verdict(outcome, text, len(told), agreeing)
