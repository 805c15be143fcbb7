"""The layers of the package import in one direction, and importing it stays cheap."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Lowest first: a layer imports itself and what stands above it here. A layer is a module or a
# folder of the package; the public API, the package's own ``__init__``, is a layer too.
LAYERS = (
    ("errors", "hardware", "processes", "window"),
    ("trace",),
    ("timeline",),
    ("private",),
    ("overlap",),
    ("diagnosis",),
    ("report",),
    ("analysis",),
    ("comparison",),
    ("output",),
    ("redaction",),
    ("recorders",),
    ("planning", "profiles"),
    ("study",),
    ("__init__",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
NEVER = {"tests", "benchmarks", "pytest", "hypothesis", "jax", "jaxlib"}
WORKER = "nsysoffload.recorders.predict._worker"  # alone with jax, in a process of its own
PROFILE = "nsysoffload.trace.xplane.profile"  # reads profiles with jax, once one is to be read
SLOW = ("pandas", "pyarrow", "plotly", "jinja2")


def module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(file: Path, package: str) -> Iterator[str]:
    """Yield the full dotted name of all that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer(name: str, package: str) -> str:
    """Return the layer of a dotted name; a name that is no layer belongs to the public API."""
    first = name.removeprefix(package).removeprefix(".").partition(".")[0]
    return first if first in RANK else "__init__"


def violations(root: Path, package: str = "nsysoffload") -> list[str]:
    """Return a line for every import that goes against the layers of the package under a root."""
    found = []
    for file in sorted((root / package).rglob("*.py")):
        name = module_name(root, file)
        own = layer(name, package)
        if own == "__init__" and name != package:
            found.append(f"{name} belongs to no layer")
        parent = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for target in imported_names(file, parent):
            top = target.partition(".")[0]
            upward = top == package and RANK[layer(target, package)] > RANK[own]
            at_home = name == WORKER and top in {"jax", "jaxlib"}
            at_home |= name == PROFILE and target.startswith("jax.profiler.")
            if upward or target.startswith(WORKER) or (top in NEVER and not at_home):
                found.append(f"{name} imports {target}")
    return found


def test_layers_import_in_one_direction_only():
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line", "violation"),
    [
        pytest.param(
            "trace/reader.py",
            "import nsysoffload.report.html",
            "nsysoffload.trace.reader imports nsysoffload.report.html",
            id="import",
        ),
        pytest.param(
            "trace/reader.py",
            "from nsysoffload.timeline.intervals import union",
            "nsysoffload.trace.reader imports nsysoffload.timeline.intervals.union",
            id="from-module",
        ),
        pytest.param(
            "trace/reader.py",
            "from nsysoffload import cli",
            "nsysoffload.trace.reader imports nsysoffload.cli",
            id="from-package",
        ),
        pytest.param(
            "trace/reader.py",
            "from ..report import html",
            "nsysoffload.trace.reader imports nsysoffload.report.html",
            id="relative",
        ),
        pytest.param(
            "trace/__init__.py",
            "from ..report import html",
            "nsysoffload.trace imports nsysoffload.report.html",
            id="relative-in-init",
        ),
        pytest.param(
            "trace/reader.py",
            "def read():\n    from nsysoffload.overlap import transfers",
            "nsysoffload.trace.reader imports nsysoffload.overlap.transfers",
            id="in-a-function",
        ),
        pytest.param(
            "report/html.py",
            "from nsysoffload import analyze",
            "nsysoffload.report.html imports nsysoffload.analyze",
            id="public-api",
        ),
        pytest.param(
            "recorders/predict/schedule.py",
            "import jax.numpy as jnp",
            "nsysoffload.recorders.predict.schedule imports jax.numpy",
            id="jax",
        ),
        pytest.param(
            "trace/xplane/profile.py",
            "import jax",
            "nsysoffload.trace.xplane.profile imports jax",
            id="jax-beyond-its-profiler",
        ),
        pytest.param(
            "recorders/predict/process.py",
            "import nsysoffload.recorders.predict._worker",
            "nsysoffload.recorders.predict.process imports nsysoffload.recorders.predict._worker",
            id="jax-by-way-of-the-worker",
        ),
        pytest.param(
            "cli/demo.py",
            "from tests.report import examples",
            "nsysoffload.cli.demo imports tests.report.examples",
            id="tests",
        ),
        pytest.param("utils.py", "", "nsysoffload.utils belongs to no layer", id="no-layer"),
    ],
)
def test_an_import_against_the_layers_is_found(tmp_path, file, line, violation):
    planted = tmp_path / "nsysoffload" / file
    planted.parent.mkdir(parents=True)
    planted.write_text(line)
    assert violations(tmp_path) == [violation]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        pytest.param("errors.py", "import math, numpy", id="foreign"),
        pytest.param("report/html.py", "from nsysoffload.trace import schema", id="downward"),
        pytest.param("trace/reader.py", "from . import schema", id="same-layer"),
        pytest.param("__init__.py", "from nsysoffload.analysis import analyze", id="public-api"),
        pytest.param("cli/main.py", "from nsysoffload import analyze", id="cli"),
        pytest.param("recorders/predict/_worker.py", "import jax, jaxlib.mlir", id="jax"),
        pytest.param(
            "trace/xplane/profile.py",
            "def opened():\n    from jax.profiler import ProfileData",
            id="jax-profiler",
        ),
    ],
)
def test_an_import_along_the_layers_is_fine(tmp_path, file, line):
    planted = tmp_path / "nsysoffload" / file
    planted.parent.mkdir(parents=True)
    planted.write_text(line)
    assert violations(tmp_path) == []


@pytest.mark.parametrize("module", ["nsysoffload", "nsysoffload.cli"])
def test_importing_loads_nothing_slow(module):
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in loaded
    assert sorted(set(SLOW) & set(loaded)) == []
