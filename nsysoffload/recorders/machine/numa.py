"""NUMA nodes: those of the machine, and those that a process may use."""

from dataclasses import dataclass
from pathlib import Path

from nsysoffload.recorders.machine.proc import field, numbers, text

__all__ = ["Placement", "placement"]


@dataclass(frozen=True)
class Placement:
    """Where a process may run and put its memory.

    Attributes
    ----------
    nodes : tuple of int
        Nodes of the machine that have CPUs. The memory of a GPU may be a node as well, without any.
    cpu_nodes : tuple of int or None
        Those with CPUs that the process may run on.
    memory_nodes : tuple of int or None
        Nodes whose memory it may use.
    """

    nodes: tuple[int, ...]
    cpu_nodes: tuple[int, ...] | None
    memory_nodes: tuple[int, ...] | None


def placement(root: Path) -> Placement:
    """Return where this process may run and put its memory."""
    cpus = {
        int(path.name.removeprefix("node")): numbers(text(path / "cpulist"))
        for path in (root / "sys/devices/system/node").glob("node[0-9]*")
    }
    status = text(root / "proc/self/status")
    may_run = numbers(field("Cpus_allowed_list", status) or "")
    memory = numbers(field("Mems_allowed_list", status) or "")
    nodes = sorted(node for node in cpus if cpus[node])
    cpu_nodes = tuple(node for node in nodes if {*cpus[node]} & {*may_run})
    return Placement(tuple(nodes), cpu_nodes if may_run else None, memory or None)
