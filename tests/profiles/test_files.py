import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.errors import UsageError
from nsysoffload.profiles.files import Written, binary, read, text, write
from nsysoffload.profiles.profile import About, Profile

ABOUT = About(
    "jit_step", "0a1b", "predicted", "queued", ("--xla_a=1",), "0.12.0.1", "gb200", {"model": "m"}
)
NAMES = {"fusion.1": "fusion.1", "copy": "copy-start"}
PROFILE = Profile(ABOUT, {"fusion.1": 12.5, "copy": 0.25}, ("x",), (), NAMES, ())
TEXT = 'costs { name: "fusion.1" cost_us: 12.5 }\ncosts { name: "copy" cost_us: 0.25 }\n'

names = st.text("abcdefghijklmnopqrstuvwxyz._-0123456789", min_size=1, max_size=300)


def decoded(message: bytes) -> dict[str, float]:
    """Read the binary form by the rules of protocol buffers."""
    found, at = {}, 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return number

    while at < len(message):
        assert varint() == 1 << 3 | 2
        end = varint() + at
        assert varint() == 1 << 3 | 2
        length = varint()
        name = message[at : at + length].decode()
        at += length
        assert varint() == 2 << 3 | 1
        (found[name],) = struct.unpack("<d", message[at : at + 8])
        at += 8
        assert at == end
    return found


@given(st.dictionaries(names, st.floats(0, 1e9), max_size=5))
def test_the_binary_form_holds_each_name_and_its_cost(costs):
    assert decoded(binary(costs)) == costs


@given(st.dictionaries(names, st.floats(0, 1e9), max_size=5))
def test_the_text_form_holds_the_same(costs):
    lines = (line.split('"') for line in text(costs).splitlines())
    found = {name: float(cost.split()[1]) for _, name, cost in lines}
    assert found == costs


def test_a_folder_holds_both_forms_under_the_fingerprint_and_what_they_are_for(tmp_path):
    folder = tmp_path / "new" / "profile"
    files = write(PROFILE, folder)
    assert [file.name for file in files] == ["0a1b.pbtxt", "0a1b.pb", "profile.json"]
    assert files[0].read_text() == TEXT
    assert decoded(files[1].read_bytes()) == PROFILE.costs
    said = json.loads(files[2].read_text())
    assert (said["costs"], said["missing"], said["left_out"]) == (2, ["x"], [])
    assert read(folder) == Written(folder, ABOUT, NAMES)
    assert sorted(folder.iterdir()) == sorted(files)


@pytest.mark.parametrize(
    ("name", "content"), [("p.pbtxt", TEXT.encode()), ("p.pb", binary(PROFILE.costs))]
)
def test_a_file_is_of_the_form_of_its_ending_with_its_account_beside(tmp_path, name, content):
    files = write(PROFILE, tmp_path / name)
    assert [file.name for file in files] == [name, "p.json"]
    assert files[0].read_bytes() == content
    assert read(tmp_path / name) == Written(tmp_path / name, ABOUT, NAMES)


def test_a_folder_keeps_the_profile_of_another_module(tmp_path):
    first = write(PROFILE, tmp_path)
    (tmp_path / "other.xplane.pb").touch()
    other = replace(PROFILE, about=replace(ABOUT, fingerprint="ffff"))
    with pytest.raises(UsageError, match=r"of other flags \(0a1b.pbtxt\); name another folder"):
        write(other, tmp_path)
    assert read(tmp_path).about == ABOUT
    files = write(other, tmp_path, replacing=True)
    assert read(tmp_path).about == other.about
    there = {*first, *files, tmp_path / "other.xplane.pb"} - {*first[:2]}
    assert {*tmp_path.iterdir()} == there
    write(other, tmp_path)  # its own may be written again


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^The profile cannot be written to .*file"):
        write(PROFILE, tmp_path / "file" / "profile")


@pytest.mark.parametrize(
    "account",
    [
        pytest.param(None, id="missing"),
        pytest.param("{", id="no json"),
        pytest.param("[]", id="no object"),
        pytest.param('{"schema": "nsysoffload-profile/2"}', id="other schema"),
        pytest.param('{"schema": "nsysoffload-profile/1", "module": 3}', id="other fields"),
    ],
)
def test_a_profile_without_an_account_of_ours_is_refused(tmp_path, account):
    if account is not None:
        (tmp_path / "profile.json").write_text(account)
    with pytest.raises(UsageError, match="says nothing of what it was made for"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["profile", "p.pb"])
def test_an_account_without_its_profile_is_refused(tmp_path, name):
    write(PROFILE, tmp_path / name)[0].unlink()
    with pytest.raises(UsageError, match="so XLA would find no profile"):
        read(tmp_path / name)
