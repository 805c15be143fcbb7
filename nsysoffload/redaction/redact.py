"""A trace -> a copy that can be given away, and what is not in it."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from nsysoffload.errors import TraceError, UsageError
from nsysoffload.private.learning import private_words
from nsysoffload.private.masked import masked
from nsysoffload.private.names import Names
from nsysoffload.redaction.about import copy_about
from nsysoffload.redaction.copying import copy_rows
from nsysoffload.redaction.cut import Chosen, Cut, StepSpan, choose_rows, step_spans
from nsysoffload.redaction.draft import drafted
from nsysoffload.redaction.inventory import Removed, inventory
from nsysoffload.redaction.kept import kept_tables
from nsysoffload.redaction.texts import (
    SHOWN,
    PrivateRange,
    copy_strings,
    own_texts,
    string_table,
    taken_names,
)
from nsysoffload.trace.export import Export
from nsysoffload.trace.files import export_of, located
from nsysoffload.trace.layout import layouts
from nsysoffload.trace.metadata import capture_warnings, contents
from nsysoffload.trace.reader import GPU_TABLES, read
from nsysoffload.trace.tables import TraceWarning

__all__ = ["Redaction", "check", "redact"]

_SUFFIX = ".sqlite"
_BESIDE = ("-wal", "-shm", "-journal")
_NAMED = (*GPU_TABLES, "calls", "nvtx_ranges")  # whose rows have names, or tell which GPUs ran
_NEEDED = ("process", "ordinal", "name", "text")
_UNMERGED = "unmerged_changes"


@dataclass(frozen=True)
class Redaction:
    """What a copy lacks, and how large it is.

    Attributes
    ----------
    removed : tuple of Removed
        What is left out or replaced, by kind, most first.
    ranges : tuple of PrivateRange
        Texts of NVTX ranges that look private.
    ranges_kept : bool
        Whether they stand in the copy all the same.
    before_bytes, after_bytes : int
        Size of the trace and of the copy.
    steps : tuple of StepSpan
        The steps that the copy was cut to, by device; none where it is whole.
    warnings : tuple of TraceWarning
        What there is to know of the trace.
    """

    removed: tuple[Removed, ...]
    ranges: tuple[PrivateRange, ...]
    ranges_kept: bool
    before_bytes: int
    after_bytes: int
    steps: tuple[StepSpan, ...]
    warnings: tuple[TraceWarning, ...]

    @property
    def leaks(self) -> bool:
        """Whether the trace itself would tell something of its machine or its owner."""
        private = self.ranges and not self.ranges_kept
        return bool(private) or any(removed.leaks for removed in self.removed)


def redact(trace: Path, out: Path, *, keep_nvtx: bool = False, cut: Cut | None = None) -> Redaction:
    """Write a copy that holds what the analysis reads and nothing else, without private words.

    Parameters
    ----------
    trace : Path
        SQLite export, report or profile that can be exported, or run folder; never changed.
    out : Path
        The copy, a ``.sqlite`` file; an old one is replaced once the new one is complete.
    keep_nvtx : bool
        Keep texts of NVTX ranges as they are.
    cut : Cut, optional
        Keep only some training steps.

    Raises
    ------
    TraceError
        If the trace cannot be used.
    UsageError
        If the copy cannot be written there, or there is nothing to cut to.
    """
    place = located(trace)
    _refuse(place, out)
    with export_of(place) as export:
        return _redacted(place, export, out, keep_nvtx, cut)


def check(trace: Path, *, keep_nvtx: bool = False) -> Redaction:
    """Say what a trace would tell if it were given away as it is.

    Parameters
    ----------
    trace : Path
        As for `redact`.
    keep_nvtx : bool
        Texts of NVTX ranges do not count.

    Raises
    ------
    TraceError
        If the trace cannot be used.
    """
    place = located(trace)
    with export_of(place) as export, tempfile.TemporaryDirectory(prefix="nsysoffload-") as folder:
        return _redacted(place, export, Path(folder, f"copy{_SUFFIX}"), keep_nvtx, None)


def _refuse(trace: Path, out: Path) -> None:
    """Fail on a place where no copy can be."""
    if out.is_dir():
        raise UsageError(f"{out.name} is a folder; name a file that ends in {_SUFFIX}.")
    if out.suffix != _SUFFIX:
        raise UsageError(f"The copy is an SQLite export; let its name end in {_SUFFIX}.")
    if out.exists() and out.samefile(trace):
        raise UsageError(f"{out.name} is the trace itself; name another file for the copy.")
    beside = [out.name + end for end in _BESIDE if out.with_name(out.name + end).exists()]
    if beside:
        raise UsageError(f"{beside[0]} would be taken for a part of the copy; remove it first.")


def _redacted(trace: Path, path: Path, out: Path, keep_nvtx: bool, cut: Cut | None) -> Redaction:
    export = Export.open(path)
    found, _ = layouts(export)
    if all(found[name].is_empty(export) for name in GPU_TABLES if name in found):
        raise TraceError(contents(export))
    tables = kept_tables(found, export.columns)
    strings = string_table(export.columns)
    words = private_words(export)
    chosen = choose_rows(export, found, cut) if cut else None
    with drafted(path, out) as db:
        names = Names(words, taken_names(db, strings, tables))
        _number(export, names)
        if chosen:
            chosen.note(db, tables)
        ranges: list[PrivateRange] = []
        for kept in tables:
            own = own_texts(db, kept, names, keep_nvtx, bool(chosen)) if kept.own else []
            copy_rows(db, kept, SHOWN if own and not keep_nvtx else None, bool(chosen))
            ranges += own
        if strings:
            ranges += copy_strings(db, strings, tables, names, keep_nvtx)
        copy_about(db, export.columns, names)
        removed = [*inventory(db, path, export.columns, tables), *_replaced(names)]
    return Redaction(
        removed=tuple(sorted(removed, key=lambda part: (-part.leaks, -part.count, part.kind))),
        ranges=tuple(sorted(ranges, key=lambda text: (-text.ranges, text.place))),
        ranges_kept=keep_nvtx,
        before_bytes=trace.stat().st_size,
        after_bytes=out.stat().st_size,
        steps=chosen.steps if chosen else (),
        warnings=(
            *(w for w in capture_warnings(export) if w.code == _UNMERGED),
            *(_other_steps(out, chosen, cut) if chosen and cut else ()),
        ),
    )


def _number(export: Export, names: Names) -> None:
    """Give private parts the numbers that the analysis of the trace gives them."""
    masked(read(export.path, _NAMED, dict.fromkeys(_NAMED, _NEEDED)), names)
    names.replaced.clear()  # what is counted is what is copied


def _other_steps(out: Path, chosen: Chosen, cut: Cut) -> list[TraceWarning]:
    """Warn where the copy alone would not be taken for the steps that it was cut to."""
    try:
        found = step_spans(Export.open(out), replace(cut.rule, skip=None))
    except UsageError:
        found = []
    if _places(found) == _places(chosen.steps):
        return []
    message = (
        "The copy's steps are not found in it as in the whole trace, so it does not measure the"
        " same: try --skip-steps 0 when it is analysed, or cut it to more steps."
    )
    return [TraceWarning("steps_differ", message)]


def _places(steps: Iterable[StepSpan]) -> set[tuple[str, int, int]]:
    return {(step.device, step.start_ns, step.end_ns) for step in steps}


def _replaced(names: Names) -> list[Removed]:
    return [
        Removed(f"private texts in names: {kind}", count) for kind, count in names.replaced.items()
    ]
