import subprocess
import sys

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.diagnosis.explanations import EXPLANATIONS


def explain(*words: str):
    return CliRunner().invoke(main, ["analyze", *words])


@pytest.mark.parametrize("cause", EXPLANATIONS)
def test_a_cause_is_explained_without_a_trace(cause):
    result = explain("--explain", cause)
    told = EXPLANATIONS[cause]
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{cause}: {told.title}\n")
    assert max(map(len, result.stdout.splitlines())) <= 100
    words = " ".join(result.stdout.split())
    parts = [told.meaning, told.detection, told.cost, told.advice_xla, told.advice_cuda]
    parts += [f"{what}: {value}" for what, value in told.thresholds]
    assert [part for part in parts if part not in words] == []


def test_several_causes_are_explained_in_the_order_in_which_they_are_named():
    for words in (
        ["--explain", "starved,unknown"],
        ["--explain", "starved", "--explain", "unknown"],
    ):
        heads = [line for line in explain(*words).stdout.splitlines() if line[:1].isalpha()]
        assert heads == ["starved: Copies starve under kernels", "unknown: Not explained"]


def test_all_explains_every_cause():
    heads = [line for line in explain("--explain", "all").stdout.splitlines() if line[:1].isalpha()]
    assert heads == [f"{cause}: {told.title}" for cause, told in EXPLANATIONS.items()]


@pytest.mark.parametrize("name", ["issued_to_late", "all,issued_to_late"])
def test_a_cause_that_is_not_known_is_an_error_that_guesses(name):
    result = explain("--explain", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: Cause 'issued_to_late' is not known; did you mean 'issued_too_late'?\n"
    )


def test_explaining_loads_nothing_slow():
    code = (
        "import sys\nfrom nsysoffload.cli import main\n"
        "main(['analyze', '--explain', 'all'], standalone_mode=False)\n"
        "print(*({'pandas', 'numpy', 'plotly'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stderr, done.stdout[:16]) == ("\n", "collective_only:")
