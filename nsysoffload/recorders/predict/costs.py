"""How long an operation takes by the model: a roofline by class of operation.

Every time is for the operation alone on the device; what running beside others costs is the
simulator's part.
"""

from nsysoffload.hardware import Target
from nsysoffload.recorders.predict.constants import Sheet
from nsysoffload.recorders.predict.program import Kind, Op

__all__ = ["duration_ns"]

# All of a group sends at once over every adapter of a machine; a rank's own part of an all-to-all
# leaves by its own adapter alone.
_RINGS = frozenset({"all-gather", "reduce-scatter", "all-reduce", "collective-broadcast"})


def duration_ns(op: Op, target: Target, sheet: Sheet) -> int:
    """Return the time of an operation in whole nanoseconds.

    Parameters
    ----------
    op : Op
        The operation.
    target : Target
        The GPU, for its peaks.
    sheet : Sheet
        The constants.
    """
    if op.kind is Kind.COLLECTIVE:
        time = _collective(op, target, sheet)
    elif op.kind in (Kind.H2D, Kind.D2H):
        time = sheet["copy_latency"] * 1000 + op.size_bytes / sheet[op.kind.value]
    else:
        work = max(_product(op, target, sheet), _hbm(op, target, sheet))
        time = max(work, sheet["kernel_floor"] * 1000)
    return round(time)


def _hbm(op: Op, target: Target, sheet: Sheet) -> float:
    """Nanoseconds to move the bytes of an operation through device memory."""
    return op.size_bytes / (target.hbm_gbps * sheet["hbm_efficiency"])


def _product(op: Op, target: Target, sheet: Sheet) -> float:
    """Nanoseconds of the matrix products of an operation."""
    if not op.flops:
        return 0.0
    efficiency = "gemm_efficiency"
    if op.kind is Kind.ATTENTION:
        efficiency = f"attention_{'backward' if op.backward else 'forward'}_efficiency"
    return op.flops / (target.flops_per_ns(op.dtype) * sheet[efficiency])


def _collective(op: Op, target: Target, sheet: Sheet) -> float:
    """Nanoseconds of a collective: bytes sent over the slowest link of its way, and latency."""
    nvlink = target.nvlink_gbps * sheet["nvlink_efficiency"]
    rate = nvlink
    if op.ranks > target.nvlink_domain:
        if op.collective in _RINGS:
            rate = min(nvlink, target.nvlink_domain * sheet["network"])
        else:
            outside = 1 - (target.nvlink_domain - 1) / (op.ranks - 1)
            rate = 1 / max((1 - outside) / nvlink, outside / sheet["network"])
    return sheet["collective_latency"] * 1000 + op.size_bytes / rate
