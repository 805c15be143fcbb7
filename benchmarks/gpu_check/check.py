"""The whole check, stage by stage: from what a machine has to a JSON document and two traces."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.gpu_check.figures import (
    Recording,
    expected_link,
    held_against,
    numerics,
    run_figures,
    step_ratio,
)
from benchmarks.gpu_check.sizes import Size, fitting
from benchmarks.gpu_check.small import write_small
from benchmarks.gpu_check.stages import Skipped, Stages
from benchmarks.gpu_check.steps import measured
from nsysoffload.analysis import analyze
from nsysoffload.errors import TraceError
from nsysoffload.hardware import TARGETS, gpu_named
from nsysoffload.recorders.machine.software import Software
from nsysoffload.recorders.predict.versions import VersionError, check_versions

__all__ = ["SCHEMA", "VARIANTS", "Machine", "Tools", "check", "recording", "target_named"]

SCHEMA = "nsysoffload-gpu-check/1"
VARIANTS = ("offload", "remat")

# Seconds: the most that a stage may take, and what is kept for the stages after recording.
_LINK_S, _RECORD_S, _PREDICT_S, _KEPT_S = 60, 200, 150, 60

_OTHER_FORM = re.compile("PCIe|NVL", re.IGNORECASE)  # slower than what the targets describe


class Tools(Protocol):
    """What needs the GPU or the compiler, see `benchmarks.gpu_check.commands.Commands`."""

    def device(self, what: str, seconds: float) -> Any:
        """Measure the ``link``."""

    def record(self, size: Size, recorder: str, variant: str, seconds: float) -> Path:
        """Record a workload; return its run folder."""

    def predict(self, size: Size, target: str, seconds: float) -> Mapping[str, Path]:
        """Predict the same; return a run folder by variant."""


@dataclass(frozen=True)
class Machine:
    """What there is.

    Attributes
    ----------
    gpu : str
        Its name, as JAX has it.
    driver : str or None
        Version of its driver.
    memory_bytes, host_bytes : int or None
        What JAX may use of the GPU's memory, and what there is of the host's.
    software : Software
        Versions of Python and of jax's packages.
    recorders : tuple of str
        To be tried in this order.
    """

    gpu: str
    driver: str | None
    memory_bytes: int | None
    host_bytes: int | None
    software: Software
    recorders: tuple[str, ...]


def check(tools: Tools, machine: Machine, stages: Stages, folder: Path) -> dict[str, Any]:
    """Go through the stages; what one of them does not give is None, or left out.

    Parameters
    ----------
    tools : Tools
        What records and predicts.
    machine : Machine
        Where this runs.
    stages : Stages
        Runs them.
    folder : Path
        For ``offload.sqlite`` and ``remat.sqlite``.

    Returns
    -------
    dict
        For ``gpu-check.json``.
    """
    size = stages.run("choose", lambda: fitting(machine.memory_bytes, machine.host_bytes))
    rates = stages.within("link", _LINK_S, lambda seconds: tools.device("link", seconds))
    recorder, runs = _recorded(tools, size, machine.recorders, stages) if size else (None, {})
    figures = _each("figures", runs, run_figures, stages)
    target = target_named(machine.gpu)
    against = stages.within(
        "predict",
        _PREDICT_S,
        lambda seconds: _predicted(tools, size, target, runs, seconds),
        keep_s=_KEPT_S / 2,
    )
    files = _each(
        "write",
        {variant: (variant, run) for variant, run in runs.items()},
        lambda pair: write_small(pair[1].rows, folder / f"{pair[0]}.sqlite"),
        stages,
    )
    nsys = [run.manifest["recording"]["nsys_version"] for run in runs.values()]
    return {
        "schema": SCHEMA,
        "gpu": {
            "name": machine.gpu,
            "driver": machine.driver,
            "memory_bytes": machine.memory_bytes,
        },
        "versions": {**asdict(machine.software), "nsys": next(iter(nsys), None)},
        "workload": size.options() if size else None,
        "recorder": recorder,
        "runs": figures,
        "offload_over_remat": step_ratio(runs),
        "numerics": numerics(runs),
        "link": {"expected": expected_link(machine.gpu), "device_put": rates},
        "prediction": {"target": target, "runs": against},
        "traces": files,
        "stages": stages.done,
    }


def recording(folder: Path) -> Recording:
    """Analyse what is in a run folder.

    Raises
    ------
    TraceError
        If it holds no whole step.
    """
    report = analyze(folder)
    if report.devices[0].per_step is None:
        raise TraceError("The recording holds no whole step; record more of them.")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return Recording(manifest, report, measured(folder))


def target_named(gpu: str) -> str | None:
    """Return the target that stands for a GPU in predictions; None where none does.

    Examples
    --------
    >>> target_named("NVIDIA H200"), target_named("NVIDIA H100 PCIe"), target_named("Tesla T4")
    ('h200', None, None)
    """
    wanted = None if _OTHER_FORM.search(gpu) else gpu_named(gpu)
    known = {key: gpu_named(target.name) for key, target in TARGETS.items()}
    return next((key for key, each in known.items() if wanted and each == wanted), None)


def _recorded(
    tools: Tools, size: Size, recorders: tuple[str, ...], stages: Stages
) -> tuple[str | None, dict[str, Recording]]:
    """Record the variants, all by the first recorder that can record one of them."""

    def record(variant: str, recorder: str) -> Path | None:
        return stages.within(
            f"record {variant} by {recorder}",
            _RECORD_S,
            lambda seconds: tools.record(size, recorder, variant, seconds),
            keep_s=_KEPT_S,
        )

    first, *others = VARIANTS
    for recorder in recorders:
        folder = record(first, recorder)
        if folder:
            break
    folders = {first: folder, **{variant: record(variant, recorder) for variant in others}}
    made = {variant: path for variant, path in folders.items() if path}
    return recorder if made else None, _each("analyse", made, recording, stages)


def _predicted(
    tools: Tools,
    size: Size | None,
    target: str | None,
    runs: Mapping[str, Recording],
    seconds: float,
) -> dict[str, Any]:
    if not runs or size is None:
        raise Skipped("There is no run to hold a prediction against.")
    if target is None:
        raise Skipped("Predictions know no such GPU.")
    try:
        check_versions()
    except VersionError as error:
        raise Skipped(str(error)) from error
    folders = tools.predict(size, target, seconds)
    return {
        variant: held_against(run, recording(folders[variant])) for variant, run in runs.items()
    }


def _each[T, R](
    stage: str, values: Mapping[str, T], action: Callable[[T], R], stages: Stages
) -> dict[str, R]:
    """Run a stage for each variant; those that fail are left out."""
    made = {
        variant: stages.run(f"{stage} {variant}", partial(action, value))
        for variant, value in values.items()
    }
    return {variant: value for variant, value in made.items() if value is not None}
