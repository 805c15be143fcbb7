"""Host memory: of the machine, what a container or job may use of it, and XLA's pinned pool."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nsysoffload.recorders.machine.proc import field, number, text
from nsysoffload.recorders.predict.memory import HOST_POOL_BYTES

__all__ = ["POOL", "HostMemory", "cgroup_limit", "host_memory", "pool_bytes"]

POOL = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"
"""Variable with the size of XLA's pinned pool, in GiB despite its name."""

_NO_LIMIT = 1 << 60  # the first version says "none" by a number near 2**63
_FILES = {"cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
_FILES["cgroup2"] = ("memory.max", "memory.current")


@dataclass(frozen=True)
class HostMemory:
    """Bytes of host memory.

    Attributes
    ----------
    machine_bytes, available_bytes : int or None
        All of it, and what is free or can be freed.
    limit_bytes, used_bytes : int or None
        Smallest limit of the control groups that this process is in, and what that group uses.
    pool_bytes : int or None
        What XLA's pool of pinned memory may grow to; None where its variable is no number.
    """

    machine_bytes: int | None
    available_bytes: int | None
    limit_bytes: int | None
    used_bytes: int | None
    pool_bytes: int | None


def host_memory(root: Path, environment: Mapping[str, str]) -> HostMemory:
    """Return what there is of host memory."""
    known = text(root / "proc/meminfo")
    limit, used = cgroup_limit(root) or (None, None)
    return HostMemory(
        machine_bytes=_kib(field("MemTotal", known)),
        available_bytes=_kib(field("MemAvailable", known)),
        limit_bytes=limit,
        used_bytes=used,
        pool_bytes=pool_bytes(environment),
    )


def pool_bytes(environment: Mapping[str, str]) -> int | None:
    """Return what XLA's pool of pinned memory may grow to; None where its variable is no number.

    Examples
    --------
    >>> pool_bytes({}) == 64 * 2**30, pool_bytes({POOL: "2"}), pool_bytes({POOL: "much"})
    (True, 2147483648, None)
    """
    given = environment.get(POOL)
    if given is None:
        return HOST_POOL_BYTES
    return int(given) << 30 if given.strip().isdecimal() else None


def cgroup_limit(root: Path) -> tuple[int, int | None] | None:
    """Return the smallest memory limit on the way up from this process's control group.

    Both versions of control groups are read.

    Returns
    -------
    tuple of int and (int or None), or None
        Bytes of the limit and bytes that the group with this limit uses; None without a limit.
    """
    limits = [
        (limit, number(group / used_file))
        for group, limit_file, used_file in _groups(root)
        if (limit := number(group / limit_file)) is not None and limit < _NO_LIMIT
    ]
    return min(limits, key=lambda pair: pair[0], default=None)


def _groups(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the folders of this process's groups, inner ones first, and the files to read there."""
    own = _own_groups(root)
    for line in text(root / "proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        version, _, options = kind.split(" ", 2) if kind.count(" ") >= 2 else ("", "", "")
        if version not in own or (version == "cgroup" and "memory" not in options.split(",")):
            continue
        mounted, mount_point = place.split()[3:5]
        inner = _below(own[version], PurePosixPath(mounted))
        for group in (inner, *inner.parents):
            yield (root / mount_point.lstrip("/") / group, *_FILES[version])


def _own_groups(root: Path) -> dict[str, PurePosixPath]:
    """Return the paths of this process's groups, by version."""
    own = {}
    for line in text(root / "proc/self/cgroup").splitlines():
        number_, controllers, path = line.split(":", 2)
        if number_ == "0" and not controllers:
            own["cgroup2"] = PurePosixPath(path)
        elif "memory" in controllers.split(","):
            own["cgroup"] = PurePosixPath(path)
    return own


def _below(group: PurePosixPath, mounted: PurePosixPath) -> PurePosixPath:
    """Return the path of a group below what is mounted; that itself where the group is outside.

    A container may see only its own part of the tree, or be told a path of the machine's.
    """
    if ".." in group.parts or not group.is_relative_to(mounted):
        return PurePosixPath()
    return group.relative_to(mounted)


def _kib(shown: str | None) -> int | None:
    found = re.fullmatch(r"(\d+) kB", shown or "")
    return int(found[1]) << 10 if found else None
