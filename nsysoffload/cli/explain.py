"""`--explain CAUSE`: what causes mean, printed instead of a report."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nsysoffload.diagnosis.explanation import Explanation

__all__ = ["explain_option"]

_WIDTH = 100


def _explain(ctx: click.Context, _: click.Parameter, value: Sequence[str]) -> None:
    if not value:
        return
    from nsysoffload.diagnosis.explanations import explained

    names = [name for text in value for name in text.replace(",", " ").split()]
    click.echo("\n\n".join(_text(cause) for cause in explained(names)))
    ctx.exit()


explain_option = click.option(
    "--explain",
    multiple=True,
    metavar="CAUSE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Say what a cause of the report means, and exit; several with commas, or 'all'.",
)


def _text(cause: "Explanation") -> str:
    parts = (
        ("", cause.meaning),
        ("Told by: ", cause.detection),
        *((f"  {what}: ", value) for what, value in cause.thresholds),
        ("Costs: ", cause.cost),
        ("With JAX: ", cause.advice_xla),
        ("With CUDA: ", cause.advice_cuda),
    )
    lines = [_wrapped(f"{label}{text}") for label, text in parts]
    return "\n".join([f"{cause.cause}: {cause.title}", *lines])


def _wrapped(text: str) -> str:
    indent = "  " * (2 if text.startswith("  ") else 1)
    return textwrap.fill(
        text.strip(),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,  # flags are copied from here
    )
