from click.testing import CliRunner

from nsysoffload.cli import main
from tests.profiles.test_profile import run


def test_a_check_that_is_refused_leaves_no_profile(tmp_path):
    folder, out = tmp_path / "run", tmp_path / "out"
    folder.mkdir()
    run(folder, manifest={"device_kind": "NVIDIA GB200"})
    result = CliRunner().invoke(main, ["profile", str(folder), "-o", str(out), "--check"])
    assert result.exit_code == 2
    assert "leave out --check" in result.stderr
    assert not out.exists()
    assert CliRunner().invoke(main, ["profile", str(folder), "-o", str(out)]).exit_code == 0
    assert (out / "profile.json").exists()
