"""XLA's HLO text as modules, computations and instructions, in the order of the schedule.

Text is split where its brackets and quotes allow it, and nothing is interpreted beyond that. A line
that cannot be split is kept aside: `Module.unread` has them all.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.shapes import Shape, read_shape

__all__ = ["Computation", "Instruction", "Module", "parse"]

_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{\s*$")
_NAME = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ([a-z][\w\-]*)\(")
_ATTRIBUTE = re.compile(r"([\w\-]+)=(.*)", re.DOTALL)
_OPERAND = re.compile(r"%?([\w.\-]+)$")
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[()\[\]{},]')
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_REFERENCE = re.compile(r"%?([\w.\-]+)")


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes
    ----------
    name, opcode : str
        Such as ``fusion.3`` and ``fusion``.
    shape : Shape
        What it returns.
    operands : tuple of str
        Names of the instructions it uses; the number of a parameter and the value of a constant
        as they are written.
    attributes : mapping of str to str
        What follows the operands, as written: ``calls``, ``metadata``, ``replica_groups`` ...
    is_root : bool
        Whether it is what its computation returns.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_root: bool = False

    @property
    def op_name(self) -> str:
        """JAX's path of it, or an empty string."""
        found = _OP_NAME.search(self.attributes.get("metadata", ""))
        return re.sub(r"\\(.)", r"\1", found[1]) if found else ""

    @property
    def target(self) -> str:
        """What a custom call calls, or an empty string."""
        return self.attributes.get("custom_call_target", "").strip('"')

    @property
    def config(self) -> dict[str, Any]:
        """Its backend config, empty where there is none in JSON."""
        try:
            config = json.loads(self.attributes.get("backend_config", "{}"))
        except ValueError:
            return {}
        return config if isinstance(config, dict) else {}

    def references(self, attribute: str) -> tuple[str, ...]:
        """Names in an attribute: of computations, or of instructions that must come before."""
        return tuple(_REFERENCE.findall(self.attributes.get(attribute, "")))

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """Whole numbers in an attribute, such as ``dimensions={0,1}``."""
        return tuple(int(n) for n in re.findall(r"\d+", self.attributes.get(attribute, "")))


@dataclass(frozen=True)
class Computation:
    """Instructions in the order in which they are scheduled."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Its instructions by their names."""
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def users(self) -> Mapping[str, tuple[Instruction, ...]]:
        """The instructions that use each one, by its name."""
        users: dict[str, list[Instruction]] = {}
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                users.setdefault(operand, []).append(instruction)
        return {name: tuple(using) for name, using in users.items()}

    @property
    def root(self) -> Instruction | None:
        """What it returns; None where that line could not be read."""
        return next((i for i in self.instructions if i.is_root), None)

    def shapes(self, instruction: Instruction) -> tuple[Shape, ...]:
        """Shapes of an instruction's operands; an empty tuple for one that could not be read."""
        known = self.by_name
        return tuple(known[o].shape if o in known else Shape() for o in instruction.operands)


@dataclass(frozen=True)
class Module:
    """A scheduled HLO module.

    Attributes
    ----------
    name : str
        Such as ``jit_train_step``.
    entry : Computation
        Where it begins.
    computations : mapping of str to Computation
        All of them, by name.
    attributes : mapping of str to str
        What its first line says, as written, such as ``num_partitions``.
    unread : tuple of str
        Lines of computations that are not instructions as we know them.
    """

    name: str
    entry: Computation
    computations: Mapping[str, Computation]
    attributes: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def called(self, instruction: Instruction) -> Computation | None:
        """Return the computation that a fusion, call or wrapper runs, if it runs one."""
        for attribute in ("calls", "to_apply"):
            for name in instruction.references(attribute):
                return self.computations.get(name)
        return None


def parse(text: str) -> Module:
    """Read the text of a scheduled HLO module.

    Parameters
    ----------
    text : str
        As ``compiled.as_text()`` gives it or XLA dumps it after its optimisations.

    Raises
    ------
    OffloadError
        If it is not a scheduled HLO module with an entry computation.
    """
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("HloModule ")), None)
    if first is None:
        raise OffloadError("This is not HLO text; take it from the compiled step's as_text().")
    name, *rest = _split(lines[first].removeprefix("HloModule "))
    attributes = _attributes(rest)
    if attributes.get("is_scheduled") != "true":
        raise OffloadError(
            f"The HLO module {name} has no schedule; take its text after compilation, "
            "from the compiled step's as_text()."
        )
    unread: list[str] = []
    computations: dict[str, Computation] = {}
    entry = None
    for is_entry, computation in _computations(lines[first + 1 :], unread):
        computations[computation.name] = computation
        entry = computation if is_entry else entry
    if entry is None:
        raise OffloadError(f"The text of the HLO module {name} has no ENTRY; it may be cut off.")
    return Module(name, entry, computations, attributes, tuple(unread))


def _computations(lines: list[str], unread: list[str]) -> Iterator[tuple[bool, Computation]]:
    """Yield each computation, and whether it is the entry; collect the lines that aren't read."""
    header: re.Match[str] | None = None
    instructions: list[Instruction] = []
    for line in lines:
        if header is None:
            header, instructions = _HEADER.match(line), []
        elif line.startswith("}"):
            yield bool(header[1]), Computation(header[2], tuple(instructions))
            header = None
        elif line.strip():
            try:
                instructions.append(_instruction(line))
            except ValueError:
                unread.append(line.strip())


def _instruction(line: str) -> Instruction:
    """Read ``[ROOT] %name = shape opcode(operands), attribute=value, ...``."""
    start = _NAME.match(line)
    if start is None:
        raise ValueError("no name")
    at = start.end()
    end = _closing(line, at) if line.startswith("(", at) else line.index(" ", at)
    opcode = _OPCODE.match(line, end)
    if opcode is None:
        raise ValueError("no opcode")
    close = _closing(line, opcode.end() - 1)
    return Instruction(
        start[2],
        opcode[1],
        read_shape(line[at:end]),
        tuple(_operand(text) for text in _split(line[opcode.end() : close - 1])),
        _attributes(_split(line[close:])),
        is_root=bool(start[1]),
    )


def _operand(text: str) -> str:
    """Name of an operand, which older texts print behind its shape."""
    found = _OPERAND.search(text)
    return found[1] if found else text


def _attributes(parts: list[str]) -> dict[str, str]:
    """Map ``name=value`` texts; a part without a name is no attribute."""
    found = (_ATTRIBUTE.fullmatch(part) for part in parts)
    return {match[1]: match[2] for match in found if match}


def _closing(text: str, at: int) -> int:
    """Position behind the bracket that closes the one at a position."""
    depth = 0
    for mark in _MARK.finditer(text, at):
        if mark[0] in "([{":
            depth += 1
        elif mark[0] in ")]}":
            depth -= 1
            if depth == 0:
                return mark.end()
    raise ValueError("a bracket is not closed")


def _split(text: str) -> list[str]:
    """Split at the commas that are outside brackets and quotes; comments and empty parts go."""
    parts, piece, depth, begin = [], "", 0, 0
    for mark in _MARK.finditer(text):
        if mark[0] in "([{":
            depth += 1
        elif mark[0] in ")]}":
            depth -= 1
        elif mark[0] == "," and depth == 0:
            parts.append(piece + text[begin : mark.start()])
            piece, begin = "", mark.end()
        elif mark[0].startswith("/*"):
            piece, begin = piece + text[begin : mark.start()], mark.end()
    parts.append(piece + text[begin:])
    return [part.strip() for part in parts if part.strip()]
