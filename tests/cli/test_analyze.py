import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.trace.builder import TraceBuilder


def builder(length: float = 100) -> TraceBuilder:
    trace = TraceBuilder().kernel((1, length), "gemm", call=(0.5, 0.6))
    trace.nvtx("step", (0, length))
    return trace.copy("h2d", (length - 10, length + 10), stream=20)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str):
        return CliRunner().invoke(main, [str(word) for word in words])

    return invoke


def test_a_report_is_named_after_its_trace(run, tmp_path):
    builder().write(tmp_path / "my run.sqlite")
    result = run("analyze", "my run.sqlite")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-3:] == [
        f"reports/my run/report.{suffix}" for suffix in ("html", "md", "json")
    ]
    assert "50.0 % of 20.0 ms of transfer time" in result.stdout


def test_a_report_of_a_run_folder_is_named_after_the_folder(run, tmp_path):
    (tmp_path / "offload").mkdir()
    builder().write(tmp_path / "offload" / "trace.sqlite")
    for name in ("offload", "offload/trace.sqlite"):
        assert "reports/offload/report.json" in run("analyze", name, "--format", "json").stdout


def test_json_goes_alone_to_stdout(run, tmp_path):
    builder().write(tmp_path / "a.sqlite")
    result = run("analyze", "a.sqlite", "--format", "json", "-o", "-")
    report = json.loads(result.stdout)
    assert report["schema"] == "nsysoffload/1"
    assert report["devices"][0]["trace"]["h2d"]["overlap"] == 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite"]


def test_only_one_format_goes_to_stdout(run, tmp_path):
    builder().write(tmp_path / "a.sqlite")
    result = run("analyze", "a.sqlite", "-o", "-")
    assert result.exit_code == 2
    assert "'-o -' prints one format" in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--window", "5"], "is not of the form A..B"),
        (["--window", "2s..1s"], "does not end after it starts"),
        (["--window", "1x..2s"], "has no time in '1x'"),
        (["--window", "0..1e30"], "lies beyond any trace"),
        (["--window", "5s..6s"], "holds no GPU activity"),
        (["--collective", "("], "is no regular expression"),
        (["--not-compute", "*"], "is no regular expression"),
        (["--link", "usb"], "'usb' is not one of 'gh200'"),
        (["-o", "report.html"], "would be a folder"),
        (["--device", "3"], "Device '3' is not in the trace; present: 0."),
        (["--format", "pdf"], "choose from html, md, json"),
    ],
)
def test_an_option_that_cannot_be_used_ends_with_a_sentence(run, tmp_path, words, sentence):
    builder().write(tmp_path / "a.sqlite")
    result = run("analyze", "a.sqlite", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "reports").exists()


def test_warnings_go_to_stderr_with_their_code(run, tmp_path):
    TraceBuilder().copy("h2d", (1, 2), stream=20).write(tmp_path / "a.sqlite")
    result = run("analyze", "a.sqlite")
    assert result.exit_code == 0
    assert "Warning [no_kernels]: No kernel was recorded" in result.stderr
    assert "Warning" not in result.stdout


def test_an_error_keeps_the_old_report(run, tmp_path):
    builder().write(tmp_path / "a.sqlite")
    run("analyze", "a.sqlite")
    before = {path: path.read_bytes() for path in Path("reports/a").iterdir()}
    assert run("analyze", "a.sqlite", "--window", "5s..6s").exit_code == 2
    assert {path: path.read_bytes() for path in Path("reports/a").iterdir()} == before


def test_debug_shows_the_traceback_of_an_error(run, tmp_path):
    result = run("analyze", "absent.sqlite", "--debug")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.stderr.endswith("Error: absent.sqlite does not exist; check the path.\n")


def test_the_slowest_of_several_ranks_is_detailed(run, tmp_path):
    for rank, length in enumerate((100, 300, 200)):
        builder(length).write(tmp_path / f"rank{rank}.sqlite")
    result = run("analyze", *(f"rank{rank}.sqlite" for rank in range(3)), "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(Path("reports/rank0-and-2-more/report.json").read_text())
    assert report["trace"]["file"] == "rank1.sqlite"
    assert [rank["file"] for rank in report["ranks"]] == [
        "rank1.sqlite",
        "rank2.sqlite",
        "rank0.sqlite",
    ]
    assert [rank["window_ns"] for rank in report["ranks"]] == [
        309_000_000,
        209_000_000,
        109_000_000,
    ]
    assert report["devices"][0]["trace"]["window_ns"] == 309_000_000


def test_ranks_of_one_name_are_told_apart_and_a_broken_one_is_a_warning(run, tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        builder(100 + rank).write(tmp_path / f"rank{rank}" / "trace.sqlite")
    (tmp_path / "broken.sqlite").write_bytes(b"nothing")
    result = run("analyze", "rank0", "rank1", "broken.sqlite", "-o", "out")
    assert result.exit_code == 0
    assert "Warning [trace_unusable]: broken.sqlite is not an Nsight Systems" in result.stderr
    report = json.loads(Path("out/report.json").read_text())
    assert [rank["file"] for rank in report["ranks"]] == [
        "rank1/trace.sqlite",
        "rank0/trace.sqlite",
    ]


def test_ranks_that_are_all_broken_or_named_twice_are_errors(run, tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"nothing")
    (tmp_path / "b.sqlite").write_bytes(b"nothing")
    assert run("analyze", "a.sqlite", "b.sqlite").exit_code == 2
    result = run("analyze", "a.sqlite", "./a.sqlite")
    assert (result.exit_code, "given twice" in result.stderr) == (2, True)


def test_the_version_is_that_of_the_package(run):
    from importlib.metadata import version

    assert run("--version").stdout == f"nsysoffload {version('nsysoffload')}\n"


@pytest.mark.parametrize(
    "words", [["-h"], ["--help"], ["analyze", "-h"], ["demo", "--help"], ["capture", "-h"]]
)
def test_every_command_has_help_with_an_example(run, words):
    result = run(*words)
    assert (result.exit_code, "Example:\n" in result.stdout) == (0, True)
