"""What holds for every prediction, over programs that differ in all that can be chosen."""

import fcntl
import math
import os
import re
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

import nsysoffload
from nsysoffload.recorders.predict.bundle import load, save
from nsysoffload.recorders.predict.capture import Request, compiled, options_of
from nsysoffload.recorders.predict.predict import Predicted, predict
from nsysoffload.recorders.predict.program import Kind
from nsysoffload.recorders.predict.record import Work
from nsysoffload.recorders.predict.signature import State, check
from nsysoffload.trace.writer import write
from tests.examined import report_of
from tests.recorders.predict.step_checks import the_layers_agree, the_steps_agree
from workloads.config import model
from workloads.flops import flops
from workloads.names import named_bytes
from workloads.sharding import parse_mesh

pytestmark = pytest.mark.usefixtures("compiler")

WAYS = ("h2d", "d2h")


@dataclass(frozen=True)
class Case:
    """A variant of a request; ``named`` are the values whose bytes have to leave the device."""

    variant: str
    request: Request
    named: tuple[str, ...] = field(default=())

    @property
    def devices(self) -> int:
        return math.prod(parse_mesh(self.request.mesh).values())

    @property
    def is_offload(self) -> bool:
        return self.variant.startswith("offload")


ALL = ("layer_input", "query", "key", "value", "attention_out", "mlp_gate", "mlp_up")
MOE = (*ALL, "moe_dispatch", "mlp_down")
TWO = ("mlp_gate", "mlp_up")


def case(variant, target, *named, name="tiny", batch=8, seq=128, **choices):
    request = Request(model=name, target=target, batch=batch, seq=seq, **choices)
    return Case(variant, request, named)


WIDE = {"name": "llama3.2-1b", "layers": 2, "seq": 2048, "mesh": "fsdp=8", "optimizer": "sgd"}
PIPELINED = {"preset": "pipelined", "mesh": "fsdp=8"}
TWICE = {"preset": "pipelined+double-buffering"}
CASES = {
    "none": case("none", "gb200"),
    "remat": case("remat", "gb200"),
    "offload": case("offload", "gb200", *ALL),
    "graphs": case("offload", "gb200", *ALL, command_buffers=True),
    "pipelined": case("offload", "gh200", *ALL, **PIPELINED),
    "double-buffering": case("offload", "gb300", *ALL, **TWICE),
    "some-names": case("offload:mlp_gate,mlp_up", "b200", *TWO, mesh="fsdp=4,tensor=2"),
    "dots-on-the-host": case("offload-dots", "h100", preset="lhs"),
    "saved": case("save:attention_out", "h200", mesh="fsdp=8"),
    "dots": case("dots", "a100", contention=False),
    "experts": case("offload", "gb200", *MOE, name="tiny-moe", mesh="fsdp=2,expert=4"),
    "experts-again": case("remat", "b300", name="tiny-moe"),
    "wide": case("offload", "gb200", *ALL, **WIDE),
    "wide-pipelined": case("offload", "gb200", *ALL, **WIDE, preset="pipelined"),
    "wide-none": case("none", "gb200", **WIDE),
    "wide-remat": case("remat", "gb200", **WIDE),
}


