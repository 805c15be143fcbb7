"""The GPUs that a process can see, their driver, and who may read their counters."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.recorders.machine.proc import field, number, text

__all__ = ["Gpu", "chosen", "driver", "gpus", "has_gpu", "profiling_restricted"]

_DEVICE = re.compile(r"nvidia\d+|dxg")  # dxg: of Windows, for its Linux
_DRIVER = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", re.MULTILINE)
_ANSWER_S = 30  # without persistence mode the driver first wakes the GPUs, seconds for each


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes
    ----------
    bus : str
        PCI address, such as ``0009:01:00.0``.
    uuid, model : str
        As the driver names them.
    node : int or None
        NUMA node that it hangs on.
    mig : bool
        Whether it is split into several (MIG).
    """

    bus: str
    uuid: str
    model: str
    node: int | None
    mig: bool


def has_gpu(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the device file of a GPU is there, and CUDA_VISIBLE_DEVICES does not hide it.

    Quick, where `gpus` asks the driver.
    """
    try:
        names = [path.name for path in (root / "dev").iterdir()]
    except OSError:
        return False
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    return any(map(_DEVICE.fullmatch, names)) and (wanted is None or _names_one(wanted))


def gpus(root: Path, environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that the driver shows to this process, by PCI address.

    `nvidia-smi` is asked where it is on PATH, since a job may be kept from devices whose files it
    sees; without it the driver's files are read.
    """
    told = _told(root, environment)
    return tuple(sorted(_read(root) if told is None else told, key=lambda gpu: gpu.bus))


def driver(root: Path) -> str | None:
    """Return the version of the kernel's driver, such as ``580.82.07``."""
    found = _DRIVER.search(text(root / "proc/driver/nvidia/version"))
    return found[1] if found else None


def profiling_restricted(root: Path) -> bool | None:
    """Whether only administrators may read GPU counters; None where the driver does not say.

    The parameter is set as ``NVreg_RestrictProfilingToAdminUsers`` and shown under another name.
    """
    shown = field("RmProfilingAdminOnly", text(root / "proc/driver/nvidia/params"))
    return shown != "0" if shown else None


def chosen(
    seen: Sequence[Gpu], environment: Mapping[str, str], local_rank: int | None
) -> tuple[Gpu, ...]:
    """Return those of the GPUs that a program of this environment will use, as far as can be told.

    Parameters
    ----------
    seen : sequence of Gpu
        By PCI address.
    environment : mapping of str to str
        Whose ``CUDA_VISIBLE_DEVICES`` names some of them.
    local_rank : int or None
        Among the ranks of this machine. Where there is one for each, a rank takes the GPU of its
        own number, as JAX does; where a single one is left to it, that.
    """
    visible = _visible(seen, environment)
    if local_rank is None or local_rank >= len(visible):
        return visible
    return (visible[local_rank],)


def _visible(seen: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Pick GPUs by number or uuid; as in CUDA, the first that is none ends the list."""
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(seen)
    names = [name.strip() for name in wanted.split(",")]
    alike = len({gpu.model for gpu in seen}) <= 1
    by_bus = alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if any(name.startswith("MIG-") or (name.isdecimal() and not by_bus) for name in names):
        return tuple(seen)  # which of them cannot be told: CUDA counts the fastest first
    picked: list[Gpu] = []
    for name in names:
        gpu = _named(seen, name)
        if gpu is None:
            break
        picked.append(gpu)
    return tuple(picked)


def _named(seen: Sequence[Gpu], name: str) -> Gpu | None:
    if name.isdecimal():
        return dict(enumerate(seen)).get(int(name))
    return next(
        (gpu for gpu in seen if name.startswith("GPU-") and gpu.uuid.startswith(name)), None
    )


def _names_one(wanted: str) -> bool:
    first = wanted.split(",")[0].strip()
    return first.isdecimal() or first.startswith(("GPU-", "MIG-"))


def _read(root: Path) -> list[Gpu]:
    """Read the driver's files, of GPUs whose device file is there: in a container not all are."""
    found = []
    for path in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        lines = text(path)
        minor = field("Device Minor", lines) or ""
        if minor.isdecimal() and (root / f"dev/nvidia{minor}").exists():
            instances = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig"
            found.append(
                Gpu(
                    bus=path.parent.name,
                    uuid=field("GPU UUID", lines) or "",
                    model=field("Model", lines) or "",
                    node=_node(root, path.parent.name),
                    mig=any(instances.glob("gi*")),
                )
            )
    return found


def _told(root: Path, environment: Mapping[str, str]) -> list[Gpu] | None:
    """Ask nvidia-smi; None where there is none or it has no answer."""
    program = shutil.which("nvidia-smi", path=environment.get("PATH", ""))
    if program is None:
        return None
    query = ["--query-gpu=pci.bus_id,uuid,mig.mode.current,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            [program, *query],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "No devices were found" in answer.stdout:
        return []
    rows = [[word.strip() for word in line.split(",", 3)] for line in answer.stdout.splitlines()]
    if answer.returncode or not all(len(row) == 4 for row in rows):
        return None
    return [
        Gpu(
            bus=_bus(bus), uuid=uuid, model=model, node=_node(root, _bus(bus)), mig=mig == "Enabled"
        )
        for bus, uuid, mig, model in rows
    ]


def _bus(shown: str) -> str:
    """Return a PCI address as the kernel writes it; nvidia-smi writes eight digits of the domain.

    Examples
    --------
    >>> _bus("00000009:0A:00.0")
    '0009:0a:00.0'
    """
    domain, _, rest = shown.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _node(root: Path, bus: str) -> int | None:
    node = number(root / "sys/bus/pci/devices" / bus / "numa_node")
    return node if node is not None and node >= 0 else None  # -1: the machine has only one
