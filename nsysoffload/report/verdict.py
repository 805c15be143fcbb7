"""The answer in one sentence."""

from nsysoffload.report.format import duration, share
from nsysoffload.report.model import Total, Verdict

__all__ = ["EXPOSED_BELOW", "HIDDEN_FROM", "verdict"]

HIDDEN_FROM = 0.95
EXPOSED_BELOW = 0.05


def verdict(total: Total, devices: int) -> Verdict:
    """Say how much of the transfers runs behind compute.

    Parameters
    ----------
    total : Total
        Figures over the chosen devices.
    devices : int
        Devices in the trace, of which these may be a part.
    """
    both = total.both
    chosen = f"{total.devices} of {devices}" if total.devices < devices else f"{devices}"
    where = f" over {chosen} GPUs" if devices > 1 else ""
    if total.h2d.copies + total.d2h.copies == 0:
        return Verdict(f"No transfers between host and GPU were recorded{where}.", "no_transfers")
    if both.overlap is None:
        reason = both.overlap_null_reason
        text = (
            f"It cannot be told how much of {duration(both.busy_ns)} of transfers{where} is hidden:"
            f" {reason}."
        )
        return Verdict(text, "cannot_tell")
    if both.overlap >= HIDDEN_FROM:
        outcome, head = "hidden", "Transfers hide behind compute"
    elif both.overlap < EXPOSED_BELOW:
        outcome, head = "exposed", "Transfers do not hide behind compute"
    else:
        outcome, head = "partly_hidden", "Transfers hide only partly behind compute"
    text = (
        f"{head}: {share(both.overlap)} of {duration(both.busy_ns)}{where} is hidden,"
        f" {duration(both.exposed_ns)} is exposed{_directions(total)}."
    )
    return Verdict(text, outcome)


def _directions(total: Total) -> str:
    """Say in which direction time is exposed; where both are at once the parts add up to more."""
    h2d, d2h = total.h2d.exposed_ns, total.d2h.exposed_ns
    if not h2d + d2h:
        return ""
    together = ", partly at once" if h2d + d2h > total.both.exposed_ns else ""
    return f" (H2D {duration(h2d)}, D2H {duration(d2h)}{together})"
