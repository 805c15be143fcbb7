"""Check a compiled program for a defect of two jax releases: wrong gradients with offload.

A scan that offloads stores slice i of a host buffer in step i, and its backward pass walks back,
from the last slice to the first. The copies are asynchronous slices, whose offsets the runtime
works out from the loop counter: offset + counter x stride. In jax 0.10.2 and 0.11.0 the backward
pass got the stride of the forward pass, so it read the slices in the wrong order, and gradients
were wrong without a warning (openxla/xla#46231)::

    layers       0 1 2 3 4 5
    stored       offset 0, stride +s
    right        offset 5 s, stride -s
    the defect   offset 0, stride +s
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Slice", "State", "Verdict", "check"]


class State(StrEnum):
    """What the slices of a program say."""

    OK = "ok"
    WRONG = "wrong"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Slice:
    """An asynchronous copy of one slice of a host buffer in a loop.

    Attributes
    ----------
    name : str
        HLO instruction that starts it.
    direction : str
        ``d2h`` or ``h2d``.
    op_name : str
        JAX's path of the operation; may be empty.
    buffer : str
        Type of the host buffer, such as ``bf16[6,8,1024]``.
    offset_bytes, stride_bytes : int
        Where the first slice lies, and how far it is to the next one.
    """

    name: str
    direction: str
    op_name: str
    buffer: str
    offset_bytes: int
    stride_bytes: int


@dataclass(frozen=True)
class Verdict:
    """The state, the slices that tell, and the reason in words."""

    state: State
    slices: tuple[Slice, ...]
    reason: str


def check(text: str) -> Verdict:
    """Check the scheduled HLO text of a program.

    Parameters
    ----------
    text : str
        As a compiled program prints itself, of a release with or without the defect.

    Returns
    -------
    Verdict
        ``wrong`` with the slices read in the order they were stored, ``ok`` with all slices, or
        ``not_applicable`` where no backward pass reads slices of a buffer that a loop has filled:
        without offload, or with loops that are unrolled.
    """
    slices = tuple(_slices(text))
    stored = {(each.buffer, each.stride_bytes) for each in slices if each.direction == "d2h"}
    read = [each for each in slices if each.direction == "h2d" and "transpose(" in each.op_name]
    right = [each for each in read if (each.buffer, -each.stride_bytes) in stored]
    wrong = [
        each for each in read if each not in right and (each.buffer, each.stride_bytes) in stored
    ]
    if wrong:
        reason = (
            f"{len(wrong)} of {len(read)} slices are read back in the order they were stored: this "
            "build of the compiler returns wrong gradients (openxla/xla#46231)"
        )
        return Verdict(State.WRONG, tuple(wrong), reason)
    if right:
        reason = f"{len(right)} slices are read back in the reverse order of storing them"
        return Verdict(State.OK, slices, reason)
    reason = "no backward loop reads slices of a host buffer that a loop has filled"
    return Verdict(State.NOT_APPLICABLE, slices, reason)


_HOST = r"(\w+\[[\d,]*\])\{[^}]*S\(5\)[^}]*\}"
_START = re.compile(r"^\s+(?:ROOT )?%(\S+) = .* fusion-start\(.*calls=%([\w.-]+)", re.MULTILINE)
_COMPUTATION = re.compile(r"^%([\w.-]+) \(.*?\) -> .*?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_STORE = re.compile(rf"= {_HOST} dynamic-update-slice\(.*")
_LOAD = re.compile(r"= \w+\[[\d,]*\]\{(?![^}]*S\(5\))[^}]*\} dynamic-slice\(%([\w.-]+).*")
_CONFIG = '"dynamic_slice_config":'
_OP_NAME = re.compile(r'op_name="([^"]*)"')


def _slices(text: str) -> Iterator[Slice]:
    computations = dict(_COMPUTATION.findall(text))
    for name, called in _START.findall(text):
        body = computations.get(called, "")
        if match := _STORE.search(body):
            direction, buffer = "d2h", match[1]
        elif (match := _LOAD.search(body)) and (host := _parameter(match[1], body)):
            direction, buffer = "h2d", host
        else:
            continue
        if config := _config(match[0]):
            op_name = _OP_NAME.search(match[0])
            yield Slice(name, direction, op_name[1] if op_name else "", buffer, *config)


def _parameter(name: str, body: str) -> str | None:
    """Return the type of an operand in host memory, else None."""
    match = re.search(rf"%{re.escape(name)} = {_HOST} ", body)
    return match[1] if match else None


def _config(line: str) -> tuple[int, int] | None:
    """Return offset and stride in bytes, None where the slice does not move with the loop."""
    _, found, rest = line.partition(_CONFIG)
    if not found:
        return None
    config, _ = json.JSONDecoder().raw_decode(rest)
    config = config.get("linear", config)  # newer releases print it one level deeper
    stride = int(config["byte_stride"])
    return (int(config["byte_offset"]), stride) if stride else None
