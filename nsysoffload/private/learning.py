"""What a trace says of the machine and the person, in the parts that are not kept.

A host's name that stands in the environment may stand in a range's text as well. What is learned
here is looked for there.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath

from nsysoffload.errors import TraceError
from nsysoffload.private.words import Words
from nsysoffload.trace.export import Export, quoted

__all__ = ["private_words"]

_PAIRS = ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
_OURS = "NSYSOFFLOAD:"

# Ends of names of variables and settings, and what their values are.
_ROLES = {
    kind: re.compile(rf"(?:^|[_.:-])(?:{ends})$", re.IGNORECASE)
    for kind, ends in {
        "host": "host|hostname|host_name|nodename|node_name|nodelist|computername|display_name",
        "user": "user|username|user_name|logname|sudo_user",
        "home": "home|userprofile|pwd|oldpwd|working_dir|target_install_dir",
        "value": (
            r"tokens?|secrets?|passw(?:or)?d|pass|passphrase|credentials?|auth|proxy|key|\w*_key"
        ),
        "command": r"command|command_line|cmdline|argument_\d+|arguments",
    }.items()
}
_PERHAPS_VARIABLES = "instr(value, '=') BETWEEN 2 AND 82 AND value NOT LIKE 'Thunk:#%'"
_VARIABLE = re.compile(r"\s*([A-Za-z_][\w.]{0,80})=(.*)", re.DOTALL)
_NAME = re.compile(r"[\w.-]+")
_URL_LOGIN = re.compile(r"://([^/@\s]+)@")
_PLAIN = re.compile(r"\w*")
_LETTERS = re.compile(r"[^\W\d_]{3}")
_PROGRAM = re.compile(r"\.(?:py|sh|exe|so|out|sqlite|nsys-rep)$|^(?:python|lib)[\d.]*|^-")
_SHORTEST = {"host": 3, "user": 3, "value": 6, "name": 6}

_COMMON_TEXT = """
    false true none null auto default disabled enabled hidden unknown local localhost localdomain
    root user users home admin guest ubuntu debian centos nvidia runner docker jovyan nobody
    linux windows desktop server node host cluster worker login compute gpu cpu cuda nccl
    train training trainer train_step step steps jit_train_step jit jvp model models layer layers
    forward backward optimizer update loss main test tests bench benchmark run runs python python3
    jax jaxlib flax optax torch pytorch tensorflow keras xla hlo nsys offload remat prefetch
    attention mlp embed embedding decoder encoder transformer llama gemma qwen mixtral adam adamw
    sgd data dataset batch epoch iteration eval kernel stream memcpy memset while body cond scan
    abs add all and any argmax argmin call clamp conv copy cos cosh cumsum div dot eq erf exp floor
    fusion gather iota log max mean min mul neg norm not pad pow prod reduce rem reshape rng round
    scatter select shift sign sin sinh slice softmax sort split sqrt square sub sum swap tan tanh
    transpose var vmap where xor
"""
_COMMON = frozenset(_COMMON_TEXT.split())
"""Words that say nothing of anyone, and may be names of ranges and operations."""


def private_words(export: Export) -> Words:
    """Learn the private words of an export: hosts, users, values of secret variables, programs.

    Parameters
    ----------
    export : Export
        The whole export, before anything is removed.
    """
    kinds: dict[str, str] = {}
    for name, value in _settings(export):
        for kind, word in _learned(name, value):
            if _tells(kind, word):
                kinds.setdefault(word, kind)
    return Words(kinds)


def _tells(kind: str, word: str) -> bool:
    common = word.lower() in _COMMON or word.replace(".", "").isdigit()
    return len(word) >= _SHORTEST[kind] and not common


# --- Names and values ---


def _settings(export: Export) -> Iterator[tuple[str, str]]:
    """Yield names and values of settings, and of environment variables wherever they stand."""
    for table in _PAIRS:
        for name, value in _cells(export, table, ("name", "value")):
            if not name.startswith(_OURS):
                yield name, value
                yield from _variables(value)
    for (name,) in _cells(export, "PROCESSES", ("name",)):
        yield "command", name
    for (text,) in _cells(export, "StringIds", ("value",), _PERHAPS_VARIABLES):
        yield from _variables(text)


def _cells(
    export: Export, table: str, columns: tuple[str, ...], where: str = "1"
) -> Iterator[tuple[str, ...]]:
    """Yield texts of a table's rows; nothing where the table is missing or damaged."""
    if not set(columns) <= set(export.columns.get(table, ())):
        return
    select = ", ".join(f"COALESCE(CAST({column} AS BLOB), x'') AS {column}" for column in columns)
    try:
        rows = export.read(f"SELECT DISTINCT {select} FROM {quoted(table)} WHERE {where}")
    except TraceError:
        return
    for batch in rows.to_batches():
        for row in zip(*(batch[column].to_pylist() for column in columns), strict=True):
            yield tuple(cell.decode(errors="replace").strip("\0") for cell in row)


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a text: of one line each, or of a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = {}
        yield from ((name, value) for name, value in read.items() if isinstance(value, str))
        return
    for line in re.split(r"[\n\0]", text):
        if match := _VARIABLE.fullmatch(line):
            yield match[1], match[2]


# --- Words of a value ---


def _learned(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the private words of a value, and their kinds."""
    yield from (("value", part) for login in _URL_LOGIN.findall(value) for part in login.split(":"))
    role = next((kind for kind, ends in _ROLES.items() if ends.search(name)), None)
    if role == "host":
        for host in _NAME.findall(value):
            yield "host", host
            yield "host", host.partition(".")[0]
    elif role == "user":
        yield from (("user", word) for word in _NAME.findall(value))
    elif role == "home":
        yield from _owner(value)
    elif role == "value" and not _is_path(value):
        yield "value", value.strip()
    elif role == "command":
        yield from _programs(value)


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~", ".")) or value[1:3] == ":\\"


def _owner(path: str) -> Iterator[tuple[str, str]]:
    """Yield whose home a folder is in."""
    parts = (PureWindowsPath if "\\" in path else PurePosixPath)(path).parts
    if len(parts) > 2 and parts[1].lower() in ("home", "users"):
        yield "user", parts[2]


def _programs(command: str) -> Iterator[tuple[str, str]]:
    """Yield words of a command line that are neither options nor names as code has them."""
    for word in re.split(r"[\s=,;:/\\\"']+", command):
        if _LETTERS.search(word) and not _PLAIN.fullmatch(word) and not _PROGRAM.search(word):
            yield "name", word
