"""Reports that every renderer is tested on, from a few readable figures each."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nsysoffload.report import lanes as timeline
from nsysoffload.report.lanes import Lane, Marks
from nsysoffload.report.model import (
    Both,
    Copy,
    Device,
    DeviceTrace,
    Direction,
    Kernel,
    Link,
    Migrations,
    Rank,
    Report,
    SizeClass,
    Tool,
    Total,
    TraceInfo,
    Verdict,
    Warning_,
    Window,
)
from nsysoffload.trace.prediction import Constant, Corner, Memory, Prediction, Range

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
    return Device(uuid, ordinal, 4242 + ordinal, name, uuid, 3 if link else None, link, trace)


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
        Lane(device.id, "d2h", True, copies, copies, ("D2H pinned",)),
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
        window=Window("recorded", 1_000_000_000, 1_100_000_000),
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
    """Four ranks, the slowest first, as in every report; one cannot tell its overlap."""
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
    gpus = [replace(first.devices[0], id=f"gpu{i}", ordinal=i) for i in range(devices)]
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
    "eight_devices": eight_devices,
    "cannot_tell": cannot_tell,
    "ranks": ranks,
    "hostile": hostile,
}
