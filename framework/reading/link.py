"""Link: one blocking socket under `wire.Connection`. The one file outside `net/` that may use `socket`.

A request costs a write and the reads of its answer; several may be under way, and are answered in any order. What ends
a link: its bytes are not RocketMQ remoting, an answer did not come in time, the peer closed. A link that has ended is
thrown away; connecting again is its owner's affair. It knows no request.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError, RequestTimedOut
from framework.net.address import Address, AllowList
from framework.net.real_clock import RealClock
from framework.net.tls import SILENT_CLOSE_HINT, handshake_trouble, said
from framework.wire.codes import request_name
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits

CONNECT_SECONDS = 3.0  # as the Java client
RECEIVE_BYTES = 512 * 1024  # twice the answer that a pull asks for
# A broker of ours puts its 1,024 messages into one answer, which with large bodies exceeds a stock broker's.
LIMITS = Limits(frame_bytes_max=64 * 1024 * 1024)

Sign = Callable[[RemotingCommand], None]

_monotonic = RealClock.monotonic


class Link:
    """Not to be shared between threads, and never pickled."""

    def __init__(
        self,
        address: Address,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
        sign: Sign | None = None,
        allow: AllowList | None = None,
    ) -> None:
        self.peer = str(address)
        self._wire: Connection[int] = Connection(LIMITS)
        self._answers: dict[int, RemotingCommand] = {}
        """Answers that came while another one was waited for."""
        self._sign = sign
        self._socket = _connected(address, context, server_name, allow)
        self._has_heard = False
        self.is_open = True

    def request(self, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        """The answer, whatever its code. ConnectionLost, RequestTimedOut or ProtocolError, and the link has ended."""
        return self.answer(self.ask(command, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def ask(self, command: RemotingCommand, *, timeout_ms: int) -> tuple[int, int]:
        """Send a request, to be answered later: its number and code are what `answer` wants."""
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: the connection has ended")
        if self._sign is not None:
            self._sign(command)
        data = self._wire.request(command, command.code)
        try:
            self._socket.settimeout(timeout_ms / 1000)
            self._socket.sendall(data)
        except TimeoutError:
            self.close()
            raise RequestTimedOut(
                f"{request_name(command.code)}: {self.peer} took in no bytes for {timeout_ms} ms"
            ) from None
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.peer}: {said(error)}") from error
        return command.number, command.code

    def answer(self, asked: tuple[int, int], *, timeout_ms: int) -> RemotingCommand:
        """The answer to what was asked."""
        number, code = asked
        until = _monotonic() + timeout_ms / 1000
        while number not in self._answers:
            if not self.is_open:
                raise ConnectionLost(f"{self.peer}: the connection has ended")
            self._receive(until, code, timeout_ms)
        return self._answers.pop(number)

    def _receive(self, until: float, code: int, timeout_ms: int) -> None:
        left = until - _monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            # An answer that comes later would only be in the way of the next ones.
            self.close()
            raise RequestTimedOut(f"{request_name(code)}: no answer from {self.peer} within {timeout_ms} ms") from None
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.peer}: {said(error)}") from error
        if not data:
            self.close()
            raise ConnectionLost(f"{self.peer}: closed by the peer{'' if self._has_heard else SILENT_CLOSE_HINT}")
        self._has_heard = True
        try:
            commands = self._wire.receive_data(data)
        except ProtocolError as error:
            self.close()
            raise ProtocolError(error.reason, peer=self.peer) from error
        for token, command in commands:
            if token is not None:  # what a broker asks of its clients is not for a reader
                self._answers[command.number] = command

    def is_quiet(self) -> bool:
        """Whether it may be kept for later: no answer is under way, and the peer has not closed. Waits for nothing."""
        if self.is_open and not self._wire.waiting and not self._wire.is_mid_frame:
            try:
                self._socket.settimeout(0)
                data = self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                return True
            except OSError:
                return False
            with suppress(ProtocolError):
                self._wire.receive_data(data)  # what a broker asks of its clients is not for a reader
                return bool(data) and not self._wire.is_mid_frame
        return False

    def forget(self, asked: tuple[int, int]) -> None:
        """The answer is not wanted any more; it is dropped when it comes."""
        self._wire.forget(asked[0])
        self._answers.pop(asked[0], None)

    def close(self) -> None:
        """Nothing is asked or answered from here on."""
        self.is_open = False
        self._wire.close()
        self._answers.clear()
        self._socket.close()


def _connected(
    address: Address, context: ssl.SSLContext | None, server_name: str, allow: AllowList | None
) -> socket.socket:
    if allow is not None and allow.refuses(address.host):
        raise BrokerUnreachable(f"{address}: {allow.reason(address.host)}")
    try:
        plain = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise BrokerUnreachable(f"{address}: no connection within {CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise BrokerUnreachable(f"{address}: {said(error)}") from error
    try:
        # Of a name, only its address can be held against the list, and only now it is known.
        if allow is not None and allow.refuses_peer(plain.getpeername()[0]):
            raise BrokerUnreachable(f"{address}: {allow.reason(plain.getpeername()[0])}")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return plain
        return context.wrap_socket(plain, server_hostname=server_name or address.host)
    except OSError as error:  # ssl.SSLError is one
        plain.close()
        name = server_name or address.host
        raise BrokerUnreachable(f"{address}: {handshake_trouble(error, name) or said(error)}") from error
    except BaseException:
        plain.close()
        raise
