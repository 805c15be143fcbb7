"""What a compiled program needs of device and host memory, and whether it fits."""

from collections.abc import Iterable
from dataclasses import dataclass

from nsysoffload.hardware import Target

__all__ = [
    "DEFAULT_POOL_SHARE",
    "HOST_POOL_BYTES",
    "SLOP",
    "Fit",
    "Memory",
    "planned_bytes",
    "roomy_slop",
    "slop_of",
]

DEFAULT_POOL_SHARE = 0.75
"""Share of a GPU's memory that JAX takes by default (``XLA_PYTHON_CLIENT_MEM_FRACTION``)."""

HOST_POOL_BYTES = 64 << 30
"""Pinned host memory that a GPU may take by default (``XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB``, which
counts in GiB despite its name: openxla/xla, xla/pjrt/gpu/gpu_helpers.cc)."""

SLOP = "--xla_gpu_memory_limit_slop_factor="
"""Flag: percent of what arguments leave that XLA's scheduler may plan with."""

_SLOP_FACTOR = 95  # openxla/xla, xla/debug_options_flags.cc
_PLANNED = 0.80  # of device memory, arguments and results included (gpu_hlo_schedule.cc there)


@dataclass(frozen=True)
class Fit:
    """Whether a program fits.

    Attributes
    ----------
    default_pool : bool
        In the share of device memory that JAX takes by default.
    device : bool
        In the whole of it, as with ``XLA_PYTHON_CLIENT_MEM_FRACTION`` near 1.
    host_pool : bool
        In the pinned host memory that JAX takes by default.
    """

    default_pool: bool
    device: bool
    host_pool: bool


@dataclass(frozen=True)
class Memory:
    """Bytes of one device, and of the host memory that belongs to it, by the compiler's count.

    Aliased bytes are outputs written over donated arguments. The peak that the compiler reports
    beside these is not used: with offload it adds host memory to that of the device.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    host_argument_bytes: int
    host_output_bytes: int
    host_alias_bytes: int
    host_temp_bytes: int

    @property
    def device_bytes(self) -> int:
        """Device memory that the program needs, its arguments included."""
        return self.lasting_bytes + self.temp_bytes

    @property
    def host_bytes(self) -> int:
        """Pinned host memory that the program needs, arguments kept there included."""
        return (
            self.host_argument_bytes
            + self.host_temp_bytes
            + self.host_output_bytes
            - self.host_alias_bytes
        )

    @property
    def lasting_bytes(self) -> int:
        """Device memory of arguments and results, which are there all the time."""
        return self.argument_bytes + self.output_bytes - self.alias_bytes

    def fits(self, target: Target) -> Fit:
        """Say whether the program fits; the compiler does not refuse one that does not."""
        return Fit(
            default_pool=self.device_bytes <= DEFAULT_POOL_SHARE * target.memory_bytes,
            device=self.device_bytes <= target.memory_bytes,
            host_pool=self.host_bytes <= HOST_POOL_BYTES,
        )


def slop_of(flags: Iterable[str]) -> int:
    """Return the slop factor that flags set, in percent; XLA's own where they do not."""
    given = [flag.removeprefix(SLOP) for flag in flags if flag.startswith(SLOP)]
    return int(given[-1]) if given and given[-1].isdecimal() else _SLOP_FACTOR


def planned_bytes(lasting_bytes: int, target: Target, slop: int = _SLOP_FACTOR) -> int:
    """Return what temporaries may take before XLA's scheduler orders for memory, not for overlap.

    Parameters
    ----------
    lasting_bytes : int
        Device memory of arguments and results.
    target : Target
        The GPU.
    slop : int
        Slop factor, in percent.
    """
    rest = _PLANNED * target.memory_bytes - lasting_bytes
    return max(0, int(rest * slop / 100))


def roomy_slop(lasting_bytes: int, target: Target, limit_bytes: int) -> int:
    """Return the slop factor by which the scheduler plans with so much of the device, in percent.

    It is 0 where arguments and results leave the scheduler nothing.
    """
    rest = _PLANNED * target.memory_bytes - lasting_bytes
    return max(0, int(100 * (limit_bytes - lasting_bytes) / rest)) if rest > 0 else 0
