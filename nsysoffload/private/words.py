"""Words that are private because this very file says so elsewhere: its host, its user, its keys."""

import re
from collections.abc import Iterator, Mapping

from nsysoffload.private.patterns import Span

__all__ = ["Words"]

_WORD = re.compile(r"\w+")


class Words:
    """Private texts by kind, found as whole words however many there are.

    Parameters
    ----------
    kinds : mapping of str to str
        Kind of each text.

    Examples
    --------
    >>> words = Words({"node-17": "host"})
    >>> list(words.found("run on node-17, not on node-170"))
    [(7, 14, 'host')]
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._by_word: dict[str, list[tuple[int, str, str]]] = {}
        for text, kind in sorted(kinds.items(), key=lambda item: -len(item[0])):
            first = _WORD.search(text)
            if first:
                self._by_word.setdefault(first[0], []).append((first.start(), text, kind))

    def found(self, text: str) -> Iterator[Span]:
        """Yield where private texts stand in a text, of several at one place the longest."""
        if not self._by_word:
            return
        until = 0
        for word in _WORD.finditer(text):
            for offset, private, kind in self._by_word.get(word[0], ()):
                start = word.start() - offset
                end = start + len(private)
                if start >= until and text.startswith(private, start) and _whole(text, start, end):
                    yield start, end, kind
                    until = end
                    break


def _whole(text: str, start: int, end: int) -> bool:
    """Tell whether a part is not the middle of a longer word."""
    before = start > 0 and _joined(text[start - 1], text[start])
    after = end < len(text) and _joined(text[end - 1], text[end])
    return not before and not after


def _joined(left: str, right: str) -> bool:
    return all(letter.isalnum() or letter == "_" for letter in (left, right))
