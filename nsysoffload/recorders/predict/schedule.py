"""A scheduled HLO module as the `Program` that the runtime issues."""

from itertools import count

from nsysoffload.recorders.predict.hlo import Computation, Instruction, Module
from nsysoffload.recorders.predict.operations import operation
from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Op, Program, Start

__all__ = ["program"]

_COMPUTE_STREAMS = 4  # XLA's for asynchronous computations, besides the main one
_LISTED = 5  # names that a note spells out

_Entry = Item | Start | Done | Loop
_Positions = frozenset[int]
_NOTHING: _Positions = frozenset()


def program(module: Module) -> Program:
    """Read a module's schedule into what is issued, with its work and its dependencies.

    Parameters
    ----------
    module : Module
        As `nsysoffload.recorders.predict.hlo.parse` returns it.

    Returns
    -------
    Program
        Its notes say what could not be read, is not understood, or was assumed.
    """
    reader = _Reader(module)
    items = reader.sequence(module.entry)
    if module.unread:
        reader.note(
            f"Lines of the compiled schedule that could not be read and are left out: "
            f"{len(module.unread)}; the first is: {module.unread[0][:80]}"
        )
    unknown = {op.name: None for op, _ in Program("", items).ops() if op.kind is Kind.UNKNOWN}
    if unknown:
        names = ", ".join([*unknown][:_LISTED]) + (", ..." if len(unknown) > _LISTED else "")
        reader.note(
            f"Operations that are not understood and are timed by their bytes: {len(unknown)}; "
            f"{names}."
        )
    return Program(module.name, items, tuple(reader.notes))


class _Reader:
    """Walks the computations of a module in the order in which they are issued."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.notes: dict[str, None] = {}
        self.async_computes = count()

    def note(self, text: str) -> None:
        """Keep a sentence for the reader of the prediction, once."""
        self.notes[text] = None

    def sequence(self, computation: Computation) -> tuple[_Entry, ...]:
        """Everything that a computation issues."""
        items: list[_Entry] = []
        self.issue(computation, (), items)
        return tuple(items)

    def issue(
        self, computation: Computation, arguments: tuple[_Positions, ...], items: list[_Entry]
    ) -> _Positions:
        """Append what a computation issues; return the positions that its result comes from.

        A value comes from its own item or, where it is free as a tuple or a bitcast is, from those
        of its operands.
        """
        made: dict[str, _Positions] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter":
                index = int(instruction.operands[0])
                operands = arguments[index : index + 1]
            else:
                operands = tuple(made.get(name, _NOTHING) for name in instruction.operands)
            before = instruction.references("control-predecessors")
            needs = _NOTHING.union(*operands, *(made.get(name, _NOTHING) for name in before))
            made[instruction.name] = self.step(instruction, computation, operands, needs, items)
        return made[computation.root.name] if computation.root else _NOTHING

    def step(
        self,
        instruction: Instruction,
        computation: Computation,
        operands: tuple[_Positions, ...],
        needs: _Positions,
        items: list[_Entry],
    ) -> _Positions:
        """Append what one instruction issues; return the positions that its result comes from."""
        opcode = instruction.opcode
        if opcode == "while":
            return _append(items, self.loop(instruction, needs))
        if opcode == "call":
            called = self.module.called(instruction)
            return self.issue(called, operands, items) if called else needs
        if opcode == "conditional":
            return self.branch(instruction, operands, items)
        if opcode.endswith("-done"):
            return _done(items, needs)
        if opcode == "async-update":
            return needs
        op = operation(instruction, computation, self.module)
        if op is None:
            return needs
        if op.collective == "ragged-all-to-all":
            self.note("What a ragged all-to-all sends depends on data: its whole input is assumed.")
        if opcode.endswith("-start"):
            return _append(items, Start(op, self.stream(op, opcode), tuple(sorted(needs))))
        return _append(items, Item(op, tuple(sorted(needs))))

    def loop(self, instruction: Instruction, needs: _Positions) -> Loop:
        """Read a while loop, whose trip count the compiler knows if it is a scan."""
        names = instruction.references("body")
        body = self.module.computations.get(names[0]) if names else None
        known = instruction.config.get("known_trip_count", {}).get("n")
        if known is None:
            self.note(f"The trip count of {instruction.name} depends on data: one is assumed.")
        return Loop(
            instruction.name,
            self.sequence(body) if body else (),
            None if known is None else int(known),
            tuple(sorted(needs)),
        )

    def branch(
        self, instruction: Instruction, operands: tuple[_Positions, ...], items: list[_Entry]
    ) -> _Positions:
        """Append the branch of a conditional that moves most bytes; operands follow the index."""
        names = (
            *instruction.references("branch_computations"),
            *instruction.references("true_computation"),
            *instruction.references("false_computation"),
        )
        branches = [
            (branch, arguments)
            for name, arguments in zip(names, operands[1:], strict=False)
            if (branch := self.module.computations.get(name))
        ]
        if not branches:
            return _NOTHING
        branch, arguments = max(branches, key=lambda each: self.size_bytes(each[0]))
        self.note(
            f"Which branch of {instruction.name} runs depends on data: the one that moves most "
            "bytes is assumed."
        )
        return self.issue(branch, (arguments,), items)

    def size_bytes(self, computation: Computation) -> int:
        """Bytes that a computation moves."""
        ops = Program("", self.sequence(computation)).ops()
        return sum(op.size_bytes * times for op, times in ops)

    def stream(self, op: Op, opcode: str) -> str:
        """Name the stream of an asynchronous operation.

        A collective that XLA runs as a kernel of its own goes to a compute stream. The runtime
        hands these out in turns, in an order that the text does not show; the schedule's is taken.
        """
        if op.kind in (Kind.H2D, Kind.D2H):
            return op.kind.value
        if op.kind is Kind.COLLECTIVE and opcode != "fusion-start":
            return "comm"
        return f"compute.{next(self.async_computes) % _COMPUTE_STREAMS + 1}"


def _append(items: list[_Entry], item: _Entry) -> _Positions:
    """Append an item; return its position."""
    items.append(item)
    return frozenset({len(items) - 1})


def _done(items: list[_Entry], needs: _Positions) -> _Positions:
    """Append the end of the latest start that a value comes from."""
    starts = [position for position in needs if isinstance(items[position], Start)]
    return _append(items, Done(max(starts))) if starts else needs
