"""The report of a study: dataclasses whose fields are the JSON keys of ``nsysoffload-study/1``.

Times are integer nanoseconds, sizes are bytes, shares and gains are fractions. ``None`` means that
there is no such figure, and a field beside it, or of the row, says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nsysoffload.comparison.model import Comparison
from nsysoffload.report.model import Tool
from nsysoffload.trace.prediction import Range

__all__ = [
    "SCHEMA",
    "About",
    "Figures",
    "Gain",
    "Group",
    "Judged",
    "Need",
    "Problem",
    "Range",
    "Row",
    "StudyReport",
    "Throughput",
    "Tool",
    "Verdict",
]

SCHEMA = "nsysoffload-study/1"


@dataclass(frozen=True)
class Verdict:
    """How the predictions agree with what was published.

    ``outcome`` is ``agrees``, ``partly``, ``differs``, or ``cannot_tell`` where nothing is judged.
    ``judged`` counts the published figures that are, ``agreeing`` those of them that lie in the
    predicted range.
    """

    outcome: str
    text: str
    judged: int
    agreeing: int


@dataclass(frozen=True)
class About:
    """What was studied.

    ``layers`` is a number of layers that the models were cut to, ``None`` where they are whole.
    """

    name: str
    target: str
    gpu: str
    devices: int
    seq: int
    layers: int | None
    source: str


@dataclass(frozen=True)
class Group:
    """A model at a batch, whose variants are compared.

    Attributes
    ----------
    model, title, mesh : str
        The model, what it is called, and the mesh it is trained on.
    batch, tokens : int
        Sequences and tokens of a step over all devices.
    parameters, active_parameters : int
        All of them, and those that take part in the work on one token.
    weight_flops, attention_flops : int
        Operations of a step over all devices by the published convention.
    policy : str or None
        The fastest policy that was found to fit on device and host.
    policy_note : str or None
        What the search says beside it, or why there is none.
    best : str or None
        Variant that is fastest of those that fit on device and host.
    """

    model: str
    title: str
    mesh: str
    batch: int
    tokens: int
    parameters: int
    active_parameters: int
    weight_flops: int
    attention_flops: int
    policy: str | None
    policy_note: str | None
    best: str | None


@dataclass(frozen=True)
class Need:
    """What a run takes.

    ``environment`` are variables without which JAX would refuse the memory, ``flags`` the XLA flags
    of its preset. What else it was compiled with is in the run's own report.
    """

    device_bytes: int
    device_limit_bytes: int
    fits_device: bool
    host_bytes: int
    host_limit_bytes: int
    fits_host: bool
    environment: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Throughput:
    """TFLOP/s of one device by the published convention, in the range of the model."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True)
class Figures:
    """A step of one device, medians over its steps, with the expected constants of the model.

    ``lost`` is the time outside compute by its cause, ``collectives_alone_ns`` that under
    collectives alone. ``recompute_share`` is of ``compute_ns``.
    """

    compute_ns: int
    overlap: float | None
    overlap_null_reason: str | None
    exposed_ns: int
    stall_ns: int
    lost: Mapping[str, int]
    collectives_alone_ns: int
    recompute_ns: int | None
    recompute_share: float | None
    h2d_bytes: int | None
    d2h_bytes: int | None


@dataclass(frozen=True)
class Problem:
    """The first finding of a run's report: the one that costs most."""

    cause: str
    lost_ns_per_step: int
    excess_ns_per_step: int
    message: str
    advice: str


@dataclass(frozen=True)
class Gain:
    """TFLOP/s over those of the base, less one; ``low`` and ``high`` over all choices of constants.

    Both runs are taken with the same choice. ``order`` is ``faster``, ``slower``, ``same``, or
    ``cannot_tell`` where the choices do not agree.
    """

    order: str
    low: float
    expected: float
    high: float


@dataclass(frozen=True)
class Row:
    """A run: a model at a batch under a variant.

    Attributes
    ----------
    model, batch, variant : str, int, str
        Which.
    title : str
        What the variant is called.
    policy : str or None
        What is kept, offloaded or recomputed; None where none was found.
    preset : str
        Of XLA flags.
    folder : str
        The run's folder, relative to that of the study.
    report : str or None
        The run's own report, likewise, where it was written.
    failed : str or None
        Why there are no figures.
    """

    model: str
    batch: int
    variant: str
    title: str
    policy: str | None
    preset: str
    folder: str
    report: str | None
    failed: str | None
    need: Need | None = None
    step: Range | None = None
    tflops: Throughput | None = None
    gain: Gain | None = None
    figures: Figures | None = None
    finding: Problem | None = None

    @property
    def fits(self) -> bool:
        """Tell whether it runs: there are figures, and it fits on device and host."""
        return self.need is not None and self.need.fits_device and self.need.fits_host


@dataclass(frozen=True)
class Judged:
    """A published figure beside the predicted one.

    Attributes
    ----------
    model, variant, batch, kind, text : str, str, int, str, str
        As in `nsysoffload.study.cases.Statement`.
    value : float or None
        The published figure, of the kinds ``tflops`` and ``gain``.
    fits : bool or None
        What was published, of the kind ``fits``.
    low, expected, high : float or None
        The predicted figure; None where there is none.
    predicted_fits : bool or None
        The predicted answer.
    agrees : bool or None
        Whether the published figure lies in the predicted range, or the answers are one; None
        where that cannot be told.
    remark : str or None
        Why it cannot be told, or what else is to be known.
    """

    model: str
    variant: str
    batch: int
    kind: str
    text: str
    value: float | None
    fits: bool | None
    low: float | None
    expected: float | None
    high: float | None
    predicted_fits: bool | None
    agrees: bool | None
    remark: str | None


@dataclass(frozen=True)
class StudyReport:
    """The whole report; rows come in the order of the groups, and within one of the variants."""

    tool: Tool
    verdict: Verdict
    about: About
    jax_version: str | None
    published: tuple[Judged, ...]
    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    schema: str = SCHEMA
    comparisons: Mapping[str, Comparison] = field(
        default_factory=dict, metadata={"json": False}, compare=False
    )
    """The runs of each group against its base, by the group's folder; for the page's plots only."""

    def of_group(self, group: Group) -> tuple[Row, ...]:
        """Return the rows of a group."""
        return tuple(r for r in self.rows if (r.model, r.batch) == (group.model, group.batch))
