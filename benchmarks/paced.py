"""Sends messages at an even rate to a broker, each stamped with the moment at which its frame is written.

    python -m benchmarks.paced ADDRESS TOPIC --rate 1000 --messages 30000

A frame is put together once, and only the number and the time are written into it: what sends costs little, and the
same for whoever consumes. How late the latest message was written is said at the end. A body is a number of 11
characters, a space and nanoseconds of 20 digits, filled up with x.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass

from benchmarks.arguments import positive
from benchmarks.load import CODE, LENGTHS, SEND, framed, send_fields

STAMP = b"#" * 32
LEAST_TURN_S = 0.0005


@dataclass(slots=True)
class Sent:
    """What became of it."""

    answered: int = 0
    refused: int = 0
    latest_ms: float = 0.0
    """The most that a turn was late."""


class Answers(asyncio.Protocol):
    """Counts what the broker says; an answer is no message's time."""

    def __init__(self, sent: Sent, messages: int) -> None:
        self._sent, self._most, self._buffer = sent, messages, b""
        self.all_answered = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        at = 0
        while len(data) - at >= 8:
            length, word = LENGTHS.unpack_from(data, at)
            if at + 4 + length > len(data):
                break
            code = CODE.search(data, at + 8, at + 8 + (word & 0xFF_FFFF))
            assert code is not None
            self._sent.answered += 1
            self._sent.refused += code[1] != b"0"
            at += 4 + length
        self._buffer = data[at:]
        if self._sent.answered >= self._most:
            self.all_answered.set()


def frames(topic: str, queues: int, body: int) -> list[tuple[bytes, bytes]]:
    """What stands before and behind the stamp, for each queue."""
    made = [
        framed(SEND, number + 1, send_fields(topic, number, ""), STAMP + b"x" * (body - len(STAMP)))
        for number in range(queues)
    ]
    return [(before, after) for before, _, after in (frame.partition(STAMP) for frame in made)]


async def send(address: str, topic: str, *, queues: int, rate: int, first: int, messages: int, body: int) -> Sent:
    """Messages `first` and on, round the queues; with a rate of 0 all at once."""
    host, _, port = address.rpartition(":")
    loop, sent = asyncio.get_running_loop(), Sent()
    _, protocol = await loop.create_connection(lambda: Answers(sent, messages), host, int(port))
    assert protocol.transport is not None
    around, done, began = frames(topic, queues, body), 0, time.monotonic()
    while done < messages:
        now = time.monotonic()
        due = messages if not rate else min(messages, int((now - began) * rate) + 1)
        if done < due and rate:
            sent.latest_ms = max(sent.latest_ms, (now - began - done / rate) * 1000)
        for number in range(first + done, first + due):
            before, after = around[number % queues]
            protocol.transport.write(b"%b%11d %020d%b" % (before, number, time.monotonic_ns(), after))
        done = due
        if done < messages:
            await asyncio.sleep(max(LEAST_TURN_S, began + done / rate - time.monotonic()))
    await protocol.all_answered.wait()
    protocol.transport.close()
    return sent


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paced", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--queues", type=positive, default=8)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second; 0: all at once")
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--messages", type=positive, default=1_000)
    parser.add_argument("--body", type=positive, default=100)
    sent = asyncio.run(send(**vars(parser.parse_args(arguments))))
    print(json.dumps({"answered": sent.answered, "refused": sent.refused, "latest_ms": round(sent.latest_ms, 3)}))
    return 1 if sent.refused else 0


if __name__ == "__main__":
    sys.exit(main())
