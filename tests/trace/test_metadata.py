"""What an export says of the profiler's own doing."""

import sqlite3

import pytest

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read

EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param("UPDATE {} SET timestamp = 1234 WHERE eventId = 8", ["event_trace"], id="on"),
        pytest.param("UPDATE {} SET timestamp = 0", [], id="off"),
        pytest.param("UPDATE {} SET timestamp = NULL", [], id="null"),
        pytest.param("ALTER TABLE {} DROP COLUMN timestamp", [], id="before-2025.5"),
        pytest.param("DROP TABLE {}", [], id="no-events"),
    ],
)
def test_tracing_of_cuda_events_is_warned_of_where_they_have_times(tmp_path, change, codes):
    trace = TraceBuilder().kernel((10, 20), "gemm", call=(8, 9), stream=7).nvtx("step", (0, 30))
    for event in (7, 8):
        trace.event(event, call=(21, 22), stream=7)
    path = trace.write(tmp_path / "trace.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(change.format(EVENTS))
    database.close()
    assert [warning.code for warning in read(path).warnings] == codes
