"""Half messages as values: where one lies, how its transaction is ended, many of them as bytes for another process."""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from framework.client.dialogue.checks import ENDS, PRODUCER_GROUP
from framework.client.outgoing import Outgoing, SendResult
from framework.declare.transactions import TransactionState
from framework.errors import ProtocolError, shorten
from framework.mistakes import MessageMistyped, TransactionWrong
from framework.model.message import DELAY_LEVEL, Message
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.wire.exchanges import raise_for
from framework.wire.fields import command_for
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests.transaction import EndTransactionRequest

if TYPE_CHECKING:
    from framework.client.cluster import Cluster
    from framework.client.producing.attempts import Attempts

T = TypeVar("T")

PREPARED = "TRAN_MSG"
PACKED_BYTES_MAX = 512 * 1024 * 1024  # unpacked; some 60 bytes a half message


class HalfMessage(NamedTuple):
    """Where a half message lies, and where it is meant for."""

    queue: MessageQueue
    """Its own one, under the name that the cluster has for its topic."""
    place: int
    """In the broker's log."""
    offset: int
    """In the broker's queue of half messages."""
    message_id: str


def refuse_delay(message: Message) -> None:
    """Raise ConfigurationError for what could not be a half message."""
    if not isinstance(message, Message):
        raise MessageMistyped(f"transaction: {shorten(message)}: give a Message(topic, body)")
    if DELAY_LEVEL in message.properties:
        raise TransactionWrong(f"transaction: a message to {message.topic} cannot have a delay as well")


async def prepare(
    producer: Preparing, message: Message, *, timeout: str | float | None = None
) -> tuple[SendResult, HalfMessage]:
    """Store a half message. A result with a code is not durable yet, which is no ground to build on."""
    marks = {PREPARED: "true", PRODUCER_GROUP: producer.group}
    stored = await producer.send(message, marks, is_half=True, timeout=timeout)
    return stored, half_of(producer, stored)


def half_of(producer: Preparing, stored: SendResult) -> HalfMessage:
    """Of what a broker answered to the send of a half message."""
    place = parse_offset_message_id(stored.offset_message_id)
    if place is None:
        raise ProtocolError(
            f"no place in the log is named by {shorten(stored.offset_message_id)}", peer=stored.queue.broker
        )
    queue = stored.queue._replace(topic=wrap(producer.namespace, stored.queue.topic))
    return HalfMessage(queue, place.commit_log_offset, stored.queue_offset, stored.message_id)


async def end(producer: Preparing, half: HalfMessage, state: TransactionState, remark: str | None = None) -> None:
    """Tell the broker how it ended; it has confirmed that when this returns, else FrameworkError."""
    broker = half.queue.broker
    header = EndTransactionRequest(
        producer_group=producer.group,
        tran_state_table_offset=half.offset,
        commit_log_offset=half.place,
        commit_or_rollback=ENDS[state],
        msg_id=half.message_id,
        topic=half.queue.topic,
        transaction_id=half.message_id,
        broker_name=broker,
    )
    command = command_for(header)
    command.remark = remark
    raise_for(await producer.cluster.calls.answer(half.queue, command), command.code, broker)


async def pipelined(items: Iterable[T], work: Callable[[T], Awaitable[None]], at_once: int, name: str) -> None:
    """Do this with each, so many at once, taking the next one when there is room. The first error ends all."""
    waiting, errors = iter(items), list[BaseException]()

    async def run() -> None:
        try:
            for item in waiting:
                if errors:
                    return
                await work(item)
        except Exception as error:  # noqa: BLE001 - border: it is raised below, once the others have ended
            errors.append(error)

    tree = TaskTree()
    try:
        for task in [tree.start(run(), name=name) for _ in range(at_once)]:
            await task
    except GeneratorExit:  # closed, as where its loop is gone: nothing can be awaited
        raise
    except BaseException:
        await tree.close()
        raise
    await tree.close()
    if errors:
        raise errors[0]


def packed(halves: Iterable[HalfMessage]) -> bytes:
    """In few bytes: neighbours lie near each other, and their ids are alike."""
    queues: dict[MessageQueue, int] = {}
    rows: list[tuple[int, int, int, str]] = []
    place = offset = 0
    for half in halves:
        number = queues.setdefault(half.queue, len(queues))
        rows.append((number, half.place - place, half.offset - offset, half.message_id))
        place, offset = half.place, half.offset
    return zlib.compress(json.dumps([list(queues), rows], separators=(",", ":")).encode())


def unpacked(data: bytes) -> list[HalfMessage]:
    """What `packed` was given; ProtocolError for other bytes, for they come from a broker."""
    if not data:
        return []
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(data, PACKED_BYTES_MAX)
        if opened.unconsumed_tail or not opened.eof:
            raise ValueError("it is cut off, or too large")
        return _halves(*json.loads(text))
    except (zlib.error, ValueError, TypeError, IndexError, RecursionError) as error:
        raise ProtocolError(f"a list of half messages cannot be read: {shorten(str(error))}") from error


def _halves(names: Sequence[Sequence[str | int]], rows: Sequence[tuple[int, int, int, str]]) -> list[HalfMessage]:
    queues = [MessageQueue(str(topic), str(broker), int(number)) for topic, broker, number in names]
    found: list[HalfMessage] = []
    place = offset = 0
    for number, further, on, message_id in rows:
        place, offset = place + int(further), offset + int(on)
        found.append(HalfMessage(queues[number], place, offset, str(message_id)))
    return found


@dataclass(frozen=True, slots=True)
class Preparing:
    """Sends messages with properties that users may not give."""

    find_cluster: Callable[[], Cluster]
    group: str
    """As the cluster calls it."""
    namespace: str
    prepared: Callable[[Message, None], Outgoing]
    attempts: Attempts
    limit_ms: Callable[[str | float | None], int]

    @property
    def cluster(self) -> Cluster:
        """Asked for at each use, since a producer may be made before it is started."""
        return self.find_cluster()

    async def send(
        self,
        message: Message,
        marks: dict[str, str],
        *,
        is_half: bool = False,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> SendResult:
        outgoing = self.prepared(message, None).marked(marks, is_half=is_half)
        (result,) = await self.attempts.deliver(outgoing, queue, self.limit_ms(timeout))
        return result
