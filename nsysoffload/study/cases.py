"""What a study runs, and the published figures that it is held against. Nothing is computed here.

A study is data: another one is another `Study`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nsysoffload.errors import UsageError, unknown_name

__all__ = ["BASE", "GB200", "STUDIES", "Case", "Statement", "Study", "Subject", "Variant"]

BASE = "remat"
"""Key of the variant that the gain of the others is told against."""


@dataclass(frozen=True)
class Variant:
    """A way to run a step.

    Attributes
    ----------
    key : str
        Names the folder of its runs.
    title : str
        What the report calls it.
    policy : str or None
        As in `workloads.policies`; None for the fastest that `nsysoffload.planning.plan` finds
        within the memory of a GPU and of its host.
    preset : str
        Key of `nsysoffload.recorders.flags.PRESETS`.
    """

    key: str
    title: str
    policy: str | None
    preset: str = "default"


@dataclass(frozen=True)
class Subject:
    """A model of the workloads, what it is called, and the mesh it is trained on."""

    model: str
    title: str
    mesh: str


@dataclass(frozen=True)
class Statement:
    """A published figure, and the run that it is held against.

    Attributes
    ----------
    model, variant : str
        Keys of the run.
    batch : int
        Sequences of a step over all devices.
    kind : str
        ``tflops``: TFLOP/s of a device by the published convention; ``gain``: of that over the base
        of the study at the same batch, as a fraction; ``fits``: whether it runs at all.
    value : float or None
        The figure, of the first two kinds.
    fits : bool or None
        The answer, of the last.
    text : str
        What was published, in words that stand before the figure.
    """

    model: str
    variant: str
    batch: int
    kind: str
    text: str
    value: float | None = None
    fits: bool | None = None


@dataclass(frozen=True)
class Study:
    """Models, each at each batch under each variant, and what was published about them.

    Attributes
    ----------
    name : str
        What a command line calls it.
    target : str
        Key of `nsysoffload.hardware.TARGETS`.
    subjects : tuple of Subject
        The models.
    batches : tuple of int
        Sequences of a step over all devices.
    seq : int
        Tokens of a sequence.
    variants : tuple of Variant
        In the order of the report.
    statements : tuple of Statement
        Published figures.
    source : str
        Who published them, and how they were measured.
    layers : int or None
        To try the study with smaller models; then the published figures say nothing about it.
    compiles : int
        How many policies the search for the best one may compile beside the fixed ones.
    """

    name: str
    target: str
    subjects: tuple[Subject, ...]
    batches: tuple[int, ...]
    seq: int
    variants: tuple[Variant, ...]
    statements: tuple[Statement, ...] = ()
    source: str = ""
    layers: int | None = None
    compiles: int = 6

    def only(self, models: Sequence[str] = (), batches: Sequence[int] = ()) -> "Study":
        """Return the study of some models and batches, of all where none are named.

        Raises
        ------
        UsageError
            If the study has no such model or batch.
        """
        known = {subject.model: subject for subject in self.subjects}
        for model in models:
            if model not in known:
                raise unknown_name("Model", model, known)
        for batch in batches:
            if batch not in self.batches:
                choice = ", ".join(map(str, self.batches))
                raise UsageError(f"The study has no batch of {batch}; choose from {choice}.")
        return replace(
            self,
            subjects=tuple(s for s in self.subjects if s.model in models or not models),
            batches=tuple(batch for batch in self.batches if batch in batches or not batches),
        )

    @property
    def groups(self) -> tuple[tuple[Subject, int], ...]:
        """Return each model at each batch, which are what variants are compared within."""
        return tuple((subject, batch) for subject in self.subjects for batch in self.batches)

    def cases(self) -> Iterator["Case"]:
        """Yield all runs, in the order of the report."""
        for subject, batch in self.groups:
            for variant in self.variants:
                yield Case(subject, batch, variant)


@dataclass(frozen=True)
class Case:
    """A run: a model at a batch under a variant."""

    subject: Subject
    batch: int
    variant: Variant

    @property
    def key(self) -> tuple[str, int, str]:
        """Return what tells it from the others of a study."""
        return (self.subject.model, self.batch, self.variant.key)

    @property
    def group(self) -> str:
        """Return the folder of its group within that of the study."""
        return f"{self.subject.model}/b{self.batch}"

    @property
    def folder(self) -> str:
        """Return its folder within that of the study."""
        return f"{self.group}/{self.variant.key}"

    @property
    def text(self) -> str:
        """Return what progress and errors call it."""
        return f"{self.subject.model}, batch {self.batch}, {self.variant.title}"


_VARIANTS = (
    Variant("none", "keep all", "none"),
    Variant(BASE, "rematerialise", "remat"),
    Variant("offload", "offload all", "offload"),
    Variant("best", "best subset", None),
    Variant("best-pipelined", "best subset, pipelined", None, "pipelined"),
    Variant(
        "best-pipelined+double-buffering",
        "best subset, double-buffered",
        None,
        "pipelined+double-buffering",
    ),
)
_DEEPSEEK = Subject("deepseek-v3-671b", "DeepSeek-V3 671B", "fsdp=16,expert=8")
_LLAMA = Subject("llama3.1-405b", "Llama 3.1 405B", "fsdp=128")
_OFFLOADED = "best-pipelined"

GB200 = Study(
    name="gb200",
    target="gb200",
    subjects=(_LLAMA, _DEEPSEEK),
    batches=(256, 1024),
    seq=4096,
    variants=_VARIANTS,
    source="NVIDIA, Reducing High-Bandwidth Memory Bottlenecks in JAX-Based LLM Training with Host"
    " Offloading: MaxText on 128 GB200 NVL72 GPUs, offloading of selected activations with the"
    " latency hiding scheduler and pipelined transfers against full rematerialisation. The batch of"
    " the first figures is taken to be 256, that which 1024 is told against; mesh, policy and"
    " release of MaxText are not known to us.",
    statements=(
        Statement(
            _LLAMA.model, _OFFLOADED, 256, "gain", "gain of offloading over rematerialising", 0.029
        ),
        Statement(_DEEPSEEK.model, BASE, 256, "tflops", "rematerialising", 578.3),
        Statement(_DEEPSEEK.model, _OFFLOADED, 256, "tflops", "offloading", 908.2),
        Statement(
            _DEEPSEEK.model,
            _OFFLOADED,
            256,
            "gain",
            "gain of offloading over rematerialising",
            0.57,
        ),
        Statement(_DEEPSEEK.model, BASE, 1024, "fits", "rematerialising", fits=False),
        Statement(_DEEPSEEK.model, _OFFLOADED, 1024, "fits", "offloading", fits=True),
    ),
)
"""NVIDIA's published table of host offloading in JAX."""

STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in (GB200,)})
"""Studies by the name that a command line takes."""
