"""Which waits are proven: by events, in the order of the API, and by the order of a stream."""

import pytest

from nsysoffload.overlap.waits import proven_waits
from nsysoffload.timeline.timeline import build
from nsysoffload.trace.builder import TraceBuilder

UNSET_ID = 0xFFFFFFFF


def waits_of(trace: TraceBuilder):
    timeline = build(trace.build())
    (device,) = timeline.devices
    return proven_waits(timeline, device.kernels, device.transfers, device.rest)


def held(trace: TraceBuilder) -> list[tuple[int, int]]:
    waits = waits_of(trace)
    return list(zip(waits.transfer.tolist(), waits.kernel.tolist(), strict=True))


def linked(*, recorded_at=20, waited_at=30, record=50, wait=50, ids=(5, 5), on=7, of=20):
    """A copy, the record of an event, a wait for it and a kernel::

    copy stream 20    [copy, call 10)(record, call 20)
    stream 7                           (wait, call 30)[kernel, call 40)
    """
    trace = TraceBuilder(unit="ns")
    trace.copy("h2d", (100, 200), stream=20, call=(10, 11))
    trace.kernel((300, 400), "gemm", stream=7, call=(40, 41))
    trace.event(ids[0], event_sync=record, stream=of, call=(recorded_at, recorded_at + 1))
    return trace.sync(
        (waited_at, waited_at + 1),
        event=ids[1],
        event_sync=wait,
        stream=on,
        call=(waited_at, waited_at + 1),
    )


@pytest.mark.parametrize(
    ("fields", "proven"),
    [
        pytest.param({}, True, id="recorded-and-waited-for"),
        pytest.param({"wait": 51}, False, id="another-record"),
        pytest.param({"recorded_at": 5}, False, id="recorded-before-the-copy"),
        pytest.param({"waited_at": 45}, False, id="waited-after-the-kernel"),
        pytest.param({"on": 8}, False, id="another-stream-waits"),
        pytest.param({"of": 21}, False, id="recorded-on-another-stream"),
        pytest.param({"on": UNSET_ID}, False, id="the-host-waits"),
        pytest.param({"record": -1, "wait": -1}, True, id="by-event-id-without-links"),
        pytest.param({"record": -1, "wait": -1, "ids": (5, 6)}, False, id="another-event"),
    ],
)
def test_a_wait_is_proven_by_a_record_behind_the_copy_and_a_wait_before_the_kernel(fields, proven):
    assert held(linked(**fields)) == ([(0, 0)] if proven else [])


def test_without_links_the_last_record_before_the_wait_counts():
    #  event 5 is recorded behind copy 0, waited for, and recorded again behind copy 1
    trace = linked(record=-1, wait=-1)
    trace.copy("h2d", (500, 600), stream=20, call=(50, 51))
    trace.event(5, stream=20, call=(60, 61))
    assert held(trace) == [(0, 0)]


def test_a_copy_that_waits_for_a_kernel_is_told_too():
    #  stream 7    [kernel, call 10)(record, call 20)
    #  stream 20                      (wait, call 30)[copy, call 40)
    trace = TraceBuilder(unit="ns")
    trace.kernel((100, 200), "gemm", stream=7, call=(10, 11))
    trace.event(5, event_sync=50, stream=7, call=(20, 21))
    trace.sync((30, 31), event=5, event_sync=50, stream=20, call=(30, 31))
    trace.copy("d2h", (300, 400), stream=20, call=(40, 41))
    waits = waits_of(trace)
    assert (waits.waiting.tolist(), waits.awaited.tolist()) == ([0], [0])
    assert waits.transfer.tolist() == []


@pytest.mark.parametrize(
    ("launched", "stream", "follows"),
    [(150, 20, True), (200, 20, False), (150, 7, False)],
)
def test_a_kernel_behind_a_copy_on_its_stream_waits_if_it_was_launched_before_the_copy_ended(
    launched, stream, follows
):
    #  stream 20   [copy 100  200)[kernel 300)
    trace = TraceBuilder(unit="ns").copy("h2d", (100, 200), stream=20, call=(10, 11))
    trace.kernel((300, 400), "gemm", stream=stream, call=(launched, launched + 1))
    waits = waits_of(trace)
    assert (waits.leader.tolist(), waits.follower.tolist()) == (([0], [0]) if follows else ([], []))
