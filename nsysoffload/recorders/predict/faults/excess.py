"""Faults that make copies or kernels slower, and cost no time outside of compute.

What they are judged against runs between the steps, alone on the device, or alone in the step.
"""

from collections.abc import Sequence
from statistics import median_low

from nsysoffload.hardware import gpu_named
from nsysoffload.recorders.predict.faults.host import GBPS, Incidents, Pause, Performance
from nsysoffload.recorders.predict.faults.planted import Planted, planted
from nsysoffload.recorders.predict.faults.rows import GPU, Traits
from nsysoffload.recorders.predict.faults.step import (
    MIB,
    OPTIMIZER,
    PATHS,
    Await,
    Parts,
    copy,
    kernel,
    train_step,
)
from nsysoffload.recorders.predict.program import Op, Start
from nsysoffload.recorders.predict.simulator import Contention

__all__ = ["bidirectional_contention", "compute_contention", "remote_numa", "starved"]

_APART_NS = 50_000  # between copies that are alone


def _lone(directions: Sequence[str], size_mib: int, count: int) -> tuple[Op, ...]:
    return tuple(
        copy(f"lone.{direction}.{number}", direction, size_mib * MIB)
        for direction in directions
        for number in range(count)
    )


def _one_by_one(copies: Sequence[Op]) -> tuple[Pause, ...]:
    """Pauses that keep copies between the steps apart from each other and from the steps."""
    ends = Pause(OPTIMIZER.name, OPTIMIZER.name, _APART_NS)
    return (ends, *(Pause(op.name, op.name, _APART_NS) for op in copies))


def remote_numa(
    *,
    directions: Sequence[str] = ("h2d", "d2h"),
    gbps: float = 100.0,
    size_mib: int = 64,
    count: int = 2,
    layers: int = 2,
    gpu: str = GPU,
) -> Planted:
    """Copy at the rate of a remote socket, in both directions or in one.

    Counted are copies between the steps, over what they would take at the low end of the
    platform's range. Those in the steps are as slow, and hidden.
    """
    known = gpu_named(gpu)
    if known is None:
        raise ValueError(f"{gpu} has no range to judge copies by")
    low_gbps = {"h2d": known.link.h2d.low_gbps, "d2h": known.link.d2h.low_gbps}
    lone = _lone(directions, size_mib, count)

    def cost_ns(performance: Performance) -> int:
        return sum(
            performance.duration_ns(task) - round(op.size_bytes / low_gbps[op.kind])
            for op in lone
            for task in performance.tasks(op.name)
        )

    program = train_step(layers, after=[Start(op, op.kind) for op in lone])
    incidents = Incidents(
        pauses=_one_by_one(lone),
        outside=tuple(op.name for op in lone),
        gbps=dict.fromkeys(directions, gbps),
    )
    return planted(
        "remote_numa",
        program,
        cost_ns,
        kind="excess",
        incidents=incidents,
        traits=Traits(gpu=gpu),
    )


def starved(
    *, direction: str = "d2h", size_mib: int = 64, slowdown: float = 5.0, layers: int = 4
) -> Planted:
    """Let a copy crawl under a memory-bound kernel.

    ::

        compute   [mlp )[transpose            )[norm
        d2h             [copy               )
    """
    phase = {"d2h": "forward", "h2d": "backward"}[direction]
    moved = copy("copy-start.20", direction, size_mib * MIB, f"{PATHS[phase]}/ffn_in")
    covering_ns = round(1.2 * slowdown * moved.size_bytes / GBPS)
    covering = kernel("transpose_fusion.30", f"{PATHS[phase]}/transpose", covering_ns)
    lone = _lone([direction], size_mib, 2)

    def cost_ns(performance: Performance) -> int:
        lone_ns = _usual_ns(performance, lone)
        tasks = performance.tasks(moved.name)
        return sum(performance.duration_ns(task) - lone_ns for task in tasks)

    parts: Parts = (Start(moved, direction), covering, Await(moved))
    incidents = Incidents(
        pauses=_one_by_one(lone),
        outside=tuple(op.name for op in lone),
        gbps={moved.name: GBPS / slowdown},
    )
    program = train_step(layers, **{phase: parts}, after=[Start(op, direction) for op in lone])
    return planted("starved", program, cost_ns, kind="excess", incidents=incidents)


def compute_contention(
    *, direction: str = "d2h", stretch: float = 1.4, kernels: int = 4, layers: int = 2
) -> Planted:
    """Slow the kernels under a copy; the same kernels run alone after it.

    ::

        compute   [mlp )[norm    )[norm    )[norm    )[norm )[norm )[norm )
        d2h             [copy                      )
    """
    phase = {"d2h": "forward", "h2d": "backward"}[direction]
    alone_ns = 500_000
    covered_ns = round(alone_ns * stretch)
    path = f"{PATHS[phase]}/scale/mul"
    covered, alone = (kernel("scale_fusion.30", path, time) for time in (covered_ns, alone_ns))
    size_bytes = int(GBPS * covered_ns * (kernels - 0.05))  # covers 95 % of the last one
    moved = copy("copy-start.20", direction, size_bytes, f"{PATHS[phase]}/ffn_in")

    def cost_ns(performance: Performance) -> int:
        times = [performance.duration_ns(task) for task in performance.tasks(alone.name)]
        return sum(time - alone_ns for time in times)

    parts: Parts = (
        Start(moved, direction),
        *(covered for _ in range(kernels)),
        *(alone for _ in range(kernels)),
        Await(moved),
    )
    program = train_step(layers, **{phase: parts})
    return planted("compute_contention", program, cost_ns, kind="excess")


def bidirectional_contention(
    *, size_mib: int = 128, both_ways: float = 0.6, layers: int = 2
) -> Planted:
    """Run both directions at one time, each slower than alone.

    ::

        compute   [mlp )[gate              )[norm
        d2h             [copy         )
        h2d             [copy         )
    """
    path = PATHS["forward"]
    moved = [
        copy("copy-start.20", "d2h", size_mib * MIB, f"{path}/ffn_in"),
        copy("copy-start.21", "h2d", size_mib * MIB, f"{path}/weights"),
    ]
    covering_ns = round(1.2 * size_mib * MIB / GBPS / both_ways)
    covering = kernel("gate_fusion.30", f"{path}/gate/mul", covering_ns)
    lone = _lone(["h2d", "d2h"], size_mib, 2)

    def cost_ns(performance: Performance) -> int:
        lone_ns = _usual_ns(performance, lone)
        tasks = performance.tasks(*(op.name for op in moved))
        return sum(performance.duration_ns(task) - lone_ns for task in tasks)

    starts = [Start(op, op.kind) for op in moved]
    program = train_step(
        layers,
        forward=[*starts, covering, *(Await(op) for op in moved)],
        after=[Start(op, op.kind) for op in lone],
    )
    incidents = Incidents(
        pauses=_one_by_one(lone),
        outside=tuple(op.name for op in lone),
        contention=Contention(both_ways=both_ways),
    )
    return planted("bidirectional_contention", program, cost_ns, kind="excess", incidents=incidents)


def _usual_ns(performance: Performance, copies: Sequence[Op]) -> int:
    """Return how long copies of one size took, which all took the same."""
    tasks = performance.tasks(*(op.name for op in copies))
    return median_low(performance.duration_ns(task) for task in tasks)
