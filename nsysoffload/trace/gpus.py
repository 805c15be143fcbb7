"""Which GPU a row ran on: ``deviceId`` repeats across processes and is no physical id.

A GPU is known by its uuid. Exports since 2025 map (pid, deviceId) to it; 2021 ones may map
(pid, deviceId) to a bus address; the years between list GPUs with the CUDA ordinal that nsys itself
saw, which is only good where no two processes use the same ordinal, or where there is one GPU.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nsysoffload.errors import TraceError
from nsysoffload.trace.export import Export, damaged, quoted
from nsysoffload.trace.schema import ANY_DEVICE
from nsysoffload.trace.tables import GPUS, UNSET, TraceWarning

__all__ = ["assign_gpus", "plain_uuid"]

_ROWS = ("kernels", "copies", "memsets", "graph_spans", "syncs", "events")
_ACTIVITY = ("kernels", "copies", "memsets", "graph_spans")
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_PID_BITS = (1 << 24) - 1
_UUID = re.compile(r"[0-9a-z-]+")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_MOST_ENGINES = 64  # beyond it the cell is no number of copy engines
_MOST_GPUS = 512  # beyond it deviceId or globalPid hold something else

Pair = tuple[int, int]
"""A process and an ordinal within it."""


@dataclass(frozen=True)
class _Card:
    """A GPU as TARGET_INFO tables list it."""

    name: str | None
    uuid: str | None = None
    nsys_id: int | None = None
    ordinal: int | None = None
    bus: str | None = None
    copy_engines: int = UNSET


def assign_gpus(
    export: Export, frames: dict[str, pd.DataFrame]
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame], list[TraceWarning]]:
    """List the GPUs that have rows, and set ``device`` of every row to its GPU's row number.

    Returns
    -------
    gpus : DataFrame
        Table `GPUS`.
    frames : dict of DataFrame
        The frames with ``device`` set; UNSET for rows whose ``deviceId`` names no device.
    warnings : list of TraceWarning
        Where GPUs cannot be told apart.
    """
    codes = {name: _codes(frame) for name, frame in frames.items() if name in _ROWS}
    pairs = sorted({pair for name in _ACTIVITY if name in codes for pair in _pairs(codes[name][1])})
    cards, warnings = _cards_of(export, pairs)
    keys = {pair: card.uuid or card.bus or pair if card else pair for pair, card in cards.items()}
    users: dict[object, list[Pair]] = {}
    for pair in sorted(cards, key=lambda pair: (pair[0] & _PID_BITS, pair)):
        users.setdefault(keys[pair], []).append(pair)
    if len(users) > _MOST_GPUS:
        raise damaged(export.path, f"its rows name {len(users):,} GPUs")
    first = sorted((pairs[0] for pairs in users.values()), key=lambda pair: (pair[1], pair[0]))
    numbers = {keys[pair]: number for number, pair in enumerate(first)}
    device_of = {pair: numbers[keys[pair]] for pair in cards}
    rows = _distinct(first, [_gpu(pair, cards[pair]) for pair in first])
    gpus = GPUS.conform(pd.DataFrame(rows, columns=GPUS.names, dtype=object))
    placed = {
        name: frame.assign(device=_devices(*codes[name], device_of)) if name in codes else frame
        for name, frame in frames.items()
    }
    return gpus, placed, warnings


def _gpu(pair: Pair, card: _Card | None) -> dict[str, object]:
    process, ordinal = pair
    pid = UNSET if process == UNSET else process & _PID_BITS
    uuid = card.uuid if card else None
    return {
        "id": uuid or (str(ordinal) if pid == UNSET else f"{pid}:{ordinal}"),
        "ordinal": ordinal,
        "pid": pid,
        "name": card.name if card else None,
        "uuid": uuid,
        "copy_engines": card.copy_engines if card else UNSET,
    }


def _distinct(pairs: list[Pair], gpus: list[dict[str, object]]) -> list[dict[str, object]]:
    """Name a GPU by all bits of its process where the pid alone would name several."""
    named = Counter(gpu["id"] for gpu in gpus)
    return [
        gpu | {"id": f"{process}:{ordinal}"} if named[gpu["id"]] > 1 else gpu
        for (process, ordinal), gpu in zip(pairs, gpus, strict=True)
    ]


# --- Rows ---


def _codes(frame: pd.DataFrame) -> tuple[NDArray[np.int64], list[Pair]]:
    """Return a code per row and the (process, ordinal) pair that each code stands for."""
    process, processes = pd.factorize(frame["process"].to_numpy())
    ordinal, ordinals = pd.factorize(frame["ordinal"].to_numpy())
    code, used = pd.factorize(process * len(ordinals) + ordinal)
    pairs = [(int(processes[c // len(ordinals)]), int(ordinals[c % len(ordinals)])) for c in used]
    return code, pairs


def _pairs(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if 0 <= pair[1] < ANY_DEVICE]


def _devices(
    code: NDArray[np.int64], pairs: list[Pair], device_of: dict[Pair, int]
) -> NDArray[np.int64]:
    if not pairs:
        return np.empty(0, dtype=np.int64)
    return np.array([device_of.get(pair, UNSET) for pair in pairs], dtype=np.int64)[code]


# --- GPUs ---


def _cards_of(
    export: Export, pairs: list[Pair]
) -> tuple[dict[Pair, _Card | None], list[TraceWarning]]:
    """Find the GPU of each pair; None where the export does not say."""
    cards = _listed(export)
    mapped = _mapped(export, cards)
    found: dict[Pair, _Card | None] = {
        (process, ordinal): mapped.get((process & _PID_BITS, ordinal)) for process, ordinal in pairs
    }
    rest = [pair for pair, card in found.items() if card is None]
    ordinals = [ordinal for _, ordinal in pairs]
    warnings = []
    if len(cards) == 1 and not any(ordinals):
        found |= dict.fromkeys(rest, cards[0])
    elif len(set(ordinals)) == len(ordinals):
        by_ordinal = {card.ordinal: card for card in cards}
        found |= {pair: by_ordinal.get(pair[1]) for pair in rest}
    elif rest:
        names = {card.name for card in cards}
        alike = _Card(name=names.pop()) if len(names) == 1 else None
        found |= dict.fromkeys(rest, alike)
        message = (
            "Several processes used the same CUDA device number and the trace does not say on which"
            " GPUs; each process's device is shown apart."
        )
        warnings.append(TraceWarning("gpus_ambiguous", message))
    return found, warnings


def _listed(export: Export) -> list[_Card]:
    """GPUs of TARGET_INFO_GPU, without foreign adapters, else of TARGET_INFO_CUDA_GPU."""
    rows = _rows(export, "TARGET_INFO_GPU")
    told = [row for row in rows if "chipName" in row or "computeMajor" in row]
    real = [row for row in rows if row not in told or _is_nvidia(row)]
    if not any(row.get("name") for row in real):
        real = _rows(export, "TARGET_INFO_CUDA_GPU") or real
    return [
        _Card(
            name=_text(row.get("name")),
            uuid=_uuid(row.get("uuid")),
            nsys_id=_integer(row.get("id")),
            ordinal=_integer(row.get("cuDevice", row.get("deviceId"))),
            bus=_text(row.get("busLocation") or row.get("pciBusId")),
            copy_engines=_engines(row.get("asyncEngines") or row.get("numMemcpyEngines")),
        )
        for row in real
    ]


def _is_nvidia(row: dict[str, object]) -> bool:
    return bool(_text(row.get("chipName")) or _integer(row.get("computeMajor")))


def _mapped(export: Export, cards: list[_Card]) -> dict[Pair, _Card]:
    """Map (pid, ordinal) to a GPU where the export does."""
    by_id = {card.nsys_id: card for card in cards}
    by_uuid = {card.uuid: card for card in cards if card.uuid}
    by_bus = {card.bus: card for card in cards if card.bus}
    mapped: dict[Pair, _Card] = {}
    for row in _rows(export, "TARGET_INFO_CUDA_DEVICE"):
        uuid = _uuid(row.get("uuid"))
        card = by_uuid.get(uuid) if uuid else None
        listed = card or by_id.get(_integer(row.get("gpuId")))
        if uuid and card is None:  # an instance of a partitioned GPU has a uuid of its own
            engines = listed.copy_engines if listed else UNSET
            listed = _Card(name=listed.name if listed else None, uuid=uuid, copy_engines=engines)
        pid, ordinal = _integer(row.get("pid")), _integer(row.get("cudaId"))
        if listed and pid is not None and ordinal is not None:
            mapped[pid, ordinal] = listed
    for row in _rows(export, "TARGET_INFO_CUDA_GPU"):
        pid, ordinal = _integer(row.get("pid")), _integer(row.get("deviceId"))
        bus = _text(row.get("pciBusId"))
        if bus and pid is not None and ordinal is not None:
            engines = _engines(row.get("numMemcpyEngines"))
            known = _Card(name=_text(row.get("name")), bus=bus, copy_engines=engines)
            mapped.setdefault((pid, ordinal), by_bus.get(bus, known))
    return mapped


def _rows(export: Export, table: str) -> list[dict[str, object]]:
    """Rows of a small table, all columns as text; none where it is missing or damaged."""
    columns = export.columns.get(table, ())
    if not columns:
        return []
    select = ", ".join(f"CAST({quoted(c)} AS BLOB) AS {quoted(c)}" for c in columns)
    try:
        rows = export.read(f"SELECT {select} FROM {quoted(table)} LIMIT 10000")
    except TraceError:
        return []
    return list(rows.to_pylist())


def _text(value: object) -> str | None:
    if not isinstance(value, bytes):
        return None
    return value.decode(errors="replace").strip()[:100] or None


def _integer(value: object) -> int | None:
    text = _text(value) or ""
    return int(text) if _INTEGER.fullmatch(text) else None


def _engines(value: object) -> int:
    engines = _integer(value)
    return engines if engines is not None and 1 <= engines <= _MOST_ENGINES else UNSET


def plain_uuid(text: str) -> str | None:
    """Return a uuid in small letters and without what products put before it; None if it is none.

    Exports hold other words than uuids as well, by which GPUs can still be told apart.
    """
    text = text.lower().removeprefix("gpu-").removeprefix("0x")
    unknown = text in (_NO_UUID, _NO_UUID.replace("-", "")) or not _UUID.fullmatch(text)
    return None if unknown else text


def _uuid(value: object) -> str | None:
    return plain_uuid(_text(value) or "")
