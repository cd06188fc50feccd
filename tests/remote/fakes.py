"""A service that answers as it is told, for what the real one cannot be brought to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "s3cret-token"
POLICY = {"work_dir": "/workspace", "execute_timeout": 300, "max_read_bytes": 2**23, "runtimes": []}

Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One connection; what it is asked for is answered by the next reply that is left for the path."""

    protocol_version = "HTTP/1.1"
    server: FakeService

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.note(self)
        self.server.reply_to(self.path)(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_CONNECT = answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class FakeService(ThreadingHTTPServer):
    """A service on a port of its own.

    Attributes:
        asked: method and path of each request.
        tokens: what each was shown as a token.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self._replies: dict[str, list[Reply]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def note(self, handler: Handler) -> None:
        self.asked.append(f"{handler.command} {handler.path}")
        self.tokens.append(handler.headers.get("X-Sandbox-Token"))

    def leave(self, path: str, *replies: Reply) -> None:
        """Have *replies* given to the next requests whose path ends with *path*."""
        self._replies.setdefault(path, []).extend(replies)

    def count(self, path: str) -> int:
        """Return how many requests there have been whose path ends with *path*."""
        return sum(each.endswith(path) for each in self.asked)

    def reply_to(self, path: str) -> Reply:
        for end, left in self._replies.items():
            if path.endswith(end) and left:
                return left.pop(0)
        return self._usual(path)

    def _usual(self, path: str) -> Reply:
        if path.endswith("/policy"):
            return says(POLICY)
        if path.endswith("/sessions"):
            return says({"session": {"session_id": "one", "alive": True}, "token": "of the session"})
        if path.endswith("/one"):
            return says({"session_id": "one", "alive": True})
        return says({"output": "+ /workspace\n", "exit_code": 0, "truncated": False})

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that the client dropped."""


@contextmanager
def faking() -> Iterator[FakeService]:
    """Serve until the block ends."""
    service = FakeService()
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


def says(answer: Any, status: int = 200) -> Reply:
    """Answer with JSON."""
    return gives(json.dumps(answer).encode(), "application/json", status)


def gives(body: bytes, kind: str, status: int = 200, *, announced: int | None = None, **headers: str) -> Reply:
    """Answer with a body, whose length is told as *announced*."""

    def reply(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body) if announced is None else announced))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        if announced is not None:
            handler.close_connection = True

    return reply


def drops(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.close_connection = True


def never(handler: Handler) -> None:
    """Say nothing until the client has gone."""
    handler.close_connection = True
    handler.connection.recv(1)
