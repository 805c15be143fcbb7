"""Imports the action's scripts as they import each other: from their own folder."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from tests.action.workflow_runner import ROOT

FOLDER = ROOT / "action"
NAMES = {file.stem for file in FOLDER.glob("*.py")}


@contextmanager
def script(name: str) -> Iterator[ModuleType]:
    """Import a script; afterwards its name, and those of the others, are free again."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
        for imported in NAMES & sys.modules.keys():
            del sys.modules[imported]
