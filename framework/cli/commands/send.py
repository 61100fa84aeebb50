"""Send one message to a topic, or one for each line of a file. Writes to the topic.

The body is the word after the topic, `-` for stdin, or `--file`. With `--ndjson` each line is one message, an object:
`body` (a text or any JSON) or `body_base64`, and if wanted `keys`, `tags`, `properties`: what `tail --json` prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from framework.cli import connect, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.input_lines import InputLines, LineTooLong
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
    # Many lines may wait for a broker that comes back; of one message its error says all.
    cluster = connect.cluster_options(arguments, level="warning" if arguments.ndjson else "error")
    with _opened(arguments) as source:
        if arguments.ndjson:
            return asyncio.run(_send_lines(arguments, cluster, InputLines(source)))
        return asyncio.run(_send_one(arguments, cluster, _one(arguments, source)))


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


def _read(arguments: argparse.Namespace, number: int, line: bytes) -> Message:
    from framework.cli.ndjson import fields_of

    try:
        body, more = fields_of(line)
    except ValueError as error:
        raise MessageWrong(f"line {number}: {error}") from None
    return _message(arguments, body, more)


class _Tally:
    """How many were sent, and how fast; on a terminal a bar, by the bytes that were read of those that there are."""

    def __init__(self, lines: InputLines) -> None:
        self._lines = lines
        self._clock = RealClock()
        self._began = self._clock.monotonic()
        self._progress = ProgressLine("sending")
        self.count = 0

    def add(self) -> None:
        self.count += 1
        if self.count % PROGRESS_EACH == 0:
            self._progress.advance(
                self._lines.done, self._lines.size, f"{table.count(self.count)} sent, {self.rate}"
            )  # fmt: skip

    def end(self) -> None:
        self._progress.end()

    @property
    def rate(self) -> str:
        seconds = self._clock.monotonic() - self._began
        return f"{table.count(round(self.count / seconds))} a second" if seconds > 0 else "at once"


def _producer(cluster: ClusterOptions) -> Producer:
    from framework.client.producer import Producer

    return Producer(
        name_servers=cluster.name_servers,
        credentials=cluster.credentials,
        tls=cluster.tls,
        address_map=cluster.address_map,
        allow=cluster.allow,
        namespace=cluster.namespace,
        group="framework_send",
    )


async def _send_one(arguments: argparse.Namespace, cluster: ClusterOptions, message: Message) -> ExitCode:
    async with _producer(cluster) as producer:
        _say(arguments, await producer.send(message, delay=arguments.delay, at=arguments.at))
    return ExitCode.CLEAN


async def _send_lines(arguments: argparse.Namespace, cluster: ClusterOptions, lines: InputLines) -> ExitCode:
    tally = _Tally(lines)
    async with _producer(cluster) as producer:
        try:
            await _in_turns(arguments, producer, lines, tally)
        finally:
            tally.end()
    output.tell(f"sent: {table.some(tally.count, 'message')} to {arguments.topic}, {tally.rate}")
    return ExitCode.CLEAN


async def _in_turns(arguments: argparse.Namespace, producer: Producer, lines: InputLines, tally: _Tally) -> None:
    """Some at once, answers in the order of the lines. The first failure ends it, and so does Ctrl-C: what follows is
    not sent, and what is under way is waited for, so that the last line says what is stored.
    """
    from framework.net.task_tree import TaskTree

    waiting: deque[tuple[int, asyncio.Task[SendResult]]] = deque()
    failed: list[tuple[int, FrameworkError]] = []
    tree = TaskTree(on_error=lambda *_: None)  # whoever waits for the answer gets the error

    async def answered() -> None:
        number, sending = waiting[0]
        try:
            result = await asyncio.shield(sending)  # Ctrl-C ends the waiting, and not the send
        except FrameworkError as error:
            failed.append((number, error))
        else:
            _say(arguments, result)
            tally.add()
        waiting.popleft()

    ended: BaseException | None = None
    rest: int | None = 1
    try:
        try:
            while not failed:
                if waiting and (len(waiting) == AT_ONCE or not lines.is_ready):
                    await answered()
                    continue
                if not (line := await _taken(lines)):
                    rest = None
                    break
                rest = lines.number
                if line.strip():
                    message = _read(arguments, lines.number, line)
                    sending = producer.send(message, delay=arguments.delay, at=arguments.at)
                    waiting.append((lines.number, tree.start(sending, name="send")))
                rest = lines.number + 1
        except (MessageWrong, asyncio.CancelledError) as error:
            ended = error
        while waiting:
            await answered()
    finally:
        tally.end()
        await tree.close()
    if ended is None and failed:
        ended = failed[0][1]
    if ended is not None:
        _say_stored(arguments, tally.count, failed, rest)
        raise ended


async def _taken(lines: InputLines) -> bytes:
    try:
        return await lines.take()
    except LineTooLong as error:
        raise MessageWrong(f"line {lines.number + 1}: {error}") from None


def _say_stored(
    arguments: argparse.Namespace, count: int, failed: list[tuple[int, FrameworkError]], rest: int | None
) -> None:
    """What a send that broke off has stored, of which lines that is not known, and where to go on."""
    stored = f"stored: {table.some(count, 'message')}"
    lines = [number for number, _ in failed]
    if lines:
        unanswered = any(isinstance(error, RequestTimedOut | ConnectionLost) for _, error in failed)
        which = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines[:LINES_SHOWN]))}"
        more = f" and {len(lines) - LINES_SHOWN} more" if len(lines) > LINES_SHOWN else ""
        stored += f"; {which}{more} " + ("may be stored or not, since no answer came" if unanswered else "not stored")
    file = f" {shlex.quote(arguments.file)}" if arguments.file else ""
    if rest is not None:
        stored += f"; nothing from line {rest} on was sent: `tail -n +{rest}{file}` has the rest"
    output.tell(stored)


def _say(arguments: argparse.Namespace, result: SendResult) -> None:
    # What waits for its time lies elsewhere: the broker's answer says where there, and nobody knows yet where here.
    is_later = bool(result.recall_handle or result.delay_level)
    row = {
        "topic": arguments.topic,
        "broker": result.queue.broker,
        "queue": result.queue.number,
        "offset": None if is_later else result.queue_offset,
        "message_id": result.message_id,
    }
    if result.recall_handle:
        row["recall_handle"] = result.recall_handle
    if arguments.json:
        output.say(json.dumps(row))
    elif not arguments.ndjson:
        offset = table.UNKNOWN if is_later else result.queue_offset
        later = "  delivered later" if is_later else ""
        output.say(f"sent to {row['topic']} {row['broker']}:{row['queue']}:{offset}  {row['message_id']}{later}")
