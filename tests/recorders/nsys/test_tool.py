import sys

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.nsys.tool import find, installed

PROGRAM = """#!{python}
import sys
if sys.argv[1:] == ["--version"]:
    print("NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0")
elif sys.argv[1:] == ["profile", "--help"]:
    help = "    -t, --trace=\\n    Possible values are 'cuda', 'cuda-sw'.\\n    --wait="
    print(help, file=sys.{to})
"""


def install(path, to="stdout", text=PROGRAM):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable, to=to))
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_on_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.parametrize("to", ["stdout", "stderr"])
def test_an_nsys_says_what_it_is_and_knows(tmp_path, to):
    nsys = find(str(install(tmp_path / "with space" / "nsys", to)))
    assert nsys.version == "2025.3.2.474"
    assert nsys.knows("--trace")
    assert not nsys.knows("--trac")
    assert not nsys.knows("--tra")
    assert nsys.offers("--trace", "cuda-sw")
    assert not nsys.offers("--trace", "sw")
    assert not nsys.offers("--wait", "cuda")


def test_that_on_path_comes_before_the_newest_of_the_usual_places(tmp_path):
    assert installed(tmp_path) is None
    install(tmp_path / "opt/nvidia/nsight-systems/2024.6.1/bin/nsys")
    newest = install(tmp_path / "opt/nvidia/nsight-systems/2025.10.1/bin/nsys")
    install(tmp_path / "opt/nvidia/nsight-systems/2025.3.1/bin/nsys")
    assert installed(tmp_path) == str(newest)
    on_path = install(tmp_path / "bin" / "nsys")
    assert installed(tmp_path) == str(on_path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "nsys is not on PATH, nor where it is usually installed; install Nsight Systems"),
        ("absent", "'absent' is no program that can be run; name the nsys to use"),
    ],
)
def test_without_an_nsys_a_sentence_says_what_to_do(tmp_path, path, message):
    with pytest.raises(UsageError, match=message):
        find(path, tmp_path)


def test_a_program_that_is_no_nsys_is_refused(tmp_path):
    other = install(tmp_path / "nsys", text="#!/bin/sh\necho hello\n")
    with pytest.raises(UsageError, match="lists no options"):
        find(str(other))
