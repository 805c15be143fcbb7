"""Every command in the README, and every line of Python in it and in docs, works as it stands."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.recorders.predict import demo
from nsysoffload.trace.builder import TraceBuilder
from tests.comparison.traces import trace as with_steps
from tests.fake_nsys.program import install

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("capture", "attach", "redact")
    if (ROOT / "docs" / f"{name}.md").exists()
]
COMMANDS = {
    line.split("  #")[0].strip(): None
    for block in re.findall(r"```bash\n(.*?)```", "\n".join([README, *PAGES]), re.DOTALL)
    for line in block.splitlines()
    if line.strip()
}


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    """Return a folder with traces, and an nsys that stands in for the real one."""
    for rank in range(2):
        trace = TraceBuilder().kernel((1000, 1500 + rank), "gemm", device=1)
        trace.copy("h2d", (1400, 1700), stream=20, device=1).nvtx("iteration 0", (900, 2000))
        trace.write(tmp_path / f"rank{rank}.sqlite")
    for name in ("step", "trace"):
        (tmp_path / f"{name}.sqlite").write_bytes((tmp_path / "rank0.sqlite").read_bytes())
    for name, steps_ms in (("base", (100, 101, 102, 103)), ("new", (90, 91, 92, 93))):
        with_steps(steps_ms, 5).write(tmp_path / f"{name}.sqlite")
    runs = ("tiny-gb200/offload", "tiny/remat", "tiny/offload", "8b/offload/rank0")
    for name in runs:
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        (run / "trace.sqlite").write_bytes((tmp_path / "rank0.sqlite").read_bytes())
    base = tmp_path / "reports" / "base"
    nsysoffload.write(nsysoffload.analyze(tmp_path / "base.sqlite"), base, "json")
    nsys = install(tmp_path / "bin", "2025.5")
    report = {"scenario": "", "steps": [["train_step", 2, 1 << 20, 1 << 20]] * 3}
    (tmp_path / "step.nsys-rep").write_text(json.dumps(report))
    (tmp_path / "train.py").write_bytes((ROOT / "tests" / "fake_trainer.py").read_bytes())
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    path = [str(nsys.parent), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
    monkeypatch.setenv("PATH", ":".join(path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bundled(folder: Path):
    """Return the runs of the demo, of the schedules that come with the tool."""
    return demo.runs(folder / "demo", compiling=False, progress=print, fallen_back=print)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(command, workplace):
    if command.startswith("make "):
        # Run whole, `make test` would run this test: that make knows what to do is enough here.
        target = ["make", "-C", str(ROOT), "--dry-run", command.removeprefix("make ")]
        assert subprocess.run(target, capture_output=True, check=False).returncode == 0
        return
    if command.startswith("nsysoffload study "):
        # It takes half an hour, and goes on where it was interrupted.
        # Tests may run in the background, where interrupts are ignored.
        words = ["env", "--default-signal=INT", *command.split()]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as study:
            assert study.stderr
            assert "searching the best policy" in study.stderr.readline()
            study.send_signal(signal.SIGINT)
            assert study.wait(60) == 130
        return
    if command.startswith("nsysoffload profile "):
        run = next(run for run in bundled(workplace) if run.variant == "offload")
        shutil.copytree(run.folder, workplace / "runs/tiny-gb200/offload", dirs_exist_ok=True)
    if command.startswith("nsys "):
        (workplace / "step.sqlite").unlink()  # as an export of before, it would not be replaced
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    broken = int("--fail-under" in command)  # a third of the copy is hidden, and more is asked for
    assert (done.returncode, done.stderr.count("Gate failed")) == (broken, 2 * broken)
    assert "Error" not in done.stderr


def test_the_python_of_the_readme_works(workplace, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {})
    words = capsys.readouterr().out
    assert "33.3 % of 300 ms of transfer time" in words
    assert words.endswith("\nFalse\nbetter\n")
    assert sorted(path.name for path in (workplace / "reports" / "step").iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]


@pytest.mark.usefixtures("compiler")
def test_the_python_of_the_page_on_prediction_works(tmp_path, monkeypatch, capsys):
    import jax
    import jax.numpy as jnp

    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    array = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)
    exec(code, {"train_step": jax.jit(lambda w, x: w - x @ w), "state": array, "batch": array})
    assert capsys.readouterr().out.startswith("Range(low_ns=")
    assert (tmp_path / "trace.sqlite").exists()


def test_the_constants_of_the_page_on_prediction_are_known(tmp_path):
    from nsysoffload.hardware import TARGETS
    from nsysoffload.recorders.predict.constants import constants_for, measured

    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "measured.json"
    file.write_text(text)
    changed = {c.name for c in measured(constants_for(TARGETS["gb200"]), file)} & {"h2d", "d2h"}
    assert changed == {"h2d", "d2h"}


def test_every_option_of_analyze_stands_in_the_help_and_the_commands_in_the_readme():
    from nsysoffload.cli import main

    for name, command in main.commands.items():
        assert f"nsysoffload {name}" in README or f"make {name}" in README
        assert "Example:" in (command.help or "")


def test_files_that_the_readme_names_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_output_of_the_demo_in_the_readme_is_up_to_date():
    made = (ROOT / "tests" / "golden" / "demo.txt").read_text(encoding="utf-8")
    compared = made.split("offload against remat:\n")[1].split("reports/demo/compare")[0]
    assert f"```\n{compared.rstrip()}\n```" in README


def test_the_readme_lists_every_cause_in_order():
    from nsysoffload.diagnosis.explanations import EXPLANATIONS

    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", README, re.MULTILINE)
    assert rows == [(told.cause, told.title) for told in EXPLANATIONS.values()]
