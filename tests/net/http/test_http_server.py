"""The HTTP server over real sockets: what it answers, what it refuses, and what it lets nobody hold up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from framework.net.http.messages import HttpRefused, HttpRequest, HttpResponse, Routes, as_json, text
from framework.net.http.server import HttpLimits, HttpServer
from framework.net.real_world import real_world
from tests.patience import PATIENCE_S, soon, until

T = TypeVar("T")
LIMITS = HttpLimits(header_bytes=4096, body_bytes=1000, request_seconds=PATIENCE_S)
QUICKLY_S = 0.05


async def echo(request: HttpRequest) -> HttpResponse:
    return as_json(
        {"method": request.method, "path": request.path, "query": dict(request.query), "body": request.body.decode()}
    )


async def broken(request: HttpRequest) -> HttpResponse:
    raise ValueError("a secret of the application's")


async def shut(request: HttpRequest) -> HttpResponse:
    raise HttpRefused(403, "not for you", {"x-why": "test"})


async def given(request: HttpRequest) -> HttpResponse:
    return as_json(request.json())


ROUTES: Routes = {
    ("GET", "/echo"): echo,
    ("POST", "/echo"): echo,
    ("GET", "/broken"): broken,
    ("GET", "/shut"): shut,
    ("POST", "/json"): given,
    ("GET", "/static/*"): echo,
}


def served(
    story: Callable[[HttpServer, int], Awaitable[T]], routes: Routes = ROUTES, limits: HttpLimits = LIMITS, **how: Any
) -> T:
    async def main() -> T:
        server = HttpServer(real_world(), routes, limits=limits, **how)
        port = await server.start()
        try:
            return await soon(story(server, port), "the end of the story")
        finally:
            await server.close()

    return asyncio.run(main())


async def said(port: int, *pieces: bytes) -> bytes:
    """What comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


def asked(*pieces: bytes, limits: HttpLimits = LIMITS, **how: Any) -> bytes:
    return served(lambda _, port: said(port, *pieces), limits=limits, **how)


def get(path: str, *, host: str = "127.0.0.1", more: str = "", verb: str = "GET") -> bytes:
    return f"{verb} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode("latin-1")


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_request_comes_whole_and_its_answer_goes_back() -> None:
    answer = asked(get("/echo?a=1&b=%C3%A4&a=2"))

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"cache-control: no-store" in head
    assert b"x-content-type-options: nosniff" in head
    assert {"method": "GET", "path": "/echo", "query": {"a": "2", "b": "ä"}, "body": ""} == json.loads(body)


def test_a_body_comes_in_pieces_of_any_size() -> None:
    request = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"

    for size in (1, 7, len(request)):
        answer = asked(*(request[at : at + size] for at in range(0, len(request), size)))
        assert "hello" == json.loads(answer.partition(b"\r\n\r\n")[2])["body"]


def test_a_chunked_body_is_one_body() -> None:
    chunks = b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"

    answer = asked(get("/echo", verb="POST", more="Transfer-Encoding: chunked\r\n") + chunks)

    assert "hello" == json.loads(answer.partition(b"\r\n\r\n")[2])["body"]


