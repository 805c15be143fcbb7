"""A trainer for tests: prints steps as trainers do, and tells the fake nsys what it does.

It takes the options of `workloads.train`, writes a manifest as that does where it has an output,
and does whatever else its options say. Steps take 100 ms by their own account, 130 ms where they
are recorded; in truth none.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

BARE_MS, PROFILED_MS = 100.0, 130.0
LOSSES = "2.31,2.1,1.97,1.9,1.85,1.81"
MIB = 1 << 20


def main() -> None:
    """Train."""
    given = _options()
    for text in given.say:
        _print(text)
    if given.pid_file:
        given.pid_file.write_text(str(os.getpid()))
    if given.exit:
        raise SystemExit(given.exit)
    if given.killed:
        os.kill(os.getpid(), signal.SIGKILL)
    _train(given)
    if given.output:
        _write(given)
    while given.wait_for and not given.wait_for.exists():
        time.sleep(0.02)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--policy", default="none")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--profile-steps", type=int, default=3)
    parser.add_argument("--output", type=Path)
    for option in ("--mesh", "--batch", "--seq", "--layers", "--optimizer"):
        parser.add_argument(option)
    parser.add_argument("--d2h", type=int, help="bytes to the host per step")
    parser.add_argument("--h2d", type=int, help="bytes from it, where they are others")
    parser.add_argument("--exit", type=int, default=0, help="end with this code instead")
    parser.add_argument("--killed", action="store_true", help="end as at a memory limit")
    parser.add_argument("--losses", default=LOSSES, help="by step, with commas")
    parser.add_argument("--nvtx", default="train_step", help="name of a step's range; - is none")
    parser.add_argument("--early", action="store_true", help="do the work before the ranges")
    parser.add_argument("--pid-file", type=Path, help="file for its process id")
    parser.add_argument("--say", action="append", default=[], help="print this line")
    parser.add_argument("--sleep", type=float, default=0, help="seconds of a step, in truth")
    parser.add_argument("--wait-for", type=Path, help="go on until this file is there")
    given = parser.parse_args()
    if given.d2h is None:
        given.d2h = MIB if given.policy.startswith("offload") else 0
    if given.h2d is None:
        given.h2d = given.d2h
    return given


def _train(given: argparse.Namespace) -> None:
    losses = _losses(given)
    if given.early:
        _tell(f"step - 2 {given.d2h} {given.h2d}")
    for index in range(given.steps):
        if index == given.warmup:
            _tell("start")
            _tell("push recorded steps")
        time.sleep(given.sleep)
        kernels = 0 if given.early else 2
        moved = (0, 0) if given.early else (given.d2h, given.h2d)
        _tell(f"step {given.nvtx} {kernels} {moved[0]} {moved[1]}")
        remark = "" if index >= given.warmup else "  warm-up"
        loss = losses[index]
        _print(f"step {index:4d}  loss {loss:.4f}  grad norm 1.5000  {_ms():.2f} ms{remark}")
        if index + 1 == given.warmup + given.profile_steps:
            _tell("pop recorded steps")
            _tell("stop")


def _losses(given: argparse.Namespace) -> list[float]:
    losses = [float(loss) for loss in given.losses.split(",")]
    return [*losses, *losses[-1:] * given.steps]


def _ms() -> float:
    return PROFILED_MS if "FAKE_NSYS_LINES" in os.environ else BARE_MS


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _tell(line: str) -> None:
    """Tell the fake nsys, if it is there."""
    if "FAKE_NSYS_LINES" in os.environ:
        os.write(int(os.environ["FAKE_NSYS_LINES"]), f"{line}\n".encode())


def _write(given: argparse.Namespace) -> None:
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "manifest.json").write_text(json.dumps(manifest(given), indent=1))
    (given.output / "schedule.hlo.gz").write_bytes(b"a module")


def manifest(given: argparse.Namespace) -> dict[str, Any]:
    """Return what the workload would write."""
    offloads = given.policy.startswith("offload")
    memory = {
        "argument_bytes": 8 * MIB,
        "output_bytes": 8 * MIB,
        "alias_bytes": 8 * MIB,
        "temp_bytes": 4 * MIB if offloads else 16 * MIB,
        "host_argument_bytes": 0,
        "host_output_bytes": 0,
        "host_alias_bytes": 0,
        "host_temp_bytes": given.d2h if offloads else 0,
        "device_need_bytes": 12 * MIB if offloads else 24 * MIB,
        "host_need_bytes": given.d2h if offloads else 0,
    }
    return {
        "schema": "nsysoffload-run/1",
        "kind": "measured",
        "program": {"model": given.model, "policy": given.policy},
        "config": {},
        "devices": 1,
        "device_kind": "NVIDIA GH200 120GB",
        "backend": "gpu",
        "jax_version": "0.12.0",
        "jaxlib_version": "0.12.0",
        "xla_flags": os.environ.get("XLA_FLAGS", "").split(),
        "compile_s": 2.0,
        "memory": memory,
        "offload": {"declared_bytes": {"mlp_up": MIB}, "in_effect": True} if offloads else None,
        "device_peak_bytes": None,
        "speed": {"step_ms": _ms(), "tokens_per_s": 1.0, "model_tflops_per_device": 1.0},
        "steps": _steps(given),
        "notes": [],
    }


def _steps(given: argparse.Namespace) -> list[dict[str, Any]]:
    profiled = range(given.warmup, given.warmup + given.profile_steps)
    return [
        {
            "index": index,
            "loss": loss,
            "grad_norm": 1.5,
            "ms": _ms(),
            "warm": index >= given.warmup,
            "profiled": index in profiled,
        }
        for index, loss in enumerate(_losses(given)[: given.steps])
    ]


if __name__ == "__main__":
    main()
