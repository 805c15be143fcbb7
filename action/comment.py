"""Keep one comment on a pull request: made once, then updated, never a second.

The comment begins with a mark that no reader sees. One is ours if it begins with that and is by the
account that writes here; a quoted mark, or one that somebody else has put there, is not.
"""

import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workflow import annotate, output

_LIMIT = 65_536  # characters that GitHub takes
_FOOT = 1_000  # of them for mark and foot
_LARGEST_BYTES = 1_000_000
_ATTEMPTS, _LONGEST_WAIT_S = 4, 30
_PAGE = 100

_TAGS = re.compile(r"<(?!/?details>|/?summary>)")
_LINKS = re.compile(r"@|#(?=\d)|!(?=\[)|\](?=[(\[])|:(?=//)|w(?=ww\.)|G(?=H-)", re.IGNORECASE)
_SPLIT = "&#8203;"


class Refused(Exception):
    """GitHub does not do what was asked; the text is for the log."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def main() -> None:
    """Make or update the comment; without the right to it a warning says so."""
    try:
        number = pull_request()
        if number is None:
            annotate("warning", "No open pull request has this head any more; nothing was posted.")
            return
        output(url=keep(number, body()))
    except Refused as refused:
        if refused.status not in (401, 403, 404):
            annotate("error", str(refused))
            raise SystemExit(1) from refused
        annotate(
            "warning",
            f"{refused} The token may not comment here, as in pull requests from forks; the report"
            " is in the job summary and in the artifact.",
        )


def pull_request() -> str | None:
    """Return the number of the pull request, of a fork by its branch and commit."""
    if "PULL_REQUEST" in os.environ:
        return os.environ["PULL_REQUEST"]
    head = urllib.parse.quote(os.environ["HEAD"], safe="")
    found = _call("GET", f"pulls?state=open&head={head}")
    numbers = [str(p["number"]) for p in found if p["head"]["sha"] == os.environ["HEAD_SHA"]]
    return numbers[0] if numbers else None


def keep(number: str, text: str) -> str:
    """Write the comment of a pull request and return its address."""
    ours = next((c for c in _comments(number) if _is_ours(c)), None)
    place = f"issues/comments/{ours['id']}" if ours else f"issues/{number}/comments"
    made = _call("PATCH" if ours else "POST", place, {"body": text})
    return str(made["html_url"])


def _comments(number: str) -> Iterator[dict[str, Any]]:
    """Yield all comments, page by page."""
    for page in range(1, 1_000):
        found = _call("GET", f"issues/{number}/comments?per_page={_PAGE}&page={page}")
        yield from found
        if len(found) < _PAGE:
            return


def _is_ours(comment: dict[str, Any]) -> bool:
    author = (comment.get("user") or {}).get("login")
    return author == os.environ["AUTHOR"] and (comment.get("body") or "").startswith(mark())


# --- What it says ---


def mark() -> str:
    """Return the first line, by which the comment is found again."""
    key = re.sub(r"[^\w. -]", "", os.environ["TITLE"])[:80]
    return f"<!-- nsysoffload: {key} -->"


def body() -> str:
    """Return the text of the comment."""
    path = Path(os.environ["MESSAGE"])
    if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
        annotate("error", "The report is not there, or too large for one; nothing was posted.")
        raise SystemExit(1)
    text = path.read_text(encoding="utf-8", errors="replace")
    if os.environ.get("UNTRUSTED") == "true":
        text = inert(text)
    return f"{mark()}\n{cut(text, _LIMIT - _FOOT)}\n\n{_foot()}"


def inert(text: str) -> str:
    """Return Markdown that calls nobody, links nowhere, loads nothing and has no HTML of its own.

    What folds sections stays. Reports have nothing else; this is for text that only claims to be.
    """
    printable = "".join(c for c in text if c.isprintable() or c == "\n")
    return _LINKS.sub(rf"\g<0>{_SPLIT}", _TAGS.sub("&lt;", printable))


def cut(text: str, limit: int) -> str:
    """Cut a text at the end of a line; what was folded open is closed."""
    if _length(text) <= limit:
        return text.rstrip()
    note = "\n\n*The rest is in the artifact.*"
    room = limit - len(note) - 200
    kept: list[str] = []
    for line in text.splitlines():
        room -= _length(line) + 1
        if room < 0:
            break
        kept.append(line)
    fence = ["```"] * (sum(line.startswith("```") for line in kept) % 2)
    opened = sum(line.count("<details>") - line.count("</details>") for line in kept)
    return "\n".join([*kept, *fence, "", *["</details>"] * opened]).rstrip() + note


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _foot() -> str:
    links = {"Run": os.environ.get("RUN_URL"), "Report": os.environ.get("ARTIFACT_URL")}
    shown = [f'<a href="{url}">{name}</a>' for name, url in links.items() if url]
    return f"<sub>{' · '.join(shown)}</sub>"


# --- REST ---


def _call(method: str, place: str, content: dict[str, str] | None = None) -> Any:
    """Call GitHub; what passes, such as an overloaded server, is tried again.

    Raises
    ------
    Refused
        If it does not work.
    """
    base = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(
        f"{base}/repos/{os.environ['GITHUB_REPOSITORY']}/{place}",
        method=method,
        data=json.dumps(content).encode() if content else None,
        headers={
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
    )
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            wait_s = _wait_s(error, attempt)
            if wait_s is None or attempt == _ATTEMPTS:
                text = f"GitHub answers {error.code} to {method} {place.partition('?')[0]}."
                raise Refused(error.code, text) from None
        except (OSError, ValueError) as error:
            wait_s = float(attempt)
            if attempt == _ATTEMPTS:
                reason = f"GitHub cannot be reached ({type(error).__name__})."
                raise Refused(0, reason) from None
        time.sleep(wait_s)
    raise AssertionError


def _wait_s(error: urllib.error.HTTPError, attempt: int) -> float | None:
    """Return how long to wait before trying again; None where that would not help."""
    after = error.headers.get("Retry-After", "")
    limited = error.code == 429 or error.headers.get("X-RateLimit-Remaining") == "0" or bool(after)
    if error.code < 500 and not limited:
        return None
    return min(float(after) if after.isdigit() else float(attempt), _LONGEST_WAIT_S)


if __name__ == "__main__":
    main()
