"""What loads a broker: sends or pulls over a few connections, many under way at once, from one process.

    python -m benchmarks.load single|batch|pull ADDRESS TOPIC --seconds 3

Either side of a comparison is given the very same bytes. A frame is put together once, and only what has to differ is
written into it; of an answer the code is read, and where it goes on. So a message costs this side little, and how much
is said: what comes out is one line of JSON with the processor time it took. It knows no broker's language but JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

SEND_BATCH, SEND, PULL = 320, 310, 11
SUBSCRIPTION = 4  # the pull says itself what it wants: no heartbeat is needed
STOCK_PULL = 32
KEY = b"%032X"
WIDTH = 12  # digits of a pull's offset; leading zeros are fine with everybody

LENGTHS = struct.Struct(">II")
_SIZE = struct.Struct(">I")
CODE = re.compile(rb'"code":(\d+)')
_NUMBER = re.compile(rb'"opaque":(\d+)')
_NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)')

FOUND, OFFSET_MOVED, NOT_FOUND = 0, 21, 19


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one process did. Counted is what was answered within the window; the rest is for the accounts."""

    counted: int = 0
    total: int = 0
    refused: int = 0
    first_ns: int = 0
    last_ns: int = 0
    cpu_s: float = 0.0
    """This process's own, within the window."""


class Slot:
    """One place for a request under way, with a queue of its own."""

    def __init__(self, number: int, work: Work) -> None:
        self.number = number
        self.queue = number % work.queues
        self.offset = 0
        self._work = work
        self._frame = work.frame(self)

    def next(self) -> bytes:
        return self._frame()

    def take(self, code: int, header: bytes, body: bytes) -> int:
        """How many messages the answer is about; below 0: refused."""
        if not self._work.is_pull:
            return self._work.batch if code == 0 else -1
        if code not in (FOUND, NOT_FOUND, OFFSET_MOVED):
            return -1
        found = _NEXT.search(header)
        assert found is not None, header
        before, self.offset = self.offset, int(found[1])
        if code != FOUND:
            self.offset = 0  # at the end: from the start again
            return 0
        if before == 0 and (there := _records(body)) != self.offset:
            raise SystemExit(f"an answer up to offset {self.offset} holds {there} messages")
        return self.offset - before


class Work:
    """What is sent, byte by byte."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.topic, self.queues = options.topic, options.queues
        self.is_pull = options.what == "pull"
        self.batch = options.batch if options.what == "batch" else 1
        self._keys = options.first_key
        self._body = b"x" * options.body
        self.frame: Callable[[Slot], Callable[[], bytes]] = {
            "pull": self._pull, "batch": self._send_batch, "single": self._send,
        }[options.what]  # fmt: skip

    def _pull(self, slot: Slot) -> Callable[[], bytes]:
        fields = {
            "consumerGroup": "benchmark", "topic": self.topic, "queueId": str(slot.queue), "queueOffset": "#" * WIDTH,
            "maxMsgNums": str(STOCK_PULL), "sysFlag": str(SUBSCRIPTION), "commitOffset": "0", "subVersion": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "expressionType": "TAG",
        }  # fmt: skip
        before, after = framed(PULL, slot.number, fields).split(b"#" * WIDTH)
        return lambda: b"%b%012d%b" % (before, slot.offset, after)

    def _send(self, slot: Slot) -> Callable[[], bytes]:
        properties = "UNIQ_KEY\x01" + "#" * 32
        before, after = framed(SEND, slot.number, self._fields(slot, properties), self._body).split(b"#" * 32)

        def frame() -> bytes:
            self._keys += 1
            return b"%b%032X%b" % (before, self._keys, after)

        return frame

    def _send_batch(self, slot: Slot) -> Callable[[], bytes]:
        properties = b"UNIQ_KEY\x01" + b"%032X"
        size = 20 + len(self._body) + 2 + 9 + 32
        part = struct.pack(">iiiii", size, 0, 0, 0, len(self._body)) + self._body + struct.pack(">h", 41)
        template = (part.replace(b"%", b"%%") + properties) * self.batch
        head = framed(SEND_BATCH, slot.number, {**self._fields(slot, ""), "m": "true"}, b"\0" * (size * self.batch))
        head = head[: -size * self.batch]

        def frame() -> bytes:
            first = self._keys
            self._keys += self.batch
            body: bytes = template % tuple(range(first, self._keys))
            return head + body

        return frame

    def _fields(self, slot: Slot, properties: str) -> dict[str, str]:
        """A send's header, in the short form that clients use."""
        return send_fields(self.topic, slot.queue, properties)


