"""GitHub's REST interface: one call, and trying again what passes.

`GITHUB_API_URL` and `GITHUB_REPOSITORY` say where; the token stands in `TOKEN` and is never shown.
"""

import contextlib
import json
import os
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError

__all__ = ["Failed", "Passing", "Refused", "call", "patiently"]

_TIMEOUT_S = 30
_WAITS_S = (1, 4, 15)
_LONGEST_WAIT_S = 60


class Failed(Exception):
    """GitHub does not do what was asked; the text is one sentence for the log."""


class Refused(Failed):
    """The token has no right to it."""


class Passing(Failed):
    """It may work later, after so many seconds if GitHub says when."""

    def __init__(self, text: str, wait_s: int | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would take the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)


def call(method: str, place: str, content: dict[str, str] | None = None) -> Any:
    """Call GitHub about the repository and return what it answers.

    Raises
    ------
    Failed
        If it answers with anything but success and JSON, or not at all.
    """
    what = f"{method} {place.partition('?')[0]}"
    base = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
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
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            raise _failure(error, what) from None
    except ValueError:
        raise Failed(f"GitHub's answer to {what} cannot be read.") from None
    except (OSError, HTTPException) as error:
        raise Passing(f"GitHub cannot be reached ({type(error).__name__}).") from None


def patiently(act: Callable[[], Any]) -> Any:
    """Do something, and do it anew after a while if it fails for what passes.

    Raises
    ------
    Failed
        If it does not work in the end.
    """
    for wait_s in _WAITS_S:
        try:
            return act()
        except Passing as passing:
            asked_s = wait_s if passing.wait_s is None else passing.wait_s
            time.sleep(min(asked_s, _LONGEST_WAIT_S))
    return act()


def _failure(error: HTTPError, what: str) -> Failed:
    text = f"GitHub answers {error.code} to {what}."
    after = error.headers.get("Retry-After", "")
    if error.code >= 500 or _is_limited(error, after):
        return Passing(text, int(after) if after.isdecimal() else None)
    if error.code == 401:
        return Failed(f"{text} The token is not valid; mend 'github-token'.")
    return Refused(text) if error.code in (403, 404) else Failed(text)


def _is_limited(error: HTTPError, after: str) -> bool:
    """Whether there were too many calls, which 403 may mean as well as a lack of rights."""
    if error.code != 403 or after or error.headers.get("X-RateLimit-Remaining") == "0":
        return error.code in (403, 429)
    said = b""
    with contextlib.suppress(OSError, HTTPException):
        said = error.read(10_000)
    return b"rate limit" in said.lower()
