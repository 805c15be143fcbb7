"""What a workflow reads of a step: outputs, the job summary, and lines of its log."""

import os
import secrets
from pathlib import Path

__all__ = ["annotate", "echo", "output", "summarise"]

_SUMMARY_BYTES = 1_000_000  # of the 1 MiB that a step may write


def output(**values: str) -> None:
    """Set outputs of the step; a value may have several lines, and none ends it."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        for name, value in values.items():
            end = f"end-{secrets.token_hex(16)}"
            file.write(f"{name.replace('_', '-')}<<{end}\n{value}\n{end}\n")


def summarise(markdown: str) -> None:
    """Add to the summary of the job, as much as it takes."""
    text = markdown.encode()[:_SUMMARY_BYTES].decode(errors="ignore")
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def annotate(kind: str, text: str) -> None:
    """Print an annotation, ``error`` or ``warning``; nothing in its text is a command."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{kind} title=nsysoffload::{escaped}")


def echo(printed: str) -> None:
    """Show what a program printed; until the random word comes, nothing in it is a command."""
    word = secrets.token_hex(16)
    print(f"::stop-commands::{word}\n{printed}\n::{word}::")
