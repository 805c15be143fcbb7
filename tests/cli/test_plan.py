import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.cli.plan import COMPILES as SHOWN_COMPILES
from nsysoffload.cli.plan import TRIED_PRESETS as SHOWN_PRESETS
from nsysoffload.planning.json import schema
from nsysoffload.planning.plan import COMPILES, FIXED, TRIED_PRESETS
from nsysoffload.recorders.predict.capture import Request
from tests.planning.programs import prepare

ASKED = ("--model", "tiny", "--layers", "2")
QUIET = ("--compiles", "0", "--xla-preset", "default")
REQUEST = Request(model="tiny", target="gb200", layers=2)
FOLDER = Path("runs", "tiny-gb200-plan")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Return a workplace in which the fixed policies have run already."""
    place = tmp_path_factory.mktemp("workplace")
    prepare(place / FOLDER, FIXED, REQUEST)
    return place


@pytest.fixture
def plan(runs, monkeypatch):
    monkeypatch.chdir(runs)
    return lambda *words: CliRunner().invoke(main, ["plan", *words])


def test_a_plan_is_printed_and_left_with_a_comparison_of_all_runs(plan):
    result = plan(*ASKED, *QUIET)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Predicted, not measured: the times come from a model."
    assert max(map(len, lines)) <= 100
    assert lines[-2:] == [f"{FOLDER}/plan.json", f"{FOLDER}/report.html"]
    assert lines[-3].startswith("nsysoffload capture --model tiny --layers 2 --variant ")
    page = (FOLDER / "report.html").read_text(encoding="utf-8")
    assert all(f">{policy}<" in page or f'"{policy}"' in page for policy in FIXED)
    assert sorted(result.stderr.splitlines()) == sorted(f"{p} (default): found" for p in FIXED)


def test_as_json_a_plan_is_the_file_and_nothing_else(plan):
    result = plan(*ASKED, *QUIET, "--format", "json", "--memory-limit", "30GB")
    told = json.loads(result.stdout)
    assert result.stdout == (FOLDER / "plan.json").read_text(encoding="utf-8")
    jsonschema.validate(told, schema(), cls=jsonschema.Draft202012Validator)
    assert told["limits"]["device_bytes"] == 30 * 10**9
    assert {c["policy"] for c in told["candidates"] if not c["fits"]} == {"none"}


def test_where_nothing_fits_the_exit_code_is_1_and_the_nearest_is_told(plan):
    result = plan(*ASKED, *QUIET, "--memory-limit", "1GB", "--host-limit", "1GB")
    assert result.exit_code == 1
    assert "Best: " not in result.stdout
    assert "comes nearest and needs 10.0 GB and 0 B." in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--memory-limit", "0"], "'0' is no size; write it like 16GiB or 1.5GB."),
        (["--host-limit", "much"], "'much' is no size; write it like 16GiB or 1.5GB."),
        (["--names", "mlp_down"], "The model names no value 'mlp_down'; choose from "),
        (["--names", ""], "A name is empty; write NAME,NAME."),
        (["--names", "mlp_up,"], "A name is empty; write NAME,NAME."),
        (["-o", ""], "Invalid value for '-o' / '--output': a file's name is empty."),
        (["--layers", "99"], "tiny has 4 layers and can only be shrunk; ask for 1 to 4."),
        (["--mesh", "fsdp=1000000000"], "is of more than 131,072 devices; make it smaller."),
        (["--model", "gpt"], "There is no model 'gpt'; choose one of "),
        (["--compiles", "-1"], "Invalid value for '--compiles'"),
        (["--xla-preset", "fast"], "Invalid value for '--xla-preset'"),
        (["--xla-flags", "fast"], "'fast' is no XLA flag; write it as --xla_name=value."),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(plan, words, sentence):
    result = plan(*ASKED, *QUIET, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_a_folder_that_is_a_file_is_refused(plan, tmp_path):
    (tmp_path / "file").write_text("")
    result = plan(*ASKED, *QUIET, "-o", str(tmp_path / "file"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written to" in result.stderr


def test_a_model_has_to_be_named(plan):
    assert "Missing option '--model'" in plan().stderr


def test_the_help_knows_the_defaults_of_the_library():
    assert (SHOWN_COMPILES, SHOWN_PRESETS) == (COMPILES, TRIED_PRESETS)
