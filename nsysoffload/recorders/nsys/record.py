"""Record a command under `nsys profile`, export the report, and try again where nsys failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import TraceError
from nsysoffload.recorders.measured.checks import Unfit, analyzed
from nsysoffload.recorders.measured.child import Ended, Limits, run
from nsysoffload.recorders.measured.failures import Failure, blinding, cause_of, unexplained
from nsysoffload.recorders.measured.recorder import Recorded
from nsysoffload.recorders.measured.request import Command, Request
from nsysoffload.recorders.nsys.options import HARDWARE, SOFTWARE, Profile, Range, compose
from nsysoffload.recorders.nsys.tool import Nsys
from nsysoffload.recorders.ranks import Rank
from nsysoffload.trace.nsys_export import exported

__all__ = ["NsysRecorder"]

_SUFFIXES = (".nsys-rep", ".qdrep")
# Of faults, aborts and the like: no memory limit, and nothing a program says on purpose.
_CRASHED = frozenset({132, 134, 135, 136, 139})
_SHUT_DOWN = frozenset({128 + 2, 128 + 9, 128 + 15})
_AGAIN = frozenset({"hardware_trace", "no_kernels"})


@dataclass(frozen=True)
class NsysRecorder:
    """Records under Nsight Systems.

    Attributes
    ----------
    nsys : Nsys
        The program.
    range_ : Range
        When it records.
    more : str
        Options of the user.
    rank : Rank or None
        Of this process.
    """

    nsys: Nsys
    range_: Range
    more: str = ""
    rank: Rank | None = None

    name = "nsys"

    def profiled(self, command: Command, place: Path) -> Command:
        """Return the command under nsys."""
        return self._under(command, self._profile(place, HARDWARE))

    def record(
        self, request: Request, command: Command, partial: Path, environment: Mapping[str, str]
    ) -> Recorded:
        """Record a command; where tracing by hardware failed, once more by software.

        Raises
        ------
        Unfit
            If there is no report, it cannot be exported, or holds no GPU work.
        """
        try:
            return self._attempt(request, command, partial, environment, HARDWARE, ())
        except Unfit as unfit:
            if unfit.failure.cause not in _AGAIN or not self._has_another_way(partial):
                raise
            note = (
                f"The first attempt failed ({unfit.failure.text.split(';')[0]}), so this one was "
                "recorded with software tracing (cuda-sw)."
            )
        for path in partial.glob("trace.*"):
            path.unlink()
        return self._attempt(request, command, partial, environment, SOFTWARE, (note,))

    def _has_another_way(self, partial: Path) -> bool:
        """Whether this nsys can trace by software, and the user did not say how to trace."""
        return self.nsys.offers("--trace", SOFTWARE) and (
            self._profile(partial, SOFTWARE) != self._profile(partial, HARDWARE)
        )

    def _attempt(
        self,
        request: Request,
        command: Command,
        partial: Path,
        environment: Mapping[str, str],
        trace: str,
        notes: tuple[str, ...],
    ) -> Recorded:
        profile = self._profile(partial, trace)
        under = self._under(command, profile)
        ended = run(
            under.words,
            partial / "log.txt",
            environment={**environment, **under.environment},
            limits=Limits(request.timeout_s, request.grace_s),
            result=lambda: _state(partial),
        )
        report = _report(partial)
        if report is None or not (_went_well(ended) or _shut_down(ended, profile)):
            raise Unfit(_why(ended, report is not None))
        if ended.ended == "hung":
            text = (
                f"The command was still running {request.grace_s:g} s after its report was "
                "complete, and was ended."
            )
            notes = (*notes, text)
        self._export(report, partial, ended)
        try:
            analysis = analyzed(partial / "trace.sqlite", request)
        except Unfit as unfit:
            raise Unfit(blinding(ended.printed) or unfit.failure) from unfit
        return Recorded(
            report=analysis,
            ended=ended,
            nsys_version=self.nsys.version,
            trace=profile.trace,
            capture_range=self.range_.kind,
            left_out=tuple(word.partition("=")[0] for word in profile.left_out),
            notes=notes,
        )

    def _export(self, report: Path, partial: Path, ended: Ended) -> None:
        try:
            exported(report, partial, self.nsys.path).rename(partial / "trace.sqlite")
        except TraceError as error:
            newer = "newer_report" if "newer" in str(error) else "export_failed"
            raise Unfit(unexplained(newer, _lower(str(error)), ended.printed)) from error

    def _profile(self, place: Path, trace: str) -> Profile:
        return compose(
            self.nsys, self.range_, self._output(place / "trace"), trace=trace, more=self.more
        )

    def _under(self, command: Command, profile: Profile) -> Command:
        under = command.behind(*profile.words)
        if self.range_.kind != "nvtx":
            return under
        # Ranges named by plain strings count as well, not only by registered ones.
        heard = {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
        return Command(under.words, {**under.environment, **heard})

    def _output(self, path: Path) -> str:
        """Return a path as nsys takes it, with the rank by its variable."""
        parts = [part.replace("%", "%%") for part in path.parts]
        if self.rank:
            parts[-3] = f"rank%q{{{self.rank.variable}}}"
        return str(Path(*parts))


def _went_well(ended: Ended) -> bool:
    return ended.status == 0 or ended.ended == "hung"


def _shut_down(ended: Ended, profile: Profile) -> bool:
    """Whether nsys ended the command with its range, as only the user's own options have it do."""
    asked = any("shutdown" in word for word in profile.options)
    return asked and not ended.ended and ended.status in _SHUT_DOWN


def _report(folder: Path) -> Path | None:
    found = [folder / f"trace{suffix}" for suffix in _SUFFIXES]
    return next((path for path in found if path.is_file()), None)


def _state(folder: Path) -> tuple[int, int] | None:
    """Return what changes while a report is being written; None before it is there."""
    report = _report(folder)
    if report is None:
        return None
    stat = report.stat()
    return stat.st_size, stat.st_mtime_ns


def _why(ended: Ended, has_report: bool) -> Failure:
    if ended.status in _CRASHED:
        known = blinding(ended.printed)
        text = f"it crashed (exit code {ended.status}) while it was recorded; see its log."
        return known or unexplained("hardware_trace", text, ended.printed)
    known = cause_of(ended)
    if known or has_report:
        return known or unexplained("command_failed", "it failed; see its log.", ended.printed)
    text = (
        "nsys ended well and left no report of this run; the command may have ended before the "
        "range to record (see --range), or nsys lost it: see its log."
    )
    return unexplained("no_report", text, ended.printed)


def _lower(sentence: str) -> str:
    return sentence if sentence.startswith("nsys") else sentence[0].lower() + sentence[1:]
