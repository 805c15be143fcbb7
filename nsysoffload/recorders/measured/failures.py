"""Why a recording failed, from what was printed and how the command ended."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import RecordingError
from nsysoffload.recorders.measured.child import Ended

__all__ = ["Failure", "RunFailed", "blinding", "cause_of", "lines_like", "unexplained"]

_SHOWN = 3
_TAIL = 5
_LOOKED_AT = 200
_WIDTH = 300
# Progress of nsys, which says nothing about the command.
_OF_NSYS = re.compile(
    r"Generat(?:ed|ing)\b|Processing \w* ?events|Collecting data|\[\d+/\d+\]|/\S+$"
)


@dataclass(frozen=True)
class Failure:
    """A cause, what it means and what to do, in a sentence, and the lines that show it."""

    cause: str
    text: str
    lines: tuple[str, ...] = ()


class RunFailed(RecordingError):
    """A run could not be recorded, or its recording is not what it seems.

    Attributes
    ----------
    failure : Failure
        Why.
    log : Path
        All that was printed.
    """

    def __init__(self, variant: str, failure: Failure, log: Path) -> None:
        self.failure, self.log = failure, log
        super().__init__(f"{variant}: {failure.text}")


@dataclass(frozen=True)
class _Sign:
    cause: str
    pattern: re.Pattern[str]
    text: str


def _sign(cause: str, pattern: str, text: str) -> _Sign:
    return _Sign(cause, re.compile(pattern, re.IGNORECASE), text)


# In this order: the first that is found explains the most.
_SIGNS = (
    _sign(
        "cupti_user",
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|CUPTI\w*.{0,80}\berror(?: code)?\W{1,3}39\b",
        "another user of CUPTI is in the process, so one of the two records nothing; switch the "
        "other profiler off (jax.profiler, torch.profiler, TensorBoard, DCGM).",
    ),
    _sign(
        "xla_flag",
        r"Unknown flags? in XLA_FLAGS|Couldn't interpret value .* for flag",
        "XLA does not know a flag of XLA_FLAGS and ends the process; correct or drop it.",
    ),
    _sign(
        "host_pool",
        r"(RESOURCE_EXHAUSTED|out of memory|ran out of memory|failed to allocate|trying to "
        r"allocate).*xla_gpu_host_bfc|xla_gpu_host_bfc.*(RESOURCE_EXHAUSTED|out of memory)",
        "the pool of pinned host memory is exhausted; raise XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB "
        "(64 by default), or offload less.",
    ),
    _sign(
        "device_memory",
        r"GPU_\d+_bfc.*(out of memory|allocat)|(RESOURCE_EXHAUSTED|out of memory).*GPU_\d+_bfc"
        r"|RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
        r"|CUDA out of memory",
        "the memory of the GPU is exhausted; try a smaller batch or sequence, or a policy that "
        "keeps less.",
    ),
    _sign(
        "memory_limit",
        r"oom[-_ ]?kill|Detected \d+ oom|Exceeded (?:job|step) memory limit|Memory cgroup out of",
        "it was killed at the memory limit of its container or job (cgroup); raise that limit, in "
        "which pinned host memory counts, or offload less.",
    ),
    _sign(
        "disk_full",
        r"No space left on device|Disk quota exceeded",
        "the disk is full; free some, or name another folder with -o.",
    ),
    _sign(
        "nsys_options",
        r"usage: nsys (?:profile|export)|Try 'nsys (?:profile|export) --help'",
        "nsys does not take its options; see what it says, and drop --nsys-args it does not know.",
    ),
    _sign(
        "permission",
        r"INSUFFICIENT_PRIVILEGES|ERR_NVGPUCTRPERM|Insufficient privilege",
        "the driver lets only administrators profile; have NVreg_RestrictProfilingToAdminUsers=0 "
        "set, or drop the options that read GPU counters.",
    ),
    _sign(
        "no_gpu",
        r"no CUDA-capable device|CUDA_ERROR_NO_DEVICE|No visible GPU devices"
        r"|Unable to initialize backend 'cuda'",
        "it found no GPU; run it where there is one, and see nsysoffload doctor.",
    ),
    _sign(
        "hardware_trace",
        r"NotInitializedException|Analysis failed|hardware.{0,30}trac\w+.{0,40}fail",
        "nsys failed at its own tracing; update it, or try --nsys-args '-t cuda-sw,nvtx'.",
    ),
)


def cause_of(ended: Ended) -> Failure | None:
    """Say why a command failed, by what it printed and how it ended; None if neither says."""
    log = ended.printed
    known = _known(log, {sign.cause for sign in _SIGNS})
    if known:
        return known
    if ended.ended == "timeout":
        text = "it took longer than --timeout allows and was ended; allow more, or record less."
        return Failure("timeout", text, _tail(log))
    if ended.status == 137:
        return Failure(
            "memory_limit",
            "it was killed (exit code 137) without a word, as at the memory limit of a container "
            "or job; raise that limit, in which pinned host memory counts, or offload less.",
            _tail(log),
        )
    if ended.status and ended.ended != "hung":
        text = f"the command ended with exit code {ended.status}; mend it, then record again."
        return Failure("command_failed", text, _tail(log))
    return None


def blinding(log: str) -> Failure | None:
    """Say what kept a profiler from seeing the GPU while the command went well; None if unknown."""
    return _known(log, {"cupti_user", "permission", "no_gpu", "hardware_trace"})


def _known(log: str, causes: Collection[str]) -> Failure | None:
    for sign in _SIGNS:
        lines = lines_like(log, sign.pattern) if sign.cause in causes else ()
        if lines:
            return Failure(sign.cause, sign.text, lines)
    return None


def unexplained(cause: str, text: str, log: str) -> Failure:
    """Return a failure of which the log says nothing known, with its last lines."""
    return Failure(cause, text, _tail(log))


def lines_like(log: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return the first lines of a log in which a pattern is found, cut to a readable length."""
    found = [line for line in log.splitlines() if pattern.search(line)]
    return tuple(map(_readable, found[:_SHOWN]))


def _tail(log: str) -> tuple[str, ...]:
    lines = [_readable(line) for line in log.splitlines()[-_LOOKED_AT:]]
    return tuple([line for line in lines if line and not _OF_NSYS.match(line)][-_TAIL:])


def _readable(line: str) -> str:
    """Return a line without what cannot be printed, cut to a readable length."""
    head = line.strip()[: 4 * _WIDTH]
    return "".join(c if c.isprintable() else " " for c in head).strip()[:_WIDTH]
