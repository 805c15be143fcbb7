from decimal import Decimal
from fractions import Fraction

import pytest

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import TABLES, UNSET


@pytest.mark.parametrize(
    ("unit", "time", "expected"),
    [
        pytest.param("ms", 5.2, 5_200_000, id="float"),
        pytest.param("ms", 9.002, 9_002_000, id="float that binary cannot hold"),
        pytest.param("ms", 0.1 + 0.2, 300_000, id="float with a rounding error"),
        pytest.param("ms", Fraction(1, 8), 125_000, id="fraction"),
        pytest.param("us", "1/3", 333, id="rounded to a nanosecond"),
        pytest.param("s", Decimal("1e-9"), 1, id="decimal"),
        pytest.param("ns", 2**60 + 1, 2**60 + 1, id="integer beyond float"),
        pytest.param("us", -3, -3_000, id="negative"),
    ],
)
def test_times_become_exact_nanoseconds(unit, time, expected):
    trace = TraceBuilder(unit=unit).kernel((time, time), "k").build()
    assert trace.kernels[["start_ns", "end_ns"]].to_numpy().tolist() == [[expected, expected]]


def test_rows_default_to_the_first_process_device_and_compute_stream():
    (kernel,) = TraceBuilder().kernel((0, 10), "gemm").build().kernels.to_dict("records")
    assert kernel == {
        "process": 1 << 24 | 1,
        "ordinal": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 1,
        "start_ns": 0,
        "end_ns": 10_000_000,
        "name": "gemm",
        "shape": UNSET,
        "graph_node": UNSET,
    }


@pytest.mark.parametrize(
    ("direction", "options", "expected"),
    [
        ("h2d", {}, (CopyKind.HOST_TO_DEVICE, MemKind.PINNED, MemKind.DEVICE)),
        ("d2h", {"host": "pageable"}, (CopyKind.DEVICE_TO_HOST, MemKind.DEVICE, MemKind.PAGEABLE)),
        ("a2h", {}, (CopyKind.ARRAY_TO_HOST, MemKind.ARRAY, MemKind.PINNED)),
        ("d2d", {}, (CopyKind.DEVICE_TO_DEVICE, MemKind.DEVICE, MemKind.DEVICE)),
        ("p2p", {}, (CopyKind.PEER_TO_PEER, MemKind.DEVICE, MemKind.DEVICE)),
        (
            "d2d",
            {"source_kind": MemKind.PINNED},
            (CopyKind.DEVICE_TO_DEVICE, MemKind.PINNED, MemKind.DEVICE),
        ),
    ],
)
def test_a_copy_has_the_kinds_of_memory_its_direction_means(direction, options, expected):
    copies = TraceBuilder().copy(direction, (0, 1), **options).build().copies
    kinds = copies[["copy_kind", "source_kind", "target_kind"]]
    assert [tuple(row) for row in kinds.to_numpy().tolist()] == [expected]


def test_a_migration_has_no_context_stream_or_correlation():
    trace = TraceBuilder().migration("d2h", ("0.001", "0.002"), size_bytes=4096).build()
    columns = ["context", "stream", "correlation", "copy_kind", "source_kind", "size_bytes"]
    assert trace.copies[columns].to_numpy().tolist() == [[0, 0, 0, 12, 7, 4096]]


def test_a_call_shares_the_correlation_id_of_its_row():
    trace = (
        TraceBuilder()
        .kernel((0, 10), "gemm", call=(-1, -0.9))
        .copy("d2h", (10, 20), stream=20, call=(9.9, 20.05), call_name="cuMemcpyDtoHAsync")
        .build()
    )
    assert trace.copies["correlation"].tolist() == [2]
    assert trace.calls[["name", "start_ns", "end_ns", "correlation"]].to_numpy().tolist() == [
        ["cudaLaunchKernel", -1_000_000, -900_000, 1],
        ["cuMemcpyDtoHAsync", 9_900_000, 20_050_000, 2],
    ]


def test_correlation_ids_count_up_in_each_process_and_can_be_given():
    trace = (
        TraceBuilder()
        .kernel((0, 1), "a")
        .kernel((0, 1), "b", pid=2)
        .kernel((1, 2), "c", correlation=500)
        .kernel((2, 3), "d")
        .call("cudaHostAlloc", (0, 1), pid=2)
        .build()
    )
    assert trace.kernels["correlation"].tolist() == [1, 1, 500, 2]
    assert trace.calls["correlation"].tolist() == [2]


