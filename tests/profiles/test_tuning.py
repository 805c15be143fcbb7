"""The loop of tuning, on small measured runs that a profile makes faster, or not."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nsysoffload.profiles.costs import Copies
from nsysoffload.profiles.files import Written, read
from nsysoffload.profiles.fit import Taken
from nsysoffload.profiles.guided import Use
from nsysoffload.profiles.tuning import tune
from nsysoffload.recorders.flags import using
from tests.profiles.modules import FINGERPRINT, PRINTED
from tests.profiles.traces import Launches, whole_step

PIPELINED = "--xla_gpu_enable_pipelined_host_offloading=true"
STEPS = 5
USE = Use(Taken(True, 5, ()), None)


@dataclass
class Small:
    """Records steps of the small module: by how much each is shorter with a profile."""

    faster_us: int = 0
    flags_: tuple[str, ...] = (PIPELINED,)
    loss: float = 2.0
    folders: list[Path] = field(default_factory=list)

    def record(self, folder: Path, given: Written | None) -> Use | None:
        self.folders.append(folder)
        launches = Launches()
        for index in range(STEPS):
            *step, (op, (start, end)) = whole_step(2_000 * index)
            shift = self.faster_us if given else 0
            launches.step(*step, (op, (start - shift, end - shift)))
        launches.write(folder)
        losses = [[index, self.loss if given else 2.0, None] for index in range(STEPS)]
        said = {
            "schema": "nsysoffload-run/1",
            "kind": "measured",
            "xla_flags": list(self.flags_),
            "recording": {"losses": {"steps": losses}},
        }
        (folder / "manifest.json").write_text(json.dumps(said))
        (folder / "schedule.hlo.gz").write_bytes(gzip.compress(PRINTED.encode()))
        return USE if given else None

    def flags(self, given: Written | None) -> tuple[str, ...]:
        return using(self.flags_, given.path) if given else self.flags_


def test_the_run_with_the_profile_is_kept_where_its_steps_are_shorter(tmp_path):
    recording = Small(faster_us=100)
    found = tune(recording, tmp_path)
    assert recording.folders == [tmp_path / "before", tmp_path / "after"]
    assert (found.pays, found.kept, found.use) == (True, tmp_path / "after", USE)
    assert found.flags == using((PIPELINED,), tmp_path / "profile")
    assert found.text == (
        f"Kept: {tmp_path}/after, with the profile; a step with it takes 10.0 % less (95 %"
        " interval −10.0 % to −10.0 %)."
    )
    names = [found.comparison.base.name, found.comparison.new[0].name]
    assert names == ["before", "after"]


def test_the_profile_is_of_the_first_run(tmp_path):
    found = tune(Small(), tmp_path, copies=Copies.OMIT)
    written = read(tmp_path / "profile")
    assert (written.about.fingerprint, written.about.copies) == (FINGERPRINT, "omit")
    assert found.profile.about == written.about


@pytest.mark.parametrize(
    ("faster_us", "why"),
    [
        pytest.param(0, "both runs are the same", id="same"),
        pytest.param(
            -100,
            "a step with it takes 10.0 % more (95 % interval +10.0 % to +10.0 %)",
            id="slower",
        ),
        pytest.param(
            2,
            "the profile makes no difference: a step with it takes 0.2 % less (95 % interval"
            " −0.2 % to −0.2 %)",
            id="hardly faster",
        ),
    ],
)
def test_the_run_without_the_profile_is_kept_unless_the_other_is_faster(tmp_path, faster_us, why):
    found = tune(Small(faster_us), tmp_path)
    assert (found.pays, found.flags) == (False, (PIPELINED,))
    assert found.text == f"Kept: {tmp_path}/before, without the profile; {why}."


def test_where_nothing_is_to_be_gained_that_is_noted_before_the_second_run(tmp_path):
    recording = Small(flags_=("--xla_a=1",))
    noted = []
    tune(recording, tmp_path, noted=lambda text: noted.append((text, len(recording.folders))))
    (told,) = [each for each in noted if each[0].startswith("Pipelined host offloading is off")]
    assert told[1] == 1
    assert noted[-1] == ("Every host copy stands where it stood without the profile.", 2)
