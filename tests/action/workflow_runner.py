"""Runs the steps of a composite action as GitHub does, but for those that need a network.

What other actions and the installation would leave as outputs is given."""

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
    codes: dict[str, int] = field(default_factory=dict)
    used: dict[str, dict[str, str]] = field(default_factory=dict)


def run_action(
    action: Path,
    inputs: Mapping[str, str],
    *,
    github: Mapping[str, Any],
    workplace: Path,
    environment: Mapping[str, str],
    given: Mapping[str, Mapping[str, str]],
) -> Run:
    """Run the action's own steps in order; one that fails ends it, but for those that run always.

    ``given`` are the outputs of the steps that are not run, by their ids.
    """
    described = yaml.safe_load(action.read_text(encoding="utf-8"))
    temp = workplace / "runner-temp"
    temp.mkdir(exist_ok=True)
    summary = workplace / "summary"
    summary.unlink(missing_ok=True)
    done = Run(outputs={name: {"outputs": dict(values)} for name, values in given.items()})
    context = {"github": github, "runner": {"temp": str(temp)}, "steps": done.outputs}
    values = {name: str(spec.get("default", "")) for name, spec in described["inputs"].items()}
    context["inputs"] = {k: _filled(v, context) for k, v in {**values, **inputs}.items()}
    for step in described["runs"]["steps"]:
        name = step.get("name", step.get("uses", ""))
        condition = step.get("if", "").removeprefix("${{").removesuffix("}}")
        is_due = not done.failed or "cancelled()" in condition
        if not is_due or (condition and not _value(condition, context)):
            done.skipped.append(name)
            continue
        if "uses" in step or step.get("id") in given:
            done.used[name] = {k: _filled(str(v), context) for k, v in step.get("with", {}).items()}
            continue
        script, output = workplace / "script.sh", workplace / "output"
        script.write_text(step["run"])
        output.write_text("")
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "RUNNER_TEMP": str(temp),
                "GITHUB_ACTION_PATH": str(action.parent),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                **environment,
                **{key: _filled(str(text), context) for key, text in step.get("env", {}).items()},
            },
            cwd=workplace,
            capture_output=True,
            text=True,
            check=False,
        )
        done.log += ended.stdout + ended.stderr
        done.outputs[step.get("id", name)] = {"outputs": _outputs(output)}
        done.failed |= ended.returncode != 0
        done.codes[name] = ended.returncode
    if summary.exists():
        done.summary = summary.read_text(encoding="utf-8")
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
    if expression == "!cancelled()":
        return True
    if expression.startswith("'"):
        return expression.strip("'")
    value: Any = context
    for key in expression.split("."):
        value = (value or {}).get(key, "") if isinstance(value, Mapping) else ""
    return value


def _outputs(file: Path) -> dict[str, str]:
    """Read outputs as GitHub does: ``name=value``, or a name, a word, lines, and that word."""
    found: dict[str, str] = {}
    lines = iter(file.read_text(encoding="utf-8").split("\n"))
    for line in lines:
        name, sign, end = (re.split("(=|<<)", line, maxsplit=1) + ["", ""])[:3]
        if sign != "<<":
            assert sign or not line, line
            found |= {name: end} if sign else {}
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
