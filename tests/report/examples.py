"""Reports that every renderer is tested on, from a few readable figures each."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nsysoffload.report import lanes as timeline
from nsysoffload.report.lanes import Lane, Marks
from nsysoffload.report.model import (
    Both,
    Contention,
    Copy,
    Device,
    DeviceTrace,
    Direction,
    Finding,
    Gate,
    Kernel,
    Layer,
    Link,
    Migrations,
    Numerics,
    PerStep,
    Rank,
    Recording,
    Report,
    RunMemory,
    SizeClass,
    Stall,
    Step,
    StepBoth,
    StepDirection,
    Tool,
    Total,
    TraceInfo,
    Transfers,
    Verdict,
    Warning_,
    WhatIf,
    Window,
)
from nsysoffload.report.recorded import run_warnings
from nsysoffload.report.verdict import unusable
from nsysoffload.report.verdict import verdict as verdict_of
from nsysoffload.trace.numerics import Curve, Losses
from nsysoffload.trace.prediction import Constant, Corner, Memory, Prediction, Range
from nsysoffload.trace.run_folder import RunFolder
from nsysoffload.trace.workload import Workload

WORKLOAD = Workload("llama-1b", 16, 8, 4096, "fsdp=8", "adam", False)
PREDICTION = Prediction(
    program="llama-1b, batch 8, 4096 tokens",
    variant="offload",
    target="gb200",
    devices=8,
    preset="pipelined",
    jax_version="0.12.0.1",
    flags=("--xla_gpu_enable_command_buffer=",),
    step=Range(90_000_000, 100_000_000, 123_456_789),
    corners=(
        Corner("expected", 100_000_000, 1_000_000, 2_000_000),
        Corner("slow compute, fast host link, fast collectives", 123_456_789, 0, 0),
        Corner("fast compute, slow host link, fast collectives", 90_000_000, 9_000_000, 1),
    ),
    memory=Memory(
        device_bytes=150_000_000_000,
        argument_bytes=40_000_000_000,
        temp_bytes=110_000_000_001,
        output_bytes=40_000_000_000,
        alias_bytes=40_000_000_001,
        host_bytes=70_000_000_000,
        device_limit_bytes=186_000_000_000,
        default_limit_bytes=139_500_000_000,
        host_limit_bytes=64 << 30,
    ),
    constants=(Constant("gemm_efficiency", "share of peak", 0.6, 0.7, 0.8, "a benchmark"),),
    notes=("Every expert is taken to be full.",),
    warnings=("2 operations were not understood.",),
    workload=WORKLOAD,
)

RECORDING = Recording(
    variant="offload",
    nsys_version="2025.5.1.121",
    trace="cuda,nvtx",
    capture_range="profiler-api",
    left_out=("--discard-environment",),
    rank=0,
    ranks=8,
    steps=3,
    bare_step_ms=100.0,
    profiled_step_ms=130.0,
    overhead=0.3,
    overhead_null_reason=None,
    xla_preset="default",
    xla_flags=("--xla_gpu_enable_command_buffer=",),
    expect_offload_bytes=None,
    numerics=Numerics(True, "remat", "numerics agree over 3 steps"),
    notes=("The first attempt failed.",),
    losses=Losses(Curve({0: 10.5, 1: None}), Curve({})),
    workload=WORKLOAD,
)
RUN_MEMORY = RunMemory(
    device_bytes=12_000_000_000,
    argument_bytes=4_000_000_000,
    temp_bytes=8_000_000_000,
    output_bytes=4_000_000_000,
    alias_bytes=4_000_000_000,
    host_bytes=3_000_000_000,
    device_peak_bytes=14_000_000_000,
)

NO_KERNELS = "the trace has no kernel table"
NO_COPIES = "no transfers in this direction"

HOSTILE = (
    "</script><script>alert(1)</script><!-- | `x` ``y`` | ${7*7} {{ 7*7 }} [red]rich[/red] [/]"
    "\n# heading\r\n> quote\t\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\u202eevil\u2028 \x00"
    " @octocat #123 GH-7 octo/cat#1 https://example.org ![i](x.png) &amp; &#64; \\| \\ ' \" 🚀 "
)


def direction(
    copies: int = 0,
    size_bytes: int | None = 0,
    busy_ns: int = 0,
    hidden_ns: int = 0,
    *,
    collectives_ns: int = 0,
    undetermined_ns: int = 0,
    reason: str | None = None,
) -> Direction:
    """One direction; its overlap follows from the figures unless a reason says it is unknown."""
    reason = reason if busy_ns else NO_COPIES
    return Direction(
        copies=copies,
        bytes=size_bytes,
        sum_ns=busy_ns + busy_ns // 10,
        busy_ns=busy_ns,
        hidden_ns=hidden_ns,
        exposed_ns=busy_ns - hidden_ns,
        hidden_by_collectives_ns=collectives_ns,
        undetermined_ns=undetermined_ns,
        overlap=None if reason else hidden_ns / busy_ns,
        overlap_null_reason=reason,
        gbps=size_bytes / (busy_ns + busy_ns // 10) if size_bytes and busy_ns else None,
        burst_gbps=size_bytes / (busy_ns + busy_ns // 7) if size_bytes and busy_ns else None,
        lone_gbps=1.02 * size_bytes / busy_ns if size_bytes and busy_ns else None,
        sizes=sizes(copies, size_bytes, busy_ns) if copies and size_bytes else (),
    )


def sizes(copies: int, size_bytes: int, busy_ns: int) -> tuple[SizeClass, ...]:
    """Half of the copies in a small class with little payload, the rest in the open one."""
    few = copies // 2
    small = (
        SizeClass(65536, few, size_bytes // 100, busy_ns // 10, busy_ns // 10, 2.5, 3.25)
        if few
        else None
    )
    rest = SizeClass(
        None,
        copies - few,
        size_bytes - (size_bytes // 100 if few else 0),
        busy_ns - (busy_ns // 10 if few else 0),
        busy_ns - (busy_ns // 10 if few else 0),
        24.5,
        25.875,
    )
    return (small, rest) if small else (rest,)


def both(h2d: Direction, d2h: Direction, concurrent_ns: int = 0) -> Both:
    """Both directions, which ran at once for so long, hidden while they did."""
    busy_ns = h2d.busy_ns + d2h.busy_ns - concurrent_ns
    hidden_ns = h2d.hidden_ns + d2h.hidden_ns - min(concurrent_ns, h2d.hidden_ns, d2h.hidden_ns)
    reason = _reason([h2d, d2h]) if busy_ns else "no transfers"
    return Both(
        busy_ns=busy_ns,
        hidden_ns=hidden_ns,
        exposed_ns=busy_ns - hidden_ns,
        hidden_by_collectives_ns=h2d.hidden_by_collectives_ns + d2h.hidden_by_collectives_ns,
        undetermined_ns=h2d.undetermined_ns + d2h.undetermined_ns,
        concurrent_ns=concurrent_ns,
        overlap=None if reason else hidden_ns / busy_ns,
        overlap_null_reason=reason,
    )


GH200 = Link(
    name="NVLink-C2C",
    peak_gbps=450.0,
    h2d_gbps=(370.0, 420.0),
    d2h_gbps=(270.0, 300.0),
    h2d_verdict="within",
    d2h_verdict="below",
    source="H2D: one benchmark. D2H: another. Peak: the data sheet.",
)


def device(
    h2d: Direction,
    d2h: Direction,
    *,
    ordinal: int = 0,
    name: str | None = "NVIDIA GH200 480GB",
    link: Link | None = GH200,
    concurrent_ns: int = 0,
    kernels: int = 1234,
) -> Device:
    """One GPU with a window of 100 ms, three quarters of it compute."""
    uuid = f"GPU-00000000-0000-0000-0000-{ordinal:012d}"
    trace = DeviceTrace(
        window_start_ns=1_000_000_000,
        window_end_ns=1_100_000_000,
        window_ns=100_000_000,
        kernels=kernels,
        compute_busy_ns=75_000_000 if kernels else 0,
        collective_busy_ns=5_000_000 if kernels else 0,
        other_busy_ns=123_456,
        idle_ns=9_876_544,
        h2d=h2d,
        d2h=d2h,
        both=both(h2d, d2h, concurrent_ns),
        um_h2d=Migrations(0, 0),
        um_d2h=Migrations(0, 0),
    )
    whole = whole_window(trace)
    return Device(
        id=uuid,
        ordinal=ordinal,
        pid=4242 + ordinal,
        name=name,
        uuid=uuid,
        copy_engines=3 if link else None,
        link=link,
        trace=trace,
        steps=(whole,),
        per_step=medians((whole,)),
        median_step=0,
    )


def step_direction(way: Direction, stall_ns: int = 0) -> StepDirection:
    """The transfers of a direction that were issued in a step; all of its stall could be hidden."""
    return StepDirection(
        copies=way.copies,
        bytes=way.bytes,
        sum_ns=way.sum_ns,
        busy_ns=way.busy_ns,
        hidden_ns=way.hidden_ns,
        exposed_ns=way.exposed_ns,
        hidden_by_collectives_ns=way.hidden_by_collectives_ns,
        undetermined_ns=way.undetermined_ns,
        overlap=way.overlap,
        overlap_null_reason=way.overlap_null_reason,
        gbps=way.gbps,
        stall_ns=stall_ns,
        hideable_ns=stall_ns,
    )


def step(
    index: int,
    start_ns: int,
    duration_ns: int,
    lost: dict[str, int],
    h2d: Direction,
    d2h: Direction,
    *,
    stall_ns: int = 0,
    concurrent_ns: int = 0,
    outlier: bool = False,
    period_ns: int | None = None,
    phases: dict[str, int] | None = None,
    kernels: int = 600,
) -> Step:
    """One step, in which compute runs whenever nothing is lost."""
    lost_ns = sum(lost.values())
    union = vars(both(h2d, d2h, concurrent_ns))
    del union["concurrent_ns"]
    return Step(
        index=index,
        start_ns=start_ns,
        end_ns=start_ns + duration_ns,
        duration_ns=duration_ns,
        period_ns=period_ns,
        outlier=outlier,
        kernels=kernels,
        compute_busy_ns=duration_ns - lost_ns,
        collective_busy_ns=2 * lost.get("collective_only", 0),
        idle_ns=lost.get("host_gap", 0) + lost.get("unknown", 0),
        recompute_ns=phases["recompute"] if phases else None,
        phases=phases,
        lost_ns=lost_ns,
        lost=lost,
        stall_ns=stall_ns,
        stall_proven_ns=stall_ns // 2,
        hideable_ns=stall_ns * 3 // 4,
        best_ns=duration_ns - stall_ns * 3 // 4,
        h2d=step_direction(h2d, stall_ns * 2 // 3),
        d2h=step_direction(d2h, stall_ns // 3),
        both=StepBoth(**union),
    )


def medians(
    steps: tuple[Step, ...], what_if: tuple[WhatIf, ...] = (), unattributed: float | None = None
) -> PerStep:
    """The figures of the step in the middle, which is the median of all that grows with it."""
    middle = vars(sorted(steps, key=lambda s: s.duration_ns)[len(steps) // 2])
    shared = {
        k: v for k, v in middle.items() if k not in ("index", "start_ns", "end_ns", "outlier")
    }
    return PerStep(
        steps=len(steps),
        **shared,
        outliers=tuple(s.index for s in steps if s.outlier),
        unattributed=unattributed,
        what_if=what_if,
    )


def whole_window(trace: DeviceTrace) -> Step:
    """The window as the one step there is, where no marker was found."""
    free_ns = trace.window_ns - trace.compute_busy_ns - trace.collective_busy_ns
    stall_ns = min(trace.both.exposed_ns, free_ns) if trace.compute_busy_ns else 0
    lost = {"collective_only": trace.collective_busy_ns, "issued_too_late": stall_ns}
    lost["unknown"] = free_ns - stall_ns
    return step(
        0,
        trace.window_start_ns,
        trace.window_ns,
        {cause: time for cause, time in lost.items() if time},
        trace.h2d,
        trace.d2h,
        stall_ns=stall_ns,
        concurrent_ns=trace.both.concurrent_ns,
        kernels=trace.kernels,
    )


def total(devices: tuple[Device, ...]) -> Total:
    """The sums over devices."""
    h2d, d2h = (_sum([getattr(d.trace, way) for d in devices]) for way in ("h2d", "d2h"))
    return Total(
        devices=len(devices),
        kernels=sum(d.trace.kernels for d in devices),
        compute_busy_ns=sum(d.trace.compute_busy_ns for d in devices),
        collective_busy_ns=sum(d.trace.collective_busy_ns for d in devices),
        h2d=h2d,
        d2h=d2h,
        both=both(h2d, d2h, sum(d.trace.both.concurrent_ns for d in devices)),
    )


def _sum(parts: list[Direction]) -> Direction:
    """Figures of one direction added over devices."""
    known = [d.bytes for d in parts if d.bytes is not None]
    return direction(
        sum(d.copies for d in parts),
        sum(known) if len(known) == len(parts) else None,
        sum(d.busy_ns for d in parts),
        sum(d.hidden_ns for d in parts),
        collectives_ns=sum(d.hidden_by_collectives_ns for d in parts),
        undetermined_ns=sum(d.undetermined_ns for d in parts),
        reason=_reason(parts),
    )


def _reason(parts: list[Direction]) -> str | None:
    """Why the first part that cannot tell cannot tell."""
    return next((d.overlap_null_reason for d in parts if d.busy_ns and d.overlap is None), None)


def copy(device: Device, row: int, way: str = "d2h") -> Copy:
    """A copy of 2 ms, half of it exposed."""
    start_ns = device.trace.window_start_ns + row * 3_000_000
    return Copy(
        device=device.id,
        direction=way,
        row_id=row,
        stream=14,
        host="pinned",
        start_ns=start_ns,
        end_ns=start_ns + 2_000_000,
        bytes=51_687_500,
        hidden_ns=1_000_000,
        exposed_ns=1_000_000,
        gbps=25.84375,
        queue_ns=12_000_000,
        call_ns=5_000,
    )


def lanes(device: Device, name: str = "gemm") -> tuple[Lane, ...]:
    """A compute and a D2H lane of three marks each."""
    start = device.trace.window_start_ns + np.array([0, 40_000_000, 80_000_000])
    none = np.empty(0, np.int64)
    one = np.ones(3, np.int64)
    busy = 5_000_000 * one
    compute = Marks(start, start + busy, one, busy, none, none, np.array([0, 0, -1]))
    copies = Marks(start, start + busy, one, busy, 129_218_750 * one, busy // 2, 0 * one)
    return (
        Lane(device.id, "compute", True, compute, compute, (name,)),
        Lane(device.id, "d2h", True, copies, copies, ("copy-start.9, layer 2",)),
    )


def report(
    *devices: Device,
    verdict: Verdict,
    warnings: tuple[Warning_, ...] = (),
    kernels: tuple[Kernel, ...] = (),
    copies: tuple[Copy, ...] = (),
    ranks: tuple[Rank, ...] | None = None,
    file: str = "step.sqlite",
) -> Report:
    """A report on these devices."""
    return Report(
        tool=Tool("nsysoffload", "0.1.0", {"device": [0]}),
        verdict=verdict,
        trace=TraceInfo(file, "measured", "nsys", "2025.3.1", "3.20.1", warnings),
        window=Window("recorded", 1_000_000_000, 1_100_000_000, "window", 0),
        devices=devices,
        total=total(devices),
        worst_copies=copies,
        kernels=kernels,
        ranks=ranks,
        lanes=tuple(lane for d in devices for lane in lanes(d)),
    )


KERNELS = (
    Kernel("gemm_bf16_128x128", "compute", 1000, 70_000_000, copy_like=False),
    Kernel("ncclDevKernel_AllGather_RING_LL", "collective", 200, 5_000_000, copy_like=False),
    Kernel("dynamic_update_slice_fusion", "compute", 34, 4_999_999, copy_like=True),
    Kernel("CUDA memcpy HtoD", "other", 1, 1_500, copy_like=False),
)


def predicted() -> Report:
    """A predicted trace: a banner, a range, the memory and the constants."""
    first = one_device()
    warnings = tuple(Warning_("prediction", text) for text in PREDICTION.warnings)
    trace = TraceInfo("trace.sqlite", "predicted", "predict", "2025.3.1", "3.25.0", warnings)
    return replace(
        first,
        verdict=replace(first.verdict, text=f"Predicted: {first.verdict.text}"),
        trace=trace,
        memory=PREDICTION.memory,
        range=PREDICTION.step,
        prediction=PREDICTION,
    )


def recorded() -> Report:
    """A run whose folder says how it was recorded, and that it is of no use."""
    first = one_device()
    why = "numerics differ from step 1 of 3 (index 0): loss 2.4 instead of 2.1"
    numerics = Numerics(False, "remat", why)
    recording = replace(RECORDING, numerics=numerics)
    warnings = run_warnings(RunFolder(recording))
    return replace(
        first,
        verdict=unusable(first.verdict, why),
        trace=replace(first.trace, warnings=tuple(warnings)),
        recording=recording,
        memory=RUN_MEMORY,
        gates=(Gate("numerics", "check", None, None, passed=False, reason=why),),
    )


WHAT_IF = (
    WhatIf("all transfers hidden", 18_900_000, "No transfer holds compute up."),
    WhatIf("one layer earlier", 17_200_000, "Each reload is issued one layer earlier."),
    WhatIf("link at its measured range", 2_500_000, "Copies run at 370 GB/s."),
    WhatIf("pinned host memory", None, "All host memory is pinned already."),
)
FINDINGS = (
    Finding(
        cause="issued_too_late",
        severity="finding",
        device="",
        direction="h2d",
        op="copy-start.3",
        lost_ns_per_step=17_200_000,
        excess_ns_per_step=0,
        evidence={
            "copies": 32,
            "median_wait_ns": 540_000,
            "gbps": 371.25,
            "hidden_share": 0.125,
            "row_ids": list(range(100, 160)),
            "spans": [[1_436_000_000, 1_440_000_000], [1_460_000_000, 1_463_000_000], [1, 2]],
        },
        message="32 copies begin only when the kernel before them ends, and the next waits.",
        advice="Prefetch one layer earlier.",
    ),
    Finding(
        cause="starved",
        severity="finding",
        device="",
        direction="d2h",
        op="copy-start.9",
        lost_ns_per_step=0,
        excess_ns_per_step=2_400_000,
        evidence={"copies": 4, "lone_gbps": 270.5, "row_ids": [7, 8, 9, 10], "host": "pinned"},
        message="4 copies run at 5 % of their lone speed under wrapped_transpose.",
        advice="Move the copy under a matrix product.",
    ),
    Finding(
        cause="queued_behind_copy",
        severity="finding",
        device="",
        direction=None,
        op=None,
        lost_ns_per_step=1_700_000,
        excess_ns_per_step=300_000,
        evidence={"copies": 2, "delay_ns": 850_000},
        message="2 small copies wait behind a burst.",
        advice="Issue small copies first.",
    ),
    Finding(
        cause="host_gap",
        severity="finding",
        device="",
        direction=None,
        op=None,
        lost_ns_per_step=2_000_000,
        excess_ns_per_step=0,
        evidence={"gaps": 12},
        message="The next kernel is launched late 12 times.",
        advice="Use command buffers.",
    ),
    Finding(
        cause="remote_numa",
        severity="note",
        device="",
        direction="d2h",
        op=None,
        lost_ns_per_step=0,
        excess_ns_per_step=0,
        evidence={"lone_gbps": 251.0},
        message="Lone copies are a little below the range.",
        advice="Bind the process to the GPU's node.",
    ),
)
GATES = (
    Gate("overlap", "under", 80.0, 61.12, passed=False),
    Gate("stall_ms", "over", 20.0, 18.9, passed=True),
    Gate("gbps.d2h", "under", 100.0, None, passed=False, reason="the trace has no sizes"),
)


def stepped() -> Report:
    """Two GH200 with five steps each, one of them an outlier; everything there is to say."""
    first = stepped_device(0, 198_000_000)
    second = stepped_device(1, 196_000_000)
    devices = (first, second)
    findings = tuple(
        replace(finding, device=(second if finding.cause == "host_gap" else first).id)
        for finding in FINDINGS
    )
    base = report(
        *devices,
        verdict=Verdict("", ""),
        warnings=(Warning_("unified_memory", "7 unified-memory migrations are counted apart."),),
        kernels=KERNELS,
        copies=tuple(copy(gpu, row) for gpu in devices for row in (10, 137, 150)),
    )
    window = Window("recorded", 1_000_000_000, 2_100_000_000, "xla_module", 2)
    return replace(
        base,
        verdict=verdict_of(
            base.total,
            2,
            2_200_000_000,
            chosen=devices,
            findings=findings,
            steps_found_by=window.steps_found_by,
        ),
        window=window,
        transfers=tuple(row for gpu in devices for row in moved(gpu)),
        findings=findings,
        stalls=tuple(found for gpu in devices for found in stalls(gpu)),
        contention=tuple(
            Contention(gpu.id, f"gemm_{i}", 1_000_000, 1_200_000, 12, 34, 6_800_000 - i)
            for gpu in devices
            for i in range(2)
        ),
        gates=GATES,
        lanes=tuple(lane for gpu in devices for lane in step_lanes(gpu)),
    )


def stepped_device(ordinal: int, duration_ns: int) -> Device:
    """One GH200 with five steps, 3 to 7; the sixth is 60 ms longer than the others."""
    h2d = direction(48, 4_800_000_000, 28_900_000, 15_300_000, collectives_ns=500_000)
    d2h = direction(48, 4_800_000_000, 24_100_000, 19_000_000)
    gpu = device(h2d, d2h, ordinal=ordinal, concurrent_ns=4_900_000)
    lost = {
        "collective_only": 5_000_000,
        "queued_behind_copy": 1_700_000,
        "issued_too_late": 17_200_000,
        "host_gap": 2_000_000,
        "unknown": 300_000,
    }
    phases = {"forward": 50_000_000, "backward": 100_000_000, "recompute": 20_000_000}
    phases["other"] = 1_800_000
    made: list[Step] = []
    start_ns = 1_010_000_000
    for index in range(3, 8):
        length_ns = duration_ns + (index - 5) * 100_000 + 60_000_000 * (index == 6)
        more = {"host_gap": 2_000_000 + 60_000_000 * (index == 6)}
        made.append(
            step(
                index,
                start_ns,
                length_ns,
                lost | more,
                h2d,
                d2h,
                stall_ns=18_900_000,
                concurrent_ns=4_900_000,
                outlier=index == 6,
                period_ns=None if index == 7 else length_ns + 1_000_000,
                phases=phases,
            )
        )
        start_ns += length_ns + 1_000_000
    trace = replace(gpu.trace, window_end_ns=2_100_000_000, window_ns=1_100_000_000)
    per_step = medians(tuple(made), WHAT_IF, 0.0125)
    middle = next(s for s in made if s.duration_ns == per_step.duration_ns)
    return replace(gpu, trace=trace, steps=tuple(made), per_step=per_step, median_step=middle.index)


def moved(device: Device) -> tuple[Transfers, ...]:
    """Transfers by XLA op: one with layers, one with a single one, one without a name."""
    layers = tuple(Layer(n, 2, 1_600_000, 850_000, 700_000 - n * 20_000) for n in range(16))
    path = "jit(train_step)/transpose(jvp(while))/body/mlp"
    return (
        Transfers(
            device.id, "copy-start.3", path, None, "backward", "h2d",
            32, 3_200_000_000, 25_600_000, 13_600_000, 8_800_000, layers,
        ),
        Transfers(
            device.id, "copy-start.9", None, 0, "forward", "d2h",
            16, 4_800_000_000, 24_100_000, 19_000_000, 0, (),
        ),
        Transfers(
            device.id, "H2D, up to 64 KiB, stream 7", None, None, None, "h2d",
            16, None, 3_300_000, 1_700_000, 1_700_000, (),
        ),
    )  # fmt: skip


def median_of(device: Device) -> Step:
    """The step that the timeline shows."""
    return next(s for s in device.steps if s.index == device.median_step)


def stalls(device: Device) -> tuple[Stall, ...]:
    """Twelve stalls of two causes, all but every third proven; the last ends with the step."""
    shown = median_of(device)
    made = []
    for n in range(12):
        start_ns = shown.start_ns + 12_000_000 + n * 15_000_000
        end_ns = start_ns + 1_500_000 + n * 10_000
        made.append(
            Stall(
                device=device.id,
                step=shown.index,
                start_ns=start_ns,
                end_ns=end_ns,
                cause="queued_behind_copy" if n == 4 else "issued_too_late",
                direction="d2h" if n == 11 else "h2d",
                op="copy-start.3" if n % 4 else None,
                transfers=1 + n % 2,
                blocker_row_id=100 + n,
                blocker_start_ns=start_ns + 100_000,
                blocker_end_ns=end_ns - 5_000,
                kernel=None if n == 11 else "gemm_bf16_128x128",
                proven=n % 3 > 0,
            )
        )
    return tuple(made)


def step_lanes(device: Device) -> tuple[Lane, ...]:
    """Kernels, collectives and copies of the median step, with gaps where it stalls."""
    shown = median_of(device)
    gaps = stalls(device)
    none = np.empty(0, np.int64)

    def marks(start: list[int], end: list[int], name: list[int], size: int = 0) -> Marks:
        starts, ends = np.array(start), np.array(end)
        length = ends - starts
        moved = none if not size else np.full(len(start), size)
        hidden = none if not size else length * (np.arange(len(start)) % 3) // 3
        one = np.ones(len(start), np.int64)
        return Marks(starts, ends, one, length, moved, hidden, np.array(name))

    starts = [shown.start_ns, *(gap.end_ns for gap in gaps)]
    ends = [*(gap.start_ns for gap in gaps), shown.end_ns]
    compute = marks(starts, ends, [n % 2 for n in range(13)])
    reduce = marks([s + 2_000_000 for s in starts], [s + 3_000_000 for s in starts], [0] * 13)
    loads = [gap for gap in gaps if gap.direction == "h2d"]
    h2d = marks(
        [g.blocker_start_ns for g in loads], [g.blocker_end_ns for g in loads], [0] * 11, 10**8
    )
    d2h = marks(
        [g.start_ns - 5_000_000 for g in gaps], [g.start_ns for g in gaps], [-1] * 12, 2 * 10**8
    )
    return (
        Lane(device.id, "compute", True, compute, compute, ("gemm_bf16_128x128", "loop_fusion")),
        Lane(device.id, "collectives", True, reduce, reduce, ("ncclDevKernel_AllGather",)),
        Lane(device.id, "h2d", True, h2d, h2d, ("copy-start.3, layer 4",)),
        Lane(device.id, "d2h", True, d2h, d2h, ()),
    )


def no_whole_step() -> Report:
    """Steps were found, but none was recorded whole."""
    first = one_device()
    gpu = replace(first.devices[0], steps=(), per_step=None, median_step=None)
    window = replace(first.window, steps_found_by="train_step", skipped_steps=2)
    return replace(first, devices=(gpu,), window=window)


def no_transfers() -> Report:
    """Kernels, but nothing to overlap."""
    return report(
        device(direction(), direction()),
        verdict=Verdict("There are no host transfers in this trace.", "no_transfers"),
        kernels=KERNELS[:1],
    )


def one_device() -> Report:
    """One GH200 that hides 83.4 % of its transfers; the directions run at once for a while."""
    gpu = device(
        direction(96, 9_876_543_210, 24_680_135, 20_583_232),
        direction(64, 6_442_450_944, 22_345_678, 18_636_295, collectives_ns=1_234_567),
        concurrent_ns=3_000_000,
    )
    migrated = replace(gpu.trace, um_h2d=Migrations(7, 458_752))
    gpu = replace(gpu, trace=migrated)
    return report(
        gpu,
        verdict=Verdict("82.3 % of the transfer time is hidden behind compute.", "partly_hidden"),
        warnings=(Warning_("unified_memory", "7 unified-memory migrations are counted apart."),),
        kernels=KERNELS,
        copies=tuple(copy(gpu, row, ("d2h", "h2d")[row % 2]) for row in range(1, 11)),
    )


def eight_devices() -> Report:
    """Eight H100 without a known link; each hides a little less than the one before."""
    gpus = tuple(
        device(
            direction(48, 1_000_000_000 + i, 40_000_000, 40_000_000 - i * 5_000_000),
            direction(48, 2_000_000_000, 80_000_000, i),
            ordinal=i,
            name="NVIDIA H100 80GB HBM3",
            link=None,
        )
        for i in range(8)
    )
    return report(
        *gpus,
        verdict=Verdict("Most of the transfer time is exposed.", "partly_hidden"),
        kernels=KERNELS,
        copies=tuple(copy(gpu, gpu.ordinal) for gpu in gpus),
    )


def cannot_tell() -> Report:
    """Copies without a kernel table on one device, a graph traced as a whole on the other."""
    graph = "CUDA graphs were traced as a whole"
    blind = device(direction(3, None, 1_500_000, 0, reason=NO_KERNELS), direction(), kernels=0)
    spans = device(
        direction(),
        direction(5, 5_000_000, 2_000_000, 500_000, undetermined_ns=1_250_000, reason=graph),
        ordinal=1,
        name=None,
        link=None,
    )
    instant = replace(copy(blind, 0, "h2d"), row_id=None, stream=None, bytes=None, gbps=None)
    return report(
        blind,
        spans,
        verdict=Verdict(f"How much is hidden can't be told: {NO_KERNELS}.", "cannot_tell"),
        warnings=(Warning_("no_kernel_table", NO_KERNELS), Warning_("graph_spans", graph)),
        copies=(
            replace(instant, host="unknown", end_ns=instant.start_ns, hidden_ns=0, exposed_ns=0),
        ),
    )


def ranks() -> Report:
    """Four ranks, the slowest first, as in every report; one cannot tell its overlap or steps."""
    first = one_device()
    rows = tuple(
        Rank(
            file=f"rank{i}.sqlite",
            window_ns=100_000_000 - i * 1_000_000,
            devices=1,
            kernels=1234,
            compute_busy_ns=75_000_000,
            busy_ns=44_025_813,
            exposed_ns=7_806_286 + i,
            overlap=None if i == 3 else 36_219_527 / 44_025_813 - i / 1000,
            overlap_null_reason="doubtful clocks" if i == 3 else None,
            warnings=i,
            step_ns=None if i == 3 else 95_000_000 - i * 1_000_000,
            stall_ns=None if i == 3 else 4_000_000 + i,
        )
        for i in range(4)
    )
    return replace(first, ranks=rows)


def hostile(length: int = 5_000) -> Report:
    """Every text is an attempt to break out of the page, the table or the terminal."""
    text = (HOSTILE * (length // len(HOSTILE) + 1))[:length]
    odd = text + "\ud800"
    first = one_device()
    gpu = replace(
        first.devices[0],
        id=odd,
        name=odd,
        uuid=odd,
        link=replace(GH200, name=text, source=text),
        per_step=replace(
            medians(first.devices[0].steps), what_if=(WhatIf(odd, None, odd), WhatIf(odd, 1, odd))
        ),
    )
    cannot = replace(first.total.h2d, overlap=None, overlap_null_reason=odd)
    return replace(
        first,
        tool=Tool("nsysoffload", "0.1.0", {"collective": text, odd: [text]}),
        verdict=Verdict(odd, "cannot_tell"),
        trace=TraceInfo(odd, "predicted", text, text, text, (Warning_("odd", odd),) * 3),
        window=replace(first.window, source="requested"),
        devices=(replace(gpu, trace=replace(gpu.trace, h2d=cannot)),),
        total=replace(first.total, h2d=cannot),
        worst_copies=tuple(replace(c, device=odd, host="unknown") for c in first.worst_copies),
        kernels=tuple(replace(k, name=f"{i}{odd}") for i, k in enumerate(KERNELS)),
        ranks=tuple(
            replace(r, file=odd, overlap=None, overlap_null_reason=odd) for r in ranks().ranks or ()
        ),
        transfers=tuple(replace(row, device=odd, op=odd, op_name=odd) for row in moved(gpu)),
        findings=tuple(
            replace(
                finding,
                device=odd,
                op=odd,
                message=odd,
                advice=odd,
                evidence=dict(finding.evidence) | {"kernel": odd, "kernels": [odd] * 2},
            )
            for finding in FINDINGS
        ),
        stalls=tuple(replace(found, op=odd, kernel=odd) for found in stalls(gpu)[:2]),
        contention=(Contention(odd, odd, 1_000, 2_000, 3, 4, 5),),
        gates=(
            Gate("expect_offload", "check", None, None, passed=False, reason=odd),
            Gate("overlap.h2d", "under", 1.0, None, passed=False, reason=odd),
            *GATES,
        ),
        recording=Recording(
            variant=odd,
            nsys_version=odd,
            trace=odd,
            capture_range=odd,
            left_out=(odd,) * 3,
            rank=0,
            ranks=0,
            steps=0,
            bare_step_ms=-1e18,
            profiled_step_ms=1e18,
            overhead=-1e18,
            overhead_null_reason=odd,
            xla_preset=odd,
            xla_flags=(odd,) * 3,
            expect_offload_bytes=0,
            numerics=Numerics(None, odd, odd),
            notes=(odd,) * 3,
        ),
        prediction=replace(
            PREDICTION,
            program=odd,
            variant=odd,
            target=odd,
            preset=odd,
            jax_version=odd,
            flags=(odd,),
            corners=tuple(replace(c, name=odd) for c in PREDICTION.corners),
            constants=(Constant(odd, odd, 1.0, 2.0, 3.0, odd),),
            notes=(odd,) * 3,
            warnings=(odd,),
        ),
        lanes=lanes(gpu, odd),
    )


def crowded(
    kernels: int,
    copies: int,
    *,
    names: int = 1_000,
    devices: int = 1,
    window_ns: int = 100_000_000,
) -> Report:
    """So many rows on each device, some of them collectives, drawn as lanes as in earnest."""
    first = one_device()
    window = (first.window.start_ns, first.window.start_ns + window_ns)
    edges = np.linspace(*window, kernels + 1).astype(np.int64)
    codes = np.arange(kernels) % names
    frame = pd.DataFrame(
        {
            "start_ns": edges[:-1],
            "end_ns": edges[:-1] + (edges[1:] - edges[:-1]) * 9 // 10,
            "name": pd.Categorical.from_codes(
                codes, categories=[f"fusion_{i}" for i in range(names)]
            ),
            "kind": pd.Categorical.from_codes(
                (codes % 20 == 0).astype(int), categories=["compute", "collective"]
            ),
        }
    )
    edges = np.linspace(*window, copies + 1).astype(np.int64)
    busy = (edges[1:] - edges[:-1]) * 4 // 5
    moved = pd.DataFrame(
        {
            "start_ns": edges[:-1],
            "end_ns": edges[:-1] + busy,
            "size_bytes": busy * 300 + np.arange(copies),
            "hidden_ns": busy * (np.arange(copies) % 101) // 100,
            "direction": pd.Categorical.from_codes(
                np.arange(copies) % 2, categories=["d2h", "h2d"]
            ),
        }
    )
    keep = np.arange(copies) % max(1, copies // 50) == 0
    shown = replace(first.devices[0].steps[0], end_ns=window[1], duration_ns=window_ns)
    gpus = [
        replace(first.devices[0], id=f"gpu{i}", ordinal=i, steps=(shown,)) for i in range(devices)
    ]
    columns = (timeline.columns_per_lane(4 * devices), timeline.COARSE_COLUMNS)
    marks = [
        m for gpu in gpus for m in timeline.lanes(gpu.id, frame, moved, window, *columns, keep)
    ]
    rows = tuple(Kernel(f"{i}{'n' * 195}", "compute", 1, names - i, False) for i in range(names))
    return replace(
        first,
        window=replace(first.window, end_ns=window[1]),
        devices=tuple(gpus),
        worst_copies=tuple(replace(c, device=gpus[0].id) for c in first.worst_copies),
        lanes=tuple(marks),
        kernels=rows,
    )


EXAMPLES = {
    "no_transfers": no_transfers,
    "one_device": one_device,
    "predicted": predicted,
    "recorded": recorded,
    "eight_devices": eight_devices,
    "cannot_tell": cannot_tell,
    "ranks": ranks,
    "stepped": stepped,
    "no_whole_step": no_whole_step,
    "hostile": hostile,
}
