"""The text of a comment: cut so that it fits, and inert where a stranger has written it."""

import re
from collections.abc import Iterator

__all__ = ["LIMIT", "composed", "inert", "prose"]

LIMIT = 65_536
"""Characters that GitHub takes for a comment."""

_CUT = "\n\n*The rest is in the artifact.*"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r"\|:?-")

_APART = "\u200b"  # a space without width, which is the same inside and outside of code
_HEADING = re.compile(r"#{1,6} ")
_SUMMARY = re.compile(r"<details><summary>(.*)</summary>")
# What would call, refer, link, load, draw or be HTML. An entity could stand for any of it, and a
# slash that begins a line commands some bots.
_LIVE = re.compile(
    r"@|#|<(?!br>)|&(?!#8203;)|!(?=\[)|\](?=[(\[:])|:(?=//)|w(?=ww\.)|G(?=H-)"
    r"|(?:`{3,}|~{3,})(?!(?:sh)?$)|^\s*/(?=\w)",
    re.IGNORECASE,
)


def composed(first: str, text: str, last: str) -> str:
    """Put a text between two lines, cut so that the whole fits a comment."""
    room = LIMIT - _length(first) - _length(last) - 3
    return f"{first}\n{_fitted(text.strip(), room)}\n\n{last}"


def prose(sentence: str) -> str:
    """Return a sentence as plain text: all its markup is shown."""
    line = " ".join(sentence.split())
    return inert(re.sub(r"[\\`*_\[\]{}|~]", r"\\\g<0>", line))


# --- What a stranger has written ---


def inert(text: str) -> str:
    """Return Markdown that calls nobody, links nowhere, loads nothing and has no HTML of its own.

    What folds a section stays, as reports write it. What is not a report may only look odd.
    """
    return "\n".join(_inert(line) for line in text.split("\n"))


def _inert(line: str) -> str:
    # Formulas are drawn, and what would take that away from a dollar depends on what is around it.
    line = "".join(c for c in line if c.isprintable()).replace("$", "\uff04")
    if line in ("</details>", ""):
        return line
    if folded := _SUMMARY.fullmatch(line):
        return f"<details><summary>{_apart(folded[1])}</summary>"
    heading = _HEADING.match(line)
    begin = heading.end() if heading else 0
    return line[:begin] + _apart(line[begin:])


def _apart(text: str) -> str:
    return _LIVE.sub(rf"\g<0>{_APART}", text)


# --- What fits ---


def _fitted(text: str, limit: int) -> str:
    """Cut at the end of a line; what is open there is closed."""
    lines = text.split("\n")
    ends = [*_ends(lines)]
    kept, length, closing = ends[-1]
    if length <= limit:
        return text + closing
    fitting = (end for end in reversed(ends) if end[1] + len(_CUT) <= limit)
    kept, _, closing = next(fitting, (0, 0, ""))
    return "\n".join(lines[:kept]) + closing + _CUT


def _ends(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where a text can end: after how many lines, at what length, and what to close there."""
    length, fence, folded = -1, "", 0
    for number, line in enumerate(lines, 1):
        length += _length(line) + 1
        fence = _fence_after(fence, line)
        if not fence:
            folded = max(0, folded + line.startswith("<details>") - line.startswith("</details>"))
        closing = (f"\n{fence}" if fence else "") + "\n\n</details>" * folded
        if number == len(lines) or not _RULE.match(lines[number]):  # a table's head is whole
            yield number, length + len(closing), closing


def _fence_after(fence: str, line: str) -> str:
    """Return the fence of the code that is open after a line, if one was before it."""
    found = _FENCE.match(line)
    if not found:
        return fence
    closes = fence and found[1].startswith(fence) and line.strip() == found[1]
    return "" if closes else fence or found[1]


def _length(text: str) -> int:
    """Count characters as UTF-16 does, in which one beyond the first plane counts twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
