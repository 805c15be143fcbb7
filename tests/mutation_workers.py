"""Analyses mutated exports in processes of their own, since bad bytes may crash or hang them.

A worker analyses many mutations, one at a time. One that dies, or takes too long, is replaced, and
the mutation it was at has failed.
"""

import faulthandler
import json
import resource
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema

import nsysoffload
from nsysoffload.output import render
from nsysoffload.report.json import schema
from tests.invariants import broken
from tests.mutations import mutated

__all__ = ["Case", "Outcomes", "outcomes"]

WORKERS = 2
LIMIT_S = 20
MEMORY_BYTES = 8 << 30  # of address space, so that a bad count is an error and not a swap storm
HTML_EVERY = 10


class Case(NamedTuple):
    """One mutation of one export."""

    base: str
    family: str
    seed: int


@dataclass(frozen=True)
class Outcomes:
    """How often each outcome came (``report``, ``sentence``, ``failed``), and what failed."""

    counts: Counter[str]
    failures: list[str]


def outcomes(bases: Mapping[str, bytes], cases: Iterable[Case]) -> Outcomes:
    """Analyse each case in one of several workers."""
    waiting = iter(list(cases))
    with ThreadPoolExecutor(WORKERS) as pool:
        runs = [pool.submit(lambda: list(_work(bases, waiting))) for _ in range(WORKERS)]
        results = [result for run in runs for result in run.result()]
    failures = sorted(f"{case}: {detail}" for case, kind, detail in results if kind == "failed")
    return Outcomes(Counter(kind for _, kind, _ in results), failures)


def _work(bases: Mapping[str, bytes], waiting: Iterator[Case]) -> Iterator[tuple[Case, str, str]]:
    worker = _Worker(bases)
    try:
        for case in waiting:
            answer = worker.ask(case)
            if answer is None:
                worker.close()
                answer = "failed", worker.end
                worker = _Worker(bases)
            yield case, *answer
    finally:
        worker.close()


class _Worker:
    def __init__(self, bases: Mapping[str, bytes]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, dict(bases)), daemon=True)
        self.process.start()
        theirs.close()
        self.end = ""

    def ask(self, case: Case) -> tuple[str, str] | None:
        """Return the outcome and what there is to say of it, None if there was no answer."""
        try:
            self.pipe.send(case)
            if self.pipe.poll(LIMIT_S):
                answer: tuple[str, str] = self.pipe.recv()
                return answer
            self.end = f"took more than {LIMIT_S} s"
        except (EOFError, OSError):
            self.process.join(LIMIT_S)
            self.end = f"the process died with exit code {self.process.exitcode}"
        return None

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


# --- In the worker ---


def _serve(pipe: Connection, bases: dict[str, bytes]) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        path = Path(folder, "trace.sqlite")
        while True:
            try:
                case: Case = pipe.recv()
            except EOFError:
                return
            pipe.send(_outcome(bases[case.base], case, path))


def _outcome(base: bytes, case: Case, path: Path) -> tuple[str, str]:
    data, changes = mutated(case.family, base, case.seed)
    path.write_bytes(data)
    try:
        report = nsysoffload.analyze(path)
        wrong = [*_wrong_report(report, case.seed), *_changed(path, data)]
        kind = "report"
    except nsysoffload.OffloadError as error:
        wrong, kind = [*_wrong_sentence(str(error), path), *_changed(path, data)], "sentence"
    except BaseException:
        wrong = [traceback.format_exc()]
    return ("failed", f"after {changes}: {'; '.join(wrong)}") if wrong else (kind, "")


def _wrong_report(report: nsysoffload.Report, seed: int) -> Iterator[str]:
    plain: dict[str, Any] = json.loads(render(report, "json"))
    yield from (error.message[:300] for error in _validator().iter_errors(plain))
    yield from broken(plain)
    if len(render(report, "md")) >= 65_536:
        yield "the Markdown is too long"
    if seed % HTML_EVERY == 0:
        render(report, "html")


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def _wrong_sentence(text: str, path: Path) -> Iterator[str]:
    if "\n" in text or not text.endswith("."):
        yield f"no sentence: {text!r}"
    if path.name not in text or str(path.parent) in text:
        yield f"names no file, or its folder: {text!r}"


def _changed(path: Path, data: bytes) -> Iterator[str]:
    if path.read_bytes() != data:
        yield "the input was changed"
    if len(list(path.parent.iterdir())) > 1:
        yield "something was written beside the input"
