"""A schema registry in the test's process: Confluent's paths for subjects and versions, and who asked for what."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class SmallRegistry:
    """`subjects` is what it knows: subject -> versions, as a registry answers them."""

    def __init__(self, subjects: dict[str, list[dict[str, Any]]], login: str = "") -> None:
        self.subjects, self.login = subjects, login
        self.asked: list[str] = []
        self.url = ""

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.login and authorization != "Basic " + base64.b64encode(self.login.encode()).decode():
            return 401, {"error_code": 401}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        versions = self.subjects.get(parts[1]) if parts[0::2][:2] == ["subjects", "versions"] else None
        if versions is None:
            return 404, {"error_code": 40401}
        if len(parts) == 3:
            return 200, list(range(1, len(versions) + 1))
        number = int(parts[3])
        return 200, {"subject": parts[1], "version": number, **versions[number - 1]}


@contextmanager
def small_registry(subjects: dict[str, list[dict[str, Any]]], login: str = "") -> Iterator[SmallRegistry]:
    registry = SmallRegistry(subjects, login)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that is called
            code, found = registry.answer(self.path, self.headers.get("Authorization", ""))
            data = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing of it in the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def framed(number: int, data: bytes) -> bytes:
    """A body in Confluent's wire format."""
    return b"\x00" + number.to_bytes(4) + data
