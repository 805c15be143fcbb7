"""The example report in the repository is what the tool writes today; see ``make golden``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main

EXAMPLE = Path(__file__).parents[1] / "reports" / "examples" / "demo"


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    assert CliRunner().invoke(main, ["demo", "--bundled", "-o", str(folder)]).exit_code == 0
    return folder


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
@pytest.mark.parametrize("variant", ["offload", "remat", "compare"])
def test_the_example_report_is_up_to_date(demo, variant, suffix):
    file = Path(variant, f"report.{suffix}")
    made, kept = ((folder / file).read_bytes() for folder in (demo, EXAMPLE))
    assert made == kept, "write it anew with 'make golden' and review the diff"


def test_the_output_of_the_demo_is_up_to_date(demo, golden, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(main, ["demo", "--bundled", "-o", str(demo)])
    golden("demo.txt", result.stdout.replace(str(demo), "reports/demo"))
