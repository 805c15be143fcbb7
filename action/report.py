"""Analyse or compare traces for a workflow: outputs, job summary, and a report to attach.

The options come in environment variables. The step itself succeeds whatever comes out, so that the
report is attached and commented before the job fails.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from body import prose
from workflow import echo, output, summarise

_LIMITS = {
    "MAX_REGRESSION": "--max-regression",
    "FAIL_UNDER": "--fail-under",
    "FAIL_OVER": "--fail-over",
}
_FOLDERS = re.compile(r"(?<![\w.])~?/(?:[^\s/'\"]+/)*")
_UNSAID = "nsysoffload left no report that can be read; the log of the job says more."


def main() -> None:
    """Run the command and say what came out."""
    # A folder of its own: what it holds in the end is of this run, and of nothing before it.
    made = Path(tempfile.mkdtemp(prefix="nsysoffload-", dir=os.environ["RUNNER_TEMP"]))
    try:
        words = command(made)
    except ValueError as error:
        _failed(f"The options cannot be read: {error}.", 2)
        return
    done = subprocess.run(
        words, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    echo(done.stdout + done.stderr)
    report = _read(made / "report.json") if done.returncode in (0, 1) else None
    if report is None:
        _failed(_sentence(done.stderr), done.returncode if done.returncode > 1 else 2)
        return
    folder = shutil.copytree(made, os.environ["OUTPUT"], dirs_exist_ok=True)
    broken = [line for line in done.stderr.splitlines() if line.startswith("Gate failed: ")]
    _made(report, Path(folder), done.returncode, "\n".join(broken))


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
    # Isolated: what lies in the folder of the job is data, also if it is named like a module.
    words = [sys.executable, "-I", "-m", "nsysoffload", "compare" if base else "analyze"]
    words += shlex.split(os.environ["ARGUMENTS"])
    for name, option in _LIMITS.items():
        words += [word for limit in _lines(os.environ[name]) for word in (option, limit)]
    words += ["-o", str(folder), "--format", "html,md,json"]  # the last one given counts
    return [*words, "--", *[base] * bool(base), *traces]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _matched(text: str) -> list[str]:
    """Return the paths of all lines; a line that matches nothing stands for itself."""
    # Patterns may be absolute, which those of pathlib cannot be.
    matched = (sorted(glob.glob(line, recursive=True)) or [line] for line in _lines(text))  # noqa: PTH207
    return [path for paths in matched for path in paths]


def _read(report: Path) -> dict[str, Any] | None:
    """Return what the outputs need of a report.json; None if it is not one."""
    try:
        read = json.loads(report.read_bytes())
        return {
            "outcome": str(read["verdict"]["outcome"]),
            "verdict": " ".join(str(read["verdict"]["text"]).split()),
            "passed": str(all(gate["passed"] for gate in read["gates"])).lower(),
        }
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sentence(printed: str) -> str:
    """Return the error that the command ended with, without the folders that it names."""
    errors = [line for line in printed.splitlines() if line.startswith("Error: ")]
    if not errors:
        return _UNSAID
    return _FOLDERS.sub("", errors[-1].removeprefix("Error: "))[:600]


def _failed(sentence: str, status: int) -> None:
    message = Path(os.environ["RUNNER_TEMP"], "nsysoffload-message.md")
    message.write_text(f"**No report was made.** {prose(sentence)}\n", encoding="utf-8")
    summarise(message.read_text(encoding="utf-8"))
    output(
        outcome="", verdict="", passed="false", exit_code=str(status), report="",
        message=str(message), errors=sentence,
    )  # fmt: skip


def _made(report: dict[str, str], folder: Path, status: int, errors: str) -> None:
    text = folder / "report.md"
    summarise(text.read_text(encoding="utf-8"))
    output(
        **report, exit_code=str(status), report=str(folder), message=str(text), errors=errors,
    )  # fmt: skip


if __name__ == "__main__":
    main()
