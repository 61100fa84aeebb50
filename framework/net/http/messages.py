"""Requests, responses and routes as values. They know no socket and no HTTP library."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

FIELDS_MAX = 100
"""Fields of a query."""
HOSTS = ("localhost", "127.0.0.1", "::1")
BELOW = "/*"
EVERYWHERE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""What each response has, where its handler says nothing else."""


class HttpRefused(Exception):
    """A request that is answered with this status and a line of text. Handlers may raise it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers or {}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, whole: its body has come."""

    method: str
    path: str
    """Percent signs are decoded; it begins with a slash, and has no `..` and no control characters."""
    query: Mapping[str, str]
    """Of a name that comes twice, the last."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: str = ""
    """The address that it came from."""

    def json(self) -> Any:
        """What a body of JSON says. Raises HttpRefused: 415 without that content type, 400 where it is none."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HttpRefused(415, "write the header content-type: application/json")
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise HttpRefused(400, "the body is not JSON") from None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer. Each piece of a body that is an iterator is sent as it comes, until the iterator or the peer ends."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterable[bytes] = b""
    cookies: Collection[str] = ()
    """Values of `set-cookie`, one a header."""


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Routes: TypeAlias = Mapping[tuple[str, str], Handler]
"""`("GET", "/live")`, or `("GET", "/static/*")` for whatever lies below. HEAD is answered by the handler of GET."""


def text(body: str, status: int = 200, kind: str = "text/plain; charset=utf-8") -> HttpResponse:
    return HttpResponse(status, {"content-type": kind}, body.encode("utf-8", "replace"))


def as_json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(value, default=str).encode() + b"\n")


def refusal(error: HttpRefused) -> HttpResponse:
    answer = text(f"{error.reason}\n", error.status)
    return HttpResponse(answer.status, {**answer.headers, **error.headers}, answer.body)


def find(routes: Routes, method: str, path: str) -> Handler:
    """The handler of a request. Raises HttpRefused: 404, or 405 with what the path allows."""
    wanted = "GET" if method == "HEAD" else method
    allowed: list[str] = []
    for each in (path, *_above(path)):
        if (found := routes.get((wanted, each))) is not None:
            return found
        allowed += [verb for verb, place in routes if place == each]
    if allowed:
        verbs = ", ".join(sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])}))
        raise HttpRefused(405, f"this path answers {verbs}", {"allow": verbs})
    raise HttpRefused(404, "there is nothing here")


def _above(path: str) -> list[str]:
    """`/a/b/c` -> `/a/b/*`, `/a/*`, `/*`."""
    parts = path.split("/")
    return ["/".join(parts[:count]) + BELOW for count in range(len(parts) - 1, 0, -1)]


def target(written: bytes) -> tuple[str, Mapping[str, str]]:
    """Path and query of what stands on a request's first line. Raises HttpRefused."""
    try:
        url = urlsplit(written.decode("ascii"))
        path = unquote(url.path, errors="strict")
        fields = parse_qsl(url.query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise HttpRefused(400, "the path or the query cannot be read") from None
    if not written.startswith(b"/") or written.startswith(b"//"):
        raise HttpRefused(400, "a path begins with one slash")
    if "\\" in path or ".." in path.split("/") or not path.isprintable():
        raise HttpRefused(404, "there is nothing here")
    return path, dict(fields)


def is_welcome(host: str | None, hosts: Collection[str], *, is_loopback: bool) -> bool:
    """Whether a request may name this host: else a page from elsewhere could reach us by a name of its own (rebinding).

    An address is no such name. Beyond the loopback, where probes and scrapers ask by addresses, any address is welcome.
    Load balancers name none, in HTTP/1.0; each browser does.
    """
    if host is None:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return False
    if name in HOSTS or name in hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return not is_loopback
