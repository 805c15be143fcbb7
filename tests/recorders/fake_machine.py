"""A machine made of a few files below a folder that stands for ``/``."""

from collections.abc import Sequence
from pathlib import Path

GIB = 1 << 30


class FakeMachine:
    """Writes what the kernel and the driver would show; at first there is only a CPU."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("dev", "tmp", "var/lock"):
            (root / folder).mkdir(parents=True)
        self.memory(512)
        self.nodes({0: "0-7"})
        self.may_use("0-7", "0")

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def memory(self, gib: int) -> None:
        kib = gib << 20
        self.file("proc/meminfo", f"MemTotal:  {kib} kB\nMemFree: 1 kB\nMemAvailable: {kib} kB\n")

    def nodes(self, cpus: dict[int, str]) -> None:
        """Make NUMA nodes with these CPUs."""
        for node, listed in cpus.items():
            self.file(f"sys/devices/system/node/node{node}/cpulist", f"{listed}\n")

    def may_use(self, cpus: str, memory: str) -> None:
        """Let the process run on CPUs, and use the memory of nodes."""
        lines = f"Name:\tpython\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{memory}\n"
        self.file("proc/self/status", lines)

    def driver(self, version: str, restricted: bool | None = None) -> None:
        said = f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {version}  Release Build"
        self.file("proc/driver/nvidia/version", f"{said}\nGCC version:  gcc 13.3.0\n")
        if restricted is not None:
            lines = f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted:d}\n"
            self.file("proc/driver/nvidia/params", lines)

    def gpus(self, model: str, nodes: Sequence[int], *, mig: bool = False) -> None:
        """Add GPUs, each on one of these NUMA nodes."""
        for minor, node in enumerate(nodes):
            bus = f"{9 + 16 * minor:04x}:01:00.0"
            lines = (
                f"Model: \t\t {model}\nIRQ:   \t\t 200\nGPU UUID: \t GPU-{minor}aaa\n"
                f"Bus Location: \t {bus}\nDevice Minor: \t {minor}\n"
            )
            self.file(f"proc/driver/nvidia/gpus/{bus}/information", lines)
            self.file(f"sys/bus/pci/devices/{bus}/numa_node", f"{node}\n")
            self.file(f"dev/nvidia{minor}", "")
            if mig:
                access = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi7/access"
                self.file(access, "DeviceFileMinor: 66\n")

    def grace_hoppers(self) -> None:
        """Make it a node of four GH200, 72 CPUs each; the memory of GPUs is nodes 4, 12, ..."""
        cpus = {node: f"{72 * node}-{72 * node + 71}" for node in range(4)}
        self.nodes(cpus | {4: "", 12: "", 20: "", 28: ""})
        self.may_use("0-287", "0-3")
        self.driver("580.82.07", restricted=False)
        self.gpus("NVIDIA GH200 120GB", range(4))

    def cgroup2(self, own: str, limits: dict[str, str], mounted: str = "/") -> None:
        """Put the process into a group, and give groups below the mount point a limit."""
        self.file("proc/self/cgroup", f"0::{own}\n")
        mount = f"30 23 0:26 {mounted} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
        self.file("proc/self/mountinfo", f"23 1 0:5 / / rw - ext4 /dev/sda1 rw\n{mount}")
        for group, limit in limits.items():
            self.file(f"sys/fs/cgroup/{group}/memory.max", f"{limit}\n")
            self.file(f"sys/fs/cgroup/{group}/memory.current", f"{3 * GIB}\n")

    def cgroup1(self, own: str, limits: dict[str, int], mounted: str = "/") -> None:
        """Do the same in the first version, where each controller has a tree of its own."""
        self.file("proc/self/cgroup", f"5:cpuset:/elsewhere\n4:memory:{own}\n0::/\n")
        trees = [
            f"3{number} 23 0:2{number} {mounted} /sys/fs/cgroup/{name} rw - cgroup none rw,{name}\n"
            for number, name in enumerate(("cpuset", "memory"))
        ]
        self.file("proc/self/mountinfo", "".join(trees))
        for group, limit in limits.items():
            self.file(f"sys/fs/cgroup/memory/{group}/memory.limit_in_bytes", f"{limit}\n")
            self.file(f"sys/fs/cgroup/memory/{group}/memory.usage_in_bytes", f"{3 * GIB}\n")

    def runs(self, *programs: str) -> None:
        for pid, program in enumerate(programs, start=100):
            self.file(f"proc/{pid}/comm", f"{program}\n")


def install(packages: dict[str, str], folder: Path) -> str:
    """Make these packages look installed in a folder, and return what to put on the path."""
    for name, version in packages.items():
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(lines)
    return str(folder)


def program(path: Path, script: str) -> Path:
    """Write a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
