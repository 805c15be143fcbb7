"""Checks of host memory: near the GPUs, and enough for what is pinned."""

from collections.abc import Iterator

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.machine.memory import POOL, HostMemory
from nsysoffload.recorders.machine.survey import Machine

__all__ = ["memory_check", "numa_checks"]


def numa_checks(machine: Machine) -> Iterator[Check]:
    """Compare the nodes of the GPUs with those that this process may use."""
    place = machine.placement
    hung_on = {gpu.node for gpu in machine.chosen}
    nodes = [node for node in place.nodes if node in hung_on]
    if not nodes or len(place.nodes) < 2:
        return
    far = {*nodes} - {*(nodes if place.cpu_nodes is None else place.cpu_nodes)}
    barred = {*nodes} - {*(nodes if place.memory_nodes is None else place.memory_nodes)}
    listed = ",".join(map(str, nodes))
    bind = f"numactl --cpunodebind={listed} --membind={listed}"
    if far:
        yield Check(
            "numa",
            "warning",
            f"GPUs hang on {_nodes(far)}, where this process may not run, so host memory will be "
            "far from them and copies slow.",
            f"Start it with {bind}, or have the job bound to the CPUs next to its GPUs.",
        )
    elif barred:
        yield Check(
            "numa",
            "warning",
            f"GPUs hang on {_nodes(barred)}, whose memory this process may not use, so host memory "
            "will be far from them and copies slow.",
            f"Have that memory allowed (cpuset), and start it with {bind}.",
        )
    else:
        others = place.cpu_nodes is not None and {*place.cpu_nodes} - {*nodes}
        advice = f"It may also run elsewhere; to keep host memory near, use {bind}."
        text = f"GPUs hang on {_nodes({*nodes})}, where this process may run."
        yield Check("numa", "ok", text, advice if others else "")


def _nodes(nodes: set[int]) -> str:
    return f"NUMA node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, sorted(nodes)))}"


def memory_check(memory: HostMemory, offload: bool) -> Check:
    """Compare XLA's pool of pinned memory with what this process may use."""
    pool = memory.pool_bytes
    if pool is None:
        text = f"{POOL} is no whole number, so XLA has no size for its pinned pool."
        return Check("memory", "warning", text, "Set it to a number of GiB, or unset it.")
    parts = [f"XLA's pool of pinned memory may grow to {_gib(pool)}", *_had(memory)]
    text = f"{'; '.join(parts)}."
    had = (memory.limit_bytes, memory.machine_bytes)
    if not offload or all(size is None or size >= pool for size in had):
        return Check("memory", "ok", text)
    advice = f"Set {POOL} lower, or have a limit raised: a program that reaches it is killed."
    return Check("memory", "warning", text, advice)


def _had(memory: HostMemory) -> Iterator[str]:
    """Yield how much memory there is, and how much of it may be used."""
    if memory.machine_bytes is not None:
        yield f"the machine has {_gib(memory.machine_bytes)}"
    if memory.limit_bytes is not None:
        used = f", {_gib(memory.used_bytes)} of it in use" if memory.used_bytes is not None else ""
        yield f"the limit of its container or job is {_gib(memory.limit_bytes)}{used}"


def _gib(size_bytes: int) -> str:
    """Return a size in GiB, the unit of the pool's own variable.

    Examples
    --------
    >>> _gib(64 << 30), _gib(1_610_612_736)
    ('64 GiB', '1.5 GiB')
    """
    return f"{size_bytes / 2**30:.3g} GiB" if size_bytes < 1000 << 30 else f"{size_bytes >> 30} GiB"
