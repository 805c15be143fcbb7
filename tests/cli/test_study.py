from dataclasses import replace
from importlib import import_module

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.study import cases
from tests.study.examples import MODEL, STUDY, planted


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["study", *words])


@pytest.fixture
def small(monkeypatch):
    """Put a study whose runs are there in the place of the one of GB200."""

    def put(variants):
        asked = replace(STUDY, name="gb200", variants=variants)
        monkeypatch.setattr(import_module("nsysoffload.cli.study"), "STUDIES", {"gb200": asked})

    return put


def test_a_study_prints_its_summary_and_its_files(run, small, tmp_path):
    small(STUDY.variants[1:3])
    for variant in ("remat", "offload"):
        planted(variant, tmp_path / "reports/study/gb200" / MODEL / "b8" / variant)
    result = run("gb200", "--batch", "8")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-3:] == [
        f"reports/study/gb200/report.{suffix}" for suffix in ("html", "md", "json")
    ]
    assert "Llama 3.2 1B, batch 8" in result.stdout
    assert "rematerialise: kept" in result.stderr
    text = (tmp_path / "reports/study/gb200/report.md").read_text()
    assert "nsysoffload study gb200 --batch 8" in text


@pytest.mark.usefixtures("compiler")
def test_a_run_that_fails_is_told_in_the_report_and_by_the_exit_code(run, small, tmp_path):
    small((*STUDY.variants[1:3], cases.Variant("broken", "broken", "save:nothing")))
    for variant in ("remat", "offload"):
        planted(variant, tmp_path / "out" / MODEL / "b8" / variant)
    result = run("gb200", "-o", "out", "--no-reports")
    assert result.exit_code == 3
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: 1 of 3 runs failed, the first with: The model names no value")
    assert error.endswith("The report has all reasons; the same command tries these runs again.")
    assert "The model names no value 'nothing'" in (tmp_path / "out/report.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("h100",), "'h100' is not 'gb200'."),
        (("gb200", "--only", "llama"), "Model 'llama' is not known"),
        (("gb200", "--batch", "3"), "The study has no batch of 3; choose from 256, 1024."),
        (("gb200", "--layers", "0"), "0 is not in the range x>=1."),
    ],
)
def test_what_there_is_not_is_refused(run, words, message):
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_help_has_an_example(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "Example:\n    nsysoffload study gb200\n" in result.stdout
