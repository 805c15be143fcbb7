"""Whether a profile is for a program, and what XLA took of it.

XLA itself takes what matches by name, and says nothing of the rest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nsysoffload.errors import UsageError
from nsysoffload.profiles.profile import About
from nsysoffload.recorders.flags import without_paths, without_profile
from nsysoffload.report.format import plain

__all__ = [
    "ARGUMENTS",
    "PLACES",
    "Taken",
    "refuse_flags",
    "refuse_module",
    "refuse_program",
    "taken",
    "text_of",
]

PLACES = re.compile(r"--xla_dump_\w+=.*|--\w+=PATH")
"""Flags that say where files are, which changes nothing in the program."""

# Of one program, a run may say what another one leaves to its defaults, as None or as no text.
ARGUMENTS = (
    "model",
    "policy",
    "layers",
    "batch",
    "seq",
    "mesh",
    "optimizer",
    "offload_optimizer",
)

_OUR_MODULE = re.compile(r"Found profile for module (\S+), using")
_COST = re.compile(r"PGLE found cost for: (\S+)")
_LATENCY = re.compile(r"PGLE found latency for async op (\S+)")


# --- Whether it is for a program ---


def refuse_flags(about: About, flags: tuple[str, ...]) -> None:
    """Refuse a profile of other flags.

    Parameters
    ----------
    about : About
        What the profile was made for.
    flags : tuple of str
        That the program is compiled with.

    Raises
    ------
    UsageError
        If flags differ that decide something about the module. Nothing is said against a profile of
        which the flags are not known.
    """
    if about.flags is None:
        return
    own, other = (_deciding(each) for each in (about.flags, flags))
    if own != other:
        differing = " ".join(sorted(own ^ other))
        raise UsageError(
            f"The profile was made with other XLA flags (different: {plain(differing)}), by which"
            " operations have other names; make one of a run with these flags."
        )


def _deciding(flags: tuple[str, ...]) -> frozenset[str]:
    """Leave out the flags that decide nothing about the module."""
    shown = without_paths(without_profile(flags))
    return frozenset(flag for flag in shown if not PLACES.fullmatch(flag))


def refuse_program(
    about: About,
    program: Mapping[str, Any],
    *,
    target: str | None = None,
    jax_version: str | None = None,
) -> None:
    """Refuse a profile of another program, GPU or release of jax, as far as that is known.

    Parameters
    ----------
    about : About
        What the profile was made for.
    program : mapping
        Arguments of the workload; None where its default holds.
    target : str, optional
        Key of the GPU in `nsysoffload.hardware.TARGETS`.
    jax_version : str, optional
        Release of jax.

    Raises
    ------
    UsageError
        If one of them is another.
    """
    own = about.program or {}
    pairs = [
        *((name, own.get(name), program.get(name)) for name in ARGUMENTS),
        ("target", about.target, target),
        ("release of jax", about.jax_version, jax_version),
    ]
    for name, made_of, asked in pairs:
        if None not in (made_of, asked) and "" not in (made_of, asked) and made_of != asked:
            raise UsageError(
                f"The profile is of another program: its {name} is {plain(str(made_of))}, and"
                f" {plain(str(asked))} is asked for; make one of a run of this program."
            )


def refuse_module(about: About, fingerprint: str) -> None:
    """Refuse a profile of another module than the compiled one.

    Parameters
    ----------
    about : About
        What the profile was made for.
    fingerprint : str
        Of the module that is to use it.

    Raises
    ------
    UsageError
        If they differ.
    """
    if about.fingerprint != fingerprint:
        raise UsageError(
            f"The profile is of the module {about.fingerprint}, and what is compiled is"
            f" {fingerprint}: another program, other flags or another release of jax, or products"
            " that a GPU has autotuned, which is not done here; XLA would not use the profile."
        )


# --- What XLA took ---


@dataclass(frozen=True)
class Taken:
    """What XLA took from a profile, by its log.

    Attributes
    ----------
    used : bool
        Whether it used the profile for the module.
    costs : int
        How many of the profile's costs it found an instruction for.
    unused : tuple of str
        The others: of instructions that are made after the scheduler has run, or of no such module.
    """

    used: bool
    costs: int
    unused: tuple[str, ...]


def taken(log: str, about: About, names: Mapping[str, str]) -> Taken:
    """Read from a compilation's log what XLA took from a profile.

    Parameters
    ----------
    log : str
        Of a compilation with `nsysoffload.recorders.flags.using` and ``SCHEDULER_LOG``.
    about : About
        What the profile was made for.
    names : mapping of str to str
        The instruction of each cost, see `nsysoffload.profiles.profile.Profile`.
    """
    used = about.module in _OUR_MODULE.findall(log)
    found = {*_COST.findall(log), *_LATENCY.findall(log)} if used else set()
    unused = tuple(name for name, own in names.items() if not found & {name, own})
    return Taken(used, len(names) - len(unused), unused)


def text_of(found: Taken) -> str:
    """Return a sentence on what XLA took.

    Examples
    --------
    >>> text_of(Taken(True, 2, ("fusion.7",)))
    'XLA found an instruction for 2 of 3 costs of the profile.'
    """
    if not found.used:
        return "XLA did not use the profile: it found none for this module."
    every = found.costs + len(found.unused)
    return f"XLA found an instruction for {found.costs:,} of {every:,} costs of the profile."
