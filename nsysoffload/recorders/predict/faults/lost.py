"""Faults that cost time outside of compute."""

from itertools import pairwise

from nsysoffload.recorders.predict.faults.host import LAUNCH_NS, Incidents, Pause, Performance
from nsysoffload.recorders.predict.faults.planted import (
    Planted,
    gap_at,
    planted,
    resting_ns,
    stalled_ns,
)
from nsysoffload.recorders.predict.faults.rows import Traits
from nsysoffload.recorders.predict.faults.step import (
    MIB,
    PATHS,
    PRECEDING,
    Await,
    Parts,
    body,
    collective,
    copy,
    kernel,
    train_step,
)
from nsysoffload.recorders.predict.program import Kind, Loop, Op, Program, Start

__all__ = [
    "collective_only",
    "host_callback",
    "host_gap",
    "host_sync",
    "issued_too_late",
    "pageable_memory",
    "pinned_allocation",
    "queued_behind_copy",
    "same_stream",
    "shared_copy_stream",
    "small_copies",
    "staging_gaps",
    "step_boundary",
    "transfer_bound",
]

_PHASES = {"d2h": "forward", "h2d": "backward"}
"""Where transfers of a direction belong."""

_KIB = 1 << 10


def _step(phase: str, layers: int, parts: Parts) -> Program:
    if phase == "forward":
        return train_step(layers, forward=parts)
    return train_step(layers, backward=parts)


def _copy(direction: str, size_bytes: int, number: int = 20) -> Op:
    path = PATHS[_PHASES[direction]]
    return copy(f"copy-start.{number}", direction, size_bytes, f"{path}/ffn_in")


def _work(phase: str, duration_ns: int) -> Op:
    return kernel("gate_fusion.30", f"{PATHS[phase]}/gate/mul", duration_ns)


# --- The copy itself ---


def pageable_memory(
    *,
    direction: str = "d2h",
    size_mib: int = 64,
    layers: int = 4,
    gbps: float = 40.0,
    early_call: bool = True,
) -> Planted:
    """Copy from or to pageable memory: the call lasts as long as the copy.

    ::

        compute   [mlp  )                   [norm
        d2h              [copy          )
        call        [copy                )

    With ``early_call`` the call is made while the kernel before still runs, else when it has ended.
    """
    moved = _copy(direction, size_mib * MIB)
    phase = _PHASES[direction]
    pauses = [Pause(moved.name, moved.name, LAUNCH_NS)]
    if not early_call:
        pauses.append(Pause(PRECEDING[phase], PRECEDING[phase]))
    return planted(
        "pageable_memory",
        _step(phase, layers, (Start(moved, direction), Await(moved))),
        stalled_ns,
        incidents=Incidents(pauses=tuple(pauses), gbps={moved.name: gbps}),
        traits=Traits(pageable=(moved.name,)),
    )


def same_stream(*, direction: str = "d2h", size_mib: int = 64, layers: int = 4) -> Planted:
    """Copy on the compute stream, between two kernels."""
    moved = _copy(direction, size_mib * MIB)
    return planted("same_stream", _step(_PHASES[direction], layers, (moved,)), stalled_ns)


def shared_copy_stream(
    *, phase: str = "backward", ahead_mib: int = 256, size_mib: int = 64, layers: int = 4
) -> Planted:
    """Let an H2D wait behind a D2H of the same stream.

    ::

        compute   [mlp )[gate  )                      [norm
        copies          [D2H ahead        )[H2D      )
    """
    ahead, moved = _copy("d2h", ahead_mib * MIB, 20), _copy("h2d", size_mib * MIB, 21)
    parts: Parts = (
        Start(ahead, "copies"),
        Start(moved, "copies"),
        _work(phase, 200_000),
        Await(moved),
    )
    return planted("shared_copy_stream", _step(phase, layers, parts), stalled_ns)


def queued_behind_copy(
    *,
    phase: str = "backward",
    copies: int = 8,
    ahead_mib: int = 32,
    size_kib: int = 4,
    layers: int = 4,
) -> Planted:
    """Let a small H2D wait until the engine has done a burst of another stream.

    ::

        compute   [mlp )[gate )                          [norm
        h2d             [burst  )[burst  )[burst  )
        h2d.small                                  [copy)
    """
    burst = [_copy("h2d", ahead_mib * MIB, 40 + number) for number in range(copies)]
    moved = _copy("h2d", size_kib * _KIB)
    parts: Parts = (
        *(Start(ahead, "h2d") for ahead in burst),
        Start(moved, "h2d.small"),
        _work(phase, 200_000),
        Await(moved),
    )
    return planted(
        "queued_behind_copy",
        _step(phase, layers, parts),
        stalled_ns,
        incidents=Incidents(behind={moved.name: burst[-1].name}),
    )


def small_copies(
    *,
    phase: str = "backward",
    copies: int = 200,
    size_kib: int = 8,
    launch_ns: int = 6_000,
    layers: int = 2,
) -> Planted:
    """Move many small pieces, each issued by itself, so that the host cannot keep up.

    ::

        compute   [mlp )                          [norm
        h2d               [)   [)   [)   [)   [)
    """
    pieces = [_copy("h2d", size_kib * _KIB, 100 + number) for number in range(copies)]
    parts: Parts = (*(Start(piece, "h2d") for piece in pieces), Await(pieces[-1]))
    return planted(
        "small_copies",
        _step(phase, layers, parts),
        stalled_ns,
        incidents=Incidents(
            pauses=(Pause(PRECEDING[phase], PRECEDING[phase]),),
            gbps={piece.name: 10.0 for piece in pieces},
            launch_ns=launch_ns,
        ),
    )


def staging_gaps(
    *,
    direction: str = "d2h",
    copies: int = 8,
    size_mib: int = 64,
    gap_ns: int = 15_000_000,
    layers: int = 1,
) -> Planted:
    """Move a buffer in pieces, between which the host empties or fills the piece's memory.

    ::

        compute   [mlp )                                        [norm
        d2h              [copy)......[copy)......[copy)......[copy)
    """
    pieces = [_copy(direction, size_mib * MIB, 100 + number) for number in range(copies)]
    names = [piece.name for piece in pieces]

    def cost_ns(performance: Performance) -> int:
        tasks = performance.tasks(*names)
        start_ns, end_ns = performance.record.start_ns, performance.record.end_ns
        return sum(
            int(start_ns[later] - end_ns[task])
            for place, (task, later) in enumerate(pairwise(tasks), 1)
            if place % copies
        )

    parts: Parts = (*(Start(piece, direction) for piece in pieces), Await(pieces[-1]))
    pauses = tuple(Pause(name, name, gap_ns) for name in names[:-1])
    return planted(
        "staging_gaps",
        _step(_PHASES[direction], layers, parts),
        cost_ns,
        incidents=Incidents(pauses=pauses),
    )


def transfer_bound(*, direction: str = "h2d", size_mib: int = 256, layers: int = 16) -> Planted:
    """Move so much that hardly a kernel runs beside nothing: no schedule could hide it.

    ::

        compute   [)[mlp  )         [mlp  )         [mlp  )          [)
        h2d         [copy         ) [copy         ) [copy         )
    """
    path = PATHS[_PHASES[direction]]
    moved = _copy(direction, size_mib * MIB)
    layer = body(
        Start(moved, direction),
        kernel("mlp_fusion.3", f"{path}/mlp/dot_general", 400_000),
        Await(moved),
    )
    program = Program(
        "jit_train_step",
        body(
            kernel("gather_fusion.1", "jit(train_step)/jvp()/embed/gather", 30_000),
            Loop("while.1", layer, layers),
            kernel("optimizer_fusion.12", "jit(train_step)/optimizer/add", 30_000),
        ),
    )
    return planted("transfer_bound", program, stalled_ns)


def step_boundary(*, where: str = "before", size_mib: int = 256, layers: int = 4) -> Planted:
    """Copy ``before`` the first kernel of the step, or ``after`` its last one."""
    direction = {"before": "h2d", "after": "d2h"}[where]
    moved = copy("copy-start.20", direction, size_mib * MIB, "jit(train_step)/parameters")
    parts: Parts = (Start(moved, direction), Await(moved))
    program = train_step(layers, **{where: parts})
    return planted("step_boundary", program, stalled_ns)


