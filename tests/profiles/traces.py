"""Traces of the small module, in microseconds: each operation in XLA's ranges."""

from pathlib import Path
from typing import Self

from nsysoffload.trace.builder import Span, TraceBuilder
from nsysoffload.trace.tables import UNSET


class Launches:
    """Builds a trace of steps, in which the host launches one operation after the other."""

    def __init__(self, module: str = "jit_step", pid: int = 1, node: int = UNSET) -> None:
        self.trace = TraceBuilder("NVIDIA GB200", unit="us")
        self._node = node
        self._module = module
        self._pid = pid
        self._host = 1

    def step(self, *operations: tuple[str, *tuple[Span, ...]]) -> Self:
        """Add a step of operations with the times of their rows; slices are copies.

        ``a/b`` is an operation b within an a.
        """
        begin = self._host
        for op, *whens in operations:
            self._launch(op, whens)
        text = f"XlaModule:#prefix=jit(step),hlo_module={self._module},program_id=1#"
        whole = (begin, self._host)
        self.trace.nvtx("train_step", whole, pid=self._pid)
        self.trace.nvtx(text, whole, domain=1, pid=self._pid)
        self._host += 10
        return self

    def _launch(self, op: str, whens: list[Span]) -> None:
        outer, _, inner = op.partition("/")
        at = self._host
        names = (outer, inner) if inner else (outer,)
        for depth, name in enumerate(names):
            text = f"Thunk:#name=x,hlo_op={name},unique_hlo_op_id=3#"
            self.trace.nvtx(text, (at + depth, at + 8 - depth), domain=1, pid=self._pid)
        where = {"pid": self._pid, "call": (at + 3, at + 4)}
        for when in whens:
            if "slice" in op:
                self.trace.copy("h2d", when, stream=20, **where)
            else:
                name = "ncclDevKernel_AllGather" if "gather" in op else "kernel"
                self.trace.kernel(when, name, graph_node=self._node, **where)
        self._host += 10

    def write(self, folder: Path) -> Path:
        """Write the trace into a folder, as that of a run."""
        folder.mkdir(parents=True, exist_ok=True)
        return self.trace.write(folder / "trace.sqlite")


ADD, ADD_BEFORE = "loop_add_fusion", "loop_add_fusion.1"
COPY, COPY_7 = "dynamic-slice-start", "dynamic-slice-start.7"
GATHER = "all-gather.81"


def whole_step(at: int, *, gather: int = 50) -> list[tuple[str, Span]]:
    """Return a step with each operation of the module once, from a time on; 1,000 long."""
    return [
        (ADD_BEFORE, (at, at + 100)),
        (COPY, (at + 100, at + 300)),
        (COPY_7, (at + 300, at + 600)),
        (ADD, (at + 600, at + 640)),
        (GATHER, (at + 640, at + 640 + gather)),
        (ADD_BEFORE, (at + 990, at + 1_000)),
    ]
