"""Attacks on a broker in the box, each an asyncio story: `python -m tests.hostile.attacks NAME PORT SECONDS`.

They send as fast as they can and stop by themselves. None has a key. What the box does about them is for
`test_attacks.py` to see.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from tests.hostile import frames

Attack = Callable[[int], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}
SEEDED = "seeded"
"""A topic that has messages, and groups that may read it."""


def attack(story: Attack) -> Attack:
    ATTACKS[story.__name__] = story
    return story


async def many(
    count: int, port: int, story: Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """So many connections, each made again when it ends."""

    async def one(number: int) -> None:
        while True:
            writer = None
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await story(number, reader, writer)
            if writer is not None:
                writer.close()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one(number) for number in range(count)))


async def swallow(reader: asyncio.StreamReader) -> None:
    """Read to the end."""
    while await reader.read(1 << 18):
        pass


@asynccontextmanager
async def swallowed(reader: asyncio.StreamReader) -> AsyncIterator[asyncio.Task[None]]:
    """Whatever comes meanwhile; the task is done when nothing comes any more."""
    reading = asyncio.create_task(swallow(reader))
    try:
        yield reading
    finally:
        reading.cancel()


async def take_answer(reader: asyncio.StreamReader) -> None:
    size = int.from_bytes(await reader.readexactly(4))
    await reader.readexactly(size)


@attack
async def tiny_batches(port: int) -> None:
    """12 connections, batches of 60,000 messages of a byte."""
    data = frames.send_batch("hostile-batches", [b"x"] * 60_000)

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(data)
            await writer.drain()
            await take_answer(reader)

    await many(12, port, story)


@attack
async def unread_pulls(port: int) -> None:
    """60 connections ask for 256 KiB at a time, a thousand times at once, and read nothing."""
    data = frames.pull(SEEDED) * 1000

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(data)
            await writer.drain()

    await many(60, port, story)


@attack
async def half_frames(port: int) -> None:
    """250 connections with 3.3 MB of a frame of 4 MB, then 2 KB each three seconds."""
    start = frames.frame(frames.json_header(310, frames.send_fields("t")), says=4_000_000) + bytes(3_300_000)

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await writer.drain()
        for _ in range(340):
            await asyncio.sleep(3)
            writer.write(bytes(2048))
            await writer.drain()

    await many(250, port, story)


@attack
async def silent(port: int) -> None:
    """Connections that say nothing, more than there are slots, made again as they are closed."""

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await swallow(reader)

    await many(300, port, story)


@attack
async def one_ways(port: int) -> None:
    """40 connections, heartbeats and commits that want no answer, as many as go."""
    beat = frames.request(34, None, b'{"clientID":"h"}', one_way=True)
    data = beat * 2000

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(data)
            await writer.drain()

    await many(40, port, story)


@attack
async def pipelined_sends(port: int) -> None:
    """40 connections, sends by the thousand before any answer is read."""
    data = b"".join(frames.send("hostile-sends", b"x" * 200, number=number) for number in range(2000))

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with swallowed(reader):
            while True:
                writer.write(data)
                await writer.drain()

    await many(40, port, story)


@attack
async def long_polls(port: int) -> None:
    """150 connections, 600 long polls each on one queue, and a message that wakes them all again and again."""

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = 0
        send = frames.send("hostile-polls", b"x" * 2000)
        seen = frames.Frames()
        writer.write(send)
        while True:
            async with asyncio.timeout(30):  # `wait_for` may swallow the cancellation that ends the attack
                data = await reader.read(1 << 18)
            if not data:
                return  # cut off; at a stream's end nothing below would ever wait
            for received in seen.feed(data):
                if "queueOffset" in received.fields:
                    end = int(received.fields["queueOffset"]) + 1
                    writer.write(frames.pull("hostile-polls", offset=end, wait_ms=15_000) * 600)
            await writer.drain()
            if number < 3:
                await asyncio.sleep(0.2)
                writer.write(send)

    await many(150, port, story)


@attack
async def sql_polls(port: int) -> None:
    """100 connections, each with long polls that filter by conditions of its own, and messages for them to try."""
    send = frames.send_batch("hostile-sql", [b"x"] * 300)

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        polls = []
        for each in range(100):
            tags = " OR ".join(f"a{number} = '{each}-{i}'" for i in range(100))
            polls.append(frames.pull("hostile-sql", wait_ms=15_000, tags=tags, kind="SQL92"))
        async with swallowed(reader):
            while True:
                writer.write(send if number < 3 else b"".join(polls))
                await writer.drain()
                await asyncio.sleep(0.5)

    await many(100, port, story)


@attack
async def fat_heartbeats(port: int) -> None:
    """30 connections, heartbeats of 4 MB: topics by the ten thousand, nested lists, numbers without end."""
    wants = [{"topic": f"t{i}", "subString": "*", "subVersion": 1} for i in range(60_000)]
    bodies = [
        json.dumps({"clientID": "h", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": wants}]}).encode(),
        b"[" * 3_000_000,
        b'{"clientID":' + b"9" * 3_000_000 + b"}",
        json.dumps({"clientID": "h", "producerDataSet": [{"groupName": f"p{i}"} for i in range(120_000)]}).encode(),
    ]

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(frames.request(34, None, bodies[number % len(bodies)][: 4 << 20]))
            await writer.drain()
            await take_answer(reader)

    await many(30, port, story)


@attack
async def fat_headers(port: int) -> None:
    """60 connections, headers of 60 KB: deep, wide, and of long numbers."""
    headers = [
        b'{"code":34,"opaque":1,"flag":2,"extFields":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        json.dumps({"code": 34, "opaque": 1, "flag": 2, "extFields": {f"{i}": "" for i in range(5000)}}).encode(),
        b'{"code":34,"opaque":' + b"9" * 60_000 + b"}",
    ]

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with swallowed(reader) as reading:
            while not reading.done():
                writer.write(frames.frame(headers[number % 3]) * 20)
                await writer.drain()
                await asyncio.sleep(0)

    await many(60, port, story)


@attack
async def garbage(port: int) -> None:
    """60 connections at a time that speak something else, or frames of no length, and come again at once."""
    texts = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", bytes(64), b"\xff" * 64, frames.frame(b"{}", says=2)]

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(texts[number % len(texts)])
        await writer.drain()
        await swallow(reader)

    await many(60, port, story)


@attack
async def many_places(port: int) -> None:
    """20 connections: topics, groups, queues, commits and pulls of ever new names."""

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = number * 1_000_000
        async with swallowed(reader):
            while True:
                data = []
                for step in range(begin, begin + 500):
                    topic, group, queue = f"h-{step % 900}", f"g-{step // 900 % 900}", step // 810_000 % 8
                    place = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": "1"}
                    data += [
                        frames.send(topic, b"x", queue=queue) if step % 4 == 0 else b"",
                        frames.request(15, place, one_way=True), frames.pull(topic, group, queue=queue),
                    ]  # fmt: skip
                begin += 500
                writer.write(b"".join(data))
                await writer.drain()

    await many(20, port, story)


@attack
async def big_answers(port: int) -> None:
    """100 connections ask for the longest lists and for 64 messages by a key, and read a few bytes a second."""
    data = b"".join(frames.request(code, {"topic": SEEDED, "key": "k", "maxNum": "64", "beginTimestamp": "0",
                    "endTimestamp": str(1 << 60)}) for code in (12, 21, 43, 201, 206)) * 50  # fmt: skip

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        while True:
            await reader.read(16)
            await asyncio.sleep(1)

    await many(100, port, story)


async def queried(port: int, connections: int, large: Sequence[bytes], topic: str, key: str) -> None:
    """Connections that ask by a key and read each answer; the first one sends some large messages before."""
    asked = {"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
    query = frames.request(12, asked)

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for data in large if number == 0 else ():
            writer.write(data)
            await take_answer(reader)
        while True:
            writer.write(query)
            await writer.drain()
            await take_answer(reader)

    await many(connections, port, story)


@attack
async def large_queries(port: int) -> None:
    """30 connections ask by a key whose messages are twice what a frame holds."""
    big = frames.send("hostile-keys", bytes(1_000_000), properties="KEYS\x01big\x02")
    await queried(port, 30, [big] * 9, "hostile-keys", "big")


@attack
async def colliding_keys(port: int) -> None:
    """20 connections ask by a key that no message has; large ones name another key of the same CRC-32 640 times."""
    names = " ".join(["plumless"] * 640)
    big = frames.send("hostile-crc", bytes(3_900_000), properties=f"KEYS\x01{names}\x02")
    await queried(port, 20, [big] * 8, "hostile-crc", "buckeroo")


@attack
async def sql_subscriptions(port: int) -> None:
    """10 connections, heartbeats with 1,000 SQL92 subscriptions, each with a condition of 5 or of 150 comparisons."""
    bodies = []
    for each in range(4):
        wants = [
            {"topic": f"t{i}", "expressionType": "SQL92", "subVersion": 1,
             "subString": " OR ".join(f"a{i} > {each}{n}" for n in range((5, 150)[each % 2]))}
            for i in range(1_000)
        ]  # fmt: skip
        group = {
            "groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": wants,
        }  # fmt: skip
        bodies.append(json.dumps({"clientID": "h", "consumerDataSet": [group]}).encode())

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(frames.request(34, None, bodies[number % len(bodies)]))
            await writer.drain()
            await take_answer(reader)

    await many(10, port, story)


@attack
async def dear_conditions(port: int) -> None:
    """40 connections, pulls that compare texts of 32,000 digits 150 times each; half of them wait for more of these."""
    send = frames.send("hostile-digits", b"x", properties=f"a\x01{'7' * 32_000}\x02")
    condition = " OR ".join(f"a < {i}" for i in range(150))

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wait_ms = 15_000 if number % 2 else 0
        async with swallowed(reader) as reading:
            while not reading.done():
                writer.write(send if number < 4 else frames.pull("hostile-digits", tags=condition, kind="SQL92",
                                                                 wait_ms=wait_ms) * 10)  # fmt: skip
                await writer.drain()
                await asyncio.sleep(0.1)

    await many(40, port, story)


@attack
async def long_names(port: int) -> None:
    """100 connections: ever new members of one group with the longest names, some too long, and its list after each."""
    count = 0
    group = {
        "groupName": "crowd", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [],
    }  # fmt: skip

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        while True:
            count += 1
            size = 4_000_000 if number == 0 else 255
            body = json.dumps({"clientID": f"{count}-".ljust(size, "x"), "consumerDataSet": [group]}).encode()
            writer.write(frames.request(34, None, body) + frames.request(38, {"consumerGroup": "crowd"}))
            await writer.drain()
            await take_answer(reader)
            await take_answer(reader)

    await many(100, port, story)


@attack
async def silent_handshakes(port: int) -> None:
    """3,000 connections to a port of TLS that begin no handshake, or half of one."""

    async def story(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
        await swallow(reader)

    await many(3_000, port, story)


async def _main(name: str, port: int, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ATTACKS[name](port)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
