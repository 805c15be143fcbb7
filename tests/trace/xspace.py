"""XPlane files from a few lines, in the form that XLA writes: times in microseconds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Span = tuple[float, float]
Value = int | float | str


class Event(NamedTuple):
    """What happened when, and its stats."""

    name: str
    when: Span
    stats: Mapping[str, Value] = {}


Lines = Mapping[str, Sequence[Event]]

PROGRAM = {"hlo_module": "jit_train_step", "program_id": 12, "prefix": "jit(train_step)"}
LAUNCH = "regs:38 static_shared:0 dynamic_shared:0 grid:160,1,1 block:1024,1,1 occ_pct:50"


def cause(correlation: int, name: str = "", hlo_op: str = "") -> dict[str, Value]:
    """Return the stats of a GPU row that tell what it was launched by, without empty ones."""
    named = {"name": name, "hlo_op": hlo_op, **PROGRAM} if hlo_op else {}
    return {"correlation_id": correlation, "context_id": "$$1", "tf_op": "XlaModule:", **named}


def kernel(name: str, when: Span, correlation: int, op_name: str = "", hlo_op: str = "") -> Event:
    """Return a kernel as XLA's collector of CUPTI events writes it."""
    return Event(name, when, cause(correlation, op_name, hlo_op) | {"kernel_details": LAUNCH})


def copy(
    direction: str,
    when: Span,
    correlation: int,
    *,
    size_bytes: int,
    kinds: str = "",
    op_name: str = "",
    hlo_op: str = "",
) -> Event:
    """Return a copy; ``kinds`` are ``SOURCE TARGET``, which old profiles lack."""
    source, _, target = kinds.partition(" ")
    memory = f"kind_src:{source} kind_dst:{target} " if kinds else ""
    details = {"memcpy_details": f"{memory}size:{size_bytes} dest:0 async:1"}
    return Event(f"Memcpy{direction}", when, cause(correlation, op_name, hlo_op) | details)


def call(name: str, when: Span, correlation: int) -> Event:
    """Return a call of the driver."""
    return Event(name, when, {"device_id": 0, "correlation_id": correlation})


def write_profile(
    path: Path,
    planes: Mapping[str, Lines],
    stats: Mapping[str, Mapping[str, Value]] | None = None,
    warning: str = "",
    starts_ns: int = 0,
) -> Path:
    """Write planes as a profile; ``stats`` are those of planes, by name."""
    from jax.profiler import ProfileData

    said = stats or {}
    text = [_plane(name, lines, said.get(name, {}), starts_ns) for name, lines in planes.items()]
    text += [f"warnings: {_quoted(warning)}"] if warning else []
    path.write_bytes(ProfileData.text_proto_to_serialized_xspace("\n".join(text)))
    return path


class _Ids(dict[str, int]):
    """Numbers of names, counted from 1 as they are asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self) + 1
        return self[name]

    def metadata(self, field: str) -> str:
        return "\n".join(
            f"{field} {{ key: {i} value {{ id: {i} name: {_quoted(name)} }} }}"
            for name, i in self.items()
        )


def _plane(name: str, lines: Lines, stats: Mapping[str, Value], starts_ns: int) -> str:
    events, names = _Ids(), _Ids()
    parts = [f"name: {_quoted(name)}", *(_stat(*stat, names) for stat in stats.items())]
    for number, (line, content) in enumerate(lines.items()):
        inside = "\n".join(_event(event, events, names) for event in content)
        head = f"id: {number} name: {_quoted(line)} timestamp_ns: {starts_ns}"
        parts.append(f"lines {{ {head}\n{inside} }}")
    parts += [events.metadata("event_metadata"), names.metadata("stat_metadata")]
    return f"planes {{ {'\n'.join(parts)} }}"


def _event(event: Event, events: _Ids, names: _Ids) -> str:
    start, end = (round(time * 1_000_000) for time in event.when)
    stats = " ".join(_stat(*stat, names) for stat in event.stats.items())
    head = f"metadata_id: {events[event.name]} offset_ps: {start} duration_ps: {end - start}"
    return f"events {{ {head} {stats} }}"


def _stat(name: str, value: Value, names: _Ids) -> str:
    if isinstance(value, str):  # kept once, as the name of a stat, as XLA does
        kept = f"ref_value: {names[value]}"
    else:
        kept = f"{'double' if isinstance(value, float) else 'int64'}_value: {value}"
    return f"stats {{ metadata_id: {names[name]} {kept} }}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
