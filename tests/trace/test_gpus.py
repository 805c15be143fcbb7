"""Which GPU a row ran on, for each way in which exports say it."""

import sqlite3
from contextlib import closing

import pytest

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read

A, B = "1825e7cc-6d1b-a3ac-d9bf-66534f906620", "2825e7cc-6d1b-a3ac-d9bf-66534f906620"


@pytest.fixture
def gpus(tmp_path):
    """Return id, ordinal and name of the GPUs of an export changed with SQL."""

    def found(trace: TraceBuilder, *statements: str) -> list[tuple[str, int, str | None]]:
        path = trace.write(tmp_path / "trace.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)
        frame = read(path).gpus
        return list(frame[["id", "ordinal", "name"]].itertuples(index=False, name=None))

    return found


def two(name: str = "NVIDIA H200", other: str = "NVIDIA H200") -> TraceBuilder:
    """Return a trace of two processes that both use their device 0, on two GPUs."""
    trace = TraceBuilder().gpu(name, A, pid=1, device=0).gpu(other, B, pid=2, device=0)
    return trace.kernel((0, 1), "a", pid=1).kernel((0, 1), "b", pid=2)


WITHOUT_MAP = "DROP TABLE TARGET_INFO_CUDA_DEVICE"


def test_the_map_of_processes_tells_gpus_apart(gpus):
    assert gpus(two()) == [(A, 0, "NVIDIA H200"), (B, 0, "NVIDIA H200")]


def test_without_a_map_processes_of_one_ordinal_are_kept_apart(gpus):
    assert gpus(two(), WITHOUT_MAP) == [("1:0", 0, "NVIDIA H200"), ("2:0", 0, "NVIDIA H200")]
    unlike = two("NVIDIA H200", "NVIDIA H100")
    assert gpus(unlike, WITHOUT_MAP) == [("1:0", 0, None), ("2:0", 0, None)]


def test_with_one_gpu_all_processes_share_it(gpus):
    trace = TraceBuilder().gpu("Tesla T4", A, pid=1, device=0).gpu("Tesla T4", A, pid=2, device=0)
    trace.kernel((0, 1), "a", pid=1).kernel((0, 1), "b", pid=2)
    assert gpus(trace, WITHOUT_MAP) == [(A, 0, "Tesla T4")]


def test_two_ordinals_are_two_gpus_whatever_is_listed(gpus):
    trace = TraceBuilder().gpu("Tesla T4", A, device=0).kernel((0, 1), "a")
    trace.kernel((0, 1), "b", device=1)
    found = gpus(trace, WITHOUT_MAP, "DELETE FROM TARGET_INFO_GPU WHERE cuDevice = 1")
    assert [(gpu[0], gpu[1]) for gpu in found] == [(A, 0), ("1:1", 1)]


def test_numbers_of_nsys_are_not_cuda_ordinals(gpus):
    trace = TraceBuilder().gpu("first", A, device=0).gpu("second", B, device=1)
    trace.kernel((0, 1), "a", device=0).kernel((0, 1), "b", device=1)
    swap = "UPDATE TARGET_INFO_GPU SET id = 1 - id"
    assert gpus(trace, swap, WITHOUT_MAP) == [(A, 0, "first"), (B, 1, "second")]
    swap_map = "UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = 1 - gpuId, uuid = NULL"
    assert gpus(trace, swap, swap_map) == [(A, 0, "first"), (B, 1, "second")]


def test_foreign_adapters_are_no_gpus(gpus):
    trace = TraceBuilder().gpu("NVIDIA RTX", A, device=0).kernel((0, 1), "a")
    adapter = (
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, uuid, chipName, cuDevice, computeMajor)"
        " VALUES (0, 9, 'Intel UHD', '00000000-0000-0000-0000-000000000000', '', 0, 0)"
    )
    assert gpus(trace, adapter, WITHOUT_MAP) == [(A, 0, "NVIDIA RTX")]


def test_a_uuid_of_zeros_is_unknown(gpus):
    trace = TraceBuilder().gpu("NVIDIA RTX", A, device=0).kernel((0, 1), "a")
    zeros = "SET uuid = '00000000-0000-0000-0000-000000000000'"
    found = gpus(trace, *(f"UPDATE TARGET_INFO_{t} {zeros}" for t in ("GPU", "CUDA_DEVICE")))
    assert found == [("1:0", 0, "NVIDIA RTX")]


def test_the_bus_of_a_2021_export_tells_gpus_apart(gpus):
    columns = "vmId, name, pciBusId, numMemcpyEngines, deviceId, pid"
    old = [
        "DROP TABLE TARGET_INFO_GPU",
        WITHOUT_MAP,
        f"CREATE TABLE TARGET_INFO_CUDA_GPU ({columns})",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100', '0000:01:00.0', 2, 0, 1)",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100', '{}', 2, 0, 2)",
    ]
    apart = [statement.format("0000:02:00.0") for statement in old]
    assert gpus(two(), *apart) == [("1:0", 0, "Tesla V100"), ("2:0", 0, "Tesla V100")]
    shared = [statement.format("0000:01:00.0") for statement in old]
    assert gpus(two(), *shared) == [("1:0", 0, "Tesla V100")]


def test_no_table_of_gpus_leaves_process_and_ordinal(gpus):
    assert gpus(two(), WITHOUT_MAP, "DROP TABLE TARGET_INFO_GPU") == [
        ("1:0", 0, None),
        ("2:0", 0, None),
    ]
