"""Profiles as files: text and binary as XLA reads them, and an account of what they are for.

Both forms are XLA's ``ProfiledInstructionsProto``: field 1 repeats a cost, of which field 1 is the
instruction's name and field 2 its microseconds as a double.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from nsysoffload.errors import UsageError
from nsysoffload.profiles.profile import About, Profile
from nsysoffload.trace.records import record

__all__ = ["ABOUT", "SUFFIXES", "Written", "binary", "read", "text", "write"]

SUFFIXES = (".pbtxt", ".pb")
"""Text and binary: XLA tells them by the ending."""

ABOUT = "profile.json"
"""Name of the account in a folder."""

_SCHEMA = "nsysoffload-profile/1"
_LENGTH, _DOUBLE = 2, 1  # wire types of protocol buffers
_LONGEST = 10_000_000  # bytes; one of 10,000 instructions takes some 500,000


@dataclass(frozen=True)
class Written:
    """A profile that was written.

    Attributes
    ----------
    path : Path
        Its folder or file, absolute.
    about : About
        What it was made of, and for.
    names : mapping of str to str
        See `nsysoffload.profiles.profile.Profile`.
    """

    path: Path
    about: About
    names: Mapping[str, str]


def text(costs: Mapping[str, float]) -> str:
    """Return costs as a text proto, a line each.

    Examples
    --------
    >>> print(text({"fusion.1": 12.345}), end="")
    costs { name: "fusion.1" cost_us: 12.345 }
    """
    lines = (f'costs {{ name: "{name}" cost_us: {cost!r} }}' for name, cost in costs.items())
    return "".join(f"{line}\n" for line in lines)


def binary(costs: Mapping[str, float]) -> bytes:
    """Return costs as a binary proto.

    Examples
    --------
    >>> binary({"a": 1.0}).hex(" ")
    '0a 0c 0a 01 61 11 00 00 00 00 00 00 f0 3f'
    """
    return b"".join(_part(1, _cost(name, cost)) for name, cost in costs.items())


def _cost(name: str, cost_us: float) -> bytes:
    return _part(1, name.encode()) + bytes([2 << 3 | _DOUBLE]) + struct.pack("<d", cost_us)


def _part(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | _LENGTH]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def write(profile: Profile, output: Path, *, replacing: bool = False) -> list[Path]:
    """Write a profile.

    Parameters
    ----------
    profile : Profile
        From `nsysoffload.profiles.profile.profile`.
    output : Path
        A folder, which gets ``FINGERPRINT.pbtxt``, ``FINGERPRINT.pb`` and `ABOUT`: XLA then uses
        the profile for the module of that fingerprint alone. Or a file ``.pbtxt`` or ``.pb``, which
        XLA uses for every module that it compiles, with its account beside it as ``.json``.
    replacing : bool
        Whether the profile of another module in the folder may give way.

    Returns
    -------
    list of Path
        The files; the first is what XLA reads.

    Raises
    ------
    UsageError
        If they cannot be written, or the folder has the profile of another module.
    """
    whole = output.suffix in SUFFIXES
    folder = output.parent if whole else output
    stem = output.stem if whole else profile.about.fingerprint
    suffixes = (output.suffix,) if whole else SUFFIXES
    made: dict[str, Callable[[], bytes]] = {
        ".pbtxt": lambda: text(profile.costs).encode(),
        ".pb": lambda: binary(profile.costs),
    }
    contents = {f"{stem}{suffix}": made[suffix]() for suffix in suffixes}
    contents[f"{stem}.json" if whole else ABOUT] = _account(profile).encode()
    try:
        others = [] if whole else _of_another(folder, stem)
        if others and not replacing:
            raise UsageError(
                f"{folder} has the profile of another program or of other flags"
                f" ({others[0].name}); name another folder, or remove it."
            )
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
            for name, content in contents.items():
                Path(partial, name).write_bytes(content)
            for name in contents:
                Path(partial, name).replace(folder / name)
        for file in others:
            file.unlink()
    except OSError as error:
        raise UsageError(
            f"The profile cannot be written to {folder} ({error.strerror or error}); name another"
            " folder."
        ) from error
    return [folder / name for name in contents]


def _of_another(folder: Path, fingerprint: str) -> list[Path]:
    """Return the files of the profile in a folder, if that is of another module."""
    try:
        there = read(folder).about.fingerprint
    except UsageError:
        return []
    files = [folder / Path(f"{there}{suffix}").name for suffix in SUFFIXES]
    return [file for file in files if there != fingerprint and file.is_file()]


def _account(profile: Profile) -> str:
    values = {
        "schema": _SCHEMA,
        **asdict(profile.about),
        "costs": len(profile.costs),
        "names": dict(profile.names),
        "missing": list(profile.missing),
        "left_out": list(profile.left_out),
    }
    return json.dumps(values, indent=1) + "\n"


def read(path: Path) -> Written:
    """Read what a profile was made for, and what it has costs of.

    Parameters
    ----------
    path : Path
        What `write` was given.

    Raises
    ------
    UsageError
        If there is no profile, no account of it, or that is none of ours.
    """
    whole = path.suffix in SUFFIXES
    account = path.with_suffix(".json") if whole else path / ABOUT
    try:
        if account.stat().st_size > _LONGEST:
            raise ValueError("too long")
        values = json.loads(account.read_bytes())
        if values["schema"] != _SCHEMA:
            raise ValueError("another schema")
        kept = {name: values[name] for name in About.__dataclass_fields__}
        about, names = record(About, kept), record(Mapping[str, str], values["names"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(
            f"{path.name} says nothing of what it was made for: {account.name} is missing or cannot"
            " be read; write the profile again with nsysoffload profile."
        ) from error
    assert isinstance(about, About)
    costs = path if whole else path / f"{about.fingerprint}{SUFFIXES[0]}"
    if not costs.is_file():
        raise UsageError(
            f"{path.name} holds no {costs.name}, so XLA would find no profile; write it again with"
            " nsysoffload profile."
        )
    return Written(path.resolve(), about, names)
