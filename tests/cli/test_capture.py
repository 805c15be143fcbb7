import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import nsysoffload
from nsysoffload.cli import main
from nsysoffload.cli.capture import PRESETS
from nsysoffload.recorders import flags


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["capture", "--recorder", "predict", *words])


def failed(result, exit_code, sentence):
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr == f"Error: {sentence}\n"


def test_presets_are_those_of_the_recorder():
    assert tuple(flags.PRESETS) == PRESETS


def test_help_has_an_example_and_needs_no_model(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "Example:\n    nsysoffload capture --model llama3.1-8b --mesh fsdp=8" in result.stdout


# --- What is refused before anything is compiled ---

MESH = (
    "is no part of a mesh; write AXIS=N,... with the axes data, fsdp, expert, tensor, each once,"
    " such as fsdp=8,tensor=2."
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(
            ["--model", "gpt"],
            "There is no model 'gpt'; choose one of llama3.1-8b, llama3.1-70b, llama3.1-405b,"
            " llama3.2-1b, deepseek-v3-671b, tiny, tiny-moe.",
            id="model",
        ),
        pytest.param(["--model", "tiny", "--mesh", "fsdp=0"], f"'fsdp=0' {MESH}", id="no GPU"),
        pytest.param(["--model", "tiny", "--mesh", "fsdp=x"], f"'fsdp=x' {MESH}", id="no number"),
        pytest.param(["--model", "tiny", "--mesh", "gpus=8"], f"'gpus=8' {MESH}", id="no axis"),
        pytest.param(
            ["--model", "tiny", "--xla-flags", "--fast"],
            "'--fast' is no XLA flag; write it as --xla_name=value.",
            id="no XLA flag",
        ),
        pytest.param(
            ["--model", "tiny", "--efficiency", "absent.json"],
            "absent.json cannot be read as JSON ([Errno 2] No such file or directory:"
            " 'absent.json'); give an object such as {\"gemm_efficiency\": 0.7}.",
            id="no file",
        ),
        pytest.param(
            ["--model", "tiny", "-o", "file"],
            "The run cannot be written to file/offload: Not a directory; name another folder.",
            id="a file",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(run, words, sentence):
    Path("file").write_text("kept")
    failed(run(*words), 2, sentence)
    assert Path("file").read_text() == "kept"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", " cannot be read as JSON (Expecting property name"),
        ("[]", ' holds no object such as {"gemm_efficiency": 0.7}.'),
        ('{"gemm_efficiency": "fast"}', "has to be a number, or an object of low, expected"),
        ('{"gemm_efficiency": 1.5}', "has to be from 0.001 to 1, low <= expected <= high."),
    ],
)
def test_measured_constants_that_make_no_sense_are_refused(run, text, sentence):
    Path("e.json").write_text(text)
    result = run("--model", "tiny", "--efficiency", "e.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: e.json")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Say what to record: either --model M, or a command after '--'."),
        (["--model", "tiny", "--target", "v100"], "'v100' is not one of 'gh200', 'gb200'"),
        (["--model", "tiny", "--xla-preset", "fast"], "'fast' is not one of 'default', 'lhs'"),
        (["--model", "tiny", "--steps", "0"], "0 is not in the range 1<=x<=100."),
        (["--model", "tiny", "--batch", "0"], "0 is not in the range x>=1."),
    ],
)
def test_an_option_out_of_its_choices_is_a_usage_error(run, tmp_path, words, sentence):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert [*tmp_path.iterdir()] == []


# --- What only the compiler's process finds out ---


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        pytest.param(
            ["--variant", "ofload"],
            2,
            "There is no policy 'ofload'; choose one of none, remat, dots, offload, offload-dots,"
            " offload:NAME,..., save:NAME,... or both joined by '+', where NAME is one of"
            " layer_input, query, key, value, attention_out, mlp_gate, mlp_up.",
            id="policy",
        ),
        pytest.param(
            ["--mesh", "fsdp=2", "--batch", "3"],
            2,
            "The batch axis of length 3 cannot be split over 2 devices (fsdp=2); choose a mesh that"
            " divides it.",
            id="batch",
        ),
        pytest.param(
            ["--xla-flags", "--xla_no_such_flag=1"],
            3,
            "XLA of jax 0.12.0.1 has no flag --xla_no_such_flag=1; correct it.",
            id="XLA flag",
        ),
        pytest.param(
            ["--timeout", "1"],
            3,
            "Compiling workloads.step:program took longer than 1 s; allow more time, or try a"
            " smaller model first.",
            id="timeout",
        ),
    ],
)
def test_what_the_compilers_process_finds_becomes_a_sentence(run, words, exit_code, sentence):
    failed(run("--model", "tiny", *words), exit_code, sentence)


