"""Runs for which XLA's scheduler is given a profile: what is refused, and what became of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoffload.errors import OffloadError
from nsysoffload.profiles.files import Written
from nsysoffload.profiles.fit import (
    Taken,
    refuse_flags,
    refuse_module,
    refuse_program,
    taken,
    text_of,
)
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.run import module_text
from nsysoffload.recorders.measured import request as measured
from nsysoffload.recorders.predict import capture as predicted
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.versions import JAX_VERSION
from nsysoffload.recorders.variants import Variant
from nsysoffload.trace.run_folder import MODULE

__all__ = ["Use", "accepting", "refuse_measured", "refuse_predicted", "use_in"]

_SCHEDULER = "gpu_hlo_schedule.cc"  # stands in each line of what schedules


@dataclass(frozen=True)
class Use:
    """What XLA made of a profile in a measured run, as far as its folder tells.

    Attributes
    ----------
    taken : Taken or None
        By its log; None where that says nothing of the scheduler.
    other_module : str or None
        A sentence, if the run's module is not the one that the profile is of.
    """

    taken: Taken | None
    other_module: str | None


def refuse_predicted(profile: Written, request: predicted.Request, variants: Iterable[str]) -> None:
    """Refuse a profile that is not of what is to be predicted, before it is compiled.

    Parameters
    ----------
    profile : Written
        The profile.
    request, variants
        What is asked for.

    Raises
    ------
    UsageError
        If its flags, program, GPU or release of jax are others.
    """
    flags = predicted.flags_of(request)
    for variant in variants:
        refuse_program(
            profile.about,
            predicted.arguments_of(request, variant),
            target=request.target,
            jax_version=JAX_VERSION,
        )
        refuse_flags(profile.about, flags)


def accepting(profile: Written, say: Callable[[str], None]) -> predicted.Accept:
    """Return what refuses a compiled program that the profile is not of, and tells XLA's use of it.

    Parameters
    ----------
    profile : Written
        The profile.
    say : callable
        Takes a sentence.
    """

    def accept(program: Compiled, log: Path) -> None:
        refuse_module(profile.about, instructions(program.text).fingerprint)
        say(text_of(taken(log.read_text("utf-8", "replace"), profile.about, profile.names)))

    return accept


def refuse_measured(
    profile: Written,
    request: measured.Request,
    variants: Iterable[Variant],
    environment: Mapping[str, str],
) -> None:
    """Refuse a profile that is not of what is to be measured, as far as that is known.

    Parameters
    ----------
    profile : Written
        The profile.
    request, variants
        What is asked for.
    environment : mapping of str to str
        Of this process.

    Raises
    ------
    UsageError
        If its flags are others, or its program is.
    """
    for variant in variants:
        if request.workload:
            refuse_program(profile.about, request.workload.program(variant.name))
        refuse_flags(profile.about, measured.flags_of(request, variant, environment))


def use_in(profile: Written, folder: Path) -> Use:
    """Return what XLA made of a profile in a measured run.

    Parameters
    ----------
    profile : Written
        The profile.
    folder : Path
        Of the run.
    """
    log = (folder / "log.txt").read_text("utf-8", "replace")
    found = taken(log, profile.about, profile.names) if _SCHEDULER in log else None
    return Use(found, _other_module(profile, folder))


def _other_module(profile: Written, folder: Path) -> str | None:
    if not (folder / MODULE).is_file():  # only the workloads leave it
        return None
    try:
        own = instructions(module_text(folder / "trace.sqlite")).fingerprint
    except OffloadError as error:
        return str(error)
    if own == profile.about.fingerprint:
        return None
    then = "XLA did not use it" if profile.path.is_dir() else "its costs are of other operations"
    return (
        f"The profile is of the module {profile.about.fingerprint}, and what ran is {own}, so"
        f" {then}: another program, other flags or another release of jax, or products that were"
        " autotuned otherwise; make one of a new run."
    )
