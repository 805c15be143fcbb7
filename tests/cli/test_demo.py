import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.recorders.predict.versions import VersionError


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["demo", *words])


def report_of(variant):
    return json.loads(Path("reports/demo", variant, "report.json").read_text())


def holds_two_reports_and_a_ranking(result):
    assert result.exit_code == 0
    for variant in ("offload", "remat"):
        assert f"reports/demo/{variant}/report.html" in result.stdout.splitlines()
        assert report_of(variant)["prediction"]["variant"] == variant
    assert report_of("offload")["devices"][0]["trace"]["d2h"]["copies"] > 0
    assert report_of("remat")["verdict"]["outcome"] == "no_transfers"
    assert "Offloading loses: offload takes" in result.stdout.replace("\n", " ")
    compared = json.loads(Path("reports/demo/compare/report.json").read_text())
    assert compared["verdict"]["outcome"] == "worse"
    assert [run["variant"] for run in (compared["base"], *compared["new"])] == ["remat", "offload"]


def test_the_demo_takes_bundled_schedules_when_told_so(run):
    result = run("--bundled")
    holds_two_reports_and_a_ranking(result)
    assert result.stderr == ""
    assert "came with the tool" in " ".join(report_of("offload")["prediction"]["notes"])


def test_without_a_compiler_the_demo_says_so_and_takes_bundled_schedules(run, monkeypatch):
    def missing():
        raise VersionError("jax is not installed; install it.")

    monkeypatch.setattr("nsysoffload.recorders.predict.compile.check_versions", missing)
    result = run()
    holds_two_reports_and_a_ranking(result)
    assert result.stderr == (
        "Warning [bundled]: jax is not installed; install it. The schedules that come with the"
        " tool are used instead.\n"
    )


@pytest.mark.usefixtures("compiler")
def test_the_demo_compiles_where_it_can(run):
    result = run()
    holds_two_reports_and_a_ranking(result)
    assert sorted(line.split(":")[0] for line in result.stderr.splitlines()) == ["offload", "remat"]
    assert "came with the tool" not in " ".join(report_of("offload")["prediction"]["notes"])
