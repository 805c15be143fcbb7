import json
from dataclasses import asdict, fields, replace

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.memory import Memory
from workloads.config import MODELS
from workloads.loop import StepRecord
from workloads.manifest import (
    Manifest,
    Offload,
    Program,
    Speed,
    needs,
    speed,
    writable,
    write,
    xla_flags,
)

MEMORY = Memory(
    argument_bytes=1000,
    output_bytes=900,
    alias_bytes=800,
    temp_bytes=50,
    host_argument_bytes=7,
    host_output_bytes=6,
    host_alias_bytes=5,
    host_temp_bytes=4,
)


def step(index, ms, *, warm=True, loss=0.1):
    return StepRecord(index, loss, 0.5, ms, warm=warm, profiled=warm)


def manifest():
    return Manifest(
        program=Program("tiny", "offload", "fsdp=1", 4, 128, 4, "adam", False, "xla", 0),
        config=MODELS["tiny"],
        devices=1,
        device_kind="cpu",
        backend="cpu",
        jax_version="1",
        jaxlib_version="1",
        xla_flags=(),
        compile_s=1.5,
        memory=needs(MEMORY),
        offload=Offload({"query": 8}, in_effect=False),
        device_peak_bytes=None,
        speed=Speed(1.0, 2.0, 3.0),
        steps=(step(0, 1.0, loss=0.1 + 0.2),),
        notes=("A sentence.",),
    )


def test_a_manifest_is_written_as_it_is(tmp_path):
    path = write(manifest(), tmp_path / "new" / "run")
    assert path == tmp_path / "new" / "run" / "manifest.json"
    found = json.loads(path.read_text())
    assert found == json.loads(json.dumps(asdict(manifest())))
    assert list(found)[:3] == ["schema", "kind", "program"]
    assert (found["schema"], found["kind"]) == ("nsysoffload-run/1", "measured")
    assert found["steps"][0]["loss"] == 0.1 + 0.2  # not one bit is lost
    assert [entry.name for entry in path.parent.iterdir()] == ["manifest.json"]


def test_an_older_manifest_stays_until_the_new_one_is_complete(tmp_path):
    path = write(manifest(), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        write(replace(manifest(), compile_s=float("nan")), tmp_path)
    assert path.read_bytes() == before
    write(replace(manifest(), compile_s=2.5), tmp_path)
    assert json.loads(path.read_text())["compile_s"] == 2.5


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"manifest.json cannot be written \(.*\); choose another"):
        write(manifest(), tmp_path / "file" / "run")


def test_every_attribute_that_is_no_matter_of_course_is_documented():
    obvious = {"schema", "program", "device_kind", "backend", "jax_version", "jaxlib_version"}
    obvious |= {"memory", "speed"}  # classes with documentation of their own
    told = Manifest.__doc__ or ""
    assert [f.name for f in fields(Manifest) if f.name not in obvious | set(told.split())] == []


def test_needs_are_arguments_temporaries_and_outputs_without_what_is_written_in_place():
    # device 1000 + 50 + 900 - 800, host 7 + 4 + 6 - 5
    made = needs(MEMORY)
    assert (made.device_need_bytes, made.host_need_bytes) == (1150, 12)
    assert made.temp_bytes == 50


def test_speed_is_that_of_the_median_warm_step():
    # warm: 2, 4, 90 ms; 1000 tokens in 4 ms; 8e9 operations in 4 ms on 2 devices = 1 TFLOP/s each
    steps = [step(0, 500.0, warm=False), step(1, 90.0), step(2, 2.0), step(3, 4.0)]
    assert speed(steps, tokens=1000, flops=8 * 10**9, devices=2) == Speed(4.0, 250_000.0, 1.0)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        pytest.param("", (), id="none"),
        pytest.param("--a=true  --b=1", ("--a=true", "--b=1"), id="two"),
        pytest.param("--a='x y'", ("--a=x y",), id="quoted"),
        pytest.param("--xla_dump_to=/home/me/d --a", ("--xla_dump_to=PATH", "--a"), id="path"),
        pytest.param("--xla_dump_to=~/d", ("--xla_dump_to=PATH",), id="home"),
        pytest.param("'--xla_dump_to=C:\\d'", ("--xla_dump_to=PATH",), id="windows"),
        pytest.param("/home/me/flags.txt", ("PATH",), id="file-of-flags"),
    ],
)
def test_flags_are_recorded_without_paths(text, flags):
    assert xla_flags(text) == flags


def test_flags_with_an_open_quote_are_kept_as_they_are():
    assert xla_flags('--xla_dump_to="open --xla_b=1') == ('--xla_dump_to="open', "--xla_b=1")
    assert xla_flags('--xla_dump_to="/home/me') == ('--xla_dump_to="PATH',)


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made"):
        writable(tmp_path / "file" / "run")
