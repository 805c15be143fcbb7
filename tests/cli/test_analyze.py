import json
import re
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


# --- Run folders ---


def recorded(
    folder: Path, *, of_recording: dict[str, object] | None = None, **more: object
) -> None:
    """A run folder with a step of which 10 of 20 ms of an H2D copy of 1 GB are exposed."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = TraceBuilder().nvtx("train_step", (0, 120)).kernel((1, 100), "gemm", call=(0.5, 0.6))
    trace.copy("h2d", (90, 110), size_bytes=10**9, stream=20)
    trace.copy("d2h", (20, 40), size_bytes=10**9, stream=21)
    trace.write(folder / "trace.sqlite")
    recording = {"bare_step_ms": 100.0, "profiled_step_ms": 130.0, "overhead": 0.3}
    manifest = {"schema": "nsysoffload-run/1", "kind": "measured", "variant": folder.name}
    manifest |= {"recording": recording | (of_recording or {})} | more
    (folder / "manifest.json").write_text(json.dumps(manifest))


def codes(stderr: str) -> list[str]:
    return re.findall(r"Warning \[(\w+)\]", stderr)


def test_a_report_of_a_run_says_how_much_the_profiler_slowed_it_down(run, tmp_path):
    recorded(tmp_path / "offload", of_recording={"notes": ["Recorded with cuda-sw."]})
    result = run("analyze", "offload")
    head = "profiling overhead 30 %: step 100 ms bare, 130 ms profiled"
    assert result.exit_code == 0
    assert f"Recorded: variant offload; {head}." in " ".join(result.stdout.split())
    assert codes(result.stderr) == ["profiling_overhead", "capture_note"]
    for suffix in ("html", "md"):
        assert head in Path(f"reports/offload/report.{suffix}").read_text()
    report = json.loads(Path("reports/offload/report.json").read_text())
    assert report["recording"]["overhead"] == 0.3


def test_a_run_whose_numerics_differ_is_reported_and_ends_with_1(run, tmp_path):
    text = "numerics differ from step 2 of 3 (index 1): loss 2.24 instead of 2.1"
    numerics = {"agree": False, "against": "remat", "text": text}
    recorded(tmp_path / "offload", of_recording={"overhead": 0.0, "numerics": numerics})
    result = run("analyze", "offload", "--format", "json")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"Warning [numerics_differ]: N{text[1:]} (against remat).",
        f"Gate failed: {text} (against remat)",
    ]
    report = json.loads(Path("reports/offload/report.json").read_text())
    assert report["verdict"]["outcome"] == "not_usable"
    assert report["verdict"]["text"].startswith(f"Not to be used: {text} (against remat). Transf")
    assert report["devices"][0]["trace"]["both"]["busy_ns"] == 40_000_000


def test_the_memory_of_a_run_can_be_limited(run, tmp_path):
    names = ("argument_bytes", "temp_bytes", "output_bytes", "alias_bytes")
    needs = dict.fromkeys(names, 0) | {"device_need_bytes": 9, "host_need_bytes": 7}
    recorded(tmp_path / "offload", of_recording={"overhead": 0.0}, memory=needs)
    limits = ("--fail-over", "device_bytes=9B", "--fail-over", "host_bytes=6B")
    result = run("analyze", "offload", *limits)
    assert (result.exit_code, result.stderr) == (1, "Gate failed: host_bytes 7 B is over 6 B\n")


def test_a_manifest_of_something_else_is_a_warning(run, tmp_path):
    recorded(tmp_path / "offload")
    (tmp_path / "offload" / "manifest.json").write_text('{"name": "app"}')
    result = run("analyze", "offload")
    assert (result.exit_code, codes(result.stderr)) == (0, ["manifest_ignored"])


@pytest.mark.parametrize(
    ("size", "exit_code", "warned"),
    [
        pytest.param("1GB", 0, [], id="as-expected"),
        pytest.param("1.05GB", 0, [], id="near"),
        pytest.param("1.5GB", 0, ["offload_bytes"], id="less"),
        pytest.param("2.1GB", 1, [], id="under-half"),
    ],
)
def test_bytes_that_are_expected_to_be_offloaded_are_a_gate(run, tmp_path, size, exit_code, warned):
    recorded(tmp_path / "offload", of_recording={"overhead": 0.0})
    result = run("analyze", "offload", "--expect-offload", size)
    assert (result.exit_code, codes(result.stderr)) == (exit_code, warned)
    report = json.loads(Path("reports/offload/report.json").read_text())
    (gate,) = report["gates"]
    assert (gate["name"], gate["kind"], gate["passed"]) == (
        "expect_offload",
        "check",
        not exit_code,
    )
    assert report["tool"]["options"] == {"expect_offload": size}


def test_steps_without_an_offloaded_byte_fail_what_was_requested(run, tmp_path):
    trace = TraceBuilder()
    for start in (0, 100, 200):
        call = (start + 1, start + 2)
        trace.nvtx("train_step", (start, start + 90)).kernel(
            (start + 5, start + 80), "gemm", call=call
        )
    trace.write(tmp_path / "a.sqlite")
    result = run("analyze", "a.sqlite", "--expect-offload", "16GiB")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(
        "Gate failed: offload requested, 0 bytes device-to-host and 0 bytes host-to-device per step"
    )
    report = json.loads(Path("reports/a/report.json").read_text())
    assert report["devices"][0]["per_step"]["both"]["overlap"] is None


def test_bytes_that_the_run_was_recorded_to_move_are_a_warning_only(run, tmp_path):
    recorded(tmp_path / "offload", of_recording={"overhead": 0.0, "expect_offload_bytes": 10**10})
    result = run("analyze", "offload")
    assert (result.exit_code, codes(result.stderr)) == (0, ["offload_bytes"])
    assert "Offload requested, 1.00 GB device-to-host" in result.stderr
    asked = run("analyze", "offload", "--expect-offload", "1GB")
    assert (asked.exit_code, asked.stderr) == (0, "")


def test_a_size_that_is_none_is_an_error(run, tmp_path):
    recorded(tmp_path / "offload")
    result = run("analyze", "offload", "--expect-offload", "much")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: 'much' is no size; write it like 16GiB or 1.5GB.\n"


def test_a_folder_of_ranks_is_one_report_of_all(run, tmp_path):
    for rank in (0, 2, 10):
        folder = tmp_path / f"runs/8b/offload/rank{rank}"
        recorded(folder, of_recording={"overhead": 0.0}, variant="offload")
    result = run("analyze", "runs/8b/offload", "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "reports/8b/offload/report.json"
    report = json.loads(Path("reports/8b/offload/report.json").read_text())
    # All are equally slow, so that they stay in their order.
    assert [rank["file"] for rank in report["ranks"]] == [
        f"rank{rank}/trace.sqlite" for rank in (0, 2, 10)
    ]


def test_runs_of_one_variant_do_not_replace_each_others_reports(run, tmp_path):
    for model in ("1b", "8b"):
        recorded(tmp_path / f"runs/{model}/offload")
        run("analyze", f"runs/{model}/offload", "--format", "json")
    assert sorted(map(str, Path("reports").rglob("*.json"))) == [
        "reports/1b/offload/report.json",
        "reports/8b/offload/report.json",
    ]
