"""Runs the steps of a composite action as GitHub does, but for those that use other actions."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class Run:
    """What became of an action: output of its steps, what they printed, and how it ended."""

    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""
    failed: bool = False
    skipped: list[str] = field(default_factory=list)
    summary: str = ""


def run_action(
    action: Path,
    inputs: Mapping[str, str],
    *,
    github: Mapping[str, Any],
    workplace: Path,
    environment: Mapping[str, str],
) -> Run:
    """Run the action's own steps in order; one that fails ends it."""
    described = yaml.safe_load(action.read_text(encoding="utf-8"))
    done = Run()
    files = {name: workplace / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    values = {name: str(spec.get("default", "")) for name, spec in described["inputs"].items()}
    context = {
        "inputs": {**values, **inputs},
        "github": {**github, "action_path": str(action.parent)},
        "steps": done.outputs,
    }
    context["inputs"] = {k: _filled(v, context) for k, v in context["inputs"].items()}
    for step in described["runs"]["steps"]:
        name = step.get("name", step.get("uses", ""))
        if "if" in step and not _value(step["if"].strip("${} "), context):
            done.skipped.append(name)
            continue
        if "uses" in step or "pip install" in step["run"]:
            continue
        files["GITHUB_OUTPUT"].write_text("")
        ended = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "RUNNER_TEMP": str(workplace),
                **{name: str(path) for name, path in files.items()},
                **environment,
                **{key: _filled(str(text), context) for key, text in step.get("env", {}).items()},
            },
            cwd=workplace,
            capture_output=True,
            text=True,
            check=False,
        )
        done.log += ended.stdout + ended.stderr
        done.outputs[step.get("id", name)] = {"outputs": _outputs(files["GITHUB_OUTPUT"])}
        if ended.returncode:
            done.failed = True
            break
    if files["GITHUB_STEP_SUMMARY"].exists():
        done.summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    return done


def _filled(text: str, context: Mapping[str, Any]) -> str:
    return _EXPRESSION.sub(lambda match: str(_value(match[1], context) or ""), text)


def _value(expression: str, context: Mapping[str, Any]) -> Any:
    """Value of an expression of the few forms that the actions have."""
    if "&&" in expression:
        return all(_value(part, context) for part in expression.split("&&"))
    if "||" in expression:
        return next((v for part in expression.split("||") if (v := _value(part, context))), "")
    for sign, is_equal in (("==", True), ("!=", False)):
        if sign in expression:
            left, right = (_value(part, context) for part in expression.split(sign))
            return (left == right) is is_equal
    expression = expression.strip()
    if expression.startswith("'"):
        return expression.strip("'")
    value: Any = context
    for key in expression.split("."):
        value = (value or {}).get(key, "") if isinstance(value, Mapping) else ""
    return value


def _outputs(file: Path) -> dict[str, str]:
    """Read outputs as GitHub does: a name, a word that ends the value, the value, that word."""
    found: dict[str, str] = {}
    lines = iter(file.read_text(encoding="utf-8").split("\n"))
    for line in lines:
        name, sign, end = line.partition("<<")
        if not sign:
            assert not line, line
            continue
        value = []
        for inner in lines:
            if inner == end:
                break
            value.append(inner)
        found[name] = "\n".join(value)
    return found


def environ() -> dict[str, str]:
    """Return what steps need of this process's environment."""
    return {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
