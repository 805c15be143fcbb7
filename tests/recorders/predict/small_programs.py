"""Small programs: made by hand in one line, or drawn at random."""

from hypothesis import strategies as st

from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Program, Start

KERNELS = (Kind.GEMM, Kind.ATTENTION, Kind.FUSION, Kind.COPY, Kind.UNKNOWN)
STREAMS = {"d2h": (Kind.D2H,), "h2d": (Kind.H2D,), "comm": (Kind.COLLECTIVE,)}
PHASES = ("jit(s)/jvp()/x", "jit(s)/transpose(jvp())/x", "jit(s)/rematted_computation/x", "")


def duration_ns(op: Op) -> int:
    """Return the time that `compute`, `copy` and the random programs give an operation."""
    return op.flops


def compute(name: str, duration: int, needs: tuple[int, ...] = (), **fields: object) -> Item:
    """Return a kernel on the compute stream."""
    return Item(Op(name, **{"kind": Kind.FUSION, "flops": duration, **fields}), needs)


def copy(
    name: str, duration: int, stream: str = "d2h", needs: tuple[int, ...] = (), **fields: object
) -> Start:
    """Return the start of a copy, or of a collective if the stream is ``comm``."""
    (kind,) = STREAMS[stream]
    given = {"kind": kind, "flops": duration, "is_kernel": kind is Kind.COLLECTIVE, **fields}
    return Start(Op(name, **given), stream, needs)


@st.composite
def programs(draw, depth: int = 1) -> Program:
    """Draw a program whose operations have distinct names and need what was done before."""
    return Program("jit_train_step", _sequence(draw, depth, "op"))


def _sequence(draw, depth: int, prefix: str) -> tuple[Item | Start | Done | Loop, ...]:
    items: list[Item | Start | Done | Loop] = []
    running: list[int] = []
    usable: list[int] = []
    choices = ["item", "item", "start", "start", "done"] + ["loop"] * (depth > 0)
    for position in range(draw(st.integers(1, 7))):
        choice = draw(st.sampled_from(choices))
        needs = tuple(draw(st.sets(st.sampled_from(usable), max_size=2))) if usable else ()
        name = f"{prefix}.{position}"
        if choice == "loop":
            trips = draw(st.sampled_from([0, 1, 2, 3, None]))
            items.append(Loop(name, _sequence(draw, depth - 1, name), trips, needs))
        elif choice == "done" and running:
            items.append(Done(running.pop(draw(st.integers(0, len(running) - 1)))))
            usable.append(position)
        elif choice == "start":
            running.append(position)
            stream = draw(st.sampled_from([*STREAMS, "compute.1"]))
            op = _op(draw, name, STREAMS.get(stream, (Kind.COPY, Kind.FUSION)))
            items.append(Start(op, stream, needs))
        else:
            items.append(Item(_op(draw, name, tuple(Kind)), needs))
            usable.append(position)
    return tuple(items)


def _op(draw, name: str, kinds: tuple[Kind, ...]) -> Op:
    kind = draw(st.sampled_from(kinds))
    driver = kind in (Kind.H2D, Kind.D2H, Kind.COPY, Kind.UNKNOWN) and draw(st.booleans())
    return Op(
        name,
        kind,
        op_name=draw(st.sampled_from(PHASES)),
        size_bytes=draw(st.integers(0, 50)),
        flops=draw(st.integers(0, 9)),
        collective="all-gather" if kind is Kind.COLLECTIVE else "",
        is_kernel=not driver,
    )
