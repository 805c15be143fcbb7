"""Profiles of `jax.profiler` as tables: every kind of row, in the forms that XLA has written."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoffload.errors import TraceError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.metadata import CAPTURE_WARNINGS
from nsysoffload.trace.reader import read
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.shapes import shape_of
from nsysoffload.trace.tables import TABLES, UNSET
from nsysoffload.trace.writer import write
from nsysoffload.trace.xplane.convert import convert, export
from tests.trace.xspace import LAUNCH, Event, call, copy, kernel, write_profile

GPU = "/device:GPU:0"
GEMM = kernel("gemm", (10, 20), 1)
DOT = kernel("gemm", (10, 20), 1, "jvp()/dot_general", "fusion.1")  # by whom XLA says
WHERE = ["ordinal", "context", "stream", "correlation", "start_ns", "end_ns"]


@pytest.fixture
def converted(tmp_path):
    """Write planes as a profile and convert it."""

    def converted(planes, **more):
        return convert(write_profile(tmp_path / "vm.xplane.pb", planes, **more))

    return converted


def on_stream(*events, line="Stream #7(Compute)"):
    return {GPU: {line: events}}


def codes(trace):
    return [warning.code for warning in trace.warnings]


# --- Rows of GPUs ---


def test_a_kernel_has_place_time_name_and_shape(converted):
    (row,) = converted(on_stream(GEMM)).kernels.to_dict("records")
    assert row == {
        "process": 1 << 24,
        "ordinal": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 1,
        "start_ns": 10_000,
        "end_ns": 20_000,
        "name": "gemm",
        "shape": shape_of((160, 1, 1), (1024, 1, 1)),
        "graph_node": UNSET,
    }


@pytest.mark.parametrize(
    ("direction", "kind"),
    [
        ("H2D", CopyKind.HOST_TO_DEVICE),
        ("D2H", CopyKind.DEVICE_TO_HOST),
        ("D2D", CopyKind.DEVICE_TO_DEVICE),
        ("P2P", CopyKind.PEER_TO_PEER),
        ("Other", CopyKind.UNKNOWN),
    ],
)
def test_a_copy_has_its_direction_from_the_events_name(converted, direction, kind):
    line = f"Stream #21(Memcpy{direction})"
    trace = converted(on_stream(copy(direction, (0, 4), 3, size_bytes=4096), line=line))
    columns = [*WHERE, "size_bytes", "copy_kind"]
    assert trace.copies[columns].to_numpy().tolist() == [[0, 1, 21, 3, 0, 4_000, 4096, kind]]


@pytest.mark.parametrize(
    ("kinds", "source", "target"),
    [
        ("pinned device", MemKind.PINNED, MemKind.DEVICE),
        ("device pageable", MemKind.DEVICE, MemKind.PAGEABLE),
        ("device_static managed", MemKind.DEVICE_STATIC, MemKind.MANAGED),
        ("managed_static array", MemKind.MANAGED_STATIC, MemKind.ARRAY),
        ("unknown novel", MemKind.UNKNOWN, UNSET),
        ("", UNSET, UNSET),
    ],
)
def test_a_copy_has_the_memory_kinds_that_the_profile_says(converted, kinds, source, target):
    trace = converted(on_stream(copy("D2D", (0, 4), 3, size_bytes=8, kinds=kinds)))
    assert trace.copies[["source_kind", "target_kind"]].to_numpy().tolist() == [[source, target]]
    assert ("no_memory_kinds" in codes(trace)) == (source == UNSET)


def test_a_memset_a_whole_graph_and_a_migration_are_rows_of_their_tables(converted):
    details = {"Memset_details": "kind:device num_bytes:512 async:1"}
    planes = on_stream(
        Event("Memset 3", (0, 1), {"correlation_id": 4} | details),
        Event("CudaGraphExec:5", (1, 9), {"correlation_id": 5, "cuda_graph_exec_id": 5}),
        line="Stream #7(Memset,CudaGraph)",
    )
    planes[GPU]["Stream #268435457(UnifiedMemory)"] = [Event("UM_BYTES_TRANSFER_HTOD", (2, 3))]
    trace = converted(planes)
    assert trace.memsets[[*WHERE, "size_bytes"]].to_numpy().tolist() == [
        [0, UNSET, 7, 4, 0, 1_000, 512]
    ]
    assert trace.graph_spans[WHERE].to_numpy().tolist() == [[0, UNSET, 7, 5, 1_000, 9_000]]
    columns = ["stream", "copy_kind", "size_bytes"]
    assert trace.copies[columns].to_numpy().tolist() == [
        [UNSET, CopyKind.UNIFIED_HOST_TO_DEVICE, UNSET]
    ]


def test_a_node_of_a_graph_has_its_number(converted):
    stats = {"kernel_details": LAUNCH, "cuda_graph_id": 2, "cuda_graph_node_id": 7}
    assert converted(on_stream(Event("gemm", (0, 1), stats))).kernels["graph_node"].tolist() == [7]


@pytest.mark.parametrize(
    "line",
    [
        "TensorFlow Ops",
        "TensorFlow Name Scope",
        "Steps",
        "XLA Modules",
        "XLA Ops",
        "Async XLA Ops",
        "Framework Ops",
        "Framework Name Scope",
        "Launch Stats",
        "Source code",
        "_counters_",
    ],
)
def test_derived_lines_are_not_counted_again(converted, line):
    trace = converted({GPU: {"Stream #7(Compute)": [GEMM], line: [GEMM, GEMM]}})
    assert len(trace.kernels) == 1
    assert trace.warnings == ()


def test_what_the_gpu_did_not_do_is_no_row_and_what_is_not_known_is_counted(converted):
    idle = ("MemoryAlloc", "Memory pinned", "BUFFER_FLUSH", "UM_CPU_PAGE_FAULT", "<UNKNOWN>")
    trace = converted(on_stream(GEMM, *(Event(name, (0, 1)) for name in idle)))
    assert (len(trace.kernels), codes(trace)) == (1, [])
    trace = converted(on_stream(GEMM, Event("Novelty", (0, 1)), Event("Novelty", (1, 2))))
    assert trace.warnings[0].message == (
        "2 events on streams are of no known kind and were not read."
    )


def test_kernels_on_the_line_of_cuptis_own_work_count_without_a_stream(converted):
    line = "CUPTI overhead"
    trace = converted(on_stream(Event("INSTRUMENTATION", (0, 1)), GEMM, line=line))
    assert trace.kernels["stream"].tolist() == [UNSET]


def test_gpus_without_rows_are_left_out_and_others_keep_ordinal_and_name(converted):
    planes = {f"/device:GPU:{n}": {"Stream #7(Compute)": [GEMM]} for n in (3, 1)}
    stats = {
        "/device:GPU:3": {"gpu_device_name": "NVIDIA H200", "process_id": 77},
        "/device:GPU:1": {"core_count": 132},
    }
    trace = converted({"/device:GPU:0": {}, **planes}, stats=stats)
    columns = ["id", "ordinal", "pid", "name", "uuid", "copy_engines"]
    assert trace.gpus[columns].to_numpy().tolist() == [
        ["77:1", 1, 77, None, None, UNSET],
        ["77:3", 3, 77, "NVIDIA H200", None, UNSET],
    ]
    assert trace.kernels[["ordinal", "device"]].to_numpy().tolist() == [[3, 1], [1, 0]]


def test_times_are_exact_up_to_104_days_and_beyond_that_is_said(converted):
    late = kernel("late", (0.123, 0.125), 1)
    trace = converted(on_stream(late), starts_ns=2**53 - 1_000)
    assert trace.kernels[["start_ns", "end_ns"]].to_numpy().tolist() == [[2**53 - 877, 2**53 - 875]]
    assert codes(trace) == []
    assert codes(converted(on_stream(late), starts_ns=2**60)) == ["times_rounded"]


def test_dropped_events_are_said_without_the_hosts_name(converted):
    said = "Detected GPU events dropped on alice-box: Profiler has collected 2 driver events."
    (warning,) = converted(on_stream(GEMM), warning=said).warnings
    assert warning.code == "events_lost"
    assert "alice" not in warning.message


# --- Calls and ranges ---


def host(*events, thread="py_xla_execute/-14725", **lines):
    return {"/host:CPU": {thread: events, **lines}}


def texts(trace):
    columns = ["text", "thread", "start_ns", "end_ns"]
    return [tuple(row) for row in trace.nvtx_ranges[columns].to_numpy().tolist()]


def test_a_call_has_thread_time_and_name_and_a_range_of_what_it_launched(converted):
    execution = Event("jit_train_step:XLA GPU module", (0, 9))
    launch = call("cuLaunchKernel", (5, 6), 1)
    trace = converted(on_stream(DOT) | host(execution, launch))
    (row,) = trace.calls.to_dict("records")
    assert row == {
        "process": 1 << 24,
        "thread": 1,
        "correlation": 1,
        "start_ns": 5_000,
        "end_ns": 6_000,
        "name": "cuLaunchKernel",
        "return_value": UNSET,
    }
    assert texts(trace) == [
        ("XlaModule:#hlo_module=jit_train_step,program_id=12#", 1, 0, 9_000),
        ("Thunk:#name=jit(train_step)/jvp()/dot_general,hlo_op=fusion.1#", 1, 5_000, 6_000),
    ]
    assert trace.warnings == ()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync"),
        ("cuGraphLaunch (CudaGraph:12)", "cuGraphLaunch"),
        ("hipModuleLaunchKernel", "hipModuleLaunchKernel"),
    ],
)
def test_a_call_is_named_without_its_version_or_graph(converted, written, name):
    trace = converted(on_stream(GEMM) | host(call(written, (5, 6), 1)))
    assert trace.calls["name"].tolist() == [name]


def test_host_ranges_are_kept_and_python_calls_and_moments_are_not(converted):
    python = [
        Event("train_step", (0, 30), {"_r": 1, "step_num": 4}),
        Event("$model.py:12 forward", (1, 2)),
        Event("ThreadpoolListener::Record", (3, 3), {"_pt": 15}),
        Event("curious", (4, 5)),
    ]
    trace = converted(on_stream(GEMM) | host(python=python))
    assert texts(trace) == [("train_step", 2, 0, 30_000), ("curious", 2, 4_000, 5_000)]


def test_lines_of_one_thread_are_one_and_of_equal_names_are_several(converted):
    planes = on_stream(GEMM) | host(Event("a", (0, 1)), thread="py_xla_execute/583")
    planes["/host:CUPTI"] = {"Host Threads/583": [call("cuLaunchKernel", (5, 6), 1)]}
    trace = converted(planes)
    assert trace.calls["thread"].tolist() == trace.nvtx_ranges["thread"].unique().tolist()
    planes = on_stream(GEMM) | {
        "/host:CPU": {"python": [Event("a", (0, 1))]},
        "/host:ROCTRACER": {"python": [Event("b", (0, 1))]},
    }
    assert converted(planes).nvtx_ranges["thread"].tolist() == [1, 2]


def test_a_module_of_several_programs_is_named_without_the_programs_number(converted):
    other = Event("gemm", (30, 40), DOT.stats | {"correlation_id": 2, "program_id": 15})
    execution = Event("jit_train_step:XLA GPU module", (0, 9))
    trace = converted(on_stream(DOT, other) | host(execution))
    assert texts(trace)[0][0] == "XlaModule:#hlo_module=jit_train_step#"


def test_a_graph_of_several_operations_is_attributed_to_none(converted):
    nodes = [kernel("k", (n, n + 1), 9, f"jvp()/op{n}", f"fusion.{n}") for n in range(2)]
    execution = Event("jit_train_step:XLA GPU module", (0, 9))
    trace = converted(on_stream(*nodes) | host(execution, call("cuGraphLaunch", (5, 6), 9)))
    assert [text for text, *_ in texts(trace) if text.startswith("Thunk")] == []
    assert codes(trace) == ["graph_operations"]


def test_operations_without_calls_are_said_to_be_lost(converted):
    assert codes(converted(on_stream(DOT) | host(Event("a", (0, 1))))) == [
        "operations_without_calls"
    ]


def test_calls_on_threads_without_executions_are_said(converted):
    planes = on_stream(DOT) | host(
        call("cuLaunchKernel", (5, 6), 1),
        thread="Host Threads/586",
        other=[Event("jit_train_step:XLA GPU module", (0, 9))],
    )
    assert codes(converted(planes)) == ["no_executions"]


# --- Exports ---


def test_an_export_has_the_rows_the_recorder_and_the_warnings(tmp_path):
    planes = on_stream(
        DOT, copy("H2D", (20, 30), 2, size_bytes=512), line="Stream #7(Compute,MemcpyH2D)"
    ) | host(call("cuLaunchKernel", (5, 6), 1), call("cuMemcpyHtoDAsync_v2", (7, 8), 2))
    stats = {GPU: {"gpu_device_name": "NVIDIA H200", "process_id": 77}}
    profile = write_profile(tmp_path / "vm.xplane.pb", planes, stats)
    trace = convert(profile)
    export(profile, tmp_path / "trace.sqlite")
    again = read(tmp_path / "trace.sqlite")
    for name in ("gpus", *TABLES):
        written, back = getattr(trace, name), getattr(again, name)
        known = [c for c in back if c != "return_value"]  # 0 is NULL's place in an export
        assert back[known].astype(object).equals(written[known].astype(object)), name
    assert (again.source.kind, again.source.recorder) == ("measured", "jax")
    assert again.source.nsys_version is None
    assert codes(trace) == ["no_memory_kinds", "no_executions"]
    assert again.warnings == trace.warnings
    assert again.absent == trace.absent


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("no json", id="no-json"),
        pytest.param("{}", id="no-list"),
        pytest.param("[1]", id="no-pairs"),
        pytest.param('[["code"]]', id="half-a-pair"),
        pytest.param('[["code", 5]]', id="no-text"),
        pytest.param('[["code", "\\u001b[2J"]]', id="control-characters"),
        pytest.param("[" * 5_000, id="deep"),
        pytest.param(f'[["code", "{"x" * 20_000}"]]', id="long"),
    ],
)
def test_what_is_no_list_of_warnings_is_not_read_as_one(tmp_path, text):
    write(
        TraceBuilder().kernel((0, 1), "gemm").build(),
        tmp_path / "t.sqlite",
        {CAPTURE_WARNINGS: text},
    )
    assert codes(read(tmp_path / "t.sqlite")) == []


# --- Files that are no good ---


def test_a_profile_of_the_cpu_says_that_it_holds_no_gpu(tmp_path):
    code = (
        "import sys, jax\n"
        "with jax.profiler.trace(sys.argv[1]):\n"
        "    jax.jit(lambda x: x + 1)(1.0).block_until_ready()\n"
    )
    environment = {"JAX_PLATFORMS": "cpu", "PATH": ""}
    subprocess.run(
        [sys.executable, "-c", code, tmp_path], env=environment, check=True, capture_output=True
    )
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    with pytest.raises(TraceError) as caught:
        convert(profile)
    assert str(caught.value) == (
        f"{profile.name} holds no GPU, only the host; record the profile on a machine with a GPU"
        " that jax uses."
    )


def test_gpus_without_activity_are_said(converted):
    with pytest.raises(TraceError, match="holds no GPU activity .*; record the profile while"):
        converted({GPU: {"XLA Ops": [GEMM]}})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "vm.xplane.pb is empty; record the profile again.", id="empty"),
        pytest.param(
            b"no proto at all",
            "vm.xplane.pb is damaged or no profile of jax.profiler; copy or record it again.",
            id="no-proto",
        ),
    ],
)
def test_what_is_no_profile_is_refused_in_a_sentence(tmp_path, content, sentence):
    profile = tmp_path / "vm.xplane.pb"
    profile.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        convert(profile)
    assert str(caught.value) == sentence


def test_a_truncated_profile_is_refused(tmp_path):
    profile = write_profile(tmp_path / "vm.xplane.pb", on_stream(GEMM))
    profile.write_bytes(profile.read_bytes()[:-20])
    with pytest.raises(TraceError, match="is damaged or no profile"):
        convert(profile)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(TraceError, match="cannot be read .No such file or directory.; check it"):
        convert(tmp_path / "vm.xplane.pb")


def test_without_jax_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.profiler", None)
    with pytest.raises(TraceError) as caught:
        convert(tmp_path / "vm.xplane.pb")
    assert str(caught.value) == (
        "vm.xplane.pb is read with jax, which cannot be imported; install it with"
        " pip install 'nsysoffload[workloads]'."
    )


def test_values_that_fit_no_column_are_unknown(converted):
    stats = {
        "correlation_id": -5,
        "context_id": f"$${10**30}",
        "kernel_details": f"grid:{10**30},0,1 block:1,1,1",
        "cuda_graph_node_id": "seven",
    }
    planes = on_stream(Event("k", (0, 1), stats), line=f"Stream #{10**17}(Compute)")
    columns = ["context", "stream", "correlation", "shape", "graph_node"]
    assert converted(planes).kernels[columns].to_numpy().tolist() == [[UNSET] * 5]
    late = converted(on_stream(GEMM), starts_ns=2**63 - 100_000)
    assert late.kernels[["start_ns", "end_ns"]].to_numpy().tolist() == [[2**62, 2**62 + 10_000]]


@settings(max_examples=30)
@given(st.data())
def test_damaged_bytes_give_a_trace_or_a_sentence(tmp_path_factory, data):
    profile = tmp_path_factory.mktemp("profile") / "vm.xplane.pb"
    planes = on_stream(DOT, copy("D2H", (20, 30), 2, size_bytes=8)) | host(
        Event("jit_train_step:XLA GPU module", (0, 9)), call("cuLaunchKernel", (5, 6), 1)
    )
    content = bytearray(write_profile(profile, planes).read_bytes())
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=3)
    ):
        content[place] = value
    profile.write_bytes(content)
    try:
        export(profile, profile.with_name("trace.sqlite"))
    except TraceError as error:
        assert profile.name in str(error)
