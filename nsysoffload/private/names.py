"""New texts for private ones: a marker for a private part, a number for a range's whole text.

What was equal stays equal and what differed still differs, so groups by name stay as they are.
"""

import re
from collections import Counter
from collections.abc import Collection

from nsysoffload.private.patterns import Span, looks_private
from nsysoffload.private.words import Words
from nsysoffload.timeline.xla import MODULE, THUNK

__all__ = ["UNREADABLE", "Names"]

UNREADABLE = "unreadable"
"""Kind of what is no text, or not what its column is for."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
_RANGE = "nvtx-{}"
_UUID = re.compile(r"(?:(?:gpu|mig)-)*(?:0x)?[0-9a-f-]{8,}|uuid-\d+", re.IGNORECASE)


class Names:
    """Finds private parts of texts and names them, each distinct one once.

    Parameters
    ----------
    words : Words
        Private words of the trace.
    taken : collection of str
        Texts of ranges that look like new ones; their numbers are passed over.

    Attributes
    ----------
    replaced : Counter
        How many distinct texts lost a part of each kind.

    Examples
    --------
    >>> names = Names(Words({"alice": "user"}))
    >>> names.part("alice::gemm(/opt/alice/a.cu)"), names.part("alice::norm")
    ('<user-1>::gemm(<path-1>)', '<user-1>::norm')
    >>> names.whole("step of alice"), names.whole("step")
    ('nvtx-1', 'step')
    """

    def __init__(self, words: Words, taken: Collection[str] = ()) -> None:
        self._words = words
        self._taken = taken
        self._parts: dict[tuple[str, str], str] = {}
        self._wholes: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()
        self.replaced: Counter[str] = Counter()

    def spans(self, text: str) -> list[Span]:
        """Return the private parts of a text, in order; all of it where it is no text."""
        if _CONTROL.search(text):
            return [(0, len(text), UNREADABLE)]
        found = sorted((*looks_private(text), *self._words.found(text)), key=_first_and_longest)
        kept: list[Span] = []
        for span in found:
            if not kept or span[0] >= kept[-1][1]:
                kept.append(span)
            elif span[1] > kept[-1][1]:  # they overlap: all of it is private
                kept[-1] = (kept[-1][0], span[1], kept[-1][2])
        return kept

    def part(self, text: str) -> str:
        """Return a text with markers for its private parts."""
        spans = self.spans(text)
        self.replaced.update({kind for _, _, kind in spans})
        for start, end, kind in reversed(spans):
            text = text[:start] + self._marker(kind, text[start:end]) + text[end:]
        return text

    def whole(self, text: str) -> str:
        """Return a range's text, or another for it if a part of it is private.

        XLA's ranges only lose that part: what they name is what the analysis goes by.
        """
        if text.startswith((THUNK, MODULE)):
            return self.part(text)
        spans = self.spans(text)
        if not spans:
            return text
        self.replaced.update({kind for _, _, kind in spans})
        if text not in self._wholes:
            self._wholes[text] = self._numbered(_RANGE)
        return self._wholes[text]

    def uuid(self, text: str) -> str:
        """Return a uuid as it is, and a name for what else stands in its place."""
        return text if _UUID.fullmatch(text) else self.alias("uuid", text)

    def alias(self, kind: str, text: str) -> str:
        """Return a name for a text that must not be told, of letters, digits and a dash."""
        self.replaced[kind] += 1
        if (kind, text) not in self._parts:
            self._parts[kind, text] = self._numbered(f"{kind}-{{}}")
        return self._parts[kind, text]

    def _marker(self, kind: str, private: str) -> str:
        if (kind, private) not in self._parts:
            self._parts[kind, private] = self._numbered(f"<{kind}-{{}}>")
        return self._parts[kind, private]

    def _numbered(self, form: str) -> str:
        self._numbers[form] += 1
        while (name := form.format(self._numbers[form])) in self._taken:
            self._numbers[form] += 1
        return name


def _first_and_longest(span: Span) -> tuple[int, int]:
    return span[0], -span[1]
