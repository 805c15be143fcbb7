"""Real compilations: what XLA takes from a profile, and what that changes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoffload.cli import main
from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.profiles.check import check
from nsysoffload.profiles.files import write
from nsysoffload.profiles.fit import taken
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.profile import About, Profile, profile
from nsysoffload.recorders.flags import using, xla_flags
from nsysoffload.recorders.predict.capture import Request, capture
from nsysoffload.recorders.predict.compile import compile_program

PROGRAMS = Path(__file__).parents[1] / "recorders" / "predict" / "programs"
FLAGS = xla_flags("pipelined")
ABOUT = About("jit_step", "0a", "predicted", "queued", FLAGS, "0.12.0.1", "gb200", {})


def layers(flags, log=None):
    return compile_program(
        "layers:train_step",
        target=TARGETS["gb200"],
        devices=2,
        arguments={"layers": 4},
        flags=flags,
        log=log,
    )


def order(text):
    """Names in the order of the schedule, without what says where a profile came from."""
    return [line.split(" = ")[0] for line in text.splitlines() if " = " in line]


@pytest.fixture(scope="module")
def plain(compiler):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROGRAMS)
        return layers(FLAGS)


@pytest.fixture
def long_copies(plain):
    """A profile in which copies take very much longer than everything else."""
    module = instructions(plain.text)
    costs = {c.name: 500.0 if c.role in ("h2d", "d2h") else 2.0 for c in module.all}
    about = replace(ABOUT, fingerprint=module.fingerprint)
    outer = {c.name: name for name, c in module.by_name.items() if name != c.name}
    names = {name: outer.get(name, name) for name in costs}
    return Profile(about, costs, (), (), names, ())


def test_text_and_binary_give_the_same_schedule_and_another_than_without(
    plain, long_copies, tmp_path, monkeypatch
):
    monkeypatch.chdir(PROGRAMS)
    schedules = []
    for name in ("p.pbtxt", "p.pb"):
        write(long_copies, tmp_path / name)
        log = tmp_path / "log.txt"
        schedules.append(order(layers(using(FLAGS, tmp_path / name), log).text))
        assert taken(log.read_text(), long_copies.about, long_copies.names).used
    assert schedules[0] == schedules[1] != order(plain.text)


def test_a_wrong_fingerprint_changes_nothing_and_is_seen(plain, long_copies, tmp_path, monkeypatch):
    monkeypatch.chdir(PROGRAMS)
    wrong = replace(long_copies, about=replace(long_copies.about, fingerprint="f" * 32))
    write(wrong, tmp_path / "profile")
    log = tmp_path / "log.txt"
    compiled = layers(using(FLAGS, tmp_path / "profile"), log)
    found = taken(log.read_text(), wrong.about, wrong.names)
    assert (found.used, found.costs) == (False, 0)
    assert order(compiled.text) == order(plain.text)


@pytest.fixture(scope="module")
def run(compiler, tmp_path_factory):
    """A predicted run of a model that offloads with pipelining on two GPUs."""
    request = Request(
        model="tiny",
        target="gb200",
        mesh="fsdp=2",
        layers=3,
        batch=4,
        seq=64,
        optimizer="sgd",
        preset="pipelined",
    )
    folder = tmp_path_factory.mktemp("runs")
    return capture(request, ["offload:mlp_gate,mlp_up"], folder)[0].folder


def test_a_check_compiles_the_program_again_with_the_profile(run, tmp_path):
    words = ("profile", str(run), "-o", str(tmp_path / "p"), "--check", "--format", "json")
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["missing"] == []
    found = said["check"]["taken"]
    assert found["used"]
    assert found["costs"] > 0.95 * len(said["costs"])
    assert found["costs"] + len(found["unused"]) == len(said["costs"])
    before, after = said["check"]["before"], said["check"]["after"]
    copies = {each["name"]: each for each in before["distances"]}
    assert len(copies) == 8  # two values, both ways, in the loops and peeled off them
    assert copies.keys() == {each["name"] for each in after["distances"]}
    assert before["distances"] != after["distances"]
    manifest = json.loads((run / "manifest.json").read_text())
    assert before["prediction"]["step"] == manifest["step"]
    assert before["prediction"]["constants"] == after["prediction"]["constants"]
    assert [Path(file).exists() for file in said["files"]] == [True] * 3
    assert "The times are modelled" in result.stderr


def test_the_default_profile_names_files_and_what_is_missing_in_text(run, tmp_path):
    result = CliRunner().invoke(main, ["profile", str(run), "-o", str(tmp_path / "p.pb")])
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert first.startswith("Profile of jit_train_step (")
    assert first.endswith(" costs, predicted, host copies queued.")
    assert rest == [str(tmp_path / "p.pb"), str(tmp_path / "p.json")]


def test_a_module_of_other_flags_is_refused(run, tmp_path):
    other = PROGRAMS.parent / "schedules" / "default-1.hlo.gz"
    words = ["profile", str(run), "-o", str(tmp_path / "p"), "--hlo", str(other)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "compiled with other flags" in result.stderr
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"program": None}, "Only programs of the workloads can be compiled again", id="program"
        ),
        pytest.param({"flags": None}, "The run's manifest.json does not say", id="flags"),
        pytest.param({"target": "mi300"}, "The run's manifest.json does not say", id="target"),
    ],
)
def test_what_cannot_be_compiled_again_is_refused(run, changes, message):
    made = profile([run])
    with pytest.raises(UsageError, match=f"^{message}"):
        check(replace(made, run=replace(made.run, **changes)))


def test_a_run_of_another_release_is_refused(run):
    made = profile([run])
    old = replace(made.profile, about=replace(made.profile.about, jax_version="0.11.1"))
    with pytest.raises(UsageError, match=r"^The run is of jax 0\.11\.1"):
        check(replace(made, profile=old))
