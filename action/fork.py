"""Comment with a report that a run without rights has made, as for a pull request from a fork.

The code of the pull request has made it, so that it is a stranger's text: read out of the archive
without unpacking that, limited in size, and made inert. Which pull request it belongs to follows
from what GitHub says was built.
"""

import os
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

from body import inert
from comment import post
from github import Failed, call, patiently
from workflow import annotate

__all__ = ["pull_request", "report"]

_LARGEST_ARCHIVE_BYTES = 50_000_000
_LARGEST_REPORT_BYTES = 1_000_000
_CAUTION = "> [!NOTE]\n> The code of this pull request made this report, and answers for it."
_NONE = "**No report was made.** The run left none that can be read; its log says more."


def main() -> None:
    """Comment on the pull request whose head was built."""
    try:
        number = patiently(pull_request)
    except (AttributeError, KeyError, TypeError):
        annotate("error", "GitHub answers with something else than pull requests.")
        raise SystemExit(2) from None
    except Failed as failed:
        annotate("error", str(failed))
        raise SystemExit(2) from None
    if number is None:
        annotate("warning", "No open pull request has this head any more; nothing was posted.")
        return
    text = report(os.environ["ARTIFACT"])
    post(number, f"{_CAUTION}\n\n{inert(text)}" if text else _NONE)


def pull_request() -> str | None:
    """Return the number of the open pull request of a branch (of a fork) and a commit."""
    label, commit = os.environ["HEAD"], os.environ["HEAD_SHA"]
    found = call("GET", f"pulls?state=open&head={quote(label, safe='')}&per_page=100")
    heads = {str(p["number"]): (p["head"]["label"], p["head"]["sha"]) for p in found}
    return next((number for number, head in heads.items() if head == (label, commit)), None)


def report(folder: str) -> str:
    """Return the report in the archive that a folder holds; nothing if there is no such thing."""
    archives = [*Path(folder).iterdir()] if folder and Path(folder).is_dir() else []
    if len(archives) != 1 or archives[0].stat().st_size > _LARGEST_ARCHIVE_BYTES:
        return ""
    try:
        with ZipFile(archives[0]) as archive, archive.open("report.md") as file:
            read = file.read(_LARGEST_REPORT_BYTES + 1)
    except Exception:  # whatever is wrong with a stranger's archive
        return ""
    return read.decode(errors="replace") if len(read) <= _LARGEST_REPORT_BYTES else ""


if __name__ == "__main__":
    main()
