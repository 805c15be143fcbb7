"""What a compiled program needs of device and host memory, and whether it fits."""

from dataclasses import dataclass

from nsysoffload.hardware import Target

__all__ = ["DEFAULT_POOL_SHARE", "HOST_POOL_BYTES", "SLOP_FACTOR", "Fit", "Memory"]

DEFAULT_POOL_SHARE = 0.75
"""Share of a GPU's memory that JAX takes by default (``XLA_PYTHON_CLIENT_MEM_FRACTION``)."""

HOST_POOL_BYTES = 64 << 30
"""Pinned host memory that a GPU may take by default (``XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB``, which
counts in GiB despite its name: openxla/xla, xla/pjrt/gpu/gpu_helpers.cc)."""

SLOP_FACTOR = 95
"""Percent of what is left that the scheduler may plan with (``xla_gpu_memory_limit_slop_factor``;
openxla/xla, xla/debug_options_flags.cc)."""

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
        return self._lasting_bytes + self.temp_bytes

    @property
    def host_bytes(self) -> int:
        """Pinned host memory that the program needs, arguments kept there included."""
        return (
            self.host_argument_bytes
            + self.host_temp_bytes
            + self.host_output_bytes
            - self.host_alias_bytes
        )

    def planned_bytes(self, target: Target, slop_factor: int = SLOP_FACTOR) -> int:
        """Return what temporaries may take before XLA's scheduler orders for memory, not overlap.

        Parameters
        ----------
        target : Target
            The GPU.
        slop_factor : int
            In percent.
        """
        rest = _PLANNED * target.memory_bytes - self._lasting_bytes
        return max(0, int(rest * slop_factor / 100))

    def slop_factor(self, target: Target) -> int:
        """Return the slop factor that lets the scheduler plan with all of the device, in percent.

        It is 0 where arguments and results leave the scheduler nothing.
        """
        rest = _PLANNED * target.memory_bytes - self._lasting_bytes
        whole = target.memory_bytes - self._lasting_bytes
        return int(100 * whole / rest) if rest > 0 else 0

    @property
    def _lasting_bytes(self) -> int:
        return self.argument_bytes + self.output_bytes - self.alias_bytes

    def fits(self, target: Target) -> Fit:
        """Say whether the program fits; the compiler does not refuse one that does not."""
        return Fit(
            default_pool=self.device_bytes <= DEFAULT_POOL_SHARE * target.memory_bytes,
            device=self.device_bytes <= target.memory_bytes,
            host_pool=self.host_bytes <= HOST_POOL_BYTES,
        )
