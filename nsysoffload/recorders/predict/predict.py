"""Time a compiled program by the model, with what the model leaves open."""

from collections.abc import Iterable
from dataclasses import dataclass

from nsysoffload.errors import OffloadError
from nsysoffload.hardware import TARGETS, Target
from nsysoffload.recorders.flags import without_paths
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.constants import Sheet, constants_for, corners
from nsysoffload.recorders.predict.costs import duration_ns
from nsysoffload.recorders.predict.export import trace
from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.lowering import lower
from nsysoffload.recorders.predict.memory import (
    DEFAULT_POOL_SHARE,
    HOST_POOL_BYTES,
    SLOP,
    planned_bytes,
    roomy_slop,
    slop_of,
)
from nsysoffload.recorders.predict.program import Kind, Loop, Program
from nsysoffload.recorders.predict.record import Record, run
from nsysoffload.recorders.predict.schedule import program
from nsysoffload.recorders.predict.signature import State, check
from nsysoffload.recorders.predict.simulator import Contention
from nsysoffload.report.format import duration, size
from nsysoffload.trace.prediction import Constant, Corner, Memory, Prediction, Range
from nsysoffload.trace.tables import Trace
from nsysoffload.trace.workload import Workload, is_offload

__all__ = ["STEPS", "Options", "Predicted", "predict", "simulated"]

STEPS = 3
MOST_OPERATIONS = 300_000  # of a step; Llama 3.1 8B with FSDP has 3,478
UNKNOWN_SHARE = 0.05  # of a step; beyond it the step's time is in doubt
HOST_BOUND = 0.9  # of a step; beyond it the GPU mostly waits for launches

# What reading a text raises that no compiler has written; an OffloadError is a sentence already.
_MALFORMED = (
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
    TypeError,
    AttributeError,
    StopIteration,
)


@dataclass(frozen=True)
class Options:
    """What a prediction can be asked for beside the program.

    Attributes
    ----------
    name, variant, preset : str
        What the report calls the program, its policy and its XLA flags.
    constants : tuple of Constant
        Numbers of the model; those of the target where none are given.
    contention : bool
        Whether transfers and kernels share the host link and device memory.
    command_buffers : bool
        Whether loop bodies run as CUDA graphs.
    steps : int
        Steps in the trace.
    notes : tuple of str
        What else the reader has to know, a sentence each.
    workload : Workload or None
        What trains, where that is one of the workloads.
    """

    name: str
    variant: str = ""
    preset: str = "default"
    constants: tuple[Constant, ...] = ()
    contention: bool = True
    command_buffers: bool = False
    steps: int = STEPS
    notes: tuple[str, ...] = ()
    workload: Workload | None = None


@dataclass(frozen=True)
class Predicted:
    """A prediction: the program, what the simulator did with it, and what the report says."""

    program: Program
    record: Record
    prediction: Prediction
    target: Target

    def trace(self) -> Trace:
        """Return the rows that Nsight Systems would have recorded."""
        return trace(self.record, gpu=self.target.name, prediction=self.prediction)


def predict(compiled: Compiled, options: Options) -> Predicted:
    """Predict the steps of a compiled program.

    Parameters
    ----------
    compiled : Compiled
        From `nsysoffload.recorders.predict.compile`.
    options : Options
        What was asked for.

    Raises
    ------
    OffloadError
        If the text is no schedule, holds nothing to run, or computes wrong gradients.
    """
    target = TARGETS[compiled.target]
    steps = _read(compiled.text)
    constants = options.constants or constants_for(target, compiled.devices)
    sheets = corners(constants)
    record = simulated(steps, target, sheets[0], options)
    if not record.issue.tasks:
        raise OffloadError("The compiled program holds no operation to run; compile a train step.")
    found = [_corner(record, sheets[0])]
    found += [_corner(simulated(steps, target, s, options), s) for s in sheets[1:]]
    durations = [corner.step_ns for corner in found]
    prediction = Prediction(
        program=options.name,
        variant=options.variant,
        target=target.key,
        devices=compiled.devices,
        preset=options.preset,
        jax_version=compiled.jax_version,
        flags=without_paths(compiled.flags),
        step=Range(min(durations), durations[0], max(durations)),
        corners=tuple(found),
        memory=_memory(compiled, target),
        constants=constants,
        notes=(*options.notes, *_notes(steps, record, options)),
        warnings=(*_warnings(steps, record, options), *_crowded(compiled, target)),
        workload=options.workload,
    )
    return Predicted(steps, record, prediction, target)


def _read(text: str) -> Program:
    """Read a schedule, whatever is in the text."""
    try:
        signature = check(text)
        steps = program(parse(text))
    except _MALFORMED as error:
        raise OffloadError(
            "The compiled schedule holds what no compiler is known to write"
            f" ({type(error).__name__}); compile it again."
        ) from error
    if signature.state is State.WRONG:
        raise OffloadError(
            f"In the compiled program, {signature.reason}; do not train with it, and do not"
            " benchmark it."
        )
    operations = sum(times for _, times in steps.ops())
    if operations > MOST_OPERATIONS:
        raise OffloadError(
            f"A step runs {operations:,} operations, and at most {MOST_OPERATIONS:,} are simulated;"
            " predict a step whose loops are shorter."
        )
    return steps


