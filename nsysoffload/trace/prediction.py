"""What a predicted trace says about how it was made: constants, range, memory, doubts.

It travels in the export as one JSON text, so that whoever analyses the file later sees what the
times rest on.
"""

import json
from dataclasses import asdict, dataclass

from nsysoffload.errors import TraceError
from nsysoffload.trace.records import record
from nsysoffload.trace.workload import Workload

__all__ = ["Constant", "Corner", "Memory", "Prediction", "Range", "from_json", "to_json"]


_LONGEST = 200_000  # characters; a prediction takes some 10,000


@dataclass(frozen=True)
class Constant:
    """A number of the model: its lowest, expected and highest value, and where they come from."""

    name: str
    unit: str
    low: float
    expected: float
    high: float
    origin: str


@dataclass(frozen=True)
class Range:
    """A time by the model, in nanoseconds."""

    low_ns: int
    expected_ns: int
    high_ns: int


@dataclass(frozen=True)
class Corner:
    """One step by one choice of constants; ``name`` is ``expected`` or says what is slow or fast.

    ``h2d_exposed_ns`` and ``d2h_exposed_ns`` are transfer times not hidden behind compute.
    """

    name: str
    step_ns: int
    h2d_exposed_ns: int
    d2h_exposed_ns: int


@dataclass(frozen=True)
class Memory:
    """What one device needs, in bytes, by the compiler's own buffer assignment.

    ``device_bytes`` is arguments + temporaries + outputs - aliased; ``device_limit_bytes`` is the
    memory of the GPU, ``default_limit_bytes`` the share of it that JAX takes unless told otherwise,
    and ``host_limit_bytes`` the default limit of the pinned host memory of a process.
    """

    device_bytes: int
    argument_bytes: int
    temp_bytes: int
    output_bytes: int
    alias_bytes: int
    host_bytes: int
    device_limit_bytes: int
    default_limit_bytes: int
    host_limit_bytes: int


@dataclass(frozen=True)
class Prediction:
    """How a predicted trace was made.

    ``flags`` are XLA's, ``program`` names what was compiled, ``workload`` says it where it is a
    train step of ours.
    """

    program: str
    variant: str
    target: str
    devices: int
    preset: str
    jax_version: str
    flags: tuple[str, ...]
    step: Range
    corners: tuple[Corner, ...]
    memory: Memory | None
    constants: tuple[Constant, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    workload: Workload | None = None


def to_json(prediction: Prediction) -> str:
    """Write a prediction as JSON text."""
    return json.dumps(asdict(prediction), separators=(",", ":"))


def from_json(text: str) -> Prediction:
    """Read a prediction.

    Raises
    ------
    TraceError
        If the text is no prediction of this version, or of no sensible size.
    """
    if len(text) > _LONGEST:
        raise TraceError("The trace's account of its prediction is too long; predict it again.")
    try:
        prediction = record(Prediction, json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceError(
            "The trace's account of its prediction cannot be read; predict it again."
        ) from error
    assert isinstance(prediction, Prediction)
    return prediction
