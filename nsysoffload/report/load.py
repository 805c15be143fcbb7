"""A report out of its JSON, as far as that has it: without the marks of the timeline."""

import json
from pathlib import Path

from nsysoffload.errors import TraceError
from nsysoffload.report.model import SCHEMA, Report
from nsysoffload.trace.records import record

__all__ = ["is_report", "load"]

_LONGEST = 200_000_000  # bytes; a report of a thousand steps of eight GPUs takes some 30 million
_ADVICE = "make it again with 'nsysoffload analyze --format json'"


def is_report(path: Path) -> bool:
    """Tell by its name whether a file is meant as the JSON of a report."""
    return path.suffix.lower() == ".json"


def load(path: Path) -> Report:
    """Read the JSON of a report.

    Parameters
    ----------
    path : Path
        What ``analyze`` wrote as ``report.json``.

    Raises
    ------
    TraceError
        If it is not a report, or one of another version.
    """
    try:
        if path.stat().st_size > _LONGEST:
            raise TraceError(f"{path.name} is too large for a report; give the trace itself.")
        read = json.loads(path.read_bytes())
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read ({error.strerror}); check it.") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path.name} is no JSON; {_ADVICE}.") from error
    schema = read.get("schema") if isinstance(read, dict) else None
    if schema != SCHEMA:
        found = f"of schema {schema[:60]!r}" if isinstance(schema, str) else "no report"
        raise TraceError(f"{path.name} is {found}, not {SCHEMA}; {_ADVICE}.")
    try:
        report: Report = record(Report, read)
    except TypeError as error:
        raise TraceError(f"{path.name} is damaged ({error}); {_ADVICE}.") from error
    return report