class Connection(asyncio.Protocol):
    """Keeps its slots busy until it is told to stop."""

    def __init__(self, slots: list[Slot], run: Run) -> None:
        self._slots = {slot.number: slot for slot in slots}
        self._run = run
        self._buffer = b""
        self._under_way = 0
        self._transport: asyncio.Transport | None = None
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def begin(self) -> None:
        assert self._transport is not None
        self._under_way = len(self._slots)
        self._transport.write(b"".join([slot.next() for slot in self._slots.values()]))

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.idle.done():
            self.idle.set_exception(SystemExit(f"the broker closed the connection: {error}"))

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        at, size, run, going = 0, len(data), self._run, []
        while size - at >= 8:
            length, word = LENGTHS.unpack_from(data, at)
            end = at + 4 + length
            if end > size:
                break
            body_at = at + 8 + (word & 0xFF_FFFF)
            header = data[at + 8 : body_at]
            code, number = CODE.search(header), _NUMBER.search(header)
            assert code is not None, header
            assert number is not None, header
            slot = self._slots[int(number[1])]
            run.took(slot.take(int(code[1]), header, data[body_at:end]), header)
            if run.is_over:
                self._under_way -= 1
            else:
                going.append(slot.next())
            at = end
        self._buffer = data[at:]
        if going and self._transport is not None:
            self._transport.write(b"".join(going))
        if not self._under_way and not self.idle.done():
            self.idle.set_result(None)


class Run:
    """When the window opens and closes, and what was answered in it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.tally = Tally()
        self.is_over = False
        self._most = options.messages
        self._complaint = b""

    def took(self, count: int, header: bytes) -> None:
        tally = self.tally
        if count < 0:
            tally.refused += 1
            self._complaint = header
            return
        tally.total += count
        if tally.first_ns and not tally.last_ns:
            tally.counted += count
        if self._most and tally.total >= self._most and not self.is_over:
            self.close()

    def open(self) -> None:
        self.tally.first_ns, self.tally.cpu_s = time.monotonic_ns(), time.process_time()

    def close(self) -> None:
        self.is_over = True
        self.tally.last_ns = time.monotonic_ns()
        self.tally.cpu_s = time.process_time() - self.tally.cpu_s

    def say(self) -> None:
        if self._complaint:
            print(f"refused {self.tally.refused} times: {self._complaint.decode()}", file=sys.stderr)
        print(json.dumps(asdict(self.tally)))


async def load(options: argparse.Namespace) -> None:
    """Warm up, measure, let what is under way end."""
    work, run, loop = Work(options), Run(options), asyncio.get_running_loop()
    host, _, port = options.address.rpartition(":")
    connections = []
    for at in range(options.connections):
        slots = [Slot(at * options.depth + each + 1, work) for each in range(options.depth)]
        _, connection = await loop.create_connection(lambda slots=slots: Connection(slots, run), host, int(port))  # type: ignore[misc]
        connections.append(connection)
    if options.messages:
        run.open()
    else:
        loop.call_later(options.warm_up, run.open)
        loop.call_later(options.warm_up + options.seconds, run.close)
    for connection in connections:
        connection.begin()
    for connection in connections:
        await connection.idle
        connection.close()
    await asyncio.sleep(0)  # for the transports to be closed
    run.say()


def send_fields(topic: str, queue: int, properties: str) -> dict[str, str]:
    """A send's header, in the short form that clients use."""
    return {
        "a": "benchmark", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def framed(code: int, number: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    header = json.dumps(
        {"code": code, "language": "JAVA", "version": 495, "opaque": number, "flag": 0, "extFields": fields}
    ).encode()
    return LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body


def _records(body: bytes) -> int:
    at = count = 0
    while at < len(body):
        at += _SIZE.unpack_from(body, at)[0]
        count += 1
    return count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("what", choices=["single", "batch", "pull"])
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--body", type=int, default=100, metavar="BYTES")
    parser.add_argument("--batch", type=int, default=32, help="messages in a batch; default %(default)s")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--depth", type=int, default=8, help="requests under way on each; default %(default)s")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm-up", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--messages", type=int, default=0, help="end after so many, and not after a time")
    parser.add_argument("--first-key", type=int, default=0, help="unique keys count from here")
    asyncio.run(load(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
