"""The answer in one sentence."""

from dataclasses import replace

from nsysoffload.report.format import duration, share
from nsysoffload.report.model import Total, Verdict

__all__ = ["EXPOSED_BELOW", "HIDDEN_FROM", "verdict"]

HIDDEN_FROM = 0.95
EXPOSED_BELOW = 0.05


def verdict(total: Total, devices: int, windows_ns: int, kind: str = "measured") -> Verdict:
    """Say how much of the transfers runs behind compute.

    Parameters
    ----------
    total : Total
        Figures over the chosen devices.
    devices : int
        Devices in the trace, of which these may be a part.
    windows_ns : int
        Lengths of the chosen devices' windows, added.
    kind : str
        ``measured`` or ``predicted``; what is predicted says so wherever the sentence goes.
    """
    answer = _answer(total, devices, windows_ns)
    if kind == "measured":
        return answer
    return replace(answer, text=f"Predicted: {answer.text[0].lower()}{answer.text[1:]}")


def _answer(total: Total, devices: int, windows_ns: int) -> Verdict:
    both = total.both
    if total.h2d.copies + total.d2h.copies == 0:
        return Verdict("No transfers between host and GPU were recorded.", "no_transfers")
    busy = f"{duration(both.busy_ns)} of transfer time{_gpus(total.devices, devices)}"
    if both.overlap is None:
        text = f"It cannot be told how much of {busy} is hidden: {both.overlap_null_reason}."
        return Verdict(text, "cannot_tell")
    if both.overlap >= HIDDEN_FROM:
        outcome, head = "hidden", "Transfers hide behind compute"
    elif both.overlap < EXPOSED_BELOW:
        outcome, head = "exposed", "Transfers do not hide behind compute"
    else:
        outcome, head = "partly_hidden", "Transfers hide only partly behind compute"
    text = f"{head}: {share(both.overlap)} of {busy} is hidden{_exposed(total, windows_ns)}."
    return Verdict(text, outcome)


def _gpus(chosen: int, devices: int) -> str:
    if devices == 1:
        return ""
    return f" on {chosen} of {devices} GPUs" if chosen < devices else f" on {devices} GPUs"


def _exposed(total: Total, windows_ns: int) -> str:
    """Say what is exposed, on which way; where both are at once the parts add up to more."""
    exposed, h2d, d2h = (way.exposed_ns for way in (total.both, total.h2d, total.d2h))
    if not exposed:
        return ""
    together = ", partly at once" if h2d + d2h > exposed else ""
    return (
        f", {duration(exposed)} is exposed, {share(exposed / windows_ns)} of the window"
        f" (H2D {duration(h2d)}, D2H {duration(d2h)}{together})"
    )
