"""HttpConnection: one accepted connection, its requests one after the other. h11 reads and writes the bytes.

What a peer sends ahead (pipelining) waits in h11 until the answer before it is written; meanwhile nothing more is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
import structlog

from framework.net import forks
from framework.net.http.messages import (
    EVERYWHERE,
    HttpRefused,
    HttpRequest,
    HttpResponse,
    find,
    is_welcome,
    refusal,
    target,
)

if TYPE_CHECKING:
    from framework.net.http.server import HttpServer

log = structlog.get_logger()

VERSIONS = {b"1.0", b"1.1"}


class HttpConnection(asyncio.Protocol):
    """Reads until a request is whole, answers it in a task, and goes on with the next."""

    def __init__(self, server: HttpServer) -> None:
        self._server, self._limits = server, server.limits
        self._wire: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.header_bytes)
        self._head: Any = None
        self._body = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_begun = True
        """Something of the next request has come, or is to come now: a new connection asks at once."""
        self._is_finishing = self._is_over = self._is_streaming = False
        self._peer = ""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        forks.cut_off(transport)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        if self._server.admit(self):
            self._expect(self._limits.request_seconds)
        else:
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        self._expect(None)
        self._writable.set()
        if self._answering is not None:
            self._answering.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        """A peer that has said everything may still read: what is under way is answered, if it has an end."""
        self._is_finishing = True
        return self._answering is not None and not self._is_streaming

    @property
    def is_idle(self) -> bool:
        """No answer is under way, and none is still to be taken in."""
        return self._answering is None and not self._is_over

    def finish(self) -> None:
        """Answer what is under way and no more."""
        self._is_finishing = True
        if self._answering is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _expect(self, seconds: float | None) -> None:
        """The next step has to come within so many seconds."""
        if self._deadline is not None:
            self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else loop.call_later(seconds, self._transport.abort)

    # In

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._wire.receive_data(data)
        if self._answering is not None:
            self._transport.pause_reading()
            return
        if not self._is_begun:
            self._is_begun = True  # once a request, however slowly the rest comes
            self._expect(self._limits.request_seconds)
        self._read()

    def _read(self) -> None:
        """Take in what there is; with a whole request, begin to answer."""
        try:
            while True:
                event = self._wire.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > self._limits.body_bytes:
                        raise HttpRefused(413, f"a body has {self._limits.body_bytes} bytes at most")
                elif isinstance(event, h11.EndOfMessage):
                    self._answer_soon(None)
                    return
                else:  # the peer has ended
                    self._transport.close()
                    return
        except HttpRefused as error:
            self._is_finishing = True
            self._answer_soon(error)
        except h11.RemoteProtocolError as error:
            self._is_finishing = True
            self._answer_soon(HttpRefused(error.error_status_hint, "this is not a request that can be read"))

    def _begin(self, head: Any) -> None:
        """The header has come: what is wrong with it is said before its body is waited for."""
        self._head = head
        self._expect(self._limits.request_seconds)
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        server = self._server
        if head.http_version not in VERSIONS:
            raise HttpRefused(505, "this server speaks HTTP/1.1")
        if sum(len(name) + len(value) for name, value in head.headers) > self._limits.header_bytes:
            raise HttpRefused(431, f"a header has {self._limits.header_bytes} bytes at most")  # it came all at once
        if not is_welcome(headers.get("host"), server.hosts, is_loopback=server.is_loopback):
            raise HttpRefused(421, "the header Host names another server; ask by its address")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise HttpRefused(400, "a body has a length or comes in chunks, not both")  # a proxy may read the other one
        length = headers.get("content-length", "0")
        if len(length) > 12 or int(length) > self._limits.body_bytes:
            raise HttpRefused(413, f"a body has {self._limits.body_bytes} bytes at most")
        if self._wire.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))

    # Out

    def _answer_soon(self, refused: HttpRefused | None) -> None:
        self._expect(None)
        head, body, self._head, self._body = self._head, bytes(self._body), None, bytearray()
        self._answering = self._server.tree.start(self._answer(head, body, refused), name=f"http {self._peer}")

    async def _answer(self, head: Any, body: bytes, refused: HttpRefused | None) -> None:
        method = "GET" if head is None else head.method.decode("ascii")
        try:
            response = refusal(refused) if refused is not None else await self._called(head, body)
            await self._send(response, is_bare=method == "HEAD")
        except TimeoutError:
            self._transport.abort()  # it takes in nothing
            return
        except Exception:  # border: the handler's headers, or its stream, of which some is sent
            log.exception("HTTP request failed", peer=self._peer)
            self._transport.abort()
            return
        self._answering = None
        if self._is_finishing or self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            self._end()
            return
        self._wire.start_next_cycle()
        self._transport.resume_reading()
        self._is_begun = bool(self._wire.trailing_data[0])
        self._expect(self._limits.request_seconds if self._is_begun else self._limits.idle_seconds)
        self._read()

    def _end(self) -> None:
        """Closing with bytes unread would take away the answer: say that there is no more, and read on for a moment."""
        self._is_over = True
        self._transport.resume_reading()
        with suppress(OSError):  # it has gone
            self._transport.write_eof()
        self._expect(self._limits.close_seconds)

    async def _called(self, head: Any, body: bytes) -> HttpResponse:
        try:
            method = head.method.decode("ascii")
            path, query = target(head.target)
            headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
            handler = find(self._server.routes, method, path)
            return await handler(HttpRequest(method, path, query, headers, body, self._peer))
        except HttpRefused as error:
            return refusal(error)
        except Exception:  # border: the handler's; the peer learns nothing of it
            log.exception("HTTP request failed", peer=self._peer)
            return refusal(HttpRefused(500, "this could not be answered; the log says why"))

    async def _send(self, response: HttpResponse, *, is_bare: bool) -> None:
        body = response.body
        headers = {**EVERYWHERE, **{name.lower(): value for name, value in response.headers.items()}}
        if isinstance(body, bytes):
            headers["content-length"] = str(len(body))
        if self._is_finishing:
            headers["connection"] = "close"
        pairs = [*headers.items(), *(("set-cookie", each) for each in response.cookies)]
        reason = HTTPStatus(response.status).phrase
        self._write(h11.Response(status_code=response.status, headers=pairs, reason=reason))
        if is_bare:
            pass
        elif isinstance(body, bytes):
            self._write(h11.Data(data=body))
        else:
            await self._stream(body)
        self._write(h11.EndOfMessage())
        await self._taken_in()

    async def _stream(self, pieces: AsyncIterable[bytes]) -> None:
        source: Any = aiter(pieces)
        self._is_streaming = True
        try:
            async for piece in source:
                self._write(h11.Data(data=piece))
                await self._taken_in()
        finally:
            self._is_streaming = False
            if hasattr(source, "aclose"):
                await source.aclose()  # what it holds is let go when the peer goes, and not some time

    def _write(self, event: Any) -> None:
        if data := self._wire.send(event):
            self._transport.write(data)

    async def _taken_in(self) -> None:
        """Wait while too much of what was written is unread."""
        if not self._writable.is_set():
            async with asyncio.timeout(self._limits.unread_seconds):
                await self._writable.wait()
