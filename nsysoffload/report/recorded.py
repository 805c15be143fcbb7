"""What a report of a recorded run says beside its figures, in words that all formats share."""

from collections.abc import Iterator

from nsysoffload.report.format import figure, size
from nsysoffload.report.model import Recording, Report, RunMemory, Warning_
from nsysoffload.trace.run_folder import RunFolder

__all__ = ["NUMERICS_DIFFER", "SLOWED", "numerics_differ", "run_warnings", "summary"]

NUMERICS_DIFFER = "numerics_differ"
"""Code of the warning that a run does not compute what it should."""

SLOWED = 0.1
"""Overhead of the profiler beyond which times are in doubt."""


def summary(report: Report) -> list[str]:
    """Return sentences on how the run was recorded, on its numerics and on its memory."""
    recording, memory = report.recording, report.memory
    lines = []
    if recording:
        parts = [part for part in (_what(recording), _overhead(recording)) if part]
        lines += [f"Recorded: {'; '.join(parts)}."] * bool(parts)
        lines += _left_out(recording)
        numerics = recording.numerics
        if numerics and numerics.text and numerics.agree is not False:
            lines.append(_sentence(_against(numerics.text, numerics.against)))
    return [*lines, _need(memory)] if isinstance(memory, RunMemory) else lines


def _what(recording: Recording) -> str:
    """Return which run it is."""
    variant = f"variant {recording.variant}" if recording.variant else ""
    ranked = recording.rank is not None and recording.ranks is not None
    rank = f"rank {recording.rank} of {recording.ranks}" if ranked else ""
    return ", ".join(part for part in (variant, rank) if part)


def _overhead(recording: Recording) -> str:
    if recording.overhead is None:
        reason = recording.overhead_null_reason
        return f"profiling overhead unknown: {reason.removesuffix('.')}" if reason else ""
    bare, profiled = recording.bare_step_ms, recording.profiled_step_ms
    times = (
        f": step {figure('step_ms', bare)} bare, {figure('step_ms', profiled)} profiled"
        if bare is not None and profiled is not None
        else ""
    )
    return f"profiling overhead {_percent(recording.overhead)}{times}"


def _percent(fraction: float) -> str:
    """Return a fraction with one decimal at most; it may be negative, and above 1."""
    return f"{round(100 * fraction, 1) + 0.0:,.1f}".removesuffix(".0") + " %"


def _left_out(recording: Recording) -> list[str]:
    if not recording.left_out:
        return []
    return [f"Left out, for its nsys does not know them: {', '.join(recording.left_out)}."]


def _need(memory: RunMemory) -> str:
    """Return what a device needs of its own memory and of the host's."""
    peak = memory.device_peak_bytes
    most = f" ({size(peak)} in use at most)" if peak is not None else ""
    return (
        f"Memory per GPU: {size(memory.device_bytes)} on the device{most},"
        f" {size(memory.host_bytes)} pinned on the host."
    )


def run_warnings(run: RunFolder) -> Iterator[Warning_]:
    """Yield what is to be kept in mind of how a run was recorded."""
    yield from (Warning_(warning.code, warning.message) for warning in run.warnings)
    recording = run.recording
    if recording is None:
        return
    numerics = recording.numerics
    if numerics and numerics.agree is False:
        text = _against(numerics.text or "numerics differ", numerics.against)
        yield Warning_(NUMERICS_DIFFER, _sentence(text))
    if recording.overhead is not None and recording.overhead > SLOWED:
        message = (
            f"{_overhead(recording)}; launches take longer under the profiler, so that gaps in"
            " which the GPU waits for the host may be its doing."
        )
        yield Warning_("profiling_overhead", _sentence(message))
    for note in dict.fromkeys(map(_sentence, recording.notes)):
        yield Warning_("capture_note", note)


def numerics_differ(report: Report) -> str | None:
    """Return how the numerics of the run, or of one of its ranks, differ; None if they do not."""
    found = (w.message for w in report.trace.warnings if w.code == NUMERICS_DIFFER)
    message = next(found, None)
    return message and f"{message[0].lower()}{message[1:]}".removesuffix(".")


def _against(text: str, other: str | None) -> str:
    text = text.removesuffix(".")
    return f"{text} (against {other})" if other and other not in text else text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
