import gzip
import json

import pytest

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.bundle import load, save
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.demo import VARIANTS, bundled
from nsysoffload.recorders.predict.memory import Memory

PROGRAM = Compiled(
    text='HloModule "ü"\n',
    memory=Memory(1, 2, 3, 4, 5, 6, 7, 8),
    target="gb200",
    devices=8,
    flags=("--xla_a=1", "--xla_b="),
    jax_version="0.12.0.1",
    seconds=1.25,
)


def test_a_program_is_read_back_as_it_was_saved(tmp_path):
    save(PROGRAM, tmp_path / "a.json.gz")
    assert load(tmp_path / "a.json.gz") == PROGRAM


def test_the_same_program_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save(PROGRAM, tmp_path / f"{name}.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_program_that_comes_with_the_tool_is_saved_as_it_was(variant, tmp_path):
    program = load(bundled(variant))
    assert (program.target, program.devices) == ("gb200", 8)
    save(program, tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == bundled(variant).read_bytes()


def zipped(value):
    return gzip.compress(json.dumps(value).encode())


WHOLE = gzip.compress(b"x" * 1000 + bytes(range(256)))
MEMORY = {"memory": {"argument_bytes": 1}, "flags": []}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"HloModule", id="not zipped"),
        pytest.param(WHOLE[:-20], id="cut off"),
        pytest.param(WHOLE[:20] + b"\xff" * 20 + WHOLE[40:], id="damaged"),
        pytest.param(gzip.compress(b"{"), id="no JSON"),
        pytest.param(gzip.compress(b"\xff\xfe\xff"), id="no text"),
        pytest.param(zipped([1]), id="a list"),
        pytest.param(zipped({"text": "HloModule"}), id="fields missing"),
        pytest.param(zipped(MEMORY), id="memory incomplete"),
        pytest.param(zipped({"more": 1, "memory": {}, "flags": 3}), id="wrong types"),
    ],
)
def test_a_file_that_is_no_compiled_program_is_refused(tmp_path, content):
    (tmp_path / "a.json.gz").write_bytes(content)
    with pytest.raises(OffloadError) as raised:
        load(tmp_path / "a.json.gz")
    assert str(raised.value) == "a.json.gz is no compiled program; compile it again."


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OffloadError, match=r"^a\.json\.gz is no compiled program"):
        load(tmp_path / "a.json.gz")
