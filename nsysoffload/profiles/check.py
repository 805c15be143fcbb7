"""What a profile changes: the program compiled again without a GPU, without it and with it.

Only programs of the workloads can be made again. Everything but the times is the compiler's own
word; the times are modelled.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from nsysoffload.comparison.ranking import Order, Ranking, ranking
from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.profiles.distances import Distance, distances
from nsysoffload.profiles.files import write
from nsysoffload.profiles.fit import (
    ARGUMENTS,
    PLACES,
    Taken,
    refuse_flags,
    refuse_module,
    taken,
    text_of,
)
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.profile import About, Made
from nsysoffload.profiles.run import Run
from nsysoffload.recorders.flags import using, without_profile
from nsysoffload.recorders.predict.capture import PROGRAM
from nsysoffload.recorders.predict.compile import Compiled, compile_program
from nsysoffload.recorders.predict.predict import Options, predict
from nsysoffload.recorders.predict.versions import JAX_VERSION
from nsysoffload.report.format import size
from nsysoffload.trace.prediction import Prediction

__all__ = ["UNMOVED", "Check", "Side", "check"]

UNMOVED = "Every host copy stands where it stood without the profile."
"""What is said where a profile changes nothing."""

_GROWTH = 0.005  # of the device's need; less is not worth a word


@dataclass(frozen=True)
class Side:
    """The program without or with the profile.

    Attributes
    ----------
    prediction : Prediction
        The modelled step, and the memory by the compiler.
    distances : tuple of Distance
        How much runs beside each host copy.
    """

    prediction: Prediction
    distances: tuple[Distance, ...]


@dataclass(frozen=True)
class Check:
    """What a profile changes.

    Attributes
    ----------
    taken : Taken
        What XLA took from it.
    before, after : Side
        Without the profile, and with it.
    rank : Ranking
        Of the step with the profile against that without.
    warnings : tuple of str
        Sentences on what speaks against the profile.
    """

    taken: Taken
    before: Side
    after: Side
    rank: Ranking
    warnings: tuple[str, ...]


def check(made: Made, progress: Callable[[str], None] = lambda text: None) -> Check:
    """Compile a run's program again, without and with its profile, and compare the two.

    Parameters
    ----------
    made : Made
        From `nsysoffload.profiles.profile.profile`.
    progress : callable, optional
        Called with a sentence on what is done.

    Raises
    ------
    UsageError
        If the program is none of the workloads, the run does not say what it was compiled for, or
        what is compiled here is another module than what ran.
    CompileError
        If it cannot be compiled.
    """
    about, run = made.profile.about, made.run
    _check_known(about, run)
    progress("Compiling without and with the profile.")
    with TemporaryDirectory(prefix="nsysoffload-") as temporary:
        folder = Path(temporary, "profile")
        write(made.profile, folder)
        log = Path(temporary, "log.txt")
        flags = _flags(run)
        cancelled = Event()
        with ThreadPoolExecutor(2) as pool:
            plain = pool.submit(_compiled, run, flags, cancelled)
            guided = pool.submit(_compiled, run, using(flags, folder), cancelled, log)
            try:
                before, after = plain.result(), guided.result()
            except BaseException:
                cancelled.set()  # the other would be waited for
                raise
        found = taken(log.read_text("utf-8", "replace"), about, made.profile.names)
    refuse_flags(about, before.flags)
    refuse_module(about, instructions(before.text).fingerprint)
    sides = (_side(before, run), _side(after, run))
    rank = ranking(sides[0].prediction, sides[1].prediction)
    return Check(found, *sides, rank, tuple(_warnings(found, *sides, rank)))


# --- Compiling ---


def _check_known(about: About, run: Run) -> None:
    program = run.program or {}
    if not {"model", "policy"} <= program.keys():
        raise UsageError(
            "Only programs of the workloads can be compiled again, and nothing tells that this run"
            " is one (no program in its manifest.json); leave out --check."
        )
    if run.flags is None or run.target not in TARGETS or run.devices is None:
        raise UsageError(
            "The run's manifest.json does not say which flags and GPU it was compiled for; leave"
            " out --check."
        )
    if about.jax_version != JAX_VERSION:
        raise UsageError(
            f"The run is of jax {about.jax_version}, and programs are compiled here with"
            f" {JAX_VERSION}: names differ between releases; leave out --check."
        )


def _flags(run: Run) -> tuple[str, ...]:
    flags = without_profile(run.flags or ())
    return tuple(flag for flag in flags if not PLACES.fullmatch(flag))


def _compiled(
    run: Run, flags: tuple[str, ...], cancelled: Event, log: Path | None = None
) -> Compiled:
    program: Mapping[str, Any] = run.program or {}
    return compile_program(
        PROGRAM,
        target=TARGETS[str(run.target)],
        devices=run.devices or 1,
        arguments={name: program[name] for name in ARGUMENTS if name in program},
        flags=flags,
        log=log,
        cancelled=cancelled,
    )


def _side(compiled: Compiled, run: Run) -> Side:
    said = run.prediction
    program = run.program or {}
    options = Options(
        name=said.program if said else str(program.get("model")),
        variant=str(program.get("policy")),
        preset=said.preset if said else "",
        constants=said.constants if said else (),
        workload=said.workload if said else None,
        steps=2,  # the second is the one that counts
    )
    module = instructions(compiled.text)
    return Side(predict(compiled, options).prediction, distances(compiled.text, module))


# --- What to say ---


def _warnings(found: Taken, before: Side, after: Side, rank: Ranking) -> Iterator[str]:
    if not found.used:
        yield text_of(found)
    elif before.distances == after.distances:
        yield UNMOVED
    if rank.order is Order.SLOWER:
        yield "The modelled step is longer with the profile: do not use it."
    elif rank.order is Order.CANNOT_TELL:
        yield "Whether the step is shorter with the profile hangs on the model's constants."
    old, new = before.prediction.memory, after.prediction.memory
    if old and new and new.device_bytes - old.device_bytes > _GROWTH * old.device_bytes:
        more = size(new.device_bytes - old.device_bytes)
        yield f"The profile takes {more} more of device memory: copies that start early wait there."
    if old and new and new.device_bytes > new.device_limit_bytes >= old.device_bytes:
        yield "With the profile the step does not fit into the GPU any more."
