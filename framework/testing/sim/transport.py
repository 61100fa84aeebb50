"""SimTransport: one end of a TCP connection that exists only in memory, with asyncio's manners.

It owns the bytes under way to it and the writer's own buffer. It knows its peer's end and the network's weather, and
nothing of what the bytes say. As on a real connection:

- bytes are never lost, doubled or reordered; a cut delays them, and only the end of an endpoint loses them;
- `connection_made` comes before data, `connection_lost` once and last, nothing after it;
- reads have no message edges: chunks are split and run together;
- what the reader does not read fills a window; the rest stays with the writer, who is told to pause;
- a vanished machine says nothing; one that is back answers a dead connection's bytes with a reset.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framework.ports import PipeOwner
    from framework.testing.sim.network import SimNetwork
    from framework.testing.sim.node import Node

WINDOW_BYTES = 256 * 1024
"""What both kernels hold between a writer and a reader that does not read."""
READ_BYTES_MAX = 256 * 1024
"""As asyncio's selector transport: one read, one data_received."""
HIGH_WATER_BYTES = 64 * 1024
LOW_WATER_BYTES = 16 * 1024


class Sign(Enum):
    """What travels beside bytes."""

    OPEN = "open"
    END = "end"
    RESET = "reset"


class SimTransport(asyncio.Transport):
    """Made in pairs by SimNetwork; see the module for its manners."""

    def __init__(
        self, network: SimNetwork, node: Node, make_owner: Callable[[], PipeOwner], *, there: str, names: dict[str, Any]
    ) -> None:
        super().__init__(names)
        self.network = network
        self.loop = network.loop
        self.node = node
        self.owner: PipeOwner | None = None
        self._make_owner = make_owner
        self.here = node.host
        self.there = there
        self.trace_number = self.loop.next_number()
        self.context: contextvars.Context = node.context.copy()
        self.peer: SimTransport = self
        self._inbox: deque[tuple[float, bytes | Sign]] = deque()
        self._newest_arrival = 0.0
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._unread_bytes = 0
        """Sent and not yet read by the peer's owner."""
        self._is_made = False
        self._is_reading = True
        self._is_closing = False
        self.is_lost = False
        self._is_reset = False
        self._is_deferred = False
        """The reader is a little late, on purpose."""
        self._is_draining = False
        self._writing_paused = False
        node.endpoints[self.trace_number] = self

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "closing" if self._is_closing else "open"
        return f"<SimTransport #{self.trace_number} {self.here} to {self.there} {state}>"

    # -- what the owner may ask

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self.loop.call_soon(self._arrive, context=self.context)

    def set_protocol(self, protocol: Any) -> None:
        self.owner = protocol

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._is_closing or not data:
            return
        if self._is_reset:  # unseen while reading was paused; a write finds out
            self.loop.call_soon(self._lose, BrokenPipeError(errno.EPIPE, "Broken pipe"), context=self.context)
            self._is_closing = True
            return
        chunk = bytes(data)
        if self.network.tap is not None:
            chunk = self.network.tap(self, chunk)
            if not chunk:
                return
        if self._backlog or (self._unread_bytes and self._unread_bytes + len(chunk) > WINDOW_BYTES):
            self._backlog.append(chunk)
            self._backlog_bytes += len(chunk)
            if self._backlog_bytes > HIGH_WATER_BYTES and not self._writing_paused:
                self._writing_paused = True
                self._tell("pause_writing")
        else:
            self.send(chunk)

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._is_reading = False
        if not self._backlog:
            self.send(Sign.END)
            self.loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        self._break_off(None)

    # -- what the network and the world do to it

    def establish(self) -> None:
        """Make the owner, in its own process's step, and tell it that the connection stands."""
        self.owner = self._make_owner()
        self._is_made = True
        self.owner.connection_made(self)

    def break_off(self) -> None:
        """Something between the two ends reset the connection: both hear of it."""
        if not self.is_lost:
            self.receive(Sign.RESET, self.loop.now + self.network.delay(self.there, self.here))
        if not self.peer.is_lost:
            self.peer.receive(Sign.RESET, self.loop.now + self.network.delay(self.here, self.there))

    def owner_died(self, *, silently: bool) -> None:
        """The process is gone. What it had written before is on its way; what it had buffered itself is not."""
        self.is_lost = self._is_closing = True
        self._backlog.clear()
        if silently:
            self._withdraw()
        else:
            # The kernel closes in order, or with a reset where received bytes had not been read.
            unread = self._inbox or self.network.chance.happens(0.5)
            self.send(Sign.RESET if unread else Sign.END)

    def _withdraw(self) -> None:
        """Bytes that a cut holds up are sent again by nobody once the sender has forgotten the connection."""
        if self.network.opens_at(self.here, self.there) > self.loop.now:
            self.peer.lose_unread()

    def lose_unread(self) -> None:
        self._inbox.clear()

    # -- sending

    def send(self, item: bytes | Sign) -> None:
        size = len(item) if isinstance(item, bytes) else 0
        self._unread_bytes += size
        self.peer.receive(item, self.loop.now + self.network.delay(self.here, self.there, size))

    def receive(self, item: bytes | Sign, at: float) -> None:
        at = max(at, self._newest_arrival)
        self._newest_arrival = at
        self._inbox.append((at, item))
        self.loop.call_at(at, self._arrive, context=self._arrival_context())

    def _arrival_context(self) -> contextvars.Context:
        # A dead process's steps never run, but the machine it ran on still has to answer for its connections.
        return self.context if self.node.is_alive else self.network.context

    def was_read(self, size: int) -> None:
        self._unread_bytes -= size
        if self._backlog and not self._is_draining and not self.is_lost:
            self._is_draining = True
            delay = self.network.delay(self.there, self.here)
            self.loop.call_later(delay, self._drain, context=self._arrival_context())

    def _drain(self) -> None:
        self._is_draining = False
        while self._backlog and (not self._unread_bytes or self._unread_bytes + len(self._backlog[0]) <= WINDOW_BYTES):
            chunk = self._backlog.popleft()
            self._backlog_bytes -= len(chunk)
            self.send(chunk)
        if self._writing_paused and self._backlog_bytes <= LOW_WATER_BYTES:
            self._writing_paused = False
            self._tell("resume_writing")
        if self._is_closing and not self.is_lost and not self._backlog:
            self.send(Sign.END)
            self._lose(None)

    # -- receiving

    def _arrive(self) -> None:
        """Something may have come in: take what has, in order, unless the way is cut or nobody reads."""
        now = self.loop.now
        if not self._inbox or self._inbox[0][0] > now:
            return
        opens_at = self.network.opens_at(self.there, self.here)
        if opens_at > now:  # sent again some time after the cut has healed
            again = opens_at + self.network.chance.between(0.0, 0.4)
            self.loop.call_at(again, self._arrive, context=self._arrival_context())
        elif self.is_lost:
            self._answer_for_the_dead()
        elif not self._is_reading:
            self._notice_reset(now)
        elif isinstance(self._inbox[0][1], Sign):
            self._take_sign(self._inbox[0][1])
        else:
            self._take_bytes(now)

    def _notice_reset(self, now: float) -> None:
        """A socket that nobody watches tells nobody; a write finds out, and so does one that waits to be closed."""
        if any(at <= now and item is Sign.RESET for at, item in self._inbox):
            self._is_reset = True
            if self._is_closing:
                self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _take_bytes(self, now: float) -> None:
        network = self.network
        if not self._is_deferred and network.happens("coalesced chunks", network.weather.coalesce_rate):
            self._is_deferred = True
            self.loop.call_later(network.chance.between(0.0, 0.005), self._arrive, context=self.context)
            return
        self._is_deferred = False
        parts, size = [], 0
        while self._inbox and self._inbox[0][0] <= now and size < READ_BYTES_MAX:
            item = self._inbox[0][1]
            if not isinstance(item, bytes):
                break
            parts.append(item)
            size += len(item)
            self._inbox.popleft()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if size > 1 and network.happens("split chunks", network.weather.split_rate):
            cut = 1 + network.chance.below(size - 1)
            self._inbox.appendleft((now, data[cut:]))
            data = data[:cut]
        if self._inbox and self._inbox[0][0] <= now:
            self.loop.call_soon(self._arrive, context=self.context)
        self.peer.was_read(len(data))
        self._tell("data_received", data)

    def _take_sign(self, sign: Sign) -> None:
        self._inbox.popleft()
        match sign:
            case Sign.OPEN:
                self.establish()
            case Sign.RESET:
                self._inbox.clear()
                self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            case Sign.END:
                if not self._tell("eof_received"):
                    self.close()
        if self._inbox and not self.is_lost:
            self.loop.call_soon(self._arrive, context=self.context)

    def _answer_for_the_dead(self) -> None:
        """Bytes for an endpoint that is gone: its machine, if it is up, answers with a reset."""
        got_bytes = any(isinstance(item, bytes) for _, item in self._inbox)
        self._inbox.clear()
        if got_bytes and not self.peer.is_lost and self.network.is_up(self.here):
            self.send(Sign.RESET)

    # -- ending

    def _tell(self, event: str, *details: Any) -> Any:
        """Call the owner; an error of its own ends the connection, as in asyncio."""
        if self.is_lost:
            return None
        try:
            return getattr(self.owner, event)(*details)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # border: the loop's, as in asyncio
            self.loop.call_exception_handler({"message": f"{event} of {self.owner!r} failed", "exception": error})
            self._break_off(error if isinstance(error, Exception) else None)

    def _break_off(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self._is_closing = True
        self._is_reading = False
        self._backlog.clear()
        self._backlog_bytes = 0
        self._withdraw()
        self.send(Sign.RESET)
        self.loop.call_soon(self._lose, error, context=self.context)

    def _lose(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = self._is_closing = True
        self.node.endpoints.pop(self.trace_number, None)
        self._inbox.clear()
        if self._is_made and self.owner is not None:
            self.owner.connection_lost(error)
