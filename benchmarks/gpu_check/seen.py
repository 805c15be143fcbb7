"""What a trace shows of how XLA offloads: copies, streams, graphs and NVTX ranges."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.gpu_check.privacy import without_paths
from benchmarks.gpu_check.steps import Measured
from nsysoffload.timeline.timeline import DIRECTIONS
from nsysoffload.trace.schema import CopyKind, MemKind
from nsysoffload.trace.tables import UNSET

__all__ = ["seen"]

EXAMPLES = 3
_WIDTH = 300


def seen(measured: Measured) -> dict[str, Any]:
    """Return what the trace shows, ready for JSON; numbers are of all that was recorded."""
    return {
        "copies": _copies(measured),
        "streams": _streams(measured),
        "command_buffers": _command_buffers(measured),
        "nvtx": _nvtx(measured.timeline.trace.nvtx_ranges),
    }


def _copies(measured: Measured) -> list[dict[str, Any]]:
    """Count copies by kind, memory of either side, and the API function that issued them."""
    timeline = measured.timeline
    copies, index = timeline.trace.copies, timeline.index
    call = index.of(copies)
    names = timeline.trace.calls["name"].astype(object).to_numpy()[index.first]
    ops = np.append(timeline.names.thunks["hlo_op"].to_numpy(), "")
    frame = pd.DataFrame(
        {
            "copy_kind": [_name(CopyKind, kind) for kind in copies["copy_kind"]],
            "source_kind": [_name(MemKind, kind) for kind in copies["source_kind"]],
            "target_kind": [_name(MemKind, kind) for kind in copies["target_kind"]],
            "api": np.append(names, "")[call],
            "bytes": copies["size_bytes"].clip(lower=0).to_numpy(),
            "op": ops[timeline.names.thunk[call]],
        }
    )
    by = ["copy_kind", "source_kind", "target_kind", "api"]
    groups = frame.groupby(by, sort=True)
    return [{**dict(zip(by, key, strict=True)), **_of_group(rows)} for key, rows in groups]


def _of_group(rows: pd.DataFrame) -> dict[str, Any]:
    ops = [op for op in rows["op"].unique() if op]
    return {"copies": len(rows), "bytes": int(rows["bytes"].sum()), "hlo_ops": ops[:EXAMPLES]}


def _name(kinds: type[CopyKind] | type[MemKind], number: int) -> str:
    if number == UNSET:
        return "not recorded"
    return kinds(number).name.lower() if number in list(kinds) else str(number)


def _streams(measured: Measured) -> dict[str, Any]:
    """Count rows by role and stream id, and name the pairs of roles that share a stream."""
    device = measured.device
    kinds = {
        kind: device.kernels[device.kernels["kind"] == kind] for kind in ("compute", "collective")
    }
    ways = {way: device.transfers[device.transfers["direction"] == way] for way in DIRECTIONS}
    roles = {role: Counter(rows["stream"].tolist()) for role, rows in {**kinds, **ways}.items()}
    return {
        **{
            role: {str(stream): n for stream, n in sorted(used.items())}
            for role, used in roles.items()
        },
        "shared": [[a, b] for a, b in combinations(roles, 2) if roles[a].keys() & roles[b].keys()],
    }


def _command_buffers(measured: Measured) -> dict[str, Any]:
    trace = measured.timeline.trace
    counts = {
        "graph_kernels": int((trace.kernels["graph_node"] != UNSET).sum()),
        "graph_copies": int((trace.copies["graph_node"] != UNSET).sum()),
        "graphs_traced_whole": len(trace.graph_spans),
        "graph_launches": sum("GraphLaunch" in name for name in trace.calls["name"]),
    }
    return {"seen": any(counts.values()), **counts}


def _nvtx(ranges: pd.DataFrame) -> list[dict[str, Any]]:
    """Count ranges by form, which is what XLA's texts begin with, and domain; show some texts."""
    form = [text.partition(":#")[0] if ":#" in text else "other" for text in ranges["text"]]
    groups = ranges.assign(form=form).groupby(["form", "domain"], sort=True)
    return [_of_ranges(rows) for _, rows in groups]


def _of_ranges(rows: pd.DataFrame) -> dict[str, Any]:
    domain = int(rows["domain"].iloc[0])
    texts = rows["text"].drop_duplicates()
    return {
        "form": rows["form"].iloc[0],
        "domain": None if domain == UNSET else domain,
        "ranges": len(rows),
        "examples": [without_paths(text)[:_WIDTH] for text in texts[:EXAMPLES]],
    }
