"""Exports that are wrong in thousands of ways end in a report or in a sentence, never otherwise."""

import os
from pathlib import Path
from zlib import crc32

import pytest

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read
from tests.mutation_workers import Case, outcomes
from tests.mutations import FAMILIES, relaxed

TIMES_AS_MANY = int(os.environ.get("NSYSOFFLOAD_MUTATIONS", "1"))
"""For a long run: how many times as many mutations to try, with other seeds."""

MUTATIONS = {"tables": 100, "cells": 200, "schema": 120, "bytes": 200}
MUTATIONS_OF_REAL_TRACES = 20  # of each family


def complete_export(path: Path) -> bytes:
    """Return an export that has rows of every kind, in two processes and on two GPUs."""
    trace = TraceBuilder()
    for pid in (1, 2):
        for step in range(8):
            start = 10 * step + pid
            where = {"pid": pid, "device": pid - 1}
            trace.kernel(
                (start, start + 4), f"gemm_{step % 3}", call=(start - 1, start - 0.9), **where
            )
            trace.kernel((start + 2, start + 5), "ncclDevKernel_AllReduce", stream=9, **where)
            trace.copy("d2h", (start + 3, start + 6), stream=20, call=(start, start + 0.1), **where)
            trace.copy("h2d", (start + 5, start + 8), host="pageable", stream=21, **where)
            trace.copy("d2d", (start + 8, start + 8.5), stream=22, **where)
            trace.memset((start + 8.5, start + 8.6), **where)
            trace.event(step + 1, event_sync=step + 1, stream=20, **where)
            trace.sync(
                (start + 3, start + 3.1), event=step + 1, event_sync=step + 1, stream=7, **where
            )
            trace.nvtx(f"train_step {step}", (start - 1, start + 8), pid=pid)
    trace.migration("h2d", (90, 91), device=1, pid=2).migration("d2h", (91, 92), device=1, pid=2)
    trace.kernel((90, 95), "in_graph", stream=7, graph_node=5)
    trace.graph((100, 120)).copy("h2d", (105, 110), stream=20)
    return trace.write(path).read_bytes()


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    export = complete_export(tmp_path_factory.mktemp("base") / "complete.sqlite")
    return {"complete": export, "relaxed": relaxed(export)}


def cases(bases: list[str], family: str, number: int) -> list[Case]:
    first = crc32(family.encode()) % 1_000_000
    return [
        Case(bases[index % len(bases)], family, first + index)
        for index in range(number * TIMES_AS_MANY)
    ]


def test_the_export_to_be_mutated_has_every_table(bases: dict[str, bytes], tmp_path: Path):
    path = tmp_path / "trace.sqlite"
    for export in bases.values():
        path.write_bytes(export)
        assert read(path).absent == frozenset()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mutated_export_gives_a_sound_report_or_a_sentence(bases: dict[str, bytes], family: str):
    tried = cases(list(bases), family, MUTATIONS[family])
    result = outcomes(bases, tried)
    assert not result.failures, "\n".join(result.failures[:20])
    assert result.counts["report"] > len(tried) // 20


def test_a_mutated_real_export_gives_a_sound_report_or_a_sentence(real_traces: Path):
    exports = {path.stem: path.read_bytes() for path in sorted(real_traces.glob("*.sqlite"))}
    tried = [
        case
        for family in FAMILIES
        for case in cases(list(exports), family, MUTATIONS_OF_REAL_TRACES)
    ]
    result = outcomes(exports, tried)
    assert not result.failures, "\n".join(result.failures[:20])
