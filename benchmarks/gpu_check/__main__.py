"""Check the whole way on this machine's GPU: record, analyse, compare, predict.

Writes gpu-check.json and two small traces, none of which names the machine, a user or a path.
"""

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
LIMIT_S = 560.0  # of ten minutes
FACTS_S = 90.0
# What recording and analysing need; a Python with jax on a bare machine may lack some.
PACKAGES = (
    *("adbc_driver_manager", "adbc_driver_sqlite", "click", "jax", "jinja2", "numpy", "nvtx"),
    *("optax", "pandas", "pyarrow", "rich"),
)


class _CannotCheck(Exception):
    """There is nothing to check, or nothing to check it with; the text is a sentence."""


def main() -> int:
    """Return 0, 1 where numerics differ, 2 where nothing can be checked, 3 without both runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("reports", "gpu-check"), metavar="FOLDER"
    )
    parser.add_argument(
        "--seconds", type=float, default=LIMIT_S, metavar="S", help="end within S s (%(default)g)"
    )
    given = parser.parse_args()
    try:
        _demand_packages()
        found = _checked(given.output, given.seconds)
    except _CannotCheck as reason:
        print(f"Error: {reason}", file=sys.stderr)
        return 2
    from benchmarks.gpu_check.summary import lines

    print("\n".join(lines(found)))
    print(given.output / "gpu-check.json")
    if len(found["runs"]) < 2:
        return 3
    return int(found["numerics"]["agree"] is False)


def _demand_packages() -> None:
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise _CannotCheck(
            f"{sys.executable} lacks {', '.join(missing)}; run: pip install -e '.[workloads]', or "
            "name another Python: make gpu-check PYTHON=..."
        )


def _checked(output: Path, limit_s: float) -> dict[str, Any]:
    from benchmarks.gpu_check.check import check
    from benchmarks.gpu_check.commands import Commands
    from benchmarks.gpu_check.stages import Stages
    from nsysoffload.recorders.machine import has_gpu

    if not has_gpu():
        raise _CannotCheck("No NVIDIA GPU is seen here; run this on a machine that has one.")
    output.mkdir(parents=True, exist_ok=True)
    stages = Stages(limit_s)
    with _workplace() as place:
        commands = Commands(place, _environment(place))
        facts = stages.within("facts", FACTS_S, partial(commands.device, "facts"))
        if not facts or facts["platform"] != "gpu":
            raise _CannotCheck("JAX does not see the GPU; install the CUDA plugin of its release.")
        found = check(commands, _machine(facts, output), stages, output)
    path = output / "gpu-check.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def _machine(facts: dict[str, Any], output: Path) -> Any:
    from benchmarks.gpu_check.check import Machine
    from benchmarks.gpu_check.commands import driver_version
    from nsysoffload.recorders.machine import survey
    from nsysoffload.recorders.nsys.tool import installed

    seen = survey(output, os.environ)
    memory = seen.memory
    host = [memory.available_bytes, memory.limit_bytes, memory.pool_bytes]
    return Machine(
        gpu=facts["name"],
        driver=seen.driver or driver_version(),
        memory_bytes=facts["memory_bytes"],
        host_bytes=min((each for each in host if each is not None), default=None),
        software=seen.software,
        recorders=("nsys", "jax") if installed() else ("jax",),
    )


@contextmanager
def _workplace() -> Iterator[Path]:
    """Give a folder for run folders, by which a checkout that is not installed has a version."""
    with tempfile.TemporaryDirectory(prefix="nsysoffload-") as folder:
        place = Path(folder)
        try:
            version("nsysoffload")
        except PackageNotFoundError:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
            described = place / f"nsysoffload-{project['version']}.dist-info"
            described.mkdir()
            text = f"Metadata-Version: 2.1\nName: nsysoffload\nVersion: {project['version']}\n"
            (described / "METADATA").write_text(text)
            sys.path.append(folder)
        yield place


def _environment(place: Path) -> dict[str, str]:
    """Return the environment of what is run: this checkout, and one GPU, for which sizes are."""
    given = os.environ
    path = [str(ROOT), *filter(None, [given.get("PYTHONPATH")]), str(place)]
    gpu = given.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    return {**given, "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": gpu}


if __name__ == "__main__":
    sys.exit(main())
