"""A small server that speaks the calls of GitHub which the comment takes."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
TOKEN = "ghs_planted0123456789"


@dataclass
class GitHub:
    """Comments and pull requests of one repository, and what is answered out of turn."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    lost: int = 0  # answers to calls that were done all the same
    writer: str = BOT
    calls: list[str] = field(default_factory=list)

    def refuse(self, status: int, said: str = "", **headers: str) -> None:
        """Answer a further call so, and do nothing."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.refusals.append((status, named, said))

    def say(self, body: str, author: str = BOT) -> dict[str, Any]:
        """Add a comment."""
        number = len(self.comments) + 1
        address = f"https://github.test/7#{number}"
        said = {"id": number, "body": body, "user": {"login": author}, "html_url": address}
        self.comments.append(said)
        return said

    def answer(self, method: str, path: str, content: Any) -> tuple[int, Any]:
        """Answer a call."""
        place = urlsplit(path)
        asked = {key: values[0] for key, values in parse_qs(place.query).items()}
        if method == "GET" and place.path == "/repos/o/r/pulls":
            assert asked["state"] == "open"
            return 200, [p for p in self.pulls if p["head"]["label"] == asked["head"]]
        if method == "GET" and place.path == "/repos/o/r/issues/7/comments":
            size, page = int(asked["per_page"]), int(asked["page"])
            return 200, self.comments[size * (page - 1) : size * page]
        if method == "POST" and place.path == "/repos/o/r/issues/7/comments":
            return 201, self.say(content["body"], self.writer)
        match = re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", place.path)
        if method == "PATCH" and match:
            said = self.comments[int(match[1]) - 1]
            said["body"] = content["body"]
            return 200, said
        return 404, {"message": "Not Found"}


@contextmanager
def github() -> Iterator[GitHub]:
    """Serve a repository ``o/r`` whose pull request is number 7."""
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(length)) if length else None
            state.calls.append(f"{self.command} {self.path}")
            headers: dict[str, str] = {}
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, body = 401, b"{}"
            elif state.refusals:
                status, headers, said = state.refusals.pop(0)
                body = said.encode()
            else:
                status, answer = state.answer(self.command, self.path, content)
                body = json.dumps(answer).encode()
            if self.command == "POST" and state.lost:
                state.lost -= 1
                status, body = 502, b"<html>Bad gateway</html>"
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _serve

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
