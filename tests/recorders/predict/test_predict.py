"""What a prediction says, of schedules read from files and of a few lines of HLO."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.errors import OffloadError
from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.constants import constants_for
from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.recorders.predict.predict import Options, predict
from nsysoffload.trace.writer import write

SCHEDULES = Path(__file__).parent / "schedules"
NAMES = ("default-1", "pipelined-8", "remat-1")
NEED = Memory(
    argument_bytes=40,
    output_bytes=36,
    alias_bytes=30,
    temp_bytes=50,
    host_argument_bytes=20,
    host_output_bytes=20,
    host_alias_bytes=20,
    host_temp_bytes=10,
)
STEP = Options("step")


def compiled(text):
    return Compiled(text, NEED, "gb200", 8, ("--xla_a=1",), "0.12.0.1", 1.5)


def schedule(name):
    return compiled(gzip.decompress((SCHEDULES / f"{name}.hlo.gz").read_bytes()).decode())


def hlo(entry, others=""):
    return compiled(
        f"HloModule jit_step, is_scheduled=true\n{others}\n"
        f"ENTRY %e (x: f32[4]) -> f32[4] {{\n{entry}\n}}\n"
    )


# --- The range ---


@pytest.mark.parametrize("name", NAMES)
def test_the_range_spans_the_expected_choice_and_all_corners(name):
    prediction = predict(schedule(name), STEP).prediction
    steps = {corner.name: corner.step_ns for corner in prediction.corners}
    assert len(steps) == 9
    assert next(iter(steps)) == "expected"
    assert prediction.step.expected_ns == steps["expected"]
    slow = steps["slow compute, slow host link, slow collectives"]
    fast = steps["fast compute, fast host link, fast collectives"]
    assert (prediction.step.low_ns, prediction.step.high_ns) == (fast, slow)
    assert fast < steps["expected"] < slow


def test_a_corner_holds_the_last_step():
    made = predict(schedule("default-1"), replace(STEP, steps=2))
    first, last = made.record.steps()
    expected = made.prediction.corners[0]
    assert expected.step_ns == last.duration_ns != first.duration_ns
    assert expected.h2d_exposed_ns == made.record.transfers("h2d", 1).exposed_ns
    assert expected.d2h_exposed_ns == made.record.transfers("d2h", 1).exposed_ns > 0


def test_given_constants_replace_those_of_the_target():
    constants = constants_for(TARGETS["gb200"])
    exact = tuple(replace(c, low=c.expected, high=c.expected) for c in constants)
    faster = tuple(
        replace(c, low=600.0, expected=600.0, high=600.0) if c.name in ("h2d", "d2h") else c
        for c in exact
    )
    narrow, fast = (
        predict(schedule("default-1"), replace(STEP, constants=each)).prediction
        for each in (exact, faster)
    )
    assert narrow.constants == exact
    assert narrow.step.low_ns == narrow.step.expected_ns == narrow.step.high_ns
    assert fast.step.high_ns < narrow.step.low_ns


@pytest.mark.parametrize("name", NAMES)
def test_without_contention_no_choice_of_constants_gives_a_longer_step(name):
    shared, alone = (
        predict(schedule(name), replace(STEP, contention=contention)).prediction
        for contention in (True, False)
    )
    pairs = zip(shared.corners, alone.corners, strict=True)
    assert all(one.step_ns >= other.step_ns for one, other in pairs)
    assert shared.step.expected_ns > alone.step.expected_ns


# --- What it is made from ---


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_trace_has_as_many_steps_as_asked_for(steps):
    made = predict(schedule("remat-1"), replace(STEP, steps=steps))
    assert len(made.record.steps()) == steps
    ranges = made.trace().nvtx_ranges["text"]
    assert (ranges == "train_step").sum() == steps


def test_a_prediction_says_what_was_compiled_and_what_it_needs():
    made = predict(schedule("default-1"), Options("a model", variant="offload", preset="lhs"))
    prediction, target = made.prediction, TARGETS["gb200"]
    assert (prediction.program, prediction.variant, prediction.preset) == (
        "a model",
        "offload",
        "lhs",
    )
    assert (prediction.target, prediction.devices) == ("gb200", 8)
    assert (prediction.jax_version, prediction.flags) == ("0.12.0.1", ("--xla_a=1",))
    assert prediction.constants == constants_for(target, 8)
    memory = prediction.memory
    assert (memory.device_bytes, memory.host_bytes) == (96, 30)
    assert memory.device_limit_bytes == target.memory_bytes
    assert memory.default_limit_bytes == target.memory_bytes * 3 // 4
    assert memory.host_limit_bytes == 64 << 30


def test_a_trace_carries_its_prediction(tmp_path):
    made = predict(schedule("pipelined-8"), replace(STEP, notes=("A note.",)))
    write(made.trace(), tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(tmp_path / "trace.sqlite")
    assert report.prediction == made.prediction
    assert report.prediction.notes[0] == "A note."
    assert report.devices[0].name == "NVIDIA GB200"


# --- Notes ---

PLAIN = "Command buffers are off: each kernel and copy is launched by itself."


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        pytest.param({}, [PLAIN], id="plain"),
        pytest.param(
            {"command_buffers": True},
            [
                "Loop bodies run as CUDA graphs, in which an operation waits for its inputs and for"
                " what stands before it on its stream."
            ],
            id="graphs",
        ),
        pytest.param(
            {"contention": False, "notes": ("First.",)},
            [
                "First.",
                PLAIN,
                "Transfers and kernels slow each other down in no way: contention is switched off.",
            ],
            id="no contention",
        ),
        pytest.param(
            {"preset": "pipelined+double-buffering"},
            [
                PLAIN,
                "openxla/xla#32297 measured a gain of about 12 % from pipelined host offloading on"
                " GB200, which schedules compiled without a GPU do not confirm: do not rely on a"
                " difference between presets that no measurement backs.",
            ],
            id="pipelined",
        ),
    ],
)
def test_notes_say_how_it_was_run(options, notes):
    prediction = predict(schedule("default-1"), replace(STEP, **options)).prediction
    assert list(prediction.notes) == notes
    assert prediction.warnings == ()


def test_copies_by_kernels_are_a_note():
    made = predict(schedule("pipelined-8"), STEP)
    by_kernels = made.record.kernel_copy_bytes("both", 0)
    assert by_kernels > 0
    (note,) = (note for note in made.prediction.notes if "copy" in note and "Kernels" in note)
    assert note.endswith(
        "count as compute and not as transfers, as they would in a measured trace."
    )


# --- What is not understood ---

# Reads and writes 8 bytes an element: far longer than a launch.
SIZE = 1 << 28
KNOWN = f"""  %x = f32[{SIZE}]{{0}} parameter(0)
  %y = f32[{SIZE}]{{0}} copy(%x)"""


def with_unknown(size):
    """Copy all elements, slice as many as given, and do something odd with these."""
    return hlo(
        f"{KNOWN}\n  %z = f32[{size}]{{0}} slice(%y), slice={{[0:{size}]}}\n"
        f'  ROOT %odd = f32[{size}]{{0}} custom-call(%z), custom_call_target="mystery"'
    )


LISTED = "Operations that are not understood and are timed by their bytes: 1; odd."


def test_what_is_not_understood_is_a_note_below_a_twentieth_of_the_time():
    #  copy 32, slice 1, odd 1: 3 %
    prediction = predict(with_unknown(SIZE // 32), STEP).prediction
    assert prediction.notes == (LISTED, PLAIN)
    assert prediction.warnings == ()


def test_what_is_not_understood_is_a_warning_beyond_a_twentieth_of_the_time():
    #  copy 4, slice 1, odd 1: a sixth
    prediction = predict(with_unknown(SIZE // 4), STEP).prediction
    assert prediction.notes == (LISTED, PLAIN)
    assert prediction.warnings == (
        "Operations that are not understood take 17 % of the time, by their bytes alone: odd.",
    )


LOOP = f"""%cond (p: (f32[4])) -> pred[] {{
  %p = (f32[{SIZE}]{{0}}) parameter(0)
  ROOT %t = pred[] constant(true)
}}