def test_one_connection_carries_many_requests_and_those_sent_ahead_are_answered_in_order() -> None:
    ahead = b"".join(f"GET /echo?n={n} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for n in range(200))

    answer = asked(ahead + get("/echo?n=last"))

    numbers = [json.loads(line)["query"]["n"] for line in answer.split(b"\n") if line.startswith(b"{")]
    assert [*map(str, range(200)), "last"] == numbers
    assert 201 == answer.count(b"HTTP/1.1 200")


def test_of_requests_sent_ahead_little_is_read_while_one_is_answered() -> None:
    """Else a peer could fill the memory behind one slow page."""

    async def story(server: HttpServer, port: int) -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.set_write_buffer_limits(high=0)
        total = 0
        line = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
        try:
            async with asyncio.timeout(1.0):  # until it is not read any more
                while total < 50_000_000:
                    writer.write(line)
                    await writer.drain()
                    total += len(line)
        except TimeoutError:
            pass
        writer.transport.abort()
        return total

    async def slow(request: HttpRequest) -> HttpResponse:
        await asyncio.Event().wait()
        return text("")

    assert 50_000_000 > served(story, {("GET", "/slow"): slow})


@pytest.mark.parametrize(
    ("answer", "request_"),
    [
        (404, get("/nowhere")),
        (404, get("/static/../echo")),
        (404, get("/static/..%2fecho")),
        (404, get("/static/%2e%2e/echo")),
        (404, get("/static/a\\b")),
        (404, get("/static/a%00b")),
        (404, get("/static/a%0ab")),
        (400, get("/echo?" + "&".join(f"a{n}=1" for n in range(200)))),
        (400, get("/%ff")),
        (405, get("/echo", verb="DELETE")),
        (405, get("/json")),
        (403, get("/shut")),
        (500, get("/broken")),
        (415, get("/json", verb="POST", more="Content-Length: 2\r\nContent-Type: text/plain\r\n") + b"{}"),
        (400, get("/json", verb="POST", more="Content-Length: 1\r\nContent-Type: application/json\r\n") + b"{"),
        (413, get("/echo", verb="POST", more="Content-Length: 1001\r\n")),
        (413, get("/echo", verb="POST", more="Content-Length: 99999999999999999999\r\n")),
        (413, get("/echo", verb="POST", more="Transfer-Encoding: chunked\r\n") + b"3e9\r\n" + b"x" * 1001),
        (431, get("/echo", more="X: " + "x" * 5000 + "\r\n")),
        (431, b"GET /" + b"x" * 5000),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        (400, b"GET\r\n\r\n"),
        (400, b"\x00" * 5000),
        (400, b"GET /echo HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
        (400, b"GET /echo HTTP/1.1\r\n\r\n"),
        (505, b"GET /echo HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        (400, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"),
        (400, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        (400, get("/echo", verb="POST", more="Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") + b"0\r\n\r\n"),
        (400, get("http://127.0.0.1/echo")),
        (400, get("//evil.example/echo")),
        (421, get("/echo", host="evil.example")),
        (421, get("/echo", host="127.0.0.1.nip.io")),
        (421, get("/echo", host="192.0.2.1")),
        (421, get("/echo", host="localhost@evil.example")),
        (421, get("/echo", host="[::1")),
        (421, b"GET /echo HTTP/1.0\r\nHost:\r\n\r\n"),
        (200, b"GET /echo HTTP/1.0\r\n\r\n"),
        (200, get("/echo", host="localhost:9464")),
        (200, get("/echo", host="LocalHost")),
        (200, get("/echo", host="[::1]:80")),
        (200, get("/static/a/b.css")),
    ],
)
def test_each_request_has_its_status(answer: int, request_: bytes) -> None:
    with capture_logs():
        found = asked(request_)

    assert answer == status(found)
    assert b"secret" not in found


def test_a_page_that_raises_is_logged_and_the_peer_learns_nothing() -> None:
    with capture_logs() as lines:
        answer = asked(get("/broken"))

    assert ["HTTP request failed"] == [line["event"] for line in lines]
    assert b"this could not be answered" in answer


def test_names_that_are_given_are_welcome_and_beyond_the_loopback_every_address_is() -> None:
    """Probes and scrapers ask a pod by its address, and no page can have one for its name."""
    assert 421 == status(asked(get("/echo", host="metrics.example")))
    assert 200 == status(asked(get("/echo", host="metrics.example"), hosts=["Metrics.example"]))
    assert 200 == status(asked(get("/echo", host="10.0.0.7:9464"), host="0.0.0.0"))
    assert 421 == status(asked(get("/echo", host="evil.example"), host="0.0.0.0"))


def test_head_is_get_without_its_body() -> None:
    head, _, body = asked(get("/echo", verb="HEAD")).partition(b"\r\n\r\n")

    assert b"content-length:" in head
    assert b"" == body


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked() -> None:
    async def story(server: HttpServer, port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/echo", verb="POST", more="Expect: 100-continue\r\nContent-Length: 2\r\n"))
        first = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"hi")
        await reader.read()
        writer.close()
        return first

    assert b"HTTP/1.1 100" == served(story)[:12]


@pytest.mark.parametrize(
    "begun", [b"", b"GET /ec", b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"]
)
def test_a_request_that_does_not_end_is_cut_off(begun: bytes) -> None:
    assert asked(begun, limits=replace(LIMITS, request_seconds=QUICKLY_S)) in {b"", b"reset"}


def test_bytes_that_trickle_in_do_not_buy_time() -> None:
    """A slow-loris: a byte at a time would hold a connection for ever."""

    async def story(server: HttpServer, port: int) -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = 0
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                sent += 1
                await asyncio.sleep(0.01)
        except ConnectionError:
            return sent

    assert 3000 > served(story, limits=replace(LIMITS, request_seconds=QUICKLY_S))


def test_an_idle_connection_is_closed() -> None:
    request = get("/echo").replace(b"Connection: close\r\n", b"")

    assert asked(request, limits=replace(LIMITS, idle_seconds=QUICKLY_S)).startswith(b"HTTP/1.1 200")


def test_for_a_connection_above_the_limit_the_oldest_that_asks_nothing_is_closed() -> None:
    """Who holds connections open and says nothing keeps no probe away, and fills no log."""

    async def story(server: HttpServer, port: int) -> list[bytes]:
        found: list[bytes] = []
        held = []
        for _ in range(5):
            held.append(await asyncio.open_connection("127.0.0.1", port))
            await until(lambda: len(server) == min(len(held), 2))
        found.append(await said(port, get("/echo")))
        for reader, writer in held:
            with suppress(ConnectionError):
                found.append(await reader.read())
            writer.close()
        return found

    with capture_logs() as lines:
        answer, *rest = served(story, limits=replace(LIMITS, connections=2, request_seconds=QUICKLY_S))

    assert 200 == status(answer)
    assert {b""} >= set(rest)
    assert ["HTTP connections refused"] == [line["event"] for line in lines]


def test_connections_above_the_limit_are_closed_while_each_one_is_answered_and_later_ones_welcome_again() -> None:
    tail = Tail()

    async def story(server: HttpServer, port: int) -> tuple[bytes, bytes]:
        first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in first:
            writer.write(get("/tail"))
            await reader.readuntil(b"tick")
        refused = await said(port, get("/echo"))
        for _, writer in first:
            writer.close()
        await until(lambda: not len(server))
        return refused, await said(port, get("/echo"))

    with capture_logs() as lines:
        routes = {**ROUTES, ("GET", "/tail"): tail.page}
        refused, welcome = served(story, routes, limits=replace(LIMITS, connections=2))

    assert refused in {b"", b"reset"}
    assert 200 == status(welcome)
    assert ["HTTP connections refused"] == [line["event"] for line in lines]


def test_a_peer_that_is_gone_before_its_last_answer_is_no_error() -> None:
    """As of one that sends more than it may, and has closed when it is refused."""
    is_there, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(request: HttpRequest) -> HttpResponse:
        is_there.set()
        await may_answer.wait()
        return text("")

    async def story(server: HttpServer, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/slow"))
        await is_there.wait()
        (connection,) = server._connections
        writer.write(get("/echo"))  # while one is answered no more is read, so that its end is not seen
        await until(lambda: not connection._transport.is_reading())
        writer.close()
        await writer.wait_closed()
        may_answer.set()
        await until(lambda: not len(server))

    with capture_logs() as lines:
        served(story, {("GET", "/slow"): slow})

    assert [] == lines


class Tail:
    """A body that goes on until it is closed."""

    def __init__(self, piece: bytes = b"tick\n") -> None:
        self.piece, self.is_closed, self.sent = piece, asyncio.Event(), 0

    async def page(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"content-type": "text/event-stream"}, self.pieces())

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield self.piece
                self.sent += 1
                await asyncio.sleep(0)
        finally:
            self.is_closed.set()


def test_a_live_tail_is_sent_as_it_comes_and_let_go_when_the_peer_goes() -> None:
    async def main() -> bytes:
        tail = Tail()
        server = HttpServer(real_world(), {("GET", "/tail"): tail.page})
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(get("/tail"))
        found = await reader.readuntil(b"tick\n\r\n5\r\ntick\n")
        writer.close()
        await tail.is_closed.wait()
        await server.close()
        return found

    assert b"transfer-encoding: chunked" in asyncio.run(soon(main(), "the tail's end")).lower()


def test_a_peer_that_takes_nothing_in_is_cut_off_and_holds_little() -> None:
    async def main() -> int:
        tail = Tail(b"x" * 65536)
        limits = replace(LIMITS, unread_seconds=QUICKLY_S)
        server = HttpServer(real_world(), {("GET", "/tail"): tail.page}, limits=limits)
        _, writer = await asyncio.open_connection("127.0.0.1", await server.start(), limit=1024)
        writer.write(get("/tail"))
        await tail.is_closed.wait()
        writer.close()
        await server.close()
        return tail.sent

    assert 1000 > asyncio.run(soon(main(), "the cut"))  # what sockets hold, some megabytes


def test_closing_lets_answers_that_are_under_way_end_and_ends_those_that_do_not() -> None:
    async def main() -> tuple[bytes, bytes, int]:
        is_asked, may_go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: HttpRequest) -> HttpResponse:
            is_asked.set()
            await may_go_on.wait()
            return text("done")

        async def endless(request: HttpRequest) -> HttpResponse:
            await asyncio.Event().wait()
            return text("never")

        limits = replace(LIMITS, close_seconds=QUICKLY_S)
        server = HttpServer(real_world(), {("GET", "/slow"): slow, ("GET", "/endless"): endless}, limits=limits)
        port = await server.start()
        slowly = asyncio.ensure_future(said(port, get("/slow")))
        never = asyncio.ensure_future(said(port, get("/endless")))
        await until(lambda: len(server) == 2, "two connections")
        await is_asked.wait()
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0)
        may_go_on.set()
        await closing
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        return await slowly, await never, len(server)

    done, never, left = asyncio.run(soon(main(), "the server's end"))
    assert done.endswith(b"done")
    assert b"connection: close" in done.lower()
    assert never in {b"", b"reset"}
    assert 0 == left


def test_it_listens_on_loopback_where_nothing_else_is_said() -> None:
    sockets = Path("/proc/net/tcp")

    async def story(server: HttpServer, port: int) -> list[str]:
        rows = [line.split() for line in sockets.read_text().splitlines()[1:]]  # noqa: ASYNC240 - it is no disk's
        return [row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port]

    assert ["0100007F"] == served(story)
