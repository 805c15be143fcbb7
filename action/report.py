"""Analyse or compare traces for a workflow: outputs, job summary, and a report to attach.

The options come in environment variables. The step itself succeeds whatever comes out, so that the
report is attached and commented before the job fails.
"""

import glob
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from workflow import annotate, output, summarise

_LIMITS = {
    "MAX_REGRESSION": "--max-regression",
    "FAIL_UNDER": "--fail-under",
    "FAIL_OVER": "--fail-over",
}


def main() -> None:
    """Run the command and say what came out."""
    folder = Path(os.environ["OUTPUT"])
    try:
        words = command(folder)
    except ValueError as error:
        _failed(f"The options cannot be read: {error}.", 2)
        return
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    print(_inert(done.stdout + done.stderr), end="")
    report = folder / "report.json"
    if done.returncode not in (0, 1) or not report.is_file():
        _failed(_sentence(done.stderr), done.returncode or 2)
        return
    _made(report, done.returncode)


def command(folder: Path) -> list[str]:
    """Return the command line.

    Raises
    ------
    ValueError
        If the quotes of its options are not closed, or nothing is to be analysed.
    """
    base, traces = os.environ["BASE"].strip(), _matched(os.environ["TRACES"])
    if not traces:
        raise ValueError("'traces' names no file that is there")
    if os.environ["MAX_REGRESSION"].strip() and not base:
        raise ValueError("'max-regression' needs a 'base'")
    words = [sys.executable, "-m", "nsysoffload", "compare" if base else "analyze"]
    words += ["-o", str(folder), "--format", "html,md,json"]
    for name, option in _LIMITS.items():
        words += [word for limit in _lines(os.environ[name]) for word in (option, limit)]
    words += shlex.split(os.environ["ARGUMENTS"])
    return [*words, "--", *[base] * bool(base), *traces]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _matched(text: str) -> list[str]:
    """Return the paths of all lines; a line that matches nothing stands for itself."""
    # Patterns may be absolute, which those of pathlib cannot be.
    matched = (sorted(glob.glob(line, recursive=True)) or [line] for line in _lines(text))  # noqa: PTH207
    return [path for paths in matched for path in paths]


def _inert(printed: str) -> str:
    """Return lines of a log in which a workflow finds no command."""
    return printed.replace("::", ":\u200b:").replace("##[", "#\u200b#[")


def _sentence(printed: str) -> str:
    """Return the error that the command ended with."""
    errors = [line for line in printed.splitlines() if line.startswith("Error: ")]
    found = errors[-1].removeprefix("Error: ") if errors else "No report was made; see the log."
    return " ".join(found.split())[:600]


def _failed(sentence: str, status: int) -> None:
    annotate("error", sentence)
    message = Path(os.environ["RUNNER_TEMP"], "nsysoffload-message.md")
    inert = sentence.replace("<", "&lt;").replace("@", "@&#8203;").replace("`", "'")
    message.write_text(f"**No report was made.** {inert}\n", encoding="utf-8")
    summarise(message.read_text(encoding="utf-8"))
    output(
        outcome="", verdict="", passed="false", exit_code=str(status), report="",
        message=str(message),
    )  # fmt: skip


def _made(report: Path, status: int) -> None:
    read = json.loads(report.read_bytes())
    text = report.with_name("report.md")
    summarise(text.read_text(encoding="utf-8"))
    output(
        outcome=read["verdict"]["outcome"],
        verdict=" ".join(read["verdict"]["text"].split()),
        passed=str(all(gate["passed"] for gate in read["gates"])).lower(),
        exit_code=str(status),
        report=str(report.parent),
        message=str(text),
    )


if __name__ == "__main__":
    main()
