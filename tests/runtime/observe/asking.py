"""A listener's pages, read as a scraper or the kubelet reads them."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any, NamedTuple

from tests.patience import PATIENCE_S


class Page(NamedTuple):
    status: int
    body: str
    kind: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def read(port: int, path: str, **headers: str) -> Page:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
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
