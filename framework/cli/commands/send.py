"""Send one message to a topic, or one for each line of a file. Writes to the topic.

The body is the word after the topic, `-` for stdin, or `--file`. With `--ndjson` each line is one message, an object:
`body` (a text or any JSON) or `body_base64`, and if wanted `keys`, `tags`, `properties`: what `tail --json` prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from framework.cli import connect, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.errors import ConnectionLost, FrameworkError, RequestTimedOut, bare, shorten
from framework.mistakes import FileUnreadable, MessageWrong, UsageWrong
from framework.net.real_clock import RealClock

if TYPE_CHECKING:
    from framework.client.options import ClusterOptions
    from framework.client.outgoing import SendResult
    from framework.client.producer import Producer
    from framework.model.message import Message

EXAMPLES = """\
examples:
  framework-app send orders '{"id": 8841}' --key 8841 --tag paid
  echo hello | framework-app send orders -
  framework-app send orders --file order.json --property source=shop
  framework-app send orders --ndjson < orders.ndjson           one message a line, as many as there are
  framework-app send orders paid --order-key 8841              in the order of its key, in one queue
  framework-app send orders reminder --delay 30s               delivered in 30 s; or --at 2026-12-24T18:00:00Z
  framework-app tail orders --from -1h --json | framework-app send orders-copy - --ndjson
"""
AT_ONCE = 64
"""Sends under way: enough to keep a broker busy, few enough that a million lines take no memory."""
BYTES_MAX = 4 * 1024 * 1024
PROGRESS_EACH = 1_000
LINES_SHOWN = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("body", metavar="BODY", nargs="?", help="the body; - for stdin")
    parser.add_argument("--file", metavar="F", help="read the body, or the lines, from this file")
    parser.add_argument("--ndjson", action="store_true", help="one message for each line of JSON")
    parser.add_argument("--key", metavar="K", action="append", default=[], help="a key to find it by; repeatable")
    parser.add_argument("--tag", metavar="T", help="its tag")
    parser.add_argument("--property", metavar="a=b", action="append", default=[], dest="properties", help="repeatable")
    parser.add_argument("--order-key", metavar="K", help="messages of one key go to one queue, in order")
    due = parser.add_mutually_exclusive_group()
    due.add_argument("--delay", metavar="TIME", type=options.duration, help="deliver it so much later: 30s, 15m, 2h")
    due.add_argument("--at", metavar="TIME", type=instant, help="deliver it then: 2026-12-24T18:00:00Z (no zone: UTC)")
    connect.add_connection(parser)


def instant(text: str) -> datetime:
    """A time as people write it."""

    def read(word: str) -> datetime:
        try:
            when = datetime.fromisoformat(word)
        except ValueError:
            raise ValueError(f"{word!r} is no time; write 2026-12-24T18:00:00Z") from None
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)

    return options.reads(read)(text)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.ndjson and arguments.body is None and arguments.file is None:
        arguments.body = "-"
    if (arguments.body is not None) == (arguments.file is not None):
        raise UsageWrong("send: give one of BODY, `-` for stdin, and --file FILE")
    if arguments.ndjson and arguments.body not in {None, "-"}:
        raise UsageWrong("send: --ndjson reads lines; give `-` for stdin, or --file FILE")
    cluster = connect.cluster_options(arguments, level="error")  # what fails ends the command, and is its error
    with _opened(arguments) as source:
        messages = _lines(arguments, source) if arguments.ndjson else iter([(1, _one(arguments, source))])
        return asyncio.run(_send_all(arguments, cluster, messages, _Tally(source)))


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[IO[bytes]]:
    if arguments.file is None:
        yield sys.stdin.buffer
        return
    try:
        file = Path(arguments.file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise _unreadable(arguments, error) from None
    with file:
        yield file


def _unreadable(arguments: argparse.Namespace, error: OSError) -> FileUnreadable:
    what = "the lines" if arguments.ndjson else "the body"
    return FileUnreadable(f"--file {bare(arguments.file)}: {error.strerror}; name a file that holds {what}")


def _one(arguments: argparse.Namespace, source: IO[bytes]) -> Message:
    if arguments.body is not None and arguments.body != "-":
        return _message(arguments, arguments.body.encode())
    body = source.read(BYTES_MAX + 1)
    if len(body) > BYTES_MAX:  # how long it is at all is not known of a pipe
        where = "stdin" if arguments.file is None else f"--file {bare(arguments.file)}"
        raise MessageWrong(
            f"{where}: more than {BYTES_MAX} bytes, which is the limit of a message's body; send it in parts"
        )
    # What `echo` puts behind a text is not meant; a file is sent as it is.
    return _message(arguments, body.removesuffix(b"\n") if arguments.body == "-" else body)


def _message(arguments: argparse.Namespace, body: bytes, more: dict[str, Any] | None = None) -> Message:
    from framework.model.message import Message

    more = more or {}
    return Message(
        arguments.topic,
        body,
        tags=more.get("tags") or arguments.tag,
        keys=[*arguments.key, *more.get("keys", ())],
        properties={**_properties(arguments.properties), **more.get("properties", {})},
        order_key=arguments.order_key,
    )


def _properties(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UsageWrong(f"--property {shorten(text)}: write name=value")
        found[name] = value
    return found


def _lines(arguments: argparse.Namespace, source: IO[bytes]) -> Iterator[tuple[int, Message]]:
    for number, line in enumerate(source, start=1):
        if line.strip():
            yield number, _read(arguments, number, line)


def _read(arguments: argparse.Namespace, number: int, line: bytes) -> Message:
    from framework.cli.ndjson import fields_of

    try:
        body, more = fields_of(line)
    except ValueError as error:
        raise MessageWrong(f"line {number}: {error}") from None
    return _message(arguments, body, more)


class _Tally:
    """How many were sent, and how fast; on a terminal a bar, by the bytes that were read of those that there are."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._size = source, _size_of(source)
        self._clock = RealClock()
        self._began = self._clock.monotonic()
        self._progress = ProgressLine("sending")
        self.count = 0

    def add(self) -> None:
        self.count += 1
        if self.count % PROGRESS_EACH == 0:
            done = 0 if self._size is None else self._source.tell()
            self._progress.advance(done, self._size, f"{table.count(self.count)} sent, {self.rate}")

    def end(self) -> None:
        self._progress.end()

    @property
    def rate(self) -> str:
        seconds = self._clock.monotonic() - self._began
        return f"{table.count(round(self.count / seconds))} a second" if seconds > 0 else "at once"


