"""What holds for the project as a whole: one version, and modules that say what they offer."""

import ast
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
FILES = sorted((ROOT / "nsysoffload").rglob("*.py"))


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_public(file: Path) -> bool:
    return not any(part.startswith("_") for part in module_name(file).split("."))


def offers_something(file: Path) -> bool:
    """Whether there is more in a file than its docstring."""
    return len(ast.parse(file.read_text(encoding="utf-8")).body) > 1


each_public_module = pytest.mark.parametrize(
    "file", [pytest.param(file, id=module_name(file)) for file in FILES if is_public(file)]
)


def test_the_installed_package_has_the_version_of_pyproject():
    assert version("nsysoffload") == VERSION


def test_the_version_stands_in_pyproject_alone():
    copies = [module_name(file) for file in FILES if f'"{VERSION}"' in file.read_text("utf-8")]
    assert copies == []


@each_public_module
def test_a_public_module_has_a_docstring(file):
    assert (import_module(module_name(file)).__doc__ or "").strip()


@each_public_module
def test_a_public_module_names_what_others_may_import(file):
    module = import_module(module_name(file))
    if offers_something(file):
        assert hasattr(module, "__all__")
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
