"""The check of a machine's GPU, with traces and programs that stand for the GPU's."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import nsysoffload
from benchmarks.gpu_check import __main__ as command
from benchmarks.gpu_check import check as checking
from benchmarks.gpu_check import commands, device
from benchmarks.gpu_check.check import Machine, check, target_named
from benchmarks.gpu_check.commands import Commands
from benchmarks.gpu_check.op_classes import CLASSES, class_of_kernel, compared
from benchmarks.gpu_check.privacy import nameless, without_paths
from benchmarks.gpu_check.seen import seen
from benchmarks.gpu_check.sizes import SIZES, Size, fitting
from benchmarks.gpu_check.small import LARGE_BYTES, last_steps, write_small
from benchmarks.gpu_check.stages import Skipped, Stages
from benchmarks.gpu_check.steps import measured
from benchmarks.gpu_check.summary import lines
from nsysoffload.errors import RecordingError, UsageError
from nsysoffload.recorders.machine.software import Software
from nsysoffload.recorders.predict import demo
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.predict import Options, predict
from nsysoffload.recorders.predict.versions import VersionError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.schema import MemKind
from nsysoffload.trace.tables import TraceWarning
from tests.fake_nsys.place import TRAINER
from tests.fake_nsys.program import install

ROOT = Path(__file__).parents[1]
MIB = 1 << 20
MS = 1_000_000
GB = 10**9
SIZE = Size("tiny", 4, 4, 128, 1, 1)
SOFTWARE = Software("3.13.0", "0.12.0", "0.12.0", "jax-cuda13-plugin", "0.12.0", "0.12.0")
H200 = Machine("NVIDIA H200", "580.1", 100 * GB, 100 * GB, SOFTWARE, ("nsys", "jax"))


# --- Traces ---


def thunk(op, name="jit(f)/jvp()/dot_general"):
    return f"Thunk:#name={name},hlo_op={op}#"


def steps(count=3, gemm_ms=30, stream=20, ops=True):
    """Return a trace of steps of 100 ms; times of the first::

    host   [0 train_step                 95)
    gemm        |10   40|       of 30 ms
    fusion                |40  50|
    D2H           |20     40|             of 64 MiB, on its own stream
    H2D                      |45   65|    of 64 MiB
    """
    trace = TraceBuilder("NVIDIA H200")
    for step in range(count):
        at = 100 * step
        trace.nvtx("train_step", (at, at + 95))
        rows = {
            "gemm_fusion_dot.1": ("gemm_fusion_dot_1", (at + 10, at + 10 + gemm_ms)),
            "loop_add_fusion.2": ("loop_add_fusion_2", (at + 40, at + 50)),
        }
        for number, (op, (name, span)) in enumerate(rows.items()):
            call = (at + 1 + number, at + 1.5 + number)
            trace.kernel(span, name, call=call, call_name="cuLaunchKernelEx")
            trace.nvtx(thunk(op), (at + 0.9 + number, at + 1.6 + number), domain=1)
        copies = {
            "dynamic-update-slice-start.3": ("d2h", (at + 20, at + 40)),
            "dynamic-slice-start.4": ("h2d", (at + 45, at + 65)),
        }
        for number, (op, (way, span)) in enumerate(copies.items()):
            call = (at + 3 + number, at + 3.5 + number)
            where = {"stream": stream + number, "call": call, "call_name": "cuMemcpyDtoDAsync"}
            trace.copy(way, span, size_bytes=64 * MIB, **where)
            trace.nvtx(thunk(op), (at + 2.9 + number, at + 3.6 + number), domain=1)
    return trace


def manifest(losses=(2.5, 2.25, 2.0), nsys="2025.5.1"):
    return {
        "memory": {"device_need_bytes": 12 * MIB, "host_need_bytes": 64 * MIB},
        "device_peak_bytes": 16 * MIB,
        "offload": {"declared_bytes": {"mlp_up": 64 * MIB}, "in_effect": True},
        "steps": [
            {"index": index, "loss": loss, "grad_norm": 1.5, "ms": 100.0, "warm": True}
            for index, loss in enumerate(losses)
        ],
        "recording": {
            "nsys_version": nsys,
            "bare_step_ms": 50.0,
            "profiled_step_ms": 55.0,
            "overhead": 0.1,
            "notes": ["It wrote /home/me/core.1 beside the trace."],
        },
    }


def write_run(folder, trace, said):
    folder.mkdir(parents=True)
    trace.write(folder / "trace.sqlite")
    (folder / "manifest.json").write_text(json.dumps(said))
    return folder


@dataclass
class Tools:
    """What is measured and predicted, made up."""

    folder: Path
    failing: tuple = ()
    losses: dict = field(default_factory=dict)
    tried: list = field(default_factory=list)

    def device(self, what, seconds):
        assert what == "link"
        if "link" in self.failing:
            raise RecordingError("It was ended after 60 s, for it took too long.")
        return [{"bytes": 1 << 30, "h2d_gbps": 55.25, "d2h_gbps": 52.5}]

    def record(self, size, recorder, variant, seconds):
        self.tried.append((recorder, variant))
        if recorder in self.failing or variant in self.failing:
            raise RecordingError(f"{variant}: /tmp/x/y.log says that nothing was recorded.")
        said = manifest(self.losses.get(variant, (2.5, 2.25, 2.0)))
        gemm_ms = {"offload": 30, "remat": 60}[variant]
        return write_run(self.folder / recorder / variant, steps(gemm_ms=gemm_ms), said)

    def predict(self, size, target, seconds):
        trace = steps(gemm_ms=20)
        return {
            variant: write_run(self.folder / target / variant, trace, {})
            for variant in ("offload", "remat")
        }


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Return the check with made-up tools."""
    monkeypatch.setattr(checking, "check_versions", lambda: None)

    def run(machine=H200, **how):
        tools = Tools(tmp_path / "runs", **how)
        found = check(tools, machine, Stages(600), tmp_path)
        assert json.loads(json.dumps(found)) == found
        return found, tools

    return run


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Return what the check finds where all goes well, its tools, and its folder."""
    folder = tmp_path_factory.mktemp("usual")
    tools = Tools(folder / "runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "check_versions", lambda: None)
        return check(tools, H200, Stages(600), folder), tools, folder


def unfinished(found):
    return {
        stage["stage"]: stage["failure"] or stage["skipped"]
        for stage in found["stages"]
        if stage["failure"] or stage["skipped"]
    }


# --- The whole ---


def test_the_document_says_what_was_measured(usual):
    found, tools, folder = usual
    assert json.loads(json.dumps(found)) == found
    assert tools.tried == [("nsys", "offload"), ("nsys", "remat")]
    assert unfinished(found) == {}
    assert found["schema"] == "nsysoffload-gpu-check/1"
    assert found["gpu"] == {"name": "NVIDIA H200", "driver": "580.1", "memory_bytes": 100 * GB}
    assert found["versions"]["nsys"] == "2025.5.1"
    assert found["versions"]["jax"] == "0.12.0"
    assert found["workload"] == {"model": "llama3.2-1b", "layers": 16, "batch": 4, "seq": 4096}
    offload = found["runs"]["offload"]
    # From the first kernel's start to the last copy's end; compute 10..50 with no gap.
    assert (offload["duration_ns"], offload["compute_busy_ns"]) == (55 * MS, 40 * MS)
    assert offload["d2h"]["overlap"] == 1.0
    assert (offload["h2d"]["busy_ns"], offload["h2d"]["hidden_ns"]) == (20 * MS, 5 * MS)
    assert offload["h2d"]["stall_ns"] == 15 * MS  # from 50, where compute ends
    assert offload["d2h"]["bytes"] == 64 * MIB
    assert offload["d2h"]["gbps"] == pytest.approx(64 * MIB / (20 * MS))
    assert offload["h2d"]["lone_gbps"] is None  # the fusion ran beside it
    assert offload["overhead"] == 0.1
    assert offload["memory"] == {
        "device_need_bytes": 12 * MIB,
        "host_need_bytes": 64 * MIB,
        "device_peak_bytes": 16 * MIB,
    }
    assert offload["notes"] == ["It wrote PATH beside the trace."]
    assert found["runs"]["remat"]["duration_ns"] == 60 * MS
    assert found["offload_over_remat"] == round(55 / 60, 4)
    assert found["numerics"]["agree"] is True
    assert found["link"]["device_put"][0]["d2h_gbps"] == 52.5
    assert found["link"]["expected"]["name"] == "PCIe 5 x16"
    for variant in ("offload", "remat"):
        file = found["traces"][variant]
        assert (file["file"], file["steps"]) == (f"{variant}.sqlite", 3)
        assert file["bytes"] == (folder / file["file"]).stat().st_size


def test_the_document_holds_the_prediction_against_the_measurement(usual):
    against = usual[0]["prediction"]
    assert against["target"] == "h200"
    offload = against["runs"]["offload"]
    assert offload["step"]["measured_ns"] == offload["step"]["predicted_ns"] == 55 * MS
    assert offload["overlap"]["d2h"] == {"measured": 1.0, "predicted": 0.5}  # 20..30 of 20..40
    assert offload["classes"]["gemm"] == {
        "measured_ns": 30 * MS,
        "predicted_ns": 20 * MS,
        "measured_over_predicted": 1.5,
        "measured_rows": 1,
        "predicted_rows": 1,
    }
    assert against["runs"]["remat"]["classes"]["gemm"]["measured_over_predicted"] == 3.0
    assert {*offload["classes"]} == {"gemm", "fusion", "h2d", "d2h"}


def test_the_summary_names_what_matters_and_what_failed(checked):
    text = "\n".join(lines(checked(failing=("link",))[0]))
    assert "NVIDIA H200, driver 580.1, jax 0.12.0" in text
    assert "recorded by nsys 2025.5.1" in text
    assert "D2H 67.1 MB 100% hidden, H2D 67.1 MB 25% hidden" in text
    assert "offload takes 0.917 times as long as remat" in text
    assert "link: It was ended after 60 s, for it took too long." in text
    (gemm, _) = [line.split() for line in text.splitlines() if line.startswith("  gemm")]
    assert gemm == ["gemm", "30.0", "ms", "20.0", "ms", "1.50"]


def test_the_next_recorder_is_tried_where_the_first_records_nothing(checked):
    found, tools = checked(failing=("nsys",))
    assert tools.tried == [("nsys", "offload"), ("jax", "offload"), ("jax", "remat")]
    assert found["recorder"] == "jax"
    assert {*found["runs"]} == {"offload", "remat"}
    failure = "offload: PATH says that nothing was recorded."
    assert unfinished(found) == {"record offload by nsys": failure}


def test_a_run_that_fails_leaves_the_other(checked):
    found, tools = checked(failing=("remat",))
    assert tools.tried == [("nsys", "offload"), ("nsys", "remat")]
    assert {*found["runs"]} == {*found["traces"]} == {*found["prediction"]["runs"]} == {"offload"}
    assert found["offload_over_remat"] is None
    assert found["numerics"]["agree"] is None


def test_without_any_run_there_is_a_document_all_the_same(checked):
    found, tools = checked(failing=("nsys", "jax"))
    assert tools.tried[-1] == ("jax", "remat")
    assert (found["runs"], found["traces"], found["prediction"]["runs"]) == ({}, {}, None)
    assert unfinished(found)["predict"] == "There is no run to hold a prediction against."
    assert "recorded by nothing" in "\n".join(lines(found))


def test_numerics_that_differ_are_named(checked):
    found, _ = checked(losses={"offload": (2.5, 2.0, 2.0)})
    assert found["numerics"]["agree"] is False
    assert "step 2" in found["numerics"]["text"]


def test_a_gpu_that_is_not_modelled_is_not_predicted(checked):
    machine = Machine("Tesla T4", None, 100 * GB, 100 * GB, SOFTWARE, ("jax",))
    found, _ = checked(machine)
    assert unfinished(found) == {"predict": "Predictions know no such GPU."}
    assert found["link"]["expected"]["name"] == "PCIe 3 x16"


def test_another_release_of_jax_is_not_predicted(checked, monkeypatch):
    def refuse():
        raise VersionError("jax 0.11.2 is out of range.")

    monkeypatch.setattr(checking, "check_versions", refuse)
    found, _ = checked()
    assert unfinished(found) == {"predict": "jax 0.11.2 is out of range."}


@pytest.mark.parametrize(
    ("gpu", "target"),
    [
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", None),
        ("NVIDIA H100 NVL", None),
        ("cpu", None),
    ],
)
def test_a_target_stands_for_gpus_of_its_form(gpu, target):
    assert target_named(gpu) == target


# --- What a trace shows ---


def test_copies_are_counted_by_kind_memory_and_function():
    trace = steps(2)
    trace.copy("d2d", (170, 171), size_bytes=5, call=(168, 169), call_name="cuMemcpyDtoDAsync")
    trace.copy("d2d", (172, 173), size_bytes=7, target_kind=MemKind.PINNED)
    pinned = {"copy_kind": "device_to_device", "source_kind": "device", "target_kind": "pinned"}
    to_host = {**pinned, "copy_kind": "device_to_host"}
    within = {**pinned, "target_kind": "device"}
    to_device = {"copy_kind": "host_to_device", "source_kind": "pinned", "target_kind": "device"}
    by = {"api": "cuMemcpyDtoDAsync"}
    out, back = (["dynamic-update-slice-start.3"], ["dynamic-slice-start.4"])
    assert seen(measured(trace.build()))["copies"] == [
        {**within, **by, "copies": 1, "bytes": 5, "hlo_ops": []},
        {**pinned, "api": "", "copies": 1, "bytes": 7, "hlo_ops": []},
        {**to_host, **by, "copies": 2, "bytes": 128 * MIB, "hlo_ops": out},
        {**to_device, **by, "copies": 2, "bytes": 128 * MIB, "hlo_ops": back},
    ]


def test_streams_are_listed_by_what_they_carry():
    assert seen(measured(steps(2).build()))["streams"] == {
        "compute": {"7": 4},
        "collective": {},
        "h2d": {"21": 2},
        "d2h": {"20": 2},
        "shared": [],
    }
    assert seen(measured(steps(2, stream=7).build()))["streams"]["shared"] == [["compute", "d2h"]]


def test_command_buffers_show_by_graph_nodes():
    trace = steps(2)
    assert seen(measured(trace.build()))["command_buffers"]["seen"] is False
    launch = {"call": (80, 81), "call_name": "cuGraphLaunch"}
    trace.kernel((82, 83), "loop_add_fusion_9", graph_node=4, **launch)
    assert seen(measured(trace.build()))["command_buffers"] == {
        "seen": True,
        "graph_kernels": 1,
        "graph_copies": 0,
        "graphs_traced_whole": 0,
        "graph_launches": 1,
    }


def test_nvtx_texts_are_shown_by_form_and_domain():
    trace = steps(2).nvtx("open /home/me/tokens.bin", (96, 97))
    assert seen(measured(trace.build()))["nvtx"] == [
        {
            "form": "Thunk",
            "domain": 1,
            "ranges": 8,
            "examples": [
                thunk(op)
                for op in ("gemm_fusion_dot.1", "loop_add_fusion.2", "dynamic-update-slice-start.3")
            ],
        },
        {"form": "other", "domain": 0, "ranges": 3, "examples": ["train_step", "open PATH"]},
    ]


# --- Classes of operations ---


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (("compute", "gemm_fusion_dot_3_0", "gemm_fusion_dot.3"), "gemm"),
        (("compute", "void cublasLt::splitKreduce_kernel<32>", "custom-call.7"), "gemm"),
        (("compute", "sm90_xmma_gemm_bf16bf16_bf16f32", ""), "gemm"),
        (("compute", "predicted_gemm_custom_call_225", "custom-call.225"), "gemm"),
        (("compute", "void cudnn::compute_dot_do_o", "dot_product_attention_bwd.0"), "attention"),
        (("compute", "loop_add_fusion_3", "loop_add_fusion.3"), "fusion"),
        (("collective", "ncclDevKernel_AllGather_RING_LL", "all-gather-start"), "collective"),
        (("other", "CUDA memcpy DtoD", ""), "copy"),
    ],
)
def test_kernels_have_a_class(kernel, expected):
    assert class_of_kernel(*kernel) == expected


def test_operations_are_joined_by_their_names():
    predicted = steps(gemm_ms=20)
    predicted.kernel((180, 184), "wrapped_slice", call=(178, 179))
    found = compared(measured(steps().build()), measured(predicted.build()))["same_operations"]
    longest = [(op["hlo_op"], op["class"], op["measured_ns"]) for op in found["longest"]]
    assert longest == [
        ("gemm_fusion_dot.1", "gemm", 30 * MS),
        ("dynamic-update-slice-start.3", "d2h", 20 * MS),
        ("dynamic-slice-start.4", "h2d", 20 * MS),
        ("loop_add_fusion.2", "fusion", 10 * MS),
    ]
    assert found["classes"]["gemm"]["measured_over_predicted"] == 1.5
    assert found["classes"]["fusion"]["predicted_ns"] == 10 * MS


def test_an_operation_that_most_steps_lack_takes_no_time_in_the_median():
    trace = steps(3).kernel((180, 184), "loop_rare_fusion", call=(178, 179))
    found = compared(measured(trace.build()), measured(steps(3).build()))["classes"]["fusion"]
    assert (found["measured_ns"], found["measured_rows"]) == (10 * MS, 1)


def test_a_predicted_step_agrees_with_itself():
    run = measured(predict(load(demo.bundled("offload")), Options("demo")).trace())
    found = compared(run, run)
    assert tuple(found["classes"]) == CLASSES
    for part in (found["classes"], found["same_operations"]["classes"]):
        assert {pair["measured_over_predicted"] for pair in part.values()} == {1.0}
    layers = 16  # none of its attention is run again, for the results are offloaded
    assert found["classes"]["attention"]["measured_rows"] == 2 * layers
    named = run.device.kernels["name"].astype(str).str.startswith("predicted_gemm").sum()
    assert found["classes"]["gemm"]["measured_rows"] == named / len(run.steps)


# --- Small traces ---


def test_the_last_steps_of_a_trace_are_whole():
    kept = last_steps(measured(steps(4).build()), 2)
    assert kept.kernels["start_ns"].tolist() == [210 * MS, 240 * MS, 310 * MS, 340 * MS]
    assert kept.copies["start_ns"].tolist() == [220 * MS, 245 * MS, 320 * MS, 345 * MS]
    texts = Counter(kept.nvtx_ranges["text"].astype(str).str.partition(":")[0])
    assert texts == {"train_step": 2, "Thunk": 8}
    assert len(kept.calls) == 8
    assert [len(measured(kept).steps), measured(kept).steps.found_by] == [2, "train_step"]


def test_a_large_trace_is_cut_and_a_small_one_is_not(tmp_path):
    run = measured(steps(3).build())
    whole = write_small(run, tmp_path / "whole.sqlite")
    cut = write_small(run, tmp_path / "cut.sqlite", large_bytes=whole["bytes"] - 1)
    assert (whole["steps"], cut["steps"]) == (3, 2)
    report = nsysoffload.analyze(tmp_path / "cut.sqlite")
    assert [step.duration_ns for step in report.devices[0].steps] == [55 * MS] * 2


def test_what_the_recorder_warned_of_stays_with_a_trace(tmp_path):
    warned = TraceWarning("no_memory_kinds", "The profile does not say which memory is pinned.")
    trace = replace(steps(3).build(), warnings=(warned,))
    for limit in (LARGE_BYTES, 1):
        write_small(measured(trace), tmp_path / "trace.sqlite", limit)
        assert nsysoffload.load(tmp_path / "trace.sqlite").warnings == (warned,)


# --- Privacy ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/run.py is gone", "PATH is gone"),
        ("file:///home/me/a", "file://PATH"),
        ("'~/.cache/jax/x' and C:\\Users\\me\\x", "'PATH' and PATH"),
        ("jit(f)/transpose(jvp())/while/body/bsd,df->bsf/dot", None),
        ("Thunk:#name=jit(f)/x[a=(0,)]/y,hlo_op=copy.1#", None),
        ("64 MB/s or and/or", None),
    ],
)
def test_paths_are_taken_out_of_texts_and_names_of_operations_are_not(text, expected):
    assert without_paths(text) == (expected or text)


def test_a_written_trace_names_neither_paths_nor_the_gpu(tmp_path):
    trace = (
        steps(1).nvtx("open /home/me/tokens.bin", (96, 97)).nvtx("open /home/me/x.bin", (97, 98))
    )
    (uuid,) = trace.build().gpus["uuid"]
    path = tmp_path / "trace.sqlite"
    write_small(measured(trace.build()), path)
    with closing(sqlite3.connect(path)) as db:
        strings = {value for (value,) in db.execute("SELECT value FROM StringIds")}
        assert "open PATH" in strings
        dump = "\n".join(db.iterdump())
    assert "/home" not in dump
    assert uuid not in dump
    assert nameless(trace.build()).gpus["name"].tolist() == ["NVIDIA H200"]


# --- Parts ---


@pytest.mark.parametrize(
    ("device_bytes", "host_bytes", "layers"),
    [(105 * GB, 64 * GB, 16), (105 * GB, 4 * GB, 8), (18 * GB, 64 * GB, 8), (11 * GB, None, 4)],
)
def test_the_workload_fits_either_memory(device_bytes, host_bytes, layers):
    assert fitting(device_bytes, host_bytes).layers == layers


def test_a_small_gpu_gets_the_tiny_model_and_a_full_one_a_sentence():
    assert fitting(4 * GB, None) == SIZES[-1]
    with pytest.raises(UsageError, match="no memory left"):
        fitting(1 << 20, None)


def test_a_stage_that_fails_stops_no_other(capsys):
    def fail():
        return 1 // 0

    def refuse():
        raise UsageError("Take /home/me/x away.")

    stages = Stages(100)
    assert stages.run("first", fail) is None
    assert stages.run("second", refuse) is None
    assert stages.run("third", lambda: 3) == 3
    assert [stage["failure"] for stage in stages.done] == [
        "Something unforeseen happened (ZeroDivisionError: integer division or modulo by zero).",
        "Take PATH away.",
        None,
    ]
    assert "third: done" in capsys.readouterr().err


def test_a_stage_gets_no_more_than_what_is_left_of_the_time():
    now = [0.0]
    stages = Stages(100, clock=lambda: now[0])
    assert stages.within("a", 60, lambda seconds: seconds) == 60
    assert stages.within("b", 60, lambda seconds: seconds, keep_s=70) == 30
    now[0] = 96
    assert stages.within("c", 60, lambda seconds: seconds) is None
    assert stages.done[-1]["skipped"] == "No time is left for it."


def test_a_skipped_stage_has_not_failed():
    def skip():
        raise Skipped("There is nothing to do.")

    stages = Stages(100)
    stages.run("a", skip)
    assert (stages.done[0]["failure"], stages.done[0]["skipped"]) == (
        None,
        "There is nothing to do.",
    )


def test_copies_are_timed_by_jax_alone():
    (rate,) = device.link((1 << 20, 1 << 30), 1 << 23)  # the larger does not fit
    assert rate["bytes"] == 1 << 20
    assert min(rate["h2d_gbps"], rate["d2h_gbps"]) > 0
    assert device.facts()["platform"] == "cpu"


# --- Commands ---


def python(code):
    return sys.executable, "-c", code


def test_the_cause_of_a_command_that_fails_is_what_it_says(tmp_path, monkeypatch, capsys):
    code = "import sys; print('log'); print('Error: offload: no report.'); sys.exit(3)"
    monkeypatch.setattr(commands, "NSYSOFFLOAD", python(code))
    with pytest.raises(RecordingError, match=r"^offload: no report\.$"):
        Commands(tmp_path, os.environ).record(SIZE, "nsys", "offload", 60)
    assert capsys.readouterr().err == "  | log\n  | Error: offload: no report.\n"


def test_a_command_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "NSYSOFFLOAD", python("import time; time.sleep(60)"))
    with pytest.raises(RecordingError, match="ended after 1 s, for it took too long"):
        Commands(tmp_path, os.environ).record(SIZE, "nsys", "offload", 1)


def test_a_prediction_is_asked_for_the_same_workload(tmp_path, monkeypatch):
    code = "import sys; from pathlib import Path; Path('said').write_text(' '.join(sys.argv[1:]))"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "NSYSOFFLOAD", python(code))
    folders = Commands(Path("work"), os.environ)
    folders.folder.mkdir()
    made = folders.predict(SIZE, "h200", 100)
    assert made == {name: Path("work", "predict", name) for name in ("offload", "remat")}
    assert Path("said").read_text() == (
        "capture --model=tiny --layers=4 --batch=4 --seq=128 --recorder=predict --target=h200 "
        "--output=work/predict --timeout=80 --variant=offload --variant=remat"
    )


def test_the_device_answers_in_its_last_line_of_json(tmp_path, monkeypatch):
    code = "print('warning: [slow]'); print('{\"name\": \"x\"}'); print('bye')"
    monkeypatch.setattr(commands, "DEVICE", python(code))
    assert Commands(tmp_path, os.environ).device("facts", 60) == {"name": "x"}


def test_the_whole_way_goes_through_with_a_profiler_and_a_trainer(tmp_path, monkeypatch):
    class Here(Commands):
        def device(self, what, seconds):
            return []

    code = (
        "from nsysoffload.recorders.measured import request; "
        f"request.TRAINER = {TRAINER!r}; "
        "from nsysoffload.cli import main; main()"
    )
    monkeypatch.setattr(commands, "NSYSOFFLOAD", python(code))
    nsys = install(tmp_path / "nsight", "2025.5")
    path = os.pathsep.join([str(nsys.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    work, folder = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    folder.mkdir()
    machine = Machine("NVIDIA GH200 120GB", None, GB, None, SOFTWARE, ("nsys",))
    monkeypatch.setattr(checking, "target_named", lambda gpu: None)
    found = check(Here(work, environment), machine, Stages(300), folder)
    assert unfinished(found) == {"predict": "Predictions know no such GPU."}
    assert found["versions"]["nsys"] == "2025.5.1.121"
    assert found["workload"]["model"] == "tiny"
    assert found["numerics"]["agree"] is True
    offload, remat = (found["runs"][variant] for variant in ("offload", "remat"))
    assert (offload["d2h"]["bytes"], remat["d2h"]["bytes"]) == (MIB, 0)
    assert offload["overhead"] == pytest.approx(0.3)
    assert offload["memory"]["device_need_bytes"] == 12 * MIB
    assert offload["seen"]["streams"]["d2h"] == {"20": 3}
    assert str(tmp_path) not in json.dumps(found)
    for variant in ("offload", "remat"):
        report = nsysoffload.analyze(folder / f"{variant}.sqlite")
        assert report.devices[0].per_step.duration_ns == found["runs"][variant]["duration_ns"]


# --- The command itself ---


def test_without_a_gpu_the_check_ends_with_a_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check", "-o", str(tmp_path / "out")],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "Error: No NVIDIA GPU is seen here; run this on a machine that has one.\n"
    assert not (tmp_path / "out").exists()


def test_packages_that_are_missing_are_named(monkeypatch, capsys):
    monkeypatch.setattr(command, "PACKAGES", ("json", "no_such_package"))
    monkeypatch.setattr(sys, "argv", ["gpu_check"])
    assert command.main() == 2
    assert "lacks no_such_package; run: pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runs", "agree", "status"), [(2, True, 0), (2, None, 0), (2, False, 1), (1, None, 3)]
)
def test_the_exit_code_says_whether_both_runs_agree(
    monkeypatch, capsys, usual, runs, agree, status
):
    found = usual[0] | {
        "runs": dict(list(usual[0]["runs"].items())[:runs]),
        "numerics": {"agree": agree, "text": ""},
    }
    monkeypatch.setattr(command, "_checked", lambda output, seconds: found)
    monkeypatch.setattr(sys, "argv", ["gpu_check", "-o", "there"])
    assert command.main() == status
    assert capsys.readouterr().out.splitlines()[-1] == "there/gpu-check.json"


def test_a_checkout_that_is_not_installed_has_a_version(monkeypatch):
    def missing(name):
        raise command.PackageNotFoundError(name)

    monkeypatch.setattr(command, "version", missing)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with command._workplace() as place:
        (described,) = place.glob("*.dist-info/METADATA")
        assert described.read_text().splitlines()[1] == "Name: nsysoffload"
        assert str(place) in command._environment(place)["PYTHONPATH"].split(os.pathsep)


def test_one_gpu_is_used_of_several(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert command._environment(tmp_path)["CUDA_VISIBLE_DEVICES"] == "2"


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (
            ["PYTHON=/opt/python3", "OUTPUT=out"],
            "/opt/python3 -m benchmarks.gpu_check -o out",
        ),
        (["VENV=no-such-folder"], "python3 -m benchmarks.gpu_check -o reports/gpu-check"),
    ],
)
def test_make_installs_nothing_for_the_check(words, run):
    make = ["make", "--dry-run", "--no-print-directory", "-C", str(ROOT), "gpu-check", *words]
    done = subprocess.run(make, capture_output=True, text=True, check=True)
    assert done.stdout == f"{run}\n"