@pytest.fixture(scope="session")
def compiled_case(tmp_path_factory):
    """Return what compiles a case, once for all processes that run these tests."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    @cache
    def compiled_once(name):
        file = folder / f"{name}.json.gz"
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                save(compiled(CASES[name].request, CASES[name].variant), file)
        return load(file)

    return compiled_once


@pytest.fixture(scope="session")
def predicted(compiled_case):
    @cache
    def predicted_once(name) -> Predicted:
        options = replace(options_of(CASES[name].request), variant=CASES[name].variant)
        return predict(compiled_case(name), options)

    return predicted_once


# --- The trace says what the simulator did ---


@pytest.mark.parametrize("name", CASES)
def test_a_prediction_holds_what_is_promised_of_it(name, compiled_case, predicted, tmp_path):
    each, made = CASES[name], predicted(name)
    the_trace_agrees_with_the_record(made, tmp_path, graphs=each.request.command_buffers)
    the_range_is_that_of_the_corners(made)
    if each.is_offload:
        what_is_offloaded_comes_back(each, made, compiled_case(name))
    else:
        assert made.record.transfers("both").copies == 0
        assert compiled_case(name).memory.host_bytes == 0
    if each.variant == "remat":
        assert made.record.phase_ns()["recompute"] > 0
    if each.variant in ("none", "remat"):
        products_are_those_of_the_formula(each, made)


def the_trace_agrees_with_the_record(made, folder, *, graphs):
    write(made.trace(), folder / "trace.sqlite")
    report = nsysoffload.analyze(folder / "trace.sqlite", skip_steps=0)
    (device,) = report.devices
    record = made.record
    assert device.trace.compute_busy_ns == record.compute_busy_ns
    assert device.trace.collective_busy_ns == record.collective_busy_ns
    assert device.trace.other_busy_ns == record.busy_ns(Work.OTHER)
    names = ("busy_ns", "hidden_ns", "exposed_ns", "hidden_by_collectives_ns")
    for way in (*WAYS, "both"):
        found, own = getattr(device.trace, way), record.transfers(way)
        assert [getattr(found, n) for n in names] == [getattr(own, n) for n in names]
        if way in WAYS:
            assert (found.copies, found.bytes) == (own.copies, own.bytes)
    the_steps_agree(record, device, phases=not graphs)
    if not graphs:  # the copies of a loop's iteration have the graph's launch for their call
        the_layers_agree(record, report)


def the_range_is_that_of_the_corners(made):
    steps = [corner.step_ns for corner in made.prediction.corners]
    assert made.prediction.corners[0].name == "expected"
    assert len(steps) == 9
    assert made.prediction.step.low_ns == min(steps)
    assert made.prediction.step.expected_ns == steps[0]
    assert made.prediction.step.high_ns == max(steps)


def what_is_offloaded_comes_back(each, made, program):
    record = made.record
    # Of two layers pipelining leaves no loop whose slices could be wrong.
    unrolled = each.request.preset == "pipelined" and each.request.layers == 2
    assert check(program.text).state is (State.NOT_APPLICABLE if unrolled else State.OK)
    moved = {way: record.transfers(way, 0).bytes + record.kernel_copy_bytes(way, 0) for way in WAYS}
    buffers = program.memory.host_temp_bytes
    assert moved == {"h2d": buffers, "d2h": buffers}
    assert buffers > 0
    assert "S(5)" in program.text
    if each.named:
        config = model(each.request.model, each.request.layers)
        sizes = named_bytes(config, each.request.batch, each.request.seq)
        assert buffers * each.devices == sum(sizes[name].total for name in each.named)


def products_are_those_of_the_formula(each, made):
    config = model(each.request.model, each.request.layers)
    formula = flops(config, each.request.batch, each.request.seq)
    expected = formula.model + (formula.recompute if each.variant == "remat" else 0)
    found = each.devices * sum(
        op.flops * times
        for op, times in made.program.ops()
        if op.kind in (Kind.GEMM, Kind.ATTENTION)
    )
    assert found == pytest.approx(expected, rel=0.01)


# --- What a policy changes ---


def test_offloading_and_rematerialising_need_less_memory_than_keeping_all(compiled_case):
    temp = {v: compiled_case(v).memory.temp_bytes for v in ("wide", "wide-remat", "wide-none")}
    assert temp["wide"] < temp["wide-none"]
    assert temp["wide-remat"] < temp["wide-none"]


def test_offloading_recomputes_less_than_rematerialising(predicted):
    again = {v: predicted(v).record.phase_ns()["recompute"] for v in ("wide", "wide-remat")}
    assert 0 < again["wide"] < again["wide-remat"] / 2


def test_copies_at_the_loop_boundary_are_issued_too_late_until_loops_are_pipelined(predicted):
    found = {}
    for name in ("wide", "wide-pipelined"):
        report = report_of(predicted(name).trace())
        (device,) = report.devices
        transfers = [f for f in report.findings if f.direction and f.lost_ns_per_step]
        found[name] = device.per_step.lost.get("issued_too_late", 0), transfers
    (lost, (first, *_)), (pipelined, _) = found["wide"], found["wide-pipelined"]
    assert first.cause == "issued_too_late"
    assert first.evidence["stalls"] > 0
    assert pipelined < lost / 2


def test_pipelined_copies_leave_the_loops_and_run_as_kernels(predicted):
    record = predicted("pipelined").record
    layers = model("tiny").layers
    whole = record.transfers("d2h", 0).bytes + record.kernel_copy_bytes("d2h", 0)
    assert record.kernel_copy_bytes("d2h", 0) == whole // layers
    assert any("copy" in note for note in predicted("pipelined").prediction.notes)


def test_without_contention_nothing_takes_longer(compiled_case, predicted):
    each, program = CASES["wide"], compiled_case("wide")
    alone = predict(program, replace(options_of(each.request), contention=False))
    shared = predicted("wide").prediction
    assert alone.prediction.step.expected_ns <= shared.step.expected_ns


def test_no_private_path_is_in_a_schedule(compiled_case):
    files = re.findall(r'^\d+ "([^"]*\.py)"$', compiled_case("offload").text, re.MULTILINE)
    assert files
    assert [file for file in files if "/" in file] == []
