"""`nsysoffload redact`: what it prints, and how it ends."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoffload.cli import main
from nsysoffload.trace.builder import TraceBuilder
from tests.redaction.planted import SECRETS, planted


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    trace = TraceBuilder()
    for step in range(4):
        start = 10 * step
        trace.nvtx("train_step", (start, start + 2))
        trace.kernel((start + 3, start + 9), "gemm", call=(start, start + 1))
    trace.write(tmp_path / "trace.sqlite")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["redact", *arguments])


def test_a_copy_says_what_is_removed_how_large_it_is_and_where(here):
    planted(here / "trace.sqlite")
    result = run("trace.sqlite", "safe/copy.sqlite")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "Removed"
    assert " 7  strings that no row of the copy refers to" in lines
    assert "Texts of NVTX ranges that look private, replaced" in lines
    assert "2  path: 44 characters, string 6" in lines
    before, after = ((here / name).stat().st_size for name in ("trace.sqlite", "safe/copy.sqlite"))
    assert lines[-2:] == [f"{before:,} bytes before, {after:,} bytes after.", "safe/copy.sqlite"]


@pytest.mark.parametrize(
    "arguments", [["safe.sqlite"], ["safe.sqlite", "--keep-nvtx"], ["--check"]]
)
def test_no_secret_is_printed(arguments, here):
    planted(here / "trace.sqlite")
    result = run("trace.sqlite", *arguments)
    assert not [what for what, secret in SECRETS.items() if secret in result.output]


def test_a_check_ends_with_1_where_anything_would_be_told(here):
    planted(here / "trace.sqlite")
    result = run("trace.sqlite", "--check")
    assert result.exit_code == 1
    assert result.stdout.startswith("Would be told\n")
    assert result.stdout.endswith("\nThis trace is not safe to give away.\n")
    assert run("trace.sqlite", "safe.sqlite").exit_code == 0
    passed = run("safe.sqlite", "--check")
    assert (passed.exit_code, passed.stdout) == (0, "Nothing private is in it.\n")
    assert sorted(path.name for path in here.iterdir()) == ["safe.sqlite", "trace.sqlite"]


def test_a_check_can_let_texts_of_ranges_pass(here):
    TraceBuilder().kernel((0, 1), "gemm").nvtx("/home/x/y", (0, 1)).write(here / "trace.sqlite")
    assert run("trace.sqlite", "--check").exit_code == 1
    result = run("trace.sqlite", "--check", "--keep-nvtx")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "Nothing private is in it.")


def test_a_cut_says_its_steps(here):
    result = run("trace.sqlite", "cut.sqlite", "--steps", "2", "--since", "12ms")
    assert result.exit_code == 0
    device = "00000000-0000-0000-0000-000000000001"
    assert f"Cut to steps 1 to 2 of device {device}." in result.stdout.splitlines()
    result = run("trace.sqlite", "cut.sqlite", "--since", "0.02", "--step-range", "train_step")
    assert f"Cut to step 2 of device {device}." in result.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give OUT, the file for the copy, or --check; one of them."),
        (["--check", "x.sqlite"], "Give OUT, the file for the copy, or --check; one of them."),
        (
            ["--check", "--steps", "1"],
            "--check looks at the whole trace; leave out --steps and --since.",
        ),
        (
            ["x.sqlite", "--since", "soon"],
            "--since 'soon' is no time; write a number with ns, us, ms or s.",
        ),
        (
            ["x.sqlite", "--step-range", "x"],
            "Options of steps are for a copy that is cut; add --steps.",
        ),
        (
            ["x.sqlite", "--steps", "1", "--skip-steps", "-1"],
            "-1 steps cannot be skipped; give 0 or more.",
        ),
        (["x.sqlite", "--steps", "1", "--step-range", "("], "'(' is no regular expression"),
        (["x.sqlite", "--steps", "7"], "trace.sqlite has 4 whole training steps there, not 7;"),
        (["trace.sqlite"], "trace.sqlite is the trace itself; name another file for the copy."),
        (["x.txt"], "The copy is an SQLite export; let its name end in .sqlite."),
    ],
)
def test_wrong_use_is_a_sentence_and_leaves_nothing(arguments, message, here):
    result = run("trace.sqlite", *arguments)
    assert result.exit_code == 2
    assert f"Error: {message}" in result.stderr
    assert [path.name for path in here.iterdir()] == ["trace.sqlite"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "bad.sqlite does not exist; check the path."),
        (b"", "bad.sqlite is empty; make one with 'nsys export --type sqlite'."),
        (b"not SQLite", "bad.sqlite is not an Nsight Systems SQLite export;"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "bad.sqlite is damaged"),
    ],
)
def test_a_trace_that_cannot_be_used_is_a_sentence(content, message, here):
    if content is not None:
        (here / "bad.sqlite").write_bytes(content)
    result = run("bad.sqlite", "new/x.sqlite")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert not (here / "new").exists()


def test_a_truncated_trace_is_damaged_in_the_words_of_sqlite_alone(here):
    whole = (here / "trace.sqlite").read_bytes()
    (here / "bad.sqlite").write_bytes(whole[: len(whole) // 2])
    result = run("bad.sqlite", "x.sqlite")
    assert result.stderr == (
        "Error: bad.sqlite is damaged (database disk image is malformed);"
        " export it again from the .nsys-rep file.\n"
    )


def test_changes_that_are_not_merged_give_a_warning(here):
    (here / "trace.sqlite-wal").write_bytes(b"x")
    result = run("trace.sqlite", "x.sqlite")
    assert result.stderr.startswith("Warning [unmerged_changes]: trace.sqlite-wal holds changes")