def issued_too_late(
    *, direction: str = "h2d", size_mib: int = 64, layers: int = 4, has_events: bool = True
) -> Planted:
    """Start a copy when the kernel before has ended, and make the next wait for it.

    ::

        compute   [recompute )              [attention
        h2d                   [copy       )

    Without ``has_events`` the trace does not show who waits for whom.
    """
    moved = _copy(direction, size_mib * MIB)
    program = _step(_PHASES[direction], layers, (Start(moved, direction), Await(moved)))
    traits = Traits(has_events=has_events)
    return planted("issued_too_late", program, stalled_ns, traits=traits)


# --- Others ---


def collective_only(
    *, phase: str = "forward", duration_ns: int = 500_000, layers: int = 4, stream: str = "comm"
) -> Planted:
    """Wait for a collective, on a stream of its own or on ``compute``, beside nothing else."""
    gather = collective(f"{PATHS[phase]}/mlp/all_gather", duration_ns)

    def cost_ns(performance: Performance) -> int:
        return sum(map(performance.duration_ns, performance.tasks(gather.name)))

    on_own = (Start(gather, stream), Await(gather))
    parts: Parts = (gather,) if stream == "compute" else on_own
    return planted("collective_only", _step(phase, layers, parts), cost_ns)


def pinned_allocation(
    *,
    call: str = "cuMemHostAlloc",
    phase: str = "forward",
    duration_ns: int = 800_000,
    layers: int = 4,
) -> Planted:
    """Allocate or free pinned memory in the step: the call waits for the GPU, then takes its time.

    ::

        compute   [mlp     )            [norm
        call         [cuMemHostAlloc)
    """
    pause = Pause(PRECEDING[phase], PRECEDING[phase], duration_ns, call)
    return planted(
        "pinned_allocation",
        train_step(layers),
        resting_ns,
        incidents=Incidents(pauses=(pause,)),
    )


def host_callback(
    *, phase: str = "forward", duration_ns: int = 500_000, layers: int = 4
) -> Planted:
    """Let the compute stream wait for a function that the host runs."""
    function = Op(
        "host-function",
        Kind.COPY,  # occupies the stream; its row is taken out of the trace
        f"{PATHS[phase]}/callback",
        flops=duration_ns,
        is_kernel=False,
    )

    def cost_ns(performance: Performance) -> int:
        record = performance.record
        gaps = (
            gap_at(record, int(record.start_ns[task])) for task in performance.tasks(function.name)
        )
        return sum(end - start for start, end in gaps)

    return planted("host_callback", _step(phase, layers, (function,)), cost_ns)


def host_sync(
    *,
    call: str = "cuStreamSynchronize",
    direction: str = "d2h",
    wake_up_ns: int = 800_000,
    layers: int = 4,
) -> Planted:
    """Wait on the host for a copy that is hidden, and wake up when compute has run dry.

    ::

        compute   [mlp )[gate       )             [norm
        d2h             [copy )
        call        [cuStreamSynchronize      )
    """
    phase = _PHASES[direction]
    moved, work = _copy(direction, 16 * MIB), _work(phase, 200_000)
    parts: Parts = (Start(moved, direction), work, Await(moved))
    pause = Pause(work.name, moved.name, wake_up_ns, call)
    return planted(
        "host_sync",
        _step(phase, layers, parts),
        resting_ns,
        incidents=Incidents(pauses=(pause,)),
    )


def host_gap(*, phase: str = "forward", late_ns: int = 500_000, layers: int = 4) -> Planted:
    """Launch the next kernel late, for no reason that a trace shows."""

    def cost_ns(performance: Performance) -> int:
        record = performance.record
        gaps = (
            gap_at(record, int(record.end_ns[task]) + pause.delay_ns)
            for pause, _, task in performance.paused
        )
        return sum(end - start for start, end in gaps)

    pause = Pause(PRECEDING[phase], PRECEDING[phase], late_ns)
    return planted("host_gap", train_step(layers), cost_ns, incidents=Incidents(pauses=(pause,)))
