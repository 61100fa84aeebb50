"""Reader: the queues of a topic, their ends, and ranges of offsets, without a group's life.

Blocking, for engines that bring their own processes; picklable, because a pickle carries settings only. Reading joins
no group and stores nothing: whoever wants a group's progress to be seen says so with `commit`. It decodes nothing
itself (`columns.py`), and owns what becomes of a request that fails: made again, elsewhere where there is an elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Self, TypeVar

from framework.errors import (
    BodyUnavailable,
    BodyUndecodable,
    BrokerUnreachable,
    ConfigurationError,
    FrameworkError,
    ProtocolError,
    RecordDamaged,
    Refused,
)
from framework.mistakes import ArgumentWrong
from framework.model.death_reason import DeathReason, origin_of
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    AUTO_CREATE_TOPIC,
    GROUP_LENGTH_MAX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    check_name,
    check_topic,
)
from framework.reading.columns import Columns
from framework.reading.link import Link
from framework.reading.pulls import BUSY, EVERYTHING, TOPIC_GONE, Filter, Head, OffsetsGone, Pulled, Pulls, head_at
from framework.reading.reach import Counts, Reach
from framework.reading.settings import ReaderSettings
from framework.wire import exchanges, stored
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import OFFSET_MAX, Exchange
from framework.wire.requests import copies

T = TypeVar("T")

ROWS = 8_192  # of one `Columns`: smaller ones cost an engine more than they save
AT_ONCE = 64  # requests under way on one connection; brokers read on, so neither side waits for the other
BYTES = 3 * 1024 * 1024  # pulled for one `Columns`, whatever the rows: more does not stay in a processor's cache

# What RocketMQ makes for itself, as far as brokers do not name it when they are asked.
_PREFIXES = ("%", "RMQ_SYS_", "rmq_sys_", SCHEDULE_TOPIC, AUTO_CREATE_TOPIC, "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC")


class Reader:
    """`with Reader(ReaderSettings(name_servers=("127.0.0.1:9876",))) as reader: reader.queues("orders")`.

    Made anywhere, it connects when first asked for something, and again where it is unpickled. One thread at a time.
    Calls raise BrokerUnreachable where nobody answers after all retries, and Refused where a broker says no.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings
        self.counts = Counts()
        self._open: Reach | None = None

    @property
    def _reach(self) -> Reach:
        if self._open is None:
            self._open = Reach(self.settings, counts=self.counts)
        return self._open

    # Where things are

    def topics(self) -> list[str]:
        """Every topic that producers may have made, sorted; retry topics, dead letters and RocketMQ's own left out."""
        known = self._reach.ask_name_server(exchanges.topics())
        reserved = self._reach.ask_name_server(exchanges.system_topics())
        return sorted(topic for topic in known if topic not in reserved and not topic.startswith(_PREFIXES))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read, as the name server knows them now, sorted; empty for an unknown topic."""
        route = self._reach.route(check_topic(topic), fresh=True)
        return list(route.readable) if route is not None else []

    def brokers(self) -> frozenset[str]:
        """The brokers that are registered at the name servers now."""
        return self._reach.brokers()

    # Offsets

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return self._ask(queue, exchanges.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._ask(queue, exchanges.max_offset(queue))

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The same of many, all asked before the first answers. Whose broker did not answer at once is missing."""
        return self._at_once({queue: exchanges.max_offset(queue) for queue in queues})

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after an instant, by the broker's clock; the end where there is none."""
        return self._ask(queue, exchanges.offset_at(queue, timestamp_ms))

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The group's stored offset, the next one to handle; None where nothing is stored."""
        return self._ask(queue, exchanges.stored_offset(check_name("group", group, GROUP_LENGTH_MAX), queue))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset, the next one to handle; the broker has confirmed it when this returns."""
        self._ask_for(group, queue, offset, _commit_of(group, queue, offset))

    def commits(self, group: str, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """The same of many, all asked before the first answers: those that were confirmed at once.

        The others need `commit`, which knows what to do where a broker does not know the group.
        """
        return set(self._at_once({queue: _commit_of(group, queue, offset) for queue, offset in offsets.items()}))

    def make_retry_topic(self, group: str, brokers: Iterable[str], topic: str) -> None:
        """At those of the topic's brokers that have none, as they make it for a group's first member: mqadmin finds a
        group by its retry topic. Refused where that takes more than the permissions that there are.
        """
        route = self._reach.route(f"{RETRY_PREFIX}{check_name('group', group, GROUP_LENGTH_MAX)}", fresh=True)
        there = set() if route is None else {queue.broker for queue in route.readable}
        for broker in sorted(set(brokers) - there):
            exchange = exchanges.make_retry_topic(group)
            exchange.result(self._reach.request(self._reach.address(topic, broker), exchange.request()), broker)

    def send_back(
        self,
        group: str,
        queue: MessageQueue,
        offset: int,
        *,
        delay_level: int = 0,
        max_retries: int = 16,
        why: DeathReason | None = None,
    ) -> bool:
        """Have the broker copy the message at this offset into the group's retry topic, with one attempt more; after so
        many retries, or at once with level -1, into its dead letters. When this returns the copy is durable.
        True: among the dead letters, with that reason, if the broker lets it.

        Level 0 leaves the delay to the broker, which takes a longer one each time. OffsetsGone where there is no such
        message. Asked twice because an answer was lost, the broker makes two copies. Refused also where a broker says
        yes and keeps nothing, since the group has no retry queue.
        """
        check_name("group", group, GROUP_LENGTH_MAX)
        pulled = self.pull(queue, offset, offset + 1)
        found = stored.decode(pulled.data, queue, offset_delta=pulled.offset_delta)
        message = next((each for each in found if each.queue_offset == offset), None)
        if message is None:
            raise OffsetsGone(queue, offset, offset + 1)
        is_dead = delay_level < 0 or message.attempt > max_retries
        if is_dead and why is not None:
            origin, asking = origin_of(queue, offset), copies.asked_for_origin(message)
            if asking is not None:
                with suppress(FrameworkError, ValueError):
                    origin = self._ask(queue, asking)
            with suppress(BodyUndecodable, BodyUnavailable, RecordDamaged, ConfigurationError, Refused):
                # A plain send to the retry topic: only such a one carries words, and past its maximum it is buried.
                self._ask_for(group, queue, offset, copies.dead_letter(message, group, queue.broker, 0, why, origin))
                return True
        sending_back = exchanges.send_back(
            message, group, delay_level=delay_level, max_retries=max_retries, origin_topic=queue.topic
        )
        self._ask_for(group, queue, offset, sending_back)
        try:
            has_room = self._ask(queue, exchanges.group_config(group)).retry_queues > 0
        except (Refused, BrokerUnreachable):
            has_room = True  # 4.x knows no such question; nobody is held up by what a broker cannot say
        if not has_room:
            remark = f"group {group} has no retry queue there: `framework-app doctor {group}` says how to set it"
            name = request_name(RequestCode.CONSUMER_SEND_MSG_BACK)
            raise Refused(ResponseCode.NO_PERMISSION, remark, request=name, peer=queue.broker)
        return is_dead

    def _ask_for(self, group: str, queue: MessageQueue, offset: int, exchange: Exchange[None]) -> None:
        """What a broker does only for a group that it knows: it makes one (where it may) when somebody first pulls."""
        try:
            self._ask(queue, exchange)
        except Refused as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            Pulls(self._reach, replace(self.settings, group=group), queue, EVERYTHING).make_group_known(offset)
            self._ask(queue, exchange)

    def _ask(self, queue: MessageQueue, exchange: Exchange[T]) -> T:
        """Ask the queue's master; again by a fresh route where it does not answer."""
        last: BrokerUnreachable | Refused | None = None
        attempt = 0
        for attempt in self._reach.attempts():
            try:
                address = self._reach.address(queue.topic, queue.broker, fresh=attempt > 0)
                return exchange.result(self._reach.request(address, exchange.request()), queue.broker)
            except BrokerUnreachable as error:
                last = error
            except Refused as error:
                if error.code not in BUSY:
                    raise
                last = error
            if attempt >= self.settings.retries and self._reach.lacks(queue.topic, queue.broker):
                raise BrokerUnreachable(f"{queue}: broker {queue.broker} answers, and {TOPIC_GONE}") from last
        assert last is not None, "there is at least one attempt"
        raise BrokerUnreachable(f"{queue}: {attempt + 1} attempts failed; the last: {last}") from last

    def _at_once(self, wanted: Mapping[MessageQueue, Exchange[T]]) -> dict[MessageQueue, T]:
        """Success alone, without a second attempt: who is missing is asked again by itself, which tells why."""
        self.drop_dead()
        answers: dict[MessageQueue, RemotingCommand] = {}
        silent: set[str] = set()
        timeout_ms = self.settings.request_timeout_ms
        waiting = iter(wanted.items())
        while some := list(islice(waiting, AT_ONCE)):
            under_way: list[tuple[MessageQueue, Link, tuple[int, int]]] = []
            for queue, exchange in some:
                if queue.broker in silent:
                    continue
                try:
                    link = self._reach.link(self._reach.address(queue.topic, queue.broker))
                    under_way.append((queue, link, link.ask(exchange.request(), timeout_ms=timeout_ms)))
                except (BrokerUnreachable, ProtocolError, Refused):
                    silent.add(queue.broker)
            for queue, link, number in under_way:
                try:
                    answer = link.answer(number, timeout_ms=timeout_ms)
                except (BrokerUnreachable, ProtocolError):
                    silent.add(queue.broker)
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    answers[queue] = answer
        return {queue: wanted[queue].read(answer) for queue, answer in answers.items()}

    # Messages

    def heads(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Head]:
        """Of the messages at these offsets, all asked for before the first answers. What is gone or cannot be read, and
        whose broker did not answer at once, is missing.
        """
        group = self.settings.group
        found = self._at_once({queue: head_at(queue, offset, group) for queue, offset in places.items()})
        return {queue: head for queue, head in found.items() if head is not None}

    def pull(self, queue: MessageQueue, offset: int, end: int, *, wanted: Filter = EVERYTHING) -> Pulled:
        """What one pull brings of the offsets from `offset` to `end` - 1, as raw bytes: records as they are stored."""
        return Pulls(self._reach, self.settings, queue, wanted).pull(offset, end)

    def read(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        *,
        wanted: Filter = EVERYTHING,
        with_bodies: bool = True,
        fail_on_loss: bool = True,
        fail_on_damage: bool | None = None,
        keep_damaged: bool = False,
        rows: int = ROWS,
        columns: type[Columns] = Columns,
    ) -> Iterator[Columns]:
        """The messages with offsets from `begin` to `end` - 1, in columns of about `rows` each.

        Every offset of the range is accounted for. What is gone, damaged or cannot be opened, raises OffsetsGone or
        ProtocolError; without `fail_on_loss` it is passed over, a body that cannot be opened is None, and `passed_over`
        of the columns says why. `fail_on_damage` is `fail_on_loss` for what is damaged. With `keep_damaged` that is a
        row whose `errors` say why. An engine may bring a kind of `columns` of its own, which keeps rows in another way.
        """
        fail_on_damage = (fail_on_loss if fail_on_damage is None else fail_on_damage) and not keep_damaged
        pulls = Pulls(self._reach, self.settings, queue, wanted)
        found = columns(queue)
        offset = begin
        try:
            while offset < end:
                pulled = pulls.pull(offset, end, ahead=True)
                before, since, noted = len(found), offset, len(found.passed_over)
                try:
                    found.add(
                        pulled.data,
                        end,
                        offset_delta=pulled.offset_delta,
                        with_bodies=with_bodies,
                        tags=wanted.tag_set,
                        fail_on_loss=fail_on_damage,
                        keep_damaged=keep_damaged,
                        span=(since, pulled.next_offset),
                    )
                except ProtocolError as error:
                    raise ProtocolError(error.reason, peer=queue.broker) from error
                offset = min(_following(found, since, pulled.next_offset), end)
                misplaced = found.misplaced(since, offset, before)
                if misplaced is not None and keep_damaged:
                    found.mend(since, offset, before)
                elif misplaced is not None and fail_on_damage:
                    reason = f"{queue}: a message of offset {misplaced} among those from {since} to {offset - 1}"
                    raise ProtocolError(reason, peer=queue.broker)
                gone = pulled.gone
                if gone is None and wanted.is_everything and len(found) - before != offset - since:
                    gone = found.gap(since, offset, before)
                if gone is not None:
                    if fail_on_loss:
                        raise OffsetsGone(queue, *gone)
                    if len(found.passed_over) == noted:
                        found.passed_over.append(str(OffsetsGone(queue, *gone)))
                if len(found) >= rows or found.size >= BYTES:
                    yield found
                    found = columns(queue)
            if len(found) or found.passed_over:
                yield found
        finally:
            pulls.close()

    # Life

    def drop_dead(self) -> None:
        """For one that was kept for a while: close connections whose other end has gone; the next call connects."""
        if self._open is not None:
            self._open.drop_dead()

    def close(self) -> None:
        """Close what is open; the next call connects again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Reader], tuple[ReaderSettings]]:
        return Reader, (self.settings,)


def _following(found: Columns, since: int, next_offset: int) -> int:
    """Where to go on after a pull: where it says, or behind a record whose size lies."""
    if found.broken_at is None:
        return next_offset
    least, said = max(found.broken_at[0], since), found.broken_at[1]
    return (said if least <= said < next_offset else least) + 1


def _commit_of(group: str, queue: MessageQueue, offset: int) -> Exchange[None]:
    if not 0 <= offset <= OFFSET_MAX:
        raise ArgumentWrong(f"commit of {queue}: offset {offset} is none")
    return exchanges.commit(check_name("group", group, GROUP_LENGTH_MAX), queue, offset)