def simulated(steps: Program, target: Target, sheet: Sheet, options: Options) -> Record:
    """Run a program with one choice of constants."""
    issue = lower(
        steps,
        lambda op: duration_ns(op, target, sheet),
        steps=options.steps,
        launch_ns=sheet.ns("launch"),
        command_buffers=options.command_buffers,
    )
    contention = Contention(sheet["both_ways"], target.hbm_gbps * sheet["hbm_efficiency"])
    try:
        return run(
            issue,
            gap_ns=sheet.ns("kernel_gap"),
            wait_ns=sheet.ns("wait"),
            contention=contention if options.contention else None,
        )
    except OverflowError as error:
        raise OffloadError(
            "A step would take longer than a clock of 64 bits counts; correct the program's sizes"
            " or the measured constants."
        ) from error


def _corner(record: Record, sheet: Sheet) -> Corner:
    """Take the last step: the host is ahead by then, as it is in training."""
    steps = record.steps()
    last = len(steps) - 1
    return Corner(
        sheet.name,
        steps[last].duration_ns,
        record.transfers("h2d", last).exposed_ns,
        record.transfers("d2h", last).exposed_ns,
    )


def _memory(compiled: Compiled, target: Target) -> Memory:
    need = compiled.memory
    return Memory(
        device_bytes=need.device_bytes,
        argument_bytes=need.argument_bytes,
        temp_bytes=need.temp_bytes,
        output_bytes=need.output_bytes,
        alias_bytes=need.alias_bytes,
        host_bytes=need.host_bytes,
        device_limit_bytes=target.memory_bytes,
        default_limit_bytes=int(DEFAULT_POOL_SHARE * target.memory_bytes),
        host_limit_bytes=HOST_POOL_BYTES,
    )


def _notes(steps: Program, record: Record, options: Options) -> Iterable[str]:
    yield from steps.notes
    by_kernels = record.kernel_copy_bytes("both", 0)
    if by_kernels:
        yield (
            f"Kernels copy {size(by_kernels)} of a step to or from the host themselves; they count"
            " as compute and not as transfers, as they would in a measured trace."
        )
    if options.command_buffers:
        yield (
            "Loop bodies run as CUDA graphs, in which an operation waits for its inputs and for"
            " what stands before it on its stream."
        )
    else:
        yield "Command buffers are off: each kernel and copy is launched by itself."
    if not options.contention:
        yield "Transfers and kernels slow each other down in no way: contention is switched off."
    if "pipelined" in options.preset:
        yield (
            "openxla/xla#32297 measured a gain of about 12 % from pipelined host offloading on"
            " GB200, which schedules compiled without a GPU do not confirm: do not rely on a"
            " difference between presets that no measurement backs."
        )


def _warnings(steps: Program, record: Record, options: Options) -> Iterable[str]:
    if is_offload(options.variant) and not _host_copies(steps):
        yield (
            "The policy offloads, and nothing in the schedule moves to the host: a single layer is"
            " no loop, and XLA leaves its values on the device."
        )
    unknown = [op.name for op, _ in steps.ops() if op.kind is Kind.UNKNOWN]
    if unknown:
        took = record.end_ns - record.start_ns
        is_unknown = [op.kind is Kind.UNKNOWN for op in record.issue.ops]
        share = sum(took[[is_unknown[op] for op in record.issue.op_of]]) / record.end_ns.max()
        if share > UNKNOWN_SHARE:
            yield (
                f"Operations that are not understood take {100 * share:.0f} % of the time, by their"
                f" bytes alone: {', '.join(dict.fromkeys(unknown))}."
            )
    launching, step = record.host_ns(-1), record.steps()[-1].duration_ns
    if launching > HOST_BOUND * step:
        graphs = "" if options.command_buffers else " or --command-buffers"
        yield (
            f"The host needs {duration(launching)} to launch a step of {duration(step)}: its time"
            f" says more about launches than about the GPU; a larger batch{graphs} changes that."
        )
    loops = [loop.name for loop in _loops(steps.items) if loop.trips is None]
    if loops:
        yield (
            "How often a loop runs depends on data; it is taken to run once:"
            f" {', '.join(dict.fromkeys(loops))}."
        )


def _crowded(compiled: Compiled, target: Target) -> Iterable[str]:
    """Say where the scheduler ran out of the memory that it may plan with."""
    need, slop = compiled.memory, slop_of(compiled.flags)
    planned = planned_bytes(need.lasting_bytes, target, slop)
    if need.temp_bytes <= planned:
        return
    enough = roomy_slop(need.lasting_bytes, target, target.memory_bytes)
    advice = (
        f"; --xla-flags={SLOP}{enough} lets it plan with the whole device"
        if need.device_bytes <= target.memory_bytes and enough > slop
        else ""
    )
    yield (
        f"Temporaries take {size(need.temp_bytes)}, and XLA's scheduler may plan with"
        f" {size(planned)}: beyond that it orders for memory, and lets copies and collectives run"
        f" one after the other{advice}."
    )


def _host_copies(steps: Program) -> bool:
    return any(op.kind is Kind.D2H for op, _ in steps.ops())


def _loops(items: Iterable[object]) -> Iterable[Loop]:
    for item in items:
        if isinstance(item, Loop):
            yield item
            yield from _loops(item.body)
