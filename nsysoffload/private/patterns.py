"""What looks private in any text, whoever wrote it: paths, addresses, tokens and the like.

Names of kernels and JAX's paths of operations look like none of these: ``jit(f)/while/body/add``
has slashes and does not begin with one.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

__all__ = ["Span", "looks_private"]

Span = tuple[int, int, str]
"""Where a private part begins and ends in a text, and of what kind it is."""

_PART = r"[^\s/\\,;:'\"#<>()|*?\[\]{}]"  # of a path
_BEFORE = r"(?<![\w)\]}>.*~/\\-])"  # a path begins a word: jit(f)/add goes on with one
_SOURCES = "py|pyi|ipynb|cu|cuh|cc|cpp|cxx|hpp|rs|sh|yaml|yml|json|toml|log|safetensors|ckpt"
_PREFIXED = (
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{16,}",
    r"hf_[A-Za-z0-9]{16,}",
    r"sk-[\w-]{16,}",
    r"nvapi-[\w-]{16,}",
    r"npm_[A-Za-z0-9]{16,}",
    r"pypi-[\w-]{16,}",
    r"dckr_pat_[\w-]{16,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}",
    r"AIza[\w-]{20,}",
    r"xox[a-z]-[\w-]{8,}",
    r"eyJ[\w-]{8,}(?:\.[\w-]+)*",
    r"(?i:bearer)\s+[\w.~+/-]{8,}=*",
    r"-----BEGIN [A-Z ]+-----",
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
)
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_FIRST_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|[3-9])"  # less is a version: 0.12.0.1
_GROUP = r"[0-9A-Fa-f]{1,4}"  # of an address of IPv6, or a byte of one of a network card
_LOCAL = r"(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})"
_SECRET = r"(?:token|secret|credentials?|(?:api|access|private|account|secret|auth|ssh)[_-]?key)"
_PASSWORD = r"(?:password|passwd|passphrase)"

# In this order: what begins at one place is of the first kind that fits.
_KINDS = {
    "url": r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s'\"<>]+",
    "secret": (
        rf"(?i:(?:{_SECRET}\s?=|{_PASSWORD}\s?[=:](?!:))\s?['\"]?[^\s'\",;&]+)"
        r"|(?<=[A-Z0-9])_KEY=\S+"
    ),
    "token": rf"(?<![A-Za-z0-9])(?:{'|'.join(_PREFIXED)})",
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]+\.)+[A-Za-z]{2,}\b",
    "path": (
        rf"{_BEFORE}(?:[A-Za-z]:\\|~[/\\]|\\\\){_PART}+(?:[/\\]{_PART}*)*"
        rf"|{_BEFORE}(?:[A-Za-z]:|~)?[/\\](?:{_PART}+[/\\])+{_PART}*"
    ),
    "file": rf"{_BEFORE}(?:[\w.-]+[/\\]){{1,40}}[\w.-]+\.(?:{_SOURCES})\b",
    "address": (
        rf"(?<![\w.]){_FIRST_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}(?![\w.]\d|\w)"
        rf"|(?<![\w:])(?:{_GROUP}:){{5,7}}{_GROUP}(?![\w:])"
        rf"|(?<![\w:]){_LOCAL}::?(?:{_GROUP}::?){{0,6}}{_GROUP}(?![\w:])"
    ),
    "word": r"(?<![A-Za-z0-9])[A-Za-z0-9]{20,}(?![A-Za-z0-9])",
}
# One of these stands, in small letters, in each text with such a part: most names of kernels have
# none, and are searched for the few kinds that remain.
_SIGNS = {
    "url": ("://",),
    "secret": ("token", "secret", "credential", "key", "passw", "passphrase"),
    "email": ("@",),
    "path": ("/", "\\"),
    "file": ("/", "\\"),
    "address": (".", ":"),
}
_NUMBER = re.compile(r"[\d.,+eE()\[\]x-]{0,12}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_SHORTEST_SECRET = 6  # characters; shorter values are sizes and modes
_MIN_CHANGES = 0.42  # of kind from letter to letter; names that are written in words change less


def looks_private(text: str) -> Iterator[Span]:
    """Yield the parts of a text that look private, in order.

    Examples
    --------
    >>> list(looks_private("open /home/me/x.bin"))
    [(5, 19, 'path')]
    >>> list(looks_private("jit(train_step)/transpose(jvp(layers))/while/body/dot_general"))
    []
    """
    small = text.casefold()
    kinds = tuple(kind for kind in _KINDS if any(sign in small for sign in _SIGNS.get(kind, ("",))))
    pattern, at = _any_of(kinds), 0
    while match := pattern.search(text, at):
        kind, found = str(match.lastgroup), match[0]
        if _is_private(kind, found, text):
            yield match.start(), match.end(), "token" if kind == "word" else kind
            at = match.end()
        else:
            at = match.start() + 1 if kind != "word" else match.end()


@cache
def _any_of(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{_KINDS[kind]})" for kind in kinds))


def _is_private(kind: str, found: str, text: str) -> bool:
    if kind == "word":
        return _is_random(found) and not text.startswith("_Z")  # a mangled name of C++
    if kind == "secret":
        value = found[max(found.find("="), found.find(":")) + 1 :].lstrip(" '\"")
        return len(value) >= _SHORTEST_SECRET and not _NUMBER.fullmatch(value)
    return True


def _is_random(word: str) -> bool:
    """Tell a word that was drawn from one that was written."""
    digits = sum(letter.isdigit() for letter in word)
    if _HEX.fullmatch(word):
        return 6 <= digits <= len(word) - 6
    kinds = [0 if letter.isdigit() else 1 if letter.islower() else 2 for letter in word]
    changes = sum(a != b for a, b in pairwise(kinds))
    return digits >= 2 and len({*kinds}) == 3 and changes >= _MIN_CHANGES * (len(word) - 1)
