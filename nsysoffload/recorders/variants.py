"""What is recorded beside what: variants of one command, each with a name, words, environment."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nsysoffload.errors import UsageError

__all__ = ["ALONE", "PROFILED", "Variant", "folder_name", "parse_variants"]

ALONE = "run"
"""Name of what is recorded without any variants."""

PROFILED = "-profiled"
"""Ends the name of the folder of a run for which the scheduler was given a profile."""

_ENVIRONMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Variant:
    """One of the runs to be compared.

    Attributes
    ----------
    name : str
        Names the run and its folder; for the workloads it is the policy.
    words : tuple of str
        Added to the command.
    environment : mapping of str to str
        Set for the command.
    place : str or None
        Name of its folder where that is not to follow from its own.
    """

    name: str
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    place: str | None = None

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return self.place or folder_name(self.name)


def parse_variants(texts: Iterable[str]) -> tuple[Variant, ...]:
    """Read variants, each ``NAME`` or ``NAME=WORDS``.

    Parameters
    ----------
    texts : iterable of str
        ``WORDS`` are quoted as in a shell, and as there those at their beginning that set an upper
        case name are the environment.

    Raises
    ------
    UsageError
        If one has no name, its words cannot be read, or two would share a folder.

    Examples
    --------
    >>> parse_variants(["offload=XLA_FLAGS=--xla_a=1 remat_policy=custom --layers 2"])[0].words
    ('remat_policy=custom', '--layers', '2')
    """
    variants = tuple(map(_variant, dict.fromkeys(texts)))
    seen: dict[str, str] = {}
    for variant in variants:
        if variant.folder in seen:
            raise UsageError(
                f"Variants '{seen[variant.folder]}' and '{variant.name}' would share the folder "
                f"{variant.folder}; rename one."
            )
        seen[variant.folder] = variant.name
    return variants


def _variant(text: str) -> Variant:
    name, _, rest = text.partition("=")
    if not name.strip():
        raise UsageError(f"'{text}' has no name; write a variant as NAME or NAME=WORDS.")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"Variant '{text}' cannot be read ({error}); mend its quotes.") from error
    environment: dict[str, str] = {}
    while words and (match := _ENVIRONMENT.fullmatch(words[0])):
        environment[match[1]] = match[2]
        words.pop(0)
    return Variant(name.strip(), tuple(words), environment)


def folder_name(variant: str) -> str:
    """Return the name of a variant's folder: the variant, with ``-`` for what names no file.

    Examples
    --------
    >>> folder_name("offload:query,key")
    'offload-query,key'
    """
    return re.sub(r"[^\w.,+=-]+", "-", variant).lstrip(".-") or ALONE
