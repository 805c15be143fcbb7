"""The plan in a terminal: the plot, a table of all that was compiled, and the best as code."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nsysoffload.planning.code import capture_command, environment, policy_code
from nsysoffload.planning.model import Candidate, Plan
from nsysoffload.planning.plot import marks, plot
from nsysoffload.recorders.predict.memory import SLOP
from nsysoffload.recorders.predict.summary import ORDER
from nsysoffload.report.format import duration, enough, size
from nsysoffload.report.predicted import BANNER

__all__ = ["render", "unmet"]

_WIDTH = 100
_PRESETS = {"pipelined": "piped", "pipelined+double-buffering": "piped+db"}


def render(plan: Plan) -> str:
    """Write the plan as lines of at most 100 characters.

    Parameters
    ----------
    plan : Plan
        The plan.
    """
    console = Console(width=_WIDTH)
    with console.capture() as captured:
        console.print(Text(BANNER, "bold yellow"))
        console.print(Text("\n".join(plot(plan))))
        console.print(_table(plan))
        for sentence in _sentences(plan):
            console.print(Text(sentence))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join([*lines, *_pasted(plan)]) + "\n"


def unmet(plan: Plan) -> str:
    """Say that nothing fits, and what comes nearest.

    Parameters
    ----------
    plan : Plan
        A plan without a best candidate.
    """
    limits = f"{size(plan.limits.device_bytes)} of each device and"
    limits = f"{limits} {size(plan.limits.host_bytes)} of the host for it"
    nearest = plan.nearest
    memory = nearest.prediction.memory if nearest and nearest.prediction else None
    if nearest is None or memory is None:
        return f"Nothing fits into {limits}, and nothing could be compiled; see the run folders."
    return (
        f"Nothing that was compiled fits into {limits}; {_called(nearest)} comes nearest and needs"
        f" {enough(memory.device_bytes)} and {enough(memory.host_bytes)}. Raise the limits to that,"
        " use a smaller batch, or split the model over more devices."
    )


def _called(candidate: Candidate) -> str:
    flags = f" and {candidate.flags}" if candidate.flags else ""
    return f"{candidate.policy} with preset {candidate.preset}{flags}"


def _table(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("Policy", overflow="fold", ratio=1)
    table.add_column("Preset", no_wrap=True)
    for name in ("Step", "in the range", "Device", "Host", "Exposed", "Again"):
        table.add_column(name, justify="right", no_wrap=True)
    for candidate, mark in zip(plan.candidates, marks(plan), strict=True):
        preset = _PRESETS.get(candidate.preset, candidate.preset)
        preset += "+slop" if SLOP in candidate.flags.removeprefix(plan.request.flags) else ""
        policy = Text(candidate.policy.replace("+", "+\n"))
        table.add_row(mark, policy, preset, *_figures(candidate, plan))
    return table


def _figures(candidate: Candidate, plan: Plan) -> Iterator[str]:
    made = candidate.prediction
    if made is None or made.memory is None:
        yield "not compiled"
        return
    memory, limits, corner = made.memory, plan.limits, made.corners[0]
    yield duration(made.step.expected_ns)
    yield f"{duration(made.step.low_ns)} - {duration(made.step.high_ns)}"
    yield f"{size(memory.device_bytes)}{'!' if memory.device_bytes > limits.device_bytes else ''}"
    yield f"{size(memory.host_bytes)}{'!' if memory.host_bytes > limits.host_bytes else ''}"
    yield duration(corner.h2d_exposed_ns + corner.d2h_exposed_ns)
    yield f"{candidate.recompute_flops / 1e12 / made.devices:.3g}"


def _sentences(plan: Plan) -> Iterator[str]:
    yield (
        "! breaks a limit; Exposed: copies that nothing hides; Again: TFLOP that each device runs"
        " again in a step; +slop: compiled again with more room for XLA's scheduler."
    )
    searched = sum(not c.is_fixed for c in plan.candidates)
    yield f"Compiled: {searched} programs beside the fixed policies, of {plan.placements:,} ways."
    for candidate in plan.candidates:
        if candidate.error:
            yield f"{_called(candidate)} could not be compiled: {candidate.error}"
    best = plan.best
    if best is None:
        return
    yield f"Best: {_called(best)}, {duration(round(best.step_ns))} a step."
    if plan.rivals:
        first = plan.rivals[0]
        more = f" and {len(plan.rivals) - 1} more" if len(plan.rivals) > 1 else ""
        yield f"The model's ranges do not tell it apart from {_called(first)}{more}."
    yield ORDER


def _pasted(plan: Plan) -> Iterator[str]:
    """Yield the best candidate as code and commands."""
    best = plan.best
    if best is None:
        return
    yield ""
    yield policy_code(best.policy, plan.request)
    yield ""
    for name, value in environment(plan, best).items():
        yield f"export {name}='{value}'"
    yield capture_command(plan, best)