# Runs a command, then prints what it and the largest process it waited for needed, in KiB.
MEASURED = """
import resource, sys
from nsysoffload.cli import main
main(sys.argv[1:], standalone_mode=False)
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    print(resource.getrusage(who).ru_maxrss)
"""


@pytest.mark.usefixtures("compiler")
def test_an_8b_model_on_eight_gpus_is_predicted_within_two_gigabytes(run, tmp_path):
    words = ["--model", "llama3.1-8b", "--mesh", "fsdp=8"]
    words += ["--variant", "offload", "--variant", "remat"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "capture", "--recorder", "predict", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    *said, hint = done.stderr.splitlines()
    assert sorted(line.split(": ")[0] for line in said) == ["offload", "remat"]
    assert hint.startswith("Compare them: nsysoffload compare ")
    *summary, own, largest_compilation = done.stdout.splitlines()
    assert summary[0] == "Predicted, not measured: the times come from a model."
    assert [line.split()[0] for line in summary[2:4]] == ["offload", "remat"]
    folders = [Path("runs/llama3.1-8b-gb200", variant) for variant in ("offload", "remat")]
    assert summary[-2:] == [str(folder) for folder in folders]

    two_at_a_time = int(own) + 2 * int(largest_compilation)
    assert two_at_a_time * 1024 < 2e9

    offload, remat = (left_behind(tmp_path / folder) for folder in folders)
    # By hand, per GPU: a sequence of 4096 tokens in 32 layers; bf16 for the layer's input, 32 query
    # heads, 8 key and 8 value heads of 128, the attention's output, twice 14336 of the MLP; and
    # float32 statistics of the 32 heads.
    moved = 32 * 4096 * (2 * (4096 + 4096 + 2 * 1024 + 4096 + 2 * 14336) + 4 * 32)
    for way in ("h2d", "d2h"):
        assert offload["transfers"][way]["bytes"] + offload["kernel_copy_bytes"][way] == moved
        assert remat["transfers"][way]["copies"] == remat["kernel_copy_bytes"][way] == 0
    assert offload["memory"]["host_temp_bytes"] == moved
    assert remat["memory"]["host_temp_bytes"] == 0
    assert 0 < offload["phase_ns"]["recompute"] < remat["phase_ns"]["recompute"]
    # The layers' forward pass without the down projections: two operations per weight and token,
    # and the causal half of scores and values, for which a token sees 2048 others on average.
    again = 2 * 4096 * 32 * (2 * 4096 * (4096 + 1024) + 2 * 4096 * 14336 + 4096 * 4096)
    assert remat["flops"]["recompute"] == pytest.approx(again, rel=0.01)


def left_behind(folder):
    """Check that a run folder is whole; return its manifest."""
    assert {path.name for path in folder.iterdir()} == {
        "log.txt",
        "manifest.json",
        "schedule.hlo.gz",
        "trace.sqlite",
    }
    schedule = gzip.decompress((folder / "schedule.hlo.gz").read_bytes()).decode()
    assert schedule.startswith("HloModule jit_train_step, is_scheduled=true")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["program"]["policy"] == folder.name
    assert (manifest["target"], manifest["devices"]) == ("gb200", 8)
    report = nsysoffload.analyze(folder)
    assert report.trace.kind == "predicted"
    assert report.prediction.variant == folder.name
    steps = 3
    d2h = report.devices[0].trace.d2h
    assert d2h.bytes == steps * manifest["transfers"]["d2h"]["bytes"]
    return manifest


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_capture_that_is_ended_leaves_no_compiler_and_no_folder_behind(tmp_path, number, code):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = [
        "capture",
        "--recorder",
        "predict",
        "--model",
        "tiny",
        "--variant",
        "offload",
        "--variant",
        "remat",
        "-o",
        "out",
    ]
    # Tests may run in the background, where interrupts and hang-ups are ignored.
    begin = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    )
    run = f"{begin}; from nsysoffload.cli import main; main({words!r}, prog_name='nsysoffload')"
    capture = subprocess.Popen(
        [sys.executable, "-c", run],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while capture.poll() is None and len(list(temporary.glob("nsysoffload-*"))) < 2:
        time.sleep(0.05)  # until both compilers are asked for
    capture.send_signal(number)
    assert capture.wait(timeout=60) == code
    assert list(temporary.glob("nsysoffload-*")) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(capture.pid, 0)
