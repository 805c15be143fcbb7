"""A report out of its JSON, as far as that has it: without the marks of the timeline."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nsysoffload.errors import TraceError
from nsysoffload.report.json import schema
from nsysoffload.report.model import SCHEMA, DeviceTrace, Report, Step
from nsysoffload.trace.records import record

__all__ = ["is_report", "load"]

_LONGEST = 200_000_000  # bytes; a report of a thousand steps of eight GPUs takes some 30 million
_GROWTH = ("required", "additionalProperties")  # other releases have fewer keys, or more
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
        If it is not a report, one of another version, or one whose figures cannot be true.
    """
    try:
        if path.stat().st_size > _LONGEST:
            raise TraceError(f"{path.name} is too large for a report; give the trace itself.")
        read = json.loads(path.read_bytes())
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read ({error.strerror}); check it.") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path.name} is no JSON; {_ADVICE}.") from error
    version = read.get("schema") if isinstance(read, dict) else None
    if version != SCHEMA:
        found = f"a file of schema {version[:60]!r}" if isinstance(version, str) else "no report"
        raise TraceError(f"{path.name} is {found}, not one of schema {SCHEMA}; {_ADVICE}.")
    try:
        report: Report = record(Report, read)
    except TypeError as error:
        raise TraceError(f"{path.name} is damaged ({error}); {_ADVICE}.") from error
    for doubt in _doubts(read, report):
        raise TraceError(f"{path.name} is damaged ({doubt}); {_ADVICE}.")
    return report


def _doubts(read: Any, report: Report) -> Iterator[str]:
    """Say what no report holds: values outside their schema, and such as contradict each other."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    errors = Draft202012Validator(schema()).iter_errors(read)
    if wrong := best_match(error for error in errors if error.validator not in _GROWTH):
        yield f"{wrong.json_path.removeprefix('$.')}: {wrong.message[:200]}"
    for device in report.devices:
        steps = [step.index for step in device.steps]
        if device.median_step is not None and device.median_step not in steps:
            yield f"device {device.id} has no step {device.median_step}"
        parts: tuple[DeviceTrace | Step, ...] = (device.trace, *device.steps)
        ways = (way for part in parts for way in (part.h2d, part.d2h, part.both))
        if any(way.hidden_ns + way.exposed_ns != way.busy_ns for way in ways):
            yield f"hidden and exposed time of device {device.id} do not add up"
    if (span := report.range) and not span.low_ns <= span.expected_ns <= span.high_ns:
        yield "the range of the step is out of order"
