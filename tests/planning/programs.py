"""Predictions and run folders made up for tests, so that nothing is compiled."""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.capture import Request, options_of, timed
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.constants import constants_for
from nsysoffload.recorders.predict.memory import Memory as Need
from nsysoffload.recorders.variants import folder_name
from nsysoffload.trace.prediction import Corner, Memory, Prediction, Range
from nsysoffload.trace.workload import is_offload

REQUEST = Request(model="tiny", target="gb200", layers=4, batch=2, seq=1024)


@dataclass(frozen=True)
class Figures:
    """What there is to say of a compiled policy."""

    step_ns: int
    device_bytes: int
    host_bytes: int = 0
    exposed_ns: int = 0


def prediction(policy, figures, request=REQUEST, spread=0.1):
    """Return a prediction whose range is the step, give and take a share."""
    step = figures.step_ns
    low, high = round((1 - spread) * step), round((1 + spread) * step)
    target = TARGETS[request.target]
    out, back = figures.exposed_ns // 2, figures.exposed_ns - figures.exposed_ns // 2
    return Prediction(
        program=request.model,
        variant=policy,
        target=request.target,
        devices=1,
        preset=request.preset,
        jax_version="0",
        flags=(),
        step=Range(low, step, high),
        corners=(
            Corner("expected", step, back, out),
            Corner("fast", low, back, out),
            Corner("slow", high, back, out),
        ),
        memory=Memory(
            device_bytes=figures.device_bytes,
            argument_bytes=0,
            temp_bytes=figures.device_bytes,
            output_bytes=0,
            alias_bytes=0,
            host_bytes=figures.host_bytes,
            device_limit_bytes=target.memory_bytes,
            default_limit_bytes=target.memory_bytes * 3 // 4,
            host_limit_bytes=64 << 30,
        ),
        constants=constants_for(target),
        notes=(),
        warnings=(),
    )


SCHEDULES = Path(__file__).parents[1] / "recorders" / "predict" / "schedules"
GB = 10**9
NEEDS = {  # GB of a device, and of the host for it
    "remat": (10, 0),
    "none": (40, 0),
    "dots": (25, 0),
    "offload": (8, 30),
    "offload-dots": (9, 20),
}


def prepare(folder: Path, policies: Iterable[str], request: Request, suffix: str = "") -> None:
    """Leave runs of policies, made of two schedules: one that offloads and one that does not."""
    for policy in policies:
        name = "default-1" if is_offload(policy) else "remat-1"
        text = gzip.decompress((SCHEDULES / f"{name}.hlo.gz").read_bytes()).decode()
        device, host = (GB * size for size in NEEDS[policy])
        need = Need(0, 0, 0, device, 0, 0, 0, host)
        program = Compiled(text, need, request.target, 1, (), "0.12.0.1", 1.0)
        timed(
            request, policy, program, options_of(request), folder / f"{folder_name(policy)}{suffix}"
        )
