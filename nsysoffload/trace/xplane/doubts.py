"""What a profile lacks, or leaves in doubt, as warnings of the trace."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nsysoffload.trace.tables import COPIES_AS_KERNELS, UNSET, TraceWarning
from nsysoffload.trace.xplane.device import DeviceRows
from nsysoffload.trace.xplane.host import HostRows
from nsysoffload.trace.xplane.operations import EXECUTION

__all__ = ["doubts"]

_EXACT_NS = 2**53  # beyond it, the reader's floats are no longer whole nanoseconds
_COPY_KERNEL = "__amd_rocclr_copyBuffer"


def doubts(
    device: DeviceRows,
    host: HostRows,
    launched: NDArray[np.int64],
    several: int,
    events_lost: bool,
) -> tuple[TraceWarning, ...]:
    """Say what is doubtful.

    Parameters
    ----------
    device, host
        The rows that were read.
    launched : int64 array
        The operation that each call launched, UNSET for none or several.
    several : int
        How many calls launched several.
    events_lost : bool
        Whether XLA says that it lost some.
    """
    found = (
        *_lost(device, events_lost),
        *_copies(device),
        *_operations(device, host, launched, several),
        *_times(device),
    )
    return tuple(TraceWarning(code, message) for code, message in found)


def _lost(device: DeviceRows, events_lost: bool) -> Iterator[tuple[str, str]]:
    if events_lost:
        yield "events_lost", "XLA says that its profiler dropped GPU events: rows are missing."
    if device.unknown:
        message = f"{device.unknown:,} events on streams are of no known kind and were not read."
        yield "events_not_read", message


def _copies(device: DeviceRows) -> Iterator[tuple[str, str]]:
    copies, kernels = device.tables["copies"], device.tables["kernels"]
    moved = int(kernels["name"].str.startswith(_COPY_KERNEL).sum())
    if moved and copies.empty:
        yield (
            COPIES_AS_KERNELS,
            f"Copies are in the profile only as {moved:,} kernels ({_COPY_KERNEL}), which do not"
            " say whether they moved data from or to the host: transfers cannot be told.",
        )
    if len(copies) and (copies[["source_kind", "target_kind"]] == UNSET).all(axis=None):
        yield (
            "no_memory_kinds",
            "The profile does not say what memory was copied: pinned or pageable is unknown.",
        )


def _operations(
    device: DeviceRows, host: HostRows, launched: NDArray[np.int64], several: int
) -> Iterator[tuple[str, str]]:
    named = any((frame["operation"] != UNSET).any() for frame in device.tables.values())
    if named and host.calls.empty:
        yield (
            "operations_without_calls",
            "GPU rows name XLA's operations, but the profile has no API calls, by which rows are"
            " attributed: operations, phases and programs are not told.",
        )
    if several:
        yield (
            "graph_operations",
            f"{several:,} launches ran several operations each, as CUDA graphs do: their rows are"
            " attributed to no operation.",
        )
    texts = host.ranges["text"]
    executing = host.ranges["thread"][texts.str.endswith(EXECUTION)]
    calling = host.calls["thread"][launched != UNSET]
    if len(calling) and not calling.isin(executing.unique()).any():
        yield (
            "no_executions",
            "The profile does not say during which execution of a program the API calls were made:"
            " executions do not delimit steps.",
        )


def _times(device: DeviceRows) -> Iterator[tuple[str, str]]:
    if any((frame["end_ns"].abs() >= _EXACT_NS).any() for frame in device.tables.values()):
        yield "times_rounded", "Times are so large that the reader rounds them to 2 ns or more."
