"""Record steps with `jax.profiler`, where no other profiler is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import UsageError

__all__ = ["JaxProfile", "check_alone"]

# What nsys sets for the programs that it watches.
_OF_NSYS = (
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
)
_XLA_CALLS = 2  # level of the host tracer that shows calls of XLA beside the ranges of a program


def check_alone(environment: Mapping[str, str]) -> None:
    """Check that nsys does not watch this process.

    Raises
    ------
    UsageError
        If it does: only one of the two would see the GPU.
    """
    shown = [name for name in _OF_NSYS if environment.get(name)]
    if shown:
        raise UsageError(
            f"{shown[0]} shows that nsys profiles this process, and jax.profiler cannot do so at "
            "the same time; leave out --jax-profile, or nsys."
        )


@dataclass(frozen=True)
class JaxProfile:
    """A switch for the profiler of JAX.

    Attributes
    ----------
    folder : Path
        For ``plugins/profile/DATE/HOST.xplane.pb``.
    """

    folder: Path

    def start(self) -> None:
        """Begin to record; fails where the GPU cannot be watched."""
        import jax

        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # its calls of functions are no news, and slow a step down
        options.host_tracer_level = _XLA_CALLS
        options.raise_error_on_start_failure = True
        jax.profiler.start_trace(self.folder, profiler_options=options)

    def stop(self) -> None:
        """Stop recording and write the profile."""
        import jax

        jax.profiler.stop_trace()
