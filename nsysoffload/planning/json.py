"""The plan as JSON, schema ``nsysoffload-plan/1``: times and bytes as they are, unrounded."""

import json
from dataclasses import asdict
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nsysoffload.planning.code import capture_command, environment, policy_code
from nsysoffload.planning.model import Candidate, Plan
from nsysoffload.recorders.predict.capture import options_of

__all__ = ["SCHEMA", "render", "schema", "to_dict"]

SCHEMA = "nsysoffload-plan/1"


def render(plan: Plan, directory: Path) -> str:
    """Write the plan as JSON text.

    Parameters
    ----------
    plan : Plan
        The plan.
    directory : Path
        Folder that the runs' folders are told from.

    Returns
    -------
    str
        A JSON object that is valid under `schema`, ending in a newline.
    """
    return json.dumps(to_dict(plan, directory), indent=1, allow_nan=False) + "\n"


def to_dict(plan: Plan, directory: Path) -> dict[str, Any]:
    """Turn the plan into plain dictionaries, lists and values."""
    workload = options_of(plan.request).workload
    assert workload
    return {
        "schema": SCHEMA,
        "version": version("nsysoffload"),
        "workload": asdict(workload),
        "target": plan.request.target,
        "limits": asdict(plan.limits),
        "names": list(plan.names),
        "placements": plan.placements,
        "best": _at(plan, plan.best),
        "rivals": [_at(plan, rival) for rival in plan.rivals],
        "nearest": _at(plan, plan.nearest),
        "code": _code(plan),
        "candidates": [_candidate(c, directory) for c in plan.candidates],
    }


def _at(plan: Plan, candidate: Candidate | None) -> int | None:
    return None if candidate is None else plan.candidates.index(candidate)


def _code(plan: Plan) -> dict[str, Any] | None:
    if plan.best is None:
        return None
    return {
        "python": policy_code(plan.best.policy, plan.request),
        "environment": environment(plan, plan.best),
        "capture": capture_command(plan, plan.best),
    }


def _candidate(candidate: Candidate, directory: Path) -> dict[str, Any]:
    return {
        "policy": candidate.policy,
        "preset": candidate.preset,
        "folder": candidate.folder.relative_to(directory).as_posix(),
        "is_fixed": candidate.is_fixed,
        "fits": candidate.fits,
        "recompute_flops": candidate.recompute_flops,
        "error": candidate.error,
        "predicted": _predicted(candidate),
    }


def _predicted(candidate: Candidate) -> dict[str, Any] | None:
    made = candidate.prediction
    if made is None:
        return None
    return {
        "step": asdict(made.step),
        "h2d_exposed_ns": made.corners[0].h2d_exposed_ns,
        "d2h_exposed_ns": made.corners[0].d2h_exposed_ns,
        "device_bytes": made.memory.device_bytes if made.memory else None,
        "host_bytes": made.memory.host_bytes if made.memory else None,
        "jax_version": made.jax_version,
        "flags": list(made.flags),
    }


def schema() -> dict[str, Any]:
    """Load the JSON Schema (draft 2020-12) of a plan."""
    file = resources.files("nsysoffload.planning") / "schema" / "nsysoffload-plan-1.schema.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded
