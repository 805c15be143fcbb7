"""Studies that every renderer is tested on, from schedules that come with the tool."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import nsysoffload
from nsysoffload.recorders.predict.bundle import load
from nsysoffload.recorders.predict.capture import Request, options_of, timed
from nsysoffload.recorders.predict.demo import bundled
from nsysoffload.report.model import Report
from nsysoffload.study.cases import Statement, Study, Subject, Variant
from nsysoffload.study.compose import Outcome, Search, compose
from nsysoffload.study.model import StudyReport
from tests.report.examples import HOSTILE

MODEL = "llama3.2-1b"
STUDY = Study(
    name="small",
    target="gb200",
    subjects=(Subject(MODEL, "Llama 3.2 1B", "fsdp=8"),),
    batches=(8,),
    seq=4096,
    variants=(
        Variant("none", "keep all", "none"),
        Variant("remat", "rematerialise", "remat"),
        Variant("offload", "offload all", "offload"),
        Variant("best", "best subset", None),
    ),
    statements=(
        Statement(MODEL, "remat", 8, "tflops", "rematerialising", 700.0),
        Statement(MODEL, "offload", 8, "tflops", "offloading", 5000.0),
        Statement(MODEL, "best", 8, "gain", "gain of offloading", 0.029),
        Statement(MODEL, "offload", 8, "fits", "offloading", fits=True),
        Statement(MODEL, "none", 8, "fits", "keeping all", fits=False),
    ),
    source="Nobody.",
)
KEY = f"{MODEL}/b8"


def request(study: Study = STUDY) -> Request:
    """What the study asks of the predictor for its runs with the default flags."""
    (subject,), (batch,) = study.subjects, study.batches
    return Request(subject.model, study.target, subject.mesh, batch, study.seq, layers=study.layers)


@cache
def _timed(variant: str) -> TemporaryDirectory[str]:
    """A folder with a finished run; what no schedule comes with the tool for has another's."""
    directory, asked = TemporaryDirectory(), request()
    program = load(bundled(variant if variant in ("remat", "offload") else "remat"))
    timed(asked, variant, program, options_of(asked), Path(directory.name))
    return directory


def planted(variant: str, folder: Path) -> None:
    """Leave a finished run of the study, without compiling anything."""
    shutil.copytree(_timed(variant).name, folder)


@cache
def analysed(variant: str) -> Report:
    return nsysoffload.analyze(_timed(variant).name)


def outcomes(study: Study = STUDY) -> list[Outcome]:
    """Rematerialised and offloaded by real schedules, the best being the offloaded one again."""
    made = {"remat": "remat", "offload": "offload", "best": "offload"}
    return [
        Outcome(
            case,
            made[case.variant.key],
            analysed(made[case.variant.key]),
            page=f"{case.folder}/report.html",
        )
        if case.variant.key in made
        else Outcome(case, case.variant.policy, failed="It was not compiled; compile it.")
        for case in study.cases()
    ]


@cache
def usual() -> StudyReport:
    return compose(STUDY, outcomes(), {KEY: Search("offload", None)}, {"batch": (8,)})


@cache
def unlike(**memory: int) -> StudyReport:
    """The same, where the offloaded runs need other amounts of memory."""
    changed = [
        replace(o, report=_needing(o.report, **memory)) if o.policy == "offload" else o
        for o in outcomes()
    ]
    return compose(STUDY, changed, {KEY: Search("offload", "it does not tell")}, {})


def _needing(report: Report | None, **memory: int) -> Report:
    assert report
    assert report.prediction
    assert report.prediction.memory
    needed = replace(report.prediction.memory, **memory)
    return replace(report, memory=needed, prediction=replace(report.prediction, memory=needed))


@cache
def cut() -> StudyReport:
    """Of a shorter model, of which nothing was published."""
    return compose(replace(STUDY, layers=2), outcomes(), {}, {"layers": 2})


@cache
def failed() -> StudyReport:
    """Nothing worked, and the reasons are hostile."""
    none = [replace(o, report=None, page=None, failed=HOSTILE * 20) for o in outcomes()]
    return compose(STUDY, none, {KEY: Search(None, HOSTILE)}, {})


@cache
def alone() -> StudyReport:
    """Without the base: nothing can be told against it."""
    study = replace(STUDY, variants=STUDY.variants[2:3])
    return compose(study, outcomes(study), {}, {})


EXAMPLES: Mapping[str, Callable[[], StudyReport]] = {
    "usual": usual,
    "too_large": lambda: unlike(device_bytes=400 * 10**9, host_bytes=300 * 10**9),
    "cut": cut,
    "failed": failed,
    "alone": alone,
}