%body (b: (f32[4])) -> (f32[4]) {{
  %b = (f32[{SIZE}]{{0}}) parameter(0)
  %g = f32[{SIZE}]{{0}} get-tuple-element(%b), index=0
  %k = f32[{SIZE}]{{0}} copy(%g)
  ROOT %r = (f32[{SIZE}]{{0}}) tuple(%k)
}}
"""


def looped(known=""):
    entry = f"""  %x = f32[{SIZE}]{{0}} parameter(0)
  %i = (f32[{SIZE}]{{0}}) tuple(%x)
  %while.7 = (f32[{SIZE}]{{0}}) while(%i), condition=%cond, body=%body{known}
  ROOT %o = f32[{SIZE}]{{0}} get-tuple-element(%while.7), index=0"""
    return hlo(entry, LOOP)


def test_a_loop_whose_trips_depend_on_data_is_a_warning():
    made = predict(looped(), STEP)
    assert made.prediction.warnings == (
        "How often a loop runs depends on data; it is taken to run once: while.7.",
    )
    known = predict(looped(', backend_config={"known_trip_count":{"n":"5"}}'), STEP)
    assert known.prediction.warnings == ()


def copies(elements):
    """Return three copies, one after the other, of so many elements."""
    array = f"f32[{elements}]{{0}}"
    return hlo(
        f"  %w = {array} parameter(0)\n  %x = {array} copy(%w)\n  %y = {array} copy(%x)\n"
        f"  ROOT %z = {array} copy(%y)"
    )


def test_a_step_that_waits_for_launches_is_a_warning():
    #  three launches of 4 us, of copies that take less each
    (warning,) = predict(copies(1024), STEP).prediction.warnings
    assert warning.startswith("The host needs 12.0 µs to launch a step of ")
    assert predict(copies(SIZE), STEP).prediction.warnings == ()


def test_a_program_that_the_scheduler_has_no_memory_for_is_a_warning():
    #  GB200: 0.8 * 197.9 GB - 48.3 GB of arguments = 110 GB, of which 95 % are 104 GB
    crowded = replace(copies(SIZE), memory=Memory(48_318_198_784, 0, 0, 110 * 10**9, 0, 0, 0, 0))
    (warning,) = predict(crowded, STEP).prediction.warnings
    assert warning.startswith(
        "Temporaries take 110 GB, and XLA's scheduler may plan with 104 GB: beyond that"
    )
    flag = "--xla_gpu_memory_limit_slop_factor=135"
    assert f"; --xla-flags={flag} lets it plan with the whole device." in warning
    assert predict(replace(crowded, flags=(flag,)), STEP).prediction.warnings == ()
    beyond = replace(crowded, memory=replace(crowded.memory, temp_bytes=200 * 10**9))
    assert predict(beyond, STEP).prediction.warnings[0].endswith("one after the other.")


# --- What is refused ---


def test_a_schedule_that_reads_slices_in_the_order_they_were_stored_is_refused():
    right = schedule("default-1").text
    wrong = compiled(right.replace('"byte_stride":"-', '"byte_stride":"'))
    assert wrong.text != right
    with pytest.raises(OffloadError) as raised:
        predict(wrong, STEP)
    assert str(raised.value) == (
        "In the compiled program, 7 of 7 slices are read back in the order they were stored: this"
        " build of the compiler returns wrong gradients (openxla/xla#46231); do not train with it,"
        " and do not benchmark it."
    )


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(hlo("  ROOT %x = f32[4]{0} parameter(0)"), id="nothing"),
        pytest.param(looped(', backend_config={"known_trip_count":{"n":"0"}}'), id="no trips"),
    ],
)
def test_a_program_with_nothing_to_run_is_refused(program):
    with pytest.raises(OffloadError) as raised:
        predict(program, STEP)
    assert str(raised.value) == (
        "The compiled program holds no operation to run; compile a train step."
    )


@pytest.mark.parametrize("text", ["", "a poem", "HloModule jit_step, is_scheduled=true\n"])
def test_a_text_that_is_no_schedule_is_refused(text):
    with pytest.raises(OffloadError) as raised:
        predict(compiled(text), STEP)
    assert str(raised.value).endswith(".")
