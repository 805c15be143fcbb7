"""Record a workload under `jax.profiler`, where there is no nsys: the workload switches it on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from nsysoffload.errors import TraceError, UsageError
from nsysoffload.recorders.measured import request as measured
from nsysoffload.recorders.measured.checks import Unfit, analyzed
from nsysoffload.recorders.measured.child import Ended, Limits, run
from nsysoffload.recorders.measured.failures import Failure, blinding, cause_of, unexplained
from nsysoffload.recorders.measured.recorder import Recorded
from nsysoffload.recorders.measured.request import Command, Request
from nsysoffload.trace.xplane.convert import export

__all__ = ["JaxRecorder"]

_FOLDER = "profile"
_PROFILE = "trace.xplane.pb"


@dataclass(frozen=True)
class JaxRecorder:
    """Records under the profiler of JAX."""

    name = "jax"

    def profiled(self, command: Command, place: Path) -> Command:
        """Return the command with a folder for its profile.

        Raises
        ------
        UsageError
            If it is not one of the workloads'.
        """
        words = command.words
        if words[: len(measured.TRAINER)] != measured.TRAINER:
            raise UsageError(
                "jax.profiler cannot be switched on from outside, so only a workload (--model) is "
                "recorded with it; record a command with nsys, or let it write a profile itself "
                "and analyse that."
            )
        return Command((*words, "--jax-profile", str(place / _FOLDER)), command.environment)

    def record(
        self, request: Request, command: Command, partial: Path, environment: Mapping[str, str]
    ) -> Recorded:
        """Record a workload.

        Raises
        ------
        Unfit
            If there is no profile, or it holds no GPU work.
        UsageError
            As by `profiled`.
        """
        under = self.profiled(command, partial)
        folder = partial / _FOLDER
        ended = run(
            under.words,
            partial / "log.txt",
            environment={**environment, **under.environment},
            limits=Limits(request.timeout_s, request.grace_s),
            result=lambda: _newest(folder),
        )
        notes = _checked(ended, request)
        _export(folder, partial, ended)
        return Recorded(
            report=analyzed(partial / "trace.sqlite", request),
            ended=ended,
            nsys_version=None,
            trace=None,
            capture_range="profiler-api",
            left_out=(),
            notes=notes,
        )


def _checked(ended: Ended, request: Request) -> tuple[str, ...]:
    """Check how the workload ended; return what is to be noted of it."""
    if ended.ended == "hung":
        return (
            f"The workload was still running {request.grace_s:g} s after its profile was written, "
            "and was ended.",
        )
    if ended.status:
        text = "it failed under jax.profiler; see its log."
        raise Unfit(cause_of(ended) or unexplained("command_failed", text, ended.printed))
    return ()


def _export(folder: Path, partial: Path, ended: Ended) -> None:
    """Make an export of the profile, which is kept beside it."""
    newest = _newest(folder)
    if newest is None:
        text = "it ended well and jax.profiler left no profile of it; see its log."
        raise Unfit(unexplained("no_report", text, ended.printed))
    profile = newest.rename(partial / _PROFILE)
    rmtree(folder)
    try:
        export(profile, partial / "trace.sqlite")
    except TraceError as error:
        raise Unfit(blinding(ended.printed) or Failure("no_gpu_rows", str(error))) from error


def _newest(folder: Path) -> Path | None:
    """Return the profile that was written last."""
    return max(folder.glob("plugins/profile/*/*.xplane.pb"), default=None)
