"""Compile one program for a target, in a process of its own: what `process` runs.

XLA reads its flags once, an unknown one ends the process, and the user's process may sit on a GPU:
so nothing else of the package imports jax. A JSON request comes on stdin; the folder that it names
gets ``answer.json`` and the scheduled program as ``module.hlo``. What the program prints is log.

Programs are traced with CPU devices standing in for GPUs. Devices that exist for compiling alone
know no memory kinds, and shardings made with them lose ``pinned_host`` without a word. The lowered
module names no devices, so it is compiled for the target as it is.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.cudnn import fused_attention_stablehlo as cudnn_attention
from jax._src.interpreters import mlir
from jax.experimental import topologies
from jaxlib import _jax
from jaxlib.mlir import ir

from nsysoffload.errors import UsageError

__all__: list[str] = []


def _lowered(request: dict[str, Any]) -> ir.Module:
    if request["program"]:
        _stand_in_for_cudnn(request["cudnn"], request["compute_capability"])
        return _traced(request["program"], request["arguments"], request["devices"])
    with mlir.make_ir_context():
        return ir.Module.parse(request["lowered"])


def _stand_in_for_cudnn(version: int, capability: list[int]) -> None:
    """Let cuDNN attention be traced: jax asks the library and the local GPU what they are."""
    replies: dict[str, Callable[..., object]] = {
        "check_cudnn_version": lambda: version,
        "check_compute_capability": lambda least: capability >= _numbers(least),
        "is_cuda_compute_capability_equal": lambda other: capability == _numbers(other),
    }
    for name, reply in replies.items():
        setattr(cudnn_attention, name, reply)


def _numbers(capability: str) -> list[int]:
    return [int(part) for part in capability.split(".")]


def _traced(program: str, arguments: dict[str, Any], devices: int) -> ir.Module:
    """Lower a program, given as ``module:function``, to StableHLO for CUDA."""
    jax.config.update("jax_num_cpu_devices", devices)
    module, _, function = program.partition(":")
    made = getattr(import_module(module), function)(jax.devices("cpu"), **arguments)
    try:
        jitted, args = made
        trace = jitted.trace
    except (TypeError, ValueError, AttributeError):
        raise TypeError("it has to return a jitted function and a tuple of arguments") from None
    lowered = trace(*args).lower(lowering_platforms=("cuda",))
    lowered_module: ir.Module = lowered.compiler_ir("stablehlo")
    return lowered_module


def _compiled(module: ir.Module, target_config: str, folder: Path) -> dict[str, Any]:
    """Compile a lowered module for as many GPUs as it is partitioned over."""
    with module.context:
        devices = ir.IntegerAttr(module.operation.attributes["mhlo.num_partitions"]).value
        main = ir.SymbolTable(module.operation)["main"]
        topology: Any = topologies.get_topology_desc(
            platform="cuda", target_config=target_config, topology=f"1x1x{devices}"
        )
        client = topology.devices[0].client
        options = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=devices,
            device_assignment=np.array(topology.devices).reshape(1, devices),
            backend=client,
        )
        build = options.executable_build_options
        build.allow_spmd_sharding_propagation_to_parameters = _unsharded(main, "arg_attrs")
        build.allow_spmd_sharding_propagation_to_output = _unsharded(main, "res_attrs")
        executable = client.compile(
            module,
            executable_devices=_jax.DeviceList(tuple(topology.devices)),
            compile_options=options,
        )
    text = executable.hlo_modules()[0].to_string()
    (folder / "module.hlo").write_text(text, encoding="utf-8")
    return {"devices": devices, "memory": _memory(executable.get_compiled_memory_stats())}


def _unsharded(main: Any, attributes: str) -> Sequence[bool]:
    """Which arguments or results have no sharding, so that the partitioner may choose one."""
    if attributes not in main.attributes:
        return []
    return ["sdy.sharding" not in ir.DictAttr(each) for each in main.attributes[attributes]]


def _memory(stats: Any) -> dict[str, int]:
    kinds = [f"{where}{kind}" for where in ("", "host_") for kind in _KINDS]
    return {f"{kind}_bytes": getattr(stats, f"{kind}_size_in_bytes") for kind in kinds}


_KINDS = ("argument", "output", "alias", "temp")


def _end_with_parent() -> None:
    """End the process when the one that asked is gone: then its end of the pipe closes."""
    sys.stdin.read()
    os._exit(1)


def _main() -> None:
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(request["folder"])
    stage = "program"
    try:
        module = _lowered(request)
        stage = "compiler"
        answer = _compiled(module, request["target_config"], folder)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        first_line = (str(error).strip() or "no message").splitlines()[0]
        answer = {"failed": stage, "error": f"{type(error).__name__}: {first_line.rstrip('.')}"}
        if isinstance(error, UsageError):
            answer = {"failed": "usage", "error": str(error)}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # without waiting for the thread that reads on


if __name__ == "__main__":
    _main()
