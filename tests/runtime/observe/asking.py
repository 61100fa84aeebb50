"""A listener's pages, read as a scraper or the kubelet reads them."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
SECONDS = 30.0


class Page(NamedTuple):
    status: int
    body: str
    kind: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def run(story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        async with asyncio.timeout(60):
            return await story()

    return asyncio.run(main())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read(port: int, path: str, **headers: str) -> Page:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return Page(answer.status, answer.read().decode(), answer.getheader("content-type", ""))
    finally:
        connection.close()


async def page(port: int, path: str, **headers: str) -> Page:
    return await asyncio.to_thread(read, port, path, **headers)


def series(text: str) -> dict[str, float]:
    """Name and labels -> value, without exemplars."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.partition(" # ")[0].rpartition(" ")
            assert name not in found, f"{name} stands there twice"
            found[name] = float(value)
    return found
