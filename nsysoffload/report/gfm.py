"""GitHub-flavoured Markdown: names, sentences, and lists that can be cut.

Names from a trace are code spans, in which GitHub looks for no markup, mention or reference.
Sentences may hold names too, so that their markup is escaped, and what GitHub would link or notify
people about is split by a space without width.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nsysoffload.report.format import UNKNOWN, count, plain, shorten

__all__ = ["LIMIT", "Block", "code", "fitted", "length", "prose", "table"]

LIMIT = 65_000
"""Characters of a comment: GitHub's 65,536, less room for a few words around a report."""

_MARKUP = re.compile(r"[\\`*_{}\[\]<>~$&]")
_LINKED = re.compile(r"@|#|:(?=//)|w(?=ww\.)|G(?=H-)", re.IGNORECASE)
_ITEM = re.compile(r"^(\d*)([-+.)])(?= |$)")  # what would begin a list
_SPLIT = "&#8203;"


@dataclass(frozen=True)
class Block:
    """Lines that may be cut at the end, between a head and a foot that stay.

    Under a ``summary`` they are folded.
    """

    head: Sequence[str]
    lines: Sequence[str]
    foot: Sequence[str] = ()
    note: str = ""
    summary: str = ""

    def text(self, rows: int) -> str:
        """Join at most so many lines and say how many are missing; nothing if there are none."""
        if not self.lines:
            return ""
        missing = len(self.lines) - rows
        cut = f"{count(missing)} more are left out here." if missing > 0 else ""
        notes = " ".join(filter(None, [self.note, cut]))
        end = ["", f"*{notes}*"] if notes else []
        text = "\n".join([*self.head, *self.lines[:rows], *self.foot, *end])
        if not self.summary:
            return text
        return f"<details><summary>{self.summary}</summary>\n\n{text}\n\n</details>"


def fitted(blocks: Sequence[str | Block], limit: int) -> str:
    """Join blocks to a text of at most so many characters; long lists lose rows and say how many.

    What is no list stays: where that alone is too long, the text is too.

    Parameters
    ----------
    blocks : sequence of str or Block
        From top to bottom; empty ones are passed over.
    limit : int
        Most characters.

    Returns
    -------
    str
        The text, ending in a newline.
    """
    longest = max((len(block.lines) for block in blocks if isinstance(block, Block)), default=0)
    text = _join(blocks, longest)
    if length(text) <= limit:
        return text
    fitting = bisect_right(range(longest), limit, key=lambda rows: length(_join(blocks, rows)))
    return _join(blocks, max(fitting - 1, 0))


def length(text: str) -> int:
    """Count characters as UTF-16 does, in which one beyond the first plane counts twice.

    Examples
    --------
    >>> length("µ"), length("🚀")
    (1, 2)
    """
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _join(blocks: Sequence[str | Block], rows: int) -> str:
    """Text of all blocks, with at most so many rows of each list."""
    texts = (block if isinstance(block, str) else block.text(rows) for block in blocks)
    return "\n\n".join(text for text in texts if text) + "\n"


def table(
    title: str,
    names: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    foot: Iterable[Sequence[str]] = (),
    note: str = "",
    *,
    folded: bool = False,
) -> Block:
    """Tabulate rows of finished cells.

    Parameters
    ----------
    title : str
        Heading above the table; none if empty.
    names, numbers : sequence of str
        Heads of the columns aligned left, then of those aligned right.
    rows, foot : iterable of sequence of str
        Cells of the rows that may be cut, then of those that stay below them.
    note : str
        Remark below the table.
    folded : bool
        Whether only the title is seen at first.

    Returns
    -------
    Block
        The table.
    """
    rule = "|".join(["", *[":--"] * len(names), *["--:"] * len(numbers), ""])
    head = [f"### {title}", ""] if title and not folded else []
    head += [_row([*names, *numbers]), rule]
    return Block(head, [*map(_row, rows)], [*map(_row, foot)], note, title * folded)


def code(text: str, width: int = 72) -> str:
    """Name as a code span of at most so many characters of its text.

    Examples
    --------
    >>> code("a`b"), code("")
    ('`` a`b ``', '–')
    """
    text = shorten(plain(text), width)
    if not text:
        return UNKNOWN
    ticks = max(map(len, re.findall("`+", text)), default=0)
    fence, space = "`" * (ticks + 1), " " if ticks else ""
    return f"{fence}{space}{text}{space}{fence}"


def prose(text: str, width: int = 600) -> str:
    r"""Sentence without markup, mentions, references or links.

    Examples
    --------
    >>> print(prose("ask @octocat in #123 about a*b"))
    ask @&#8203;octocat in #&#8203;123 about a\*b
    """
    escaped = _MARKUP.sub(r"\\\g<0>", shorten(plain(text), width))
    escaped = _ITEM.sub(r"\1\\\2", escaped)
    return _LINKED.sub(rf"\g<0>{_SPLIT}", escaped)


def _row(cells: Sequence[str]) -> str:
    """Join cells; a pipe inside one is escaped, also in code spans, as tables want it."""
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
