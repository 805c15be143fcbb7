"""Causes in words: the titles under which all outputs name them."""

from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report.format import duration
from nsysoffload.report.model import Finding

__all__ = ["cost", "title"]


def title(cause: str) -> str:
    """Return what a cause is called.

    Examples
    --------
    >>> title("issued_too_late"), title("something_new")
    ('Copies are issued too late', 'Something new')
    """
    found = EXPLANATIONS.get(cause)
    return found.title if found else cause.replace("_", " ").capitalize()


def cost(finding: Finding, unit: str) -> str:
    """Return what a finding costs.

    Parameters
    ----------
    finding : Finding
        The finding.
    unit : str
        Of what the cost is: ``per step`` or ``in the window``.

    Returns
    -------
    str
        ``17.2 ms per step`` of lost time, excess time named as such, or that it costs nothing.
    """
    lost, excess = finding.lost_ns_per_step, finding.excess_ns_per_step
    parts = [duration(lost)] * (lost > 0) + [f"excess {duration(excess)}"] * (excess > 0)
    return f"{' and '.join(parts)} {unit}" if parts else "costs nothing"
