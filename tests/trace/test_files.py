"""What a user may name: exports, run folders, profiles and folders of profiles."""

import pytest

from nsysoffload.analysis import analyze, load
from nsysoffload.errors import TraceError
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.files import export_of, located, public, report_name
from tests.trace.xspace import kernel, write_profile

PLANES = {"/device:GPU:0": {"Stream #7(Compute)": [kernel("gemm", (10, 20), 1)]}}
FIRST, LAST = "2026_11_30_09_00_00", "2026_12_02_22_00_00"


def profile(folder, date=LAST, host="alice-box"):
    place = folder / "plugins" / "profile" / date
    place.mkdir(parents=True, exist_ok=True)
    return write_profile(place / f"{host}.xplane.pb", PLANES)


def test_the_latest_profile_of_a_folder_is_taken(tmp_path):
    first = profile(tmp_path, FIRST)
    assert located(tmp_path) == first
    last = profile(tmp_path, LAST)
    assert located(tmp_path) == last


def test_a_date_without_profiles_is_passed_over(tmp_path):
    first = profile(tmp_path, FIRST)
    (tmp_path / "plugins" / "profile" / LAST).mkdir()
    assert located(tmp_path) == first


def test_a_profile_may_lie_in_the_folder_itself(tmp_path):
    beside = write_profile(tmp_path / "trace.xplane.pb", PLANES)
    assert located(tmp_path) == beside


def test_the_export_of_a_run_folder_comes_first(tmp_path):
    profile(tmp_path)
    export = TraceBuilder().kernel((0, 1), "gemm").write(tmp_path / "trace.sqlite")
    assert located(tmp_path) == export


def test_profiles_of_several_processes_are_named(tmp_path):
    for host in ("b", "a", "c"):
        profile(tmp_path / "run", host=host)
    with pytest.raises(TraceError) as caught:
        located(tmp_path / "run")
    assert str(caught.value) == (
        "run holds profiles of several processes (a.xplane.pb, b.xplane.pb, c.xplane.pb); name one"
        " of these files, or all as ranks."
    )
    for host in "defg":
        profile(tmp_path / "run", host=host)
    with pytest.raises(TraceError, match="d.xplane.pb and 3 more"):
        located(tmp_path / "run")


def test_a_folder_of_other_things_is_refused(tmp_path):
    with pytest.raises(TraceError) as caught:
        located(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path.name} is a folder without a trace.sqlite or a profile of jax.profiler; name a"
        " trace."
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("run/trace.sqlite", "run"),
        ("step.sqlite", "step"),
        ("step.v2.nsys-rep", "step.v2"),
        ("step.xplane.pb", "step"),
        (f"run/plugins/profile/{LAST}/alice-box.xplane.pb", "run"),
    ],
)
def test_a_report_is_named_after_the_trace_and_never_after_a_host(tmp_path, path, name):
    assert report_name(tmp_path / path) == name


def test_a_profile_is_shown_under_the_name_of_its_folder(tmp_path):
    inside = profile(tmp_path / "run")
    assert public(inside).name == "run.xplane.pb"
    beside = tmp_path / "step.xplane.pb"
    assert public(beside) == beside


def test_a_profile_is_exported_for_the_time_of_its_analysis(tmp_path):
    path = profile(tmp_path)
    with export_of(path) as export:
        assert export.name == path.name
        assert export.read_bytes().startswith(b"SQLite format 3")
    assert not export.exists()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_of_a_profile_is_loaded_and_analysed(tmp_path):
    path = profile(tmp_path)
    assert load(tmp_path).kernels["name"].tolist() == ["gemm"]
    assert analyze(path).devices[0].trace.kernels == 1
