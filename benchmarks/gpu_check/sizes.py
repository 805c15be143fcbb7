"""Which workload a GPU has room for."""

from dataclasses import asdict, dataclass

from nsysoffload.errors import UsageError

__all__ = ["SIZES", "Size", "fitting"]

DEVICE_MARGIN = 1.25  # for what the compiler does not count: fragments, the runtime itself
HOST_MARGIN = 2.0  # the pool of pinned memory grows by doubling


@dataclass(frozen=True)
class Size:
    """A workload, and the most that its offloaded or its rematerialised step needs.

    Attributes
    ----------
    device_bytes, host_bytes : int
        As compiled for an H100 by jax 0.12.0.1.
    """

    model: str
    layers: int
    batch: int
    seq: int
    device_bytes: int
    host_bytes: int

    def options(self) -> dict[str, str | int]:
        """Return the options of the command line that ask for it."""
        return {key: value for key, value in asdict(self).items() if not key.endswith("_bytes")}


SIZES = (
    Size("llama3.2-1b", 16, 4, 4096, 26_900_000_000, 12_400_000_000),
    Size("llama3.2-1b", 8, 1, 4096, 13_100_000_000, 1_550_000_000),
    Size("llama3.2-1b", 4, 1, 1024, 7_990_000_000, 194_000_000),
    Size("tiny", 4, 4, 128, 20_000_000, 10_000_000),
)
"""The largest first."""


def fitting(device_bytes: int | None, host_bytes: int | None) -> Size:
    """Return the largest workload that fits.

    Parameters
    ----------
    device_bytes, host_bytes : int or None
        What there is of either memory; None where that is not known.

    Raises
    ------
    UsageError
        If none fits.
    """
    for size in SIZES:
        on_device = device_bytes is None or size.device_bytes * DEVICE_MARGIN <= device_bytes
        on_host = host_bytes is None or size.host_bytes * HOST_MARGIN <= host_bytes
        if on_device and on_host:
            return size
    raise UsageError("There is no memory left for even the smallest workload; free some.")
