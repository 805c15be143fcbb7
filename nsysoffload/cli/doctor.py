"""`nsysoffload doctor`: what this machine can record, and what is in the way."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsysoffload.cli.options import PATH, debug_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from nsysoffload.recorders.doctor import Diagnosis

__all__ = ["doctor"]

_SCHEMA = "nsysoffload-doctor/1"
_NARROWEST, _WIDEST = 80, 100
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@click.command(short_help="Say what this machine can record, and what is in the way.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--nsys", metavar="PATH", help="The nsys to use.  [default: that on PATH]")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=PATH,
    default="runs",
    show_default=True,
    help="Folder that runs would be recorded into.",
)
@debug_option
def doctor(as_json: bool, nsys: str | None, output: Path) -> None:
    """Say what this machine can record, and what is in the way.

    Looks at nsys, GPUs and their driver, NUMA nodes, memory limits, disks, permissions, other
    profilers, and at jax in this Python. Nothing is recorded or written. The exit code is 0
    whatever it finds; a script reads "recorders" of --json.

    \b
    Example:
      nsysoffload doctor
      nsysoffload doctor --json -o /scratch/runs
    """
    from nsysoffload.recorders.doctor import examine

    found = examine(output, environment=os.environ, nsys=nsys)
    if as_json:
        click.echo(json.dumps(_as_json(found), indent=1))
    else:
        click.echo(_as_text(found), nl=False)


def _as_json(found: "Diagnosis") -> dict[str, Any]:
    nsys = found.nsys
    return {
        "schema": _SCHEMA,
        "recorders": {
            name: {"usable": reason is None, "reason": reason}
            for name, reason in found.recorders.items()
        },
        "checks": [asdict(check) for check in found.checks],
        "nsys": {"path": nsys.path, "version": nsys.version} if nsys else None,
        "machine": asdict(found.machine),
    }


def _as_text(found: "Diagnosis") -> str:
    """Return what can be recorded, why the rest cannot, and the checks, a line each if it fits."""
    from rich.text import Text

    console = _console()
    with console.capture() as captured:
        console.print(Text(_summary(found), "bold"))
        for rows in (_recorders(found), _checks(found)):
            console.print()
            console.print(rows, highlight=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _console() -> "Console":
    from rich.console import Console

    console = Console()
    console.width = min(max(console.width, _NARROWEST), _WIDEST)
    return console


def _summary(found: "Diagnosis") -> str:
    usable = [name for name, reason in found.recorders.items() if reason is None]
    missing = [name for name in found.recorders if name not in usable]
    can = f"This machine can record with: {', '.join(usable) or 'nothing'}"
    return f"{can}; not with: {', '.join(missing)}." if missing and usable else f"{can}."


def _recorders(found: "Diagnosis") -> "Table":
    uses = {
        "nsys": "Any command, under Nsight Systems.",
        "jax": "Models of the workloads, under jax.profiler.",
        "predict": "Models of the workloads, for a GPU that is not there.",
    }
    table = _rows()
    for name, reason in found.recorders.items():
        _add(table, "yes" if reason is None else "no", name, reason or uses[name])
    return table


def _checks(found: "Diagnosis") -> "Table":
    table = _rows()
    for check in found.checks:
        _add(table, check.state, check.name, f"{check.text} {check.advice}".strip())
    return table


def _rows() -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    for width in (7, 10):  # the longest state and name, so that both tables line up
        table.add_column(width=width, no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _add(table: "Table", state: str, name: str, sentence: str) -> None:
    from rich.text import Text

    colours = {**_COLOURS, "yes": "green", "no": "yellow"}
    table.add_row(Text(state, colours[state]), Text(name), Text(sentence))
