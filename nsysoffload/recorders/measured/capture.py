"""Record a workload or a command under each variant, check it, and leave a run folder for each."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nsysoffload.analysis import pattern_of
from nsysoffload.errors import RecordingError, UsageError
from nsysoffload.recorders.flag_check import check_flags
from nsysoffload.recorders.flags import without_paths
from nsysoffload.recorders.machine.numa import placement
from nsysoffload.recorders.measured.checks import Unfit, expected_bytes, notes_on, read_manifest
from nsysoffload.recorders.measured.child import Ended, Limits, run
from nsysoffload.recorders.measured.failures import RunFailed, cause_of, lines_like, unexplained
from nsysoffload.recorders.measured.folder import FAILED, PARTIAL, in_place
from nsysoffload.recorders.measured.overhead import Overhead, overhead
from nsysoffload.recorders.measured.recorder import Recorded, Recorder, Say
from nsysoffload.recorders.measured.request import Command, Request, command_of, flags_of
from nsysoffload.recorders.ranks import rank_of
from nsysoffload.recorders.variants import Variant
from nsysoffload.trace.numerics import Losses, Numerics, compare, from_log, from_manifest
from nsysoffload.trace.run_folder import MANIFEST, MODULE

__all__ = ["Capture", "Run"]

_BARE, _PROFILED = "bare", "profiled"
_ON_HOST = re.compile(r"\bhost compute\b", re.IGNORECASE)
_PATH = re.compile(r"""(?<![\w%)])[~.]*/[^\s"',]+""")


@dataclass(frozen=True)
class Run:
    """A recorded run.

    Attributes
    ----------
    variant : str
        Its name.
    folder : Path
        Where it is.
    manifest : dict
        Its manifest.
    recorded : Recorded
        How it was recorded.
    losses : Losses
        By its manifest, or else its log.
    """

    variant: str
    folder: Path
    manifest: dict[str, Any]
    recorded: Recorded
    losses: Losses


