"""Send one message to a topic, or one for each line of a file. Writes to the topic.

The body is the word after the topic, `-` for stdin, or `--file`. With `--ndjson` each line is one message, an object:
`body` (a text or any JSON) or `body_base64`, and if wanted `keys`, `tags`, `properties`: what `tail --json` prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from framework.cli import connect, output, table
from framework.cli.exit_codes import ExitCode

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
  framework-app send orders --ndjson --file orders.ndjson      one message a line, as many as there are
  framework-app tail orders --from -1h --json | framework-app send orders-copy - --ndjson
"""
AT_ONCE = 64
"""Sends under way: enough to keep a broker busy, few enough that a million lines take no memory."""
BYTES_MAX = 4 * 1024 * 1024
PROGRESS_EACH = 10_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("body", metavar="BODY", nargs="?", help="the body; - for stdin")
    parser.add_argument("--file", metavar="F", help="read the body, or the lines, from this file")
    parser.add_argument("--ndjson", action="store_true", help="one message for each line of JSON")
    parser.add_argument("--key", metavar="K", action="append", default=[], help="a key to find it by; repeatable")
    parser.add_argument("--tag", metavar="T", help="its tag")
    parser.add_argument("--property", metavar="a=b", action="append", default=[], dest="properties", help="repeatable")
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.errors import ConfigurationError

    if (arguments.body is not None) == (arguments.file is not None):
        raise ConfigurationError("send: give one of BODY, `-` for stdin, and --file FILE")
    if arguments.ndjson and arguments.body not in {None, "-"}:
        raise ConfigurationError("send: --ndjson reads lines; give `-` for stdin, or --file FILE")
    options = connect.cluster_options(arguments)
    with _opened(arguments) as source:
        messages = _lines(arguments, source) if arguments.ndjson else iter([_one(arguments, source)])
        return asyncio.run(_send_all(arguments, options, messages))


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[IO[bytes]]:
    from framework.errors import ConfigurationError

    if arguments.file is None:
        yield sys.stdin.buffer
        return
    try:
        file = Path(arguments.file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(f"--file {arguments.file}: {error.strerror}") from None
    with file:
        yield file


def _one(arguments: argparse.Namespace, source: IO[bytes]) -> Message:
    if arguments.body is not None and arguments.body != "-":
        return _message(arguments, arguments.body.encode())
    body = source.read(BYTES_MAX + 1)
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
    )


def _properties(given: Iterable[str]) -> dict[str, str]:
    from framework.errors import ConfigurationError

    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ConfigurationError(f"--property {text}: write name=value")
        found[name] = value
    return found


def _lines(arguments: argparse.Namespace, source: IO[bytes]) -> Iterator[Message]:
    for number, line in enumerate(source, start=1):
        if line.strip():
            yield _read(arguments, number, line)


def _read(arguments: argparse.Namespace, number: int, line: bytes) -> Message:
    from framework.cli.ndjson import fields_of
    from framework.errors import ConfigurationError

    try:
        body, more = fields_of(line)
    except ValueError as error:
        raise ConfigurationError(f"line {number}: {error}") from None
    return _message(arguments, body, more)


async def _send_all(arguments: argparse.Namespace, options: ClusterOptions, messages: Iterator[Message]) -> ExitCode:
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
        sent = await _in_turns(arguments, producer, messages)
    if arguments.ndjson:
        sys.stderr.write(f"sent: {table.count(sent)} messages to {arguments.topic}\n")
    return ExitCode.CLEAN


async def _in_turns(arguments: argparse.Namespace, producer: Producer, messages: Iterator[Message]) -> int:
    """Some at once, answers in the order of the lines. The first failure ends it: what follows is not sent."""
    from framework.net.task_tree import TaskTree

    waiting: deque[asyncio.Task[SendResult]] = deque()
    tree = TaskTree(on_error=lambda *_: None)  # whoever waits for the answer gets the error
    sent = 0
    try:
        for message in messages:
            waiting.append(tree.start(producer.send(message), name="send"))
            if len(waiting) == AT_ONCE:
                sent += _say(arguments, await waiting.popleft(), sent)
        while waiting:
            sent += _say(arguments, await waiting.popleft(), sent)
    except BaseException:
        sys.stderr.write(
            f"sent: {table.count(sent)} messages, then it failed; up to {len(waiting)} more may be stored\n"
        )
        raise
    finally:
        await tree.close()
    return sent


def _say(arguments: argparse.Namespace, result: SendResult, before: int) -> int:
    row = {
        "topic": arguments.topic,
        "broker": result.queue.broker,
        "queue": result.queue.number,
        "offset": result.queue_offset,
        "message_id": result.message_id,
    }
    if arguments.json:
        output.say(json.dumps(row))
    elif not arguments.ndjson:
        output.say(f"sent to {row['topic']} {row['broker']}:{row['queue']}:{row['offset']}  {row['message_id']}")
    elif (before + 1) % PROGRESS_EACH == 0 and sys.stderr.isatty():
        sys.stderr.write(f"\rsent {table.count(before + 1)}")
    return 1
