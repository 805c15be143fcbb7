"""A compiled module -> the instructions that take time, and the names that a profile has for them.

A profile is read before the scheduler runs, so names are those of that moment: ``scheduling_name``
in the text, where it differs. What runs beside compute is an instruction within another one::

    %dynamic-slice-start.4 = ... fusion-start(...), calls=%wrapped_dynamic-slice_computation.2

The inner one is ``wrapped_dynamic-slice.2``. Text as XLA dumps it says so, ``async-start(...),
calls=%async_computation.7`` whose root it is; text as a program prints itself leaves the name out,
and for copies it follows from that of the computation.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.hlo import Instruction, Module, parse
from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Start
from nsysoffload.recorders.predict.schedule import program

__all__ = ["Costed", "Instructions", "Role", "instructions"]

_FINGERPRINT = re.compile(r'\bfingerprint_before_lhs="(\w+)"')
_SCHEDULING_NAME = re.compile(r'\bscheduling_name="([^"]+)"')
_WRAPPED = re.compile(r"(wrapped_[\w-]+)_computation((?:\.\d+)*)")


class Role(StrEnum):
    """What an instruction is to the scheduler, which decides how its cost is found."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    H2D = "h2d"
    D2H = "d2h"


@dataclass(frozen=True)
class Costed:
    """An instruction that takes time on the device.

    Attributes
    ----------
    name : str
        What a profile calls it.
    role : Role
        What it is. Slices within the device's memory are compute, whether they run beside other
        compute or not.
    loop : str
        The while loop whose body holds it; empty outside of loops.
    """

    name: str
    role: Role
    loop: str


@dataclass(frozen=True)
class Instructions:
    """The instructions of a module that take time.

    Attributes
    ----------
    module : str
        Its name, such as ``jit_train_step``.
    fingerprint : str
        ``fingerprint_before_lhs``: of the module as the scheduler gets it.
    devices : int
        GPUs that it is partitioned over.
    by_name : mapping of str to Costed
        By each name that a trace may have for it: its own, and that of the one within it.
    """

    module: str
    fingerprint: str
    devices: int
    by_name: Mapping[str, Costed]

    @property
    def all(self) -> tuple[Costed, ...]:
        """Each of them once, in the order of the schedule."""
        return tuple(dict.fromkeys(self.by_name.values()))


def instructions(text: str) -> Instructions:
    """Read the text of a compiled module.

    Parameters
    ----------
    text : str
        As ``compiled.as_text()`` gives it, or XLA dumps it after its optimisations.

    Raises
    ------
    OffloadError
        If it is no scheduled module, or has no fingerprint.
    """
    module = parse(text)
    found = _FINGERPRINT.search(module.attributes.get("frontend_attributes", ""))
    if not found:
        raise UsageError(
            f"The text of the module {module.name} has no fingerprint_before_lhs, so it was not"
            " scheduled by XLA's latency hiding scheduler, which alone reads profiles; compile it"
            " with --xla_gpu_enable_latency_hiding_scheduler=true."
        )
    lines = {i.name: i for each in module.computations.values() for i in each.instructions}
    by_name: dict[str, Costed] = {}
    for op, loop, is_async in _operations(program(module).items):
        line = lines[op.name]
        inner = _inner(line, module) if is_async else None
        costed = Costed(_name(line, inner, op), _role(op), loop)
        by_name |= {name: costed for name in (line.name, inner) if name}
    devices = int(module.attributes.get("num_partitions", 1))
    return Instructions(module.name, found[1], devices, by_name)


def _operations(
    items: tuple[Item | Start | Done | Loop, ...], loop: str = ""
) -> Iterator[tuple[Op, str, bool]]:
    """Yield each operation, the loop around it, and whether it runs beside the compute stream."""
    for item in items:
        if isinstance(item, Loop):
            yield from _operations(item.body, item.name)
        elif not isinstance(item, Done):
            yield item.op, loop, isinstance(item, Start)


def _inner(line: Instruction, module: Module) -> str | None:
    """Name the instruction within an asynchronous one; None where the text does not tell."""
    called = module.called(line)
    if line.opcode == "async-start":
        return called.root.name if called and called.root else None
    wrapped = _WRAPPED.fullmatch(called.name) if called else None
    return wrapped[1] + wrapped[2] if wrapped else None


def _name(line: Instruction, inner: str | None, op: Op) -> str:
    """Choose the name for the profile.

    XLA looks for the time of an asynchronous instruction under either name. Under the outer one it
    is taken for time of the compute stream as well, except for collectives.
    """
    if inner and op.kind is not Kind.COLLECTIVE:
        return inner
    before = _SCHEDULING_NAME.search(line.attributes.get("metadata", ""))
    return before[1] if before else line.name


def _role(op: Op) -> Role:
    roles = {Kind.COLLECTIVE: Role.COLLECTIVE, Kind.H2D: Role.H2D, Kind.D2H: Role.D2H}
    return roles.get(op.kind, Role.COMPUTE)
