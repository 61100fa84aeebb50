"""A broker and name server that means harm, over real sockets: it answers as it is told, and asks what nobody would.

Its frames and records are made by hand (`frames.py`), in a thread of its own. Where nothing is said, it answers as an
honest one does: routes lead to itself, heartbeats are taken, the one who asks is the group's only member.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.hostile import frames
from tests.hostile.frames import Received

ROUTE, HEARTBEAT, PULL, MEMBERS, QUERY_OFFSET, MAX_OFFSET, MIN_OFFSET = 105, 34, 11, 38, 14, 30, 31
RUNNING_INFO, RESET, STATUS, CHANGED = 307, 220, 221, 40
Answer = Callable[[Received], bytes]


def record(
    offset: int, body: bytes = b"x", *, topic: bytes = b"orders", queue: int = 0, crc: int | None = None,
    flag: int = 0, properties: bytes = b"", topic_says: int | None = None, properties_say: int | None = None,
    size_says: int | None = None,
) -> bytes:  # fmt: skip
    """A stored message of IPv4 hosts, whose fields may lie."""
    tail = bytes((len(topic) if topic_says is None else topic_says,)) + topic
    tail += struct.pack(">H", len(properties) if properties_say is None else properties_say) + properties
    checksum = zlib.crc32(body) & 0x7FFF_FFFF if crc is None else crc
    rest = struct.pack(
        ">iiiiqqiq8sq8siqi", -626843481, checksum, queue, 0, offset, offset * 100, flag, 1_700_000_000_000,
        bytes(8), 1_700_000_000_000, bytes(8), 0, 0, len(body),
    )  # fmt: skip
    size = 4 + len(rest) + len(body) + len(tail)
    return struct.pack(">i", size if size_says is None else size_says) + rest + body + tail


def pulled(asked: Received, code: int, following: int, body: bytes = b"", *, end: int = 1_000) -> bytes:
    fields = {
        "suggestWhichBrokerId": "0", "nextBeginOffset": str(following), "minOffset": "0", "maxOffset": str(end),
    }  # fmt: skip
    return frames.answer(asked.number, code, fields, body)


def offset_of(asked: Received) -> int:
    return int(asked.fields["queueOffset"])


class HostileBroker:
    """Change `answers` (request code -> bytes) at any time; what is not there is answered honestly, or held."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self.answers: dict[int, Answer] = {}
        self.asked: Counter[int] = Counter()
        self.answered: list[Received] = []
        """Answers to what this one asked."""
        self.leads_to: Callable[[], str] = lambda: self.address
        """The broker's address, as routes tell it."""
        self._topics = topics
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.requesting: list[socket.socket] = []
        """Connections on which heartbeats came: those by which brokers ask their clients."""
        self._member = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    @contextmanager
    def serving(self) -> Iterator[HostileBroker]:
        accepting = threading.Thread(target=self._accept, daemon=True)
        accepting.start()
        try:
            yield self
        finally:
            with self._server:
                self._server.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closing does not
                accepting.join()
            for connection in self._connections:
                with connection, suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def ask(self, data: bytes) -> None:
        """Send this to whoever beats."""
        self.requesting[-1].sendall(data)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = frames.Frames()
        try:
            while data := connection.recv(1 << 16):
                for received in buffer.feed(data):
                    self._take(connection, received)
        except OSError:
            return

    def _take(self, connection: socket.socket, received: Received) -> None:
        if received.is_answer:
            self.answered.append(received)
            return
        self.asked[received.code] += 1
        if received.code == HEARTBEAT:
            self._member = json.loads(received.body)["clientID"]
            self.requesting.append(connection)
        answer = self.answers.get(received.code, self._honest)(received)
        if answer:
            connection.sendall(answer)

    def _honest(self, asked: Received) -> bytes:
        body: Any = None
        fields: dict[str, str] | None = None
        code = 0
        match asked.code:
            case 105:
                if asked.fields["topic"] not in self._topics:
                    return frames.answer(asked.number, 17, remark="no such topic")
                body = {
                    "queueDatas": [{
                        "brokerName": "evil", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0,
                    }],
                    "brokerDatas": [{"cluster": "c", "brokerName": "evil", "brokerAddrs": {"0": self.leads_to()}}],
                    "filterServerTable": {},
                }  # fmt: skip
            case 38:
                body = {"consumerIdList": [self._member]}
            case 14 | 31:
                fields = {"offset": "0"}
            case 30:
                fields = {"offset": "1000"}
            case 11:
                return b""  # a long poll
        return frames.answer(asked.number, code, fields, b"" if body is None else json.dumps(body).encode())
