"""Measured traces of training steps, and what their folders say, from a few figures each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.run_folder import MANIFEST

MIB = 1 << 20
_GAP_MS = 5.0


def trace(
    steps_ms: Sequence[float],
    exposed_ms: float = 0.0,
    *,
    at_ms: float = 0.0,
    device: int = 0,
    into: TraceBuilder | None = None,
    back: bool = False,
    **options: Any,
) -> TraceBuilder:
    """Steps that end with a copy to the host, of which a part is exposed, and a last kernel.

    ::

        compute   [0      s - 1 - x)          [s - 1  s)
        D2H           [s - 11 - x            s - 1)
        waits                     [    x    )

    so that a step of ``s`` ms stalls for ``x`` ms and hides 10 ms of its copy. With ``back`` as
    many bytes come to the device early in the step, hidden.
    """
    made = into or TraceBuilder(**options)
    start = at_ms
    for step_ms in steps_ms:
        end, stops = start + step_ms, start + step_ms - 1 - exposed_ms
        made.nvtx("train_step", (start - 1, start))
        call = {"call": (start - 0.9, start - 0.8), "device": device}
        made.kernel((start, stops), "gemm", **call)
        copied = (stops - 10, stops + exposed_ms)
        made.copy("d2h", copied, stream=20, size_bytes=256 * MIB, **call)
        made.kernel((end - 1, end), "adam", **call)
        if back:
            came = (start + 20, start + 30)
            made.copy("h2d", came, stream=21, size_bytes=256 * MIB, **call)
        start = end + _GAP_MS
    return made


def plain(steps_ms: Sequence[float]) -> TraceBuilder:
    """Steps of one kernel each, without transfers."""
    made, start = TraceBuilder(), 0.0
    for step_ms in steps_ms:
        made.nvtx("train_step", (start - 1, start))
        made.kernel((start, start + step_ms), "gemm", call=(start - 0.9, start - 0.8))
        start += step_ms + _GAP_MS
    return made


def run_folder(folder: Path, made: TraceBuilder, **manifest: Any) -> Path:
    """Write a run folder; ``recording`` and ``program`` are filled in where they are given."""
    folder.mkdir(parents=True)
    made.write(folder / "trace.sqlite")
    recording = RECORDING | manifest.pop("recording", {})
    content = {"schema": MANIFEST, "kind": "measured", "recording": recording, **manifest}
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder


def losses(*values: float | None) -> dict[str, Any]:
    """Losses of steps from 0, as a manifest has them."""
    curve = {str(index): value for index, value in enumerate(values)}
    return {"loss": {"values": curve, "unit": 0}, "grad_norm": {"values": {}, "unit": 0}}


PROGRAM = {
    "model": "tiny",
    "layers": 4,
    "batch": 8,
    "seq": 128,
    "mesh": "",
    "optimizer": "adam",
    "offload_optimizer": False,
}
RECORDING = {"losses": losses(2.31, 2.1, 1.97)}


def memory(device_bytes: int, host_bytes: int = 0) -> dict[str, int]:
    """Memory of a run, as a manifest has it."""
    return {
        "argument_bytes": 0,
        "temp_bytes": device_bytes,
        "output_bytes": 0,
        "alias_bytes": 0,
        "device_need_bytes": device_bytes,
        "host_need_bytes": host_bytes,
    }