@dataclass(frozen=True)
class Capture:
    """What is to be recorded by what, where to.

    Attributes
    ----------
    request : Request
        What to record.
    recorder : Recorder
        What records it.
    directory : Path
        For the folders of the variants.
    environment : mapping of str to str
        Of this process.
    say : callable
        Takes a sentence on how it goes.
    """

    request: Request
    recorder: Recorder
    directory: Path
    environment: Mapping[str, str]
    say: Say = lambda text: None

    def planned(self, variant: Variant) -> list[Command]:
        """Return the commands that would be run for a variant, in their order."""
        partial = self.folder(variant) / PARTIAL
        bare = [self._command(variant, partial, _BARE)] if self.request.bare else []
        recorded = self._command(variant, partial, _PROFILED)
        return [*bare, self.recorder.profiled(recorded, partial)]

    def folder(self, variant: Variant) -> Path:
        """Return the folder of a variant's run, for each rank its own."""
        rank = rank_of(self.environment)
        return self.directory / variant.folder / (f"rank{rank.index}" if rank else "")

    def runs(self, variants: Sequence[Variant]) -> list[Run]:
        """Record all variants, then hold their numerics against each other.

        Raises
        ------
        UsageError
            If the commands make no sense; then nothing is run.
        RecordingError
            If a variant cannot be recorded, its recording is not what it seems, or its numerics
            differ. Runs that are complete stay.
        """
        self._check(variants)
        done = [self._recorded(variant) for variant in variants]
        base = _base(done)
        differing = []
        for other in done:
            if other is not base:
                found = compare(base.losses, other.losses)
                _note_numerics(other, base.variant, found)
                if found.agree is False:
                    differing.append(f"{other.variant}: {found.text} (against {base.variant})")
                elif found.agree is None:
                    self.say(f"{other.variant}: {found.text}")
        if differing:
            raise RecordingError(
                f"{'; '.join(differing)}; its figures are not to be used: find what differs first."
            )
        return done

    def _check(self, variants: Sequence[Variant]) -> None:
        """Refuse what cannot be right: patterns, model, programs, options and XLA's flags."""
        for pattern in (self.request.step_range, self.request.step_kernel):
            pattern_of(pattern)
        if self.request.workload:
            from workloads.config import model

            model(self.request.workload.model, self.request.workload.layers)
        for variant in variants:
            self.planned(variant)
            command = self._command(variant, self.folder(variant), _PROFILED)
            if shutil.which(command.words[0]) is None:
                raise UsageError(f"'{command.words[0]}' cannot be run; check the command.")
            check_flags(command.words[0], command.environment.get("XLA_FLAGS", ""))

    def _command(self, variant: Variant, partial: Path, output: str) -> Command:
        return command_of(self.request, variant, partial, output, self.environment)

    def _recorded(self, variant: Variant) -> Run:
        folder = self.folder(variant)
        with in_place(folder) as partial:
            try:
                return self._run(variant, folder, partial)
            except Unfit as unfit:
                log = folder / FAILED / "log.txt"
                raise RunFailed(variant.name, unfit.failure, log) from unfit
            finally:
                for name in ("cache", _BARE, _PROFILED):
                    shutil.rmtree(partial / name, ignore_errors=True)

    def _run(self, variant: Variant, folder: Path, partial: Path) -> Run:
        log = partial / "log.txt"
        bare, bare_manifest = None, {}
        if self.request.bare:
            self.say(f"{variant.name}: running without the profiler (log: {log})")
            bare = self._bare(self._command(variant, partial, _BARE), log)
            bare_manifest = read_manifest(partial / _BARE)
        self.say(f"{variant.name}: recording (log: {log})")
        command = self._command(variant, partial, _PROFILED)
        recorded = self.recorder.record(self.request, command, partial, self.environment)
        own = read_manifest(partial / _PROFILED)
        if self.request.workload and not own:
            raise Unfit(unexplained("no_manifest", _NO_MANIFEST, recorded.ended.printed))
        if bare_manifest:  # the recorded one took the program from the cache of the first
            own |= {key: bare_manifest[key] for key in ("compile_s", "memory", "offload")}
        notes = [
            *recorded.notes,
            *notes_on(recorded.report, self.request, variant, own),
            *_on_host(recorded.ended.printed),
        ]
        for note in notes:
            self.say(f"{variant.name}: {note}")
        slower = overhead(bare, bare_manifest, recorded, own)
        losses = from_manifest(own) if own else from_log(recorded.ended.printed)
        manifest = self._manifest(variant, recorded, own, slower, notes)
        manifest["recording"]["losses"] = asdict(losses)
        with suppress(FileNotFoundError):  # only the workloads write one
            (partial / _PROFILED / MODULE).rename(partial / MODULE)
        (partial / "manifest.json").write_text(_json(manifest), encoding="utf-8")
        self.say(f"{variant.name}: recorded in {recorded.ended.seconds:.0f} s{slower}")
        return Run(variant.name, folder, manifest, recorded, losses)

    def _bare(self, command: Command, log: Path) -> Ended:
        ended = run(
            command.words,
            log,
            environment={**self.environment, **command.environment},
            limits=Limits(self.request.timeout_s),
        )
        failure = cause_of(ended) if ended.status else None
        if failure:
            raise Unfit(replace(failure, text=f"without the profiler, {failure.text}"))
        return ended

    def _manifest(
        self,
        variant: Variant,
        recorded: Recorded,
        own: dict[str, Any],
        slower: Overhead,
        notes: list[str],
    ) -> dict[str, Any]:
        rank = rank_of(self.environment)
        bound = placement(Path("/"))
        set_here = flags_of(self.request, variant, self.environment)
        flags = own.get("xla_flags", without_paths(set_here))
        return {
            **own,
            "schema": MANIFEST,
            "kind": "measured",
            "recorder": self.recorder.name,
            "variant": variant.name,
            "recording": {
                "nsys_version": recorded.nsys_version,
                "trace": recorded.trace,
                "capture_range": recorded.capture_range,
                "left_out": list(recorded.left_out),
                "rank": rank.index if rank else None,
                "ranks": rank.count if rank else None,
                "cpu_nodes": bound.cpu_nodes,
                "memory_nodes": bound.memory_nodes,
                "steps": self.request.steps,
                **slower.as_manifest(),
                "xla_preset": self.request.preset,
                "xla_flags": list(flags),
                "expect_offload_bytes": expected_bytes(self.request, variant, own),
                "numerics": None,
                "notes": notes,
            },
        }


_NO_MANIFEST = "the training left no manifest, so its losses are not known; see its log."


def _on_host(printed: str) -> list[str]:
    """Quote what XLA says of work that it moved to the host, where it takes long."""
    lines = [_PATH.sub("PATH", line) for line in lines_like(printed, _ON_HOST)]
    return [f"XLA computes on the host what offloading moved there: {line}" for line in lines]


def _base(runs: Sequence[Run]) -> Run:
    """Return the run whose numerics the others are held against."""
    by_name = {run.variant: run for run in runs}
    return by_name.get("remat") or by_name.get("none") or runs[0]


def _note_numerics(run: Run, against: str, found: Numerics) -> None:
    run.manifest["recording"]["numerics"] = {
        "agree": found.agree,
        "against": against,
        "text": found.text,
    }
    path = run.folder / "manifest.json"
    part = path.with_name(".manifest.part")
    part.write_text(_json(run.manifest), encoding="utf-8")
    part.replace(path)


def _json(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1) + "\n"
