"""Write the pages of causes and of metrics from what the package says of them."""

from collections.abc import Iterator
from pathlib import Path

from nsysoffload.diagnosis.explanation import Explanation
from nsysoffload.diagnosis.explanations import EXPLANATIONS
from nsysoffload.report.metrics import METRICS

DOCS = Path(__file__).parent

CAUSES = """\
# Causes

Why transfers do not overlap, what that costs per step, and what to change. The same texts are
printed by `nsysoffload analyze --explain CAUSE`.

*Lost time* of a step is its time outside compute. Every nanosecond of it has one owner, the first
cause of this list that applies, so that the parts add up to the step exactly. A *stall* is the part
of a gap between compute kernels for which the next kernel waits for copies: proven by an event that
it waits for, else told from their times. *Excess time* is time by which kernels or copies took
longer than alone; it is never added to lost time. A *finding* costs
at least 0.1 % of the step in lost or excess time; what costs less is a note. Findings are ranked by
what they cost per step, each with its evidence: numbers, and ids of rows to look up in the export.
"""

METRIC_PAGE = """\
# Metrics and gates

`--fail-under NAME=X` and `--fail-over NAME=X` of `nsysoffload analyze` limit a metric. The report
is written first; then a limit that is broken ends the command with exit code 1 and a line on
stderr, such as `Gate failed: overlap 61.2 % is under 80 %`. A limit that is just reached is kept.

A metric is the median over the steps of a device; without step markers the whole window is one
step. A limit must hold on every device of the report, so the gate shows the device that is worst
for it: the lowest value for `--fail-under`, the highest for `--fail-over`. Of several ranks the one
in detail, which is the slowest, is held to it.

**Unknown fails:** where the trace cannot tell a value on some device, the gate fails with the
reason. Times that rest on overlap, such as `stall_ms`, are unknown where the overlap of a step with
copies is. In a predicted report the expected times are limited, not the ends of the range.

Two gates are checks and no limits. **`expect_offload`**: with `--expect-offload 16GiB` a step of
each GPU has to move that much to the host and back. Under half of it in either direction fails, as
in `Gate failed: offload requested, 0 bytes device-to-host`; so does what the trace cannot tell, and
more than a tenth off is a warning. Without the option, what the run was recorded to move is checked
alike, but only warned of. **`numerics`** fails wherever the run folder says that a run does not
compute what the run beside it does; its report begins with *Not to be used*.

`X` may carry a unit that fits: `overlap=80%`, `stall_ms=500us`, `bytes.d2h=16GiB`. Without one it
is in the unit below.
"""


def causes() -> str:
    """Return the page of causes."""
    rows = [f"| [`{c.cause}`](#{c.cause}) | {c.title} | {c.cost} |" for c in EXPLANATIONS.values()]
    table = "\n".join(["| cause | in words | costs |", "| --- | --- | --- |", *rows])
    return "\n".join([CAUSES, table, "", *(_section(c) for c in EXPLANATIONS.values())])


def _section(cause: Explanation) -> str:
    return "\n".join(_lines(cause))


def _lines(cause: Explanation) -> Iterator[str]:
    yield f"## {cause.cause}\n"
    yield f"**{cause.title}.** {cause.meaning}\n"
    yield f"*Told by:* {cause.detection}\n"
    for what, value in cause.thresholds:
        yield f"- {what}: {value}"
    if cause.thresholds:
        yield ""
    yield f"*With JAX:* {cause.advice_xla}\n"
    yield f"*With CUDA:* {cause.advice_cuda}\n"


def metrics() -> str:
    """Return the page of metrics."""
    rows = [
        f"| `{name}` | {metric.meaning} | {metric.unit} |"
        f" {'higher' if metric.higher_is_better else 'lower'} |"
        for name, metric in METRICS.items()
    ]
    head = ["| metric | meaning | unit | better |", "| --- | --- | --- | --- |"]
    return "\n".join([METRIC_PAGE, *head, *rows, ""])


PAGES = {"causes.md": causes, "metrics.md": metrics}


def main() -> None:
    """Write the pages beside this file."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