def _size_of(source: IO[bytes]) -> int | None:
    """Of a file; None for a pipe, which does not say."""
    try:
        found = os.fstat(source.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


async def _send_all(
    arguments: argparse.Namespace, options: ClusterOptions, messages: Iterator[tuple[int, Message]], tally: _Tally
) -> ExitCode:
    from framework.client.producer import Producer

    producer = Producer(
        name_servers=options.name_servers,
        credentials=options.credentials,
        tls=options.tls,
        address_map=options.address_map,
        allow=options.allow,
        namespace=options.namespace,
        group="framework_send",
    )
    async with producer:
        try:
            await _in_turns(arguments, producer, messages, tally)
        finally:
            tally.end()
    if arguments.ndjson:
        output.tell(f"sent: {table.some(tally.count, 'message')} to {arguments.topic}, {tally.rate}")
    return ExitCode.CLEAN


async def _in_turns(
    arguments: argparse.Namespace, producer: Producer, messages: Iterator[tuple[int, Message]], tally: _Tally
) -> None:
    """Some at once, answers in the order of the lines. The first failure ends it: what follows is not sent, and what is
    under way is waited for, so that the last line says what is stored.
    """
    from framework.net.task_tree import TaskTree

    waiting: deque[tuple[int, asyncio.Task[SendResult]]] = deque()
    failed: list[tuple[int, Exception]] = []
    tree = TaskTree(on_error=lambda *_: None)  # whoever waits for the answer gets the error

    async def answered() -> None:
        number, sending = waiting.popleft()
        try:
            result = await sending
        except FrameworkError as error:
            failed.append((number, error))
        else:
            _say(arguments, result)
            tally.add()

    try:
        while not failed:
            try:
                following = next(messages, None)
            except MessageWrong as error:  # it says which line
                failed.append((0, error))
                break
            if following is None:
                break
            number, message = following
            sending = producer.send(message, delay=arguments.delay, at=arguments.at)
            waiting.append((number, tree.start(sending, name="send")))
            if len(waiting) == AT_ONCE:
                await answered()
        while waiting:
            await answered()
    finally:
        tally.end()
        await tree.close()
    if failed:
        if arguments.ndjson:
            _say_stored(tally.count, [number for number, _ in failed if number], [error for _, error in failed])
        raise failed[0][1]


def _say_stored(count: int, lines: list[int], errors: list[Exception]) -> None:
    """What a send that broke off has stored, and of which lines that is not known."""
    stored = f"stored: {table.some(count, 'message')}"
    if lines:
        unanswered = any(isinstance(error, RequestTimedOut | ConnectionLost) for error in errors)
        which = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines[:LINES_SHOWN]))}"
        more = f" and {len(lines) - LINES_SHOWN} more" if len(lines) > LINES_SHOWN else ""
        stored += f"; {which}{more} " + ("may be stored or not, since no answer came" if unanswered else "not stored")
    output.tell(f"{stored}; nothing behind was sent")


def _say(arguments: argparse.Namespace, result: SendResult) -> None:
    row = {
        "topic": arguments.topic,
        "broker": result.queue.broker,
        "queue": result.queue.number,
        "offset": result.queue_offset,
        "message_id": result.message_id,
    }
    if result.recall_handle:
        row["recall_handle"] = result.recall_handle
    if arguments.json:
        output.say(json.dumps(row))
    elif not arguments.ndjson:
        output.say(f"sent to {row['topic']} {row['broker']}:{row['queue']}:{row['offset']}  {row['message_id']}")