@pytest.mark.parametrize(
    ("cells", "call"),
    [
        ({"stream": 7, "event": 3}, "cudaStreamWaitEvent"),
        ({"stream": 7}, "cudaStreamSynchronize"),
        ({"event": 3}, "cudaEventSynchronize"),
        ({}, "cudaDeviceSynchronize"),
    ],
)
def test_a_synchronisation_is_issued_by_the_call_that_makes_it(cells, call):
    trace = TraceBuilder().sync((0, 1), call=(0, 1), **cells).build()
    expected = [[cells.get("stream", UNSET), cells.get("event", UNSET)]]
    assert trace.syncs[["stream", "event"]].to_numpy().tolist() == expected
    assert trace.calls["name"].tolist() == [call]


def test_host_rows_are_on_the_main_thread_of_their_process():
    trace = TraceBuilder().nvtx("step", (0, 1), pid=4).call("cudaFree", (0, 1), thread=9).build()
    assert trace.nvtx_ranges[["process", "thread"]].to_numpy().tolist() == [[1 << 24 | 4, 4]]
    assert trace.calls[["process", "thread"]].to_numpy().tolist() == [[1 << 24 | 1, 9]]


def test_a_range_without_an_end_is_open():
    assert TraceBuilder().nvtx("step", (0, None)).build().nvtx_ranges["end_ns"].tolist() == [UNSET]


def test_a_device_number_is_one_gpu_for_all_processes():
    trace = TraceBuilder(gpu="NVIDIA H100").kernel((0, 1), "k", pid=2).kernel((0, 1), "k").build()
    assert trace.gpus[["ordinal", "pid", "name"]].to_numpy().tolist() == [[0, 1, "NVIDIA H100"]]
    assert trace.kernels["device"].tolist() == [0, 0]


def test_a_declared_gpu_is_told_apart_from_the_same_number_elsewhere():
    trace = (
        TraceBuilder()
        .gpu("NVIDIA H100", "aaaa", pid=1)
        .gpu("NVIDIA H200", "bbbb", pid=2)
        .gpu("NVIDIA H200", None, pid=3, copy_engines=1)
        .kernel((0, 1), "k", pid=3)
        .kernel((0, 1), "k", pid=2)
        .kernel((0, 1), "k", pid=1)
        .build()
    )
    assert trace.gpus.to_dict("records") == [
        _gpu("aaaa", pid=1, name="NVIDIA H100", uuid="aaaa", copy_engines=3),
        _gpu("bbbb", pid=2, name="NVIDIA H200", uuid="bbbb", copy_engines=3),
        _gpu("3:0", pid=3, name="NVIDIA H200", uuid=None, copy_engines=1),
    ]
    assert trace.kernels["device"].tolist() == [2, 1, 0]


def _gpu(id_: str, **cells: object) -> dict[str, object]:
    return {"id": id_, "ordinal": 0, **cells}


def test_gpus_are_ordered_by_number_and_only_those_with_activity_are_listed():
    trace = (
        TraceBuilder()
        .kernel((0, 1), "k", device=2)
        .kernel((0, 1), "k", device=1)
        .sync((0, 1), device=3)
        .build()
    )
    assert trace.gpus["ordinal"].tolist() == [1, 2]
    assert trace.kernels["device"].tolist() == [1, 0]
    assert trace.syncs["device"].tolist() == [UNSET]


def test_tables_without_rows_are_empty_typed_and_named_as_absent():
    trace = TraceBuilder().kernel((0, 1), "k").build()
    assert trace.absent == frozenset(TABLES) - {"kernels"}
    assert trace.copies.dtypes.to_dict() == TABLES["copies"].empty().dtypes.to_dict()
    assert len(trace.copies) == 0


def test_rows_keep_their_order_and_copies_know_their_row():
    trace = TraceBuilder().copy("h2d", (5, 6)).kernel((0, 1), "k").copy("d2h", (1, 2)).build()
    order = trace.copies[["start_ns", "row_id"]].to_numpy().tolist()
    assert order == [[5_000_000, 1], [1_000_000, 2]]


def test_a_builder_shows_how_many_rows_it_has():
    trace = TraceBuilder().kernel((0, 1), "k").kernel((1, 2), "k").nvtx("step", (0, 2))
    assert repr(trace) == "TraceBuilder(kernels=2, nvtx_ranges=1)"
