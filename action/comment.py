"""Keep one comment on a pull request: made once, then updated, never a second.

The comment begins with a mark that no reader sees. One is ours if it begins with that and is by the
account that writes here; a quoted mark, or one that somebody else has put there, is not.
"""

import itertools
import os
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from body import composed, prose
from github import Failed, Refused, call, patiently
from workflow import annotate, output

__all__ = ["mark", "post"]

_PAGE = 100


def main() -> None:
    """Comment with the message that the analysis left."""
    number = os.environ["PULL_REQUEST"].strip()
    if not re.fullmatch("[0-9]+", number):
        annotate("error", "'pull-request' is not the number of a pull request; correct it.")
        raise SystemExit(2)
    post(number, Path(os.environ["MESSAGE"]).read_text(encoding="utf-8"))


def post(number: str, text: str) -> None:
    """Make or update the comment of a pull request; without the right to it a warning says so.

    Raises
    ------
    SystemExit
        With 2, if it does not work for another reason.
    """
    content = composed(mark(), text, _foot())
    try:
        output(url=_posted(number, content))
    except Refused as refused:
        annotate(
            "warning",
            f"{refused} The token may not comment here, as in pull requests from forks; the report"
            " is in the job summary and in the artifact.",
        )
    except Failed as failed:
        annotate("error", str(failed))
        raise SystemExit(2) from None


def mark() -> str:
    """Return the first line, by which the comment is found again."""
    key = re.sub(r"[^\w. -]", "", os.environ["TITLE"])[:80]
    return f"<!-- nsysoffload: {key} -->"


def _posted(number: str, text: str) -> str:
    """Write the comment and return its address."""
    try:
        made = patiently(lambda: _written(number, text))
        author, address = made["user"]["login"], str(made["html_url"])
    except (AttributeError, KeyError, TypeError):
        raise Failed("GitHub answers with something else than comments.") from None
    if author != os.environ["AUTHOR"]:
        annotate(
            "warning",
            f"The token writes as {author}; set 'comment-author' to that, or each run leaves one"
            " comment more.",
        )
    return address


def _written(number: str, text: str) -> Any:
    """Update our comment, or make it.

    A call that seems to fail may have made it all the same, so that what is tried again begins with
    looking for it.
    """
    ours = next((c for c in _comments(number) if _is_ours(c)), None)
    if ours:
        return call("PATCH", f"issues/comments/{ours['id']}", {"body": text})
    return call("POST", f"issues/{number}/comments", {"body": text})


def _comments(number: str) -> Iterator[dict[str, Any]]:
    """Yield all comments, oldest first, page by page."""
    for page in itertools.count(1):
        found = call("GET", f"issues/{number}/comments?per_page={_PAGE}&page={page}")
        yield from found
        if len(found) < _PAGE:
            return


def _is_ours(comment: dict[str, Any]) -> bool:
    author = (comment.get("user") or {}).get("login")
    return author == os.environ["AUTHOR"] and (comment.get("body") or "").startswith(mark())


def _foot() -> str:
    """Return the last line: which report this is, of what, and where the rest is."""
    links = {"Run": os.environ.get("RUN_URL"), "Report": os.environ.get("ARTIFACT_URL")}
    shown = [f'<a href="{escape(url)}">{name}</a>' for name, url in links.items() if url]
    commit = re.sub(r"\W", "", os.environ.get("HEAD_SHA", ""))[:7]
    parts = [prose(os.environ["TITLE"]), *shown, *[f"<code>{commit}</code>"] * bool(commit)]
    return f"<sub>{' · '.join(filter(None, parts))}</sub>"


if __name__ == "__main__":
    main()
