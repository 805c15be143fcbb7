"""An `nsys` for tests: takes the options of a version, runs the command, and makes up the rest."""

import shlex
import sys
from pathlib import Path

from tests.fake_nsys.options import BUILDS, Version, help_of, refuse

__all__ = ["install", "main", "version_of"]

ROOT = Path(__file__).parents[2]
START = f"import sys; sys.path.insert(0, {str(ROOT)!r})"


def install(folder: Path, release: str) -> Path:
    """Put an nsys of a release, such as 2025.5, into a folder.

    Its version and help are there as files, for to print them a shell is quicker than Python.
    """
    folder.mkdir(parents=True, exist_ok=True)
    version = version_of(release)
    texts = {
        "--version": f"NVIDIA Nsight Systems version {BUILDS[release]}\n",
        "profile --help": help_of("profile", version),
        "export --help": help_of("export", version),
    }
    answers = []
    for number, (words, text) in enumerate(texts.items()):
        file = folder / f"text{number}"
        file.write_text(text)
        answers.append(f"'{words}') exec cat {shlex.quote(str(file))} ;;")
    code = f"{START}; from tests.fake_nsys.program import main; main({release!r}, sys.argv[1:])"
    command = shlex.join([sys.executable, "-P", "-c", code])
    path = folder / "nsys"
    lines = ["#!/bin/sh", 'case "$*" in', *answers, "esac", f'exec {command} "$@"', ""]
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return path


def version_of(release: str) -> Version:
    """Return a release as numbers that can be compared."""
    year, number = map(int, release.split("."))
    return year, number


def main(release: str, words: list[str]) -> None:
    """Do what ``nsys`` with these words does, and end with its exit code."""
    if words[:1] == ["profile"]:
        from tests.fake_nsys.profile import profile

        raise SystemExit(profile(release, version_of(release), words[1:]))
    if words[:1] == ["export"]:
        from tests.fake_nsys.export import export

        raise SystemExit(export(version_of(release), words[1:]))
    refuse("profile", f"'{' '.join(words[:1])}' is no command.")
