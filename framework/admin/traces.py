"""Traces: where one message is, and what became of it in each group. Reads only.

Three things tell: the trace topic, where clients write one; the copies of the message that brokers find by its unique
key, in the retry topics, the dead-letter topics and among delayed ones; and the groups' offsets. What handled a message
without a trace left nothing but an offset behind it, so that is all that can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from framework.admin.browse import readable
from framework.admin.cluster import Admin, BrokerPlace
from framework.admin.dead_letters import Letter, letter_of
from framework.admin.findings import is_denied, tried
from framework.admin.groups import connections_of, is_system, reason_of
from framework.admin.topics import readers
from framework.admin.topics import topics as user_topics
from framework.errors import FrameworkError, Refused
from framework.model.death_reason import MEMBER, REPLAY_OF
from framework.model.delay_levels import DELAYS_MS
from framework.model.message import DELAY_LEVEL, RETRY_TOPIC, UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from framework.wire import exchanges, ids, trace
from framework.wire.codes import ResponseCode
from framework.wire.compression import decompress
from framework.wire.exchanges import Exchange
from framework.wire.record import Record

REAL_TOPIC = "REAL_TOPIC"
_MADE = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
# ConsumeReturnType's, by ordinal
_RESULTS = ("success", "timed out", "exception", "no result", "failed")


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One thing that happened to the message, or how it stands in a group. What is not known is None."""

    at_ms: int | None
    what: str
    where: str | None = None
    who: str | None = None
    elapsed_ms: int | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """The message as one broker stores it."""

    message: Message
    host: str
    """Of who sent it."""


@dataclass(slots=True)
class MessageTrace:
    """All that is known of one message."""

    message_id: str
    """Its unique key, or what was asked for where it has none."""
    topic: str | None = None
    """Where it was first stored, as the cluster calls it."""
    events: list[TraceEvent] = field(default_factory=list)
    """In their order; those of a group's state are last, and have no time."""
    searched: int = 0
    """Topics that were looked through because nobody named one."""
    is_traced: bool = False
    """Whether the trace topic knows it."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Who did not answer, and why."""

    @property
    def is_found(self) -> bool:
        return bool(self.events)


def trace_of(
    admin: Admin,
    message_id: str,
    *,
    topics: Sequence[str] = (),
    trace_topic: str = TRACE_TOPIC,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> MessageTrace:
    """By its unique key, or its offset message id. Brokers find a unique key within a topic only: without one in
    `topics` and without a trace, each topic is searched. Names are the cluster's.
    """
    return _Search(admin, message_id, trace_topic).run(topics, advance)


class _Search:
    """One message."""

    def __init__(self, admin: Admin, message_id: str, trace_topic: str) -> None:
        self._admin, self._trace_topic = admin, trace_topic
        self._brokers = admin.brokers()
        self._found = MessageTrace(message_id)
        self._copies: dict[str, _Copy] = {}
        """By their offset message ids."""

    def run(self, topics: Sequence[str], advance: Callable[[int, int], None]) -> MessageTrace:
        found = self._found
        for topic in topics:
            if self._admin.route(topic) is None:  # mistyped: "no broker finds it" would be of no message's topic
                readable(self._admin, topic)
        self._put(self._by_place(found.message_id))
        for copy in list(self._copies.values()):
            found.message_id = copy.message.properties.get(UNIQUE_KEY) or found.message_id
            found.topic = _origin(copy)
        told = list(self._told())
        found.is_traced = bool(told)
        named = [each.topic for each, _ in told if isinstance(each, trace.TracedSend | trace.TracedDecision)]
        found.topic = found.topic or next(iter([*map(self._admin.wrapped, named)]), None)
        wanted = list(topics) or ([found.topic] if found.topic else [])
        if not wanted:
            wanted = [each.name for each in user_topics(self._admin)]
            found.searched = len(wanted)
        for number, topic in enumerate(wanted):
            advance(number, len(wanted))
            if self._put(self._by_key(topic)):
                found.topic = topic
                break
        advance(len(wanted), len(wanted))
        groups = self._groups(told)
        made = (of(group) for group in groups for of in (retry_topic, dead_letter_topic))
        for topic in (SCHEDULE_TOPIC, *made):
            self._put(self._by_key(topic))
        events = [*_of_traces(told, self._admin), *self._of_copies()]
        found.events = sorted(events, key=lambda event: event.at_ms or 0)
        found.events += self._of_groups(groups, told)
        return found

    # Asking

    def _ask(self, broker: BrokerPlace, exchange: Exchange[list[Record]]) -> list[_Copy]:
        records = tried(lambda: self._admin.ask(broker, exchange))
        if isinstance(records, FrameworkError):
            if not _is_not_there(records):
                self._found.unknown[broker.name] = reason_of(records)
            return []
        return [_copy(broker.name, record) for record in records]

    def _by_place(self, message_id: str) -> list[_Copy]:
        """What an offset message id names; nothing where it is none. A unique key looks like one of no broker's."""
        place = ids.parse_offset_message_id(message_id)
        if place is None:
            return []
        host = _host(place.address, place.port)
        at = [broker for broker in self._brokers if host in broker.addresses.values()]
        return [copy for broker in at for copy in self._ask(broker, exchanges.at_place(place.commit_log_offset))]

    def _by_key(self, topic: str, *, is_unique: bool = True) -> list[_Copy]:
        exchange = exchanges.by_key(topic, self._found.message_id, is_unique=is_unique)
        return [copy for broker in self._brokers for copy in self._ask(broker, exchange)]

    def _told(self) -> Iterator[tuple[trace.Traced, str]]:
        """What the trace topic has of it, each with the host of its teller."""
        for copy in self._by_key(self._trace_topic, is_unique=False):
            for each in trace.decode(copy.message.body.decode(errors="replace")):
                if self._found.message_id in _ids(each):
                    yield each, copy.host

    def _groups(self, told: Iterable[tuple[trace.Traced, str]]) -> list[str]:
        """Those that read its topic, or that the trace names."""
        groups = {self._admin.wrapped(each.group) for each, _ in told if isinstance(each, trace.TracedStart)}
        for copy in self._copies.values():
            groups.add(_group_of(copy.message.queue.topic) or "")
        if self._found.topic is not None:
            answers = readers(self._admin, self._found.topic)
            self._found.unknown |= {
                name: reason_of(error) for name, error in answers.failed.items() if not _is_not_there(error)
            }
            groups.update(*answers.found.values())
        return sorted(name for name in groups if name and not is_system(name))

    def _put(self, copies: Iterable[_Copy]) -> bool:
        """Whether there was one."""
        some = {copy.message.offset_message_id: copy for copy in copies}
        self._copies |= some
        return bool(some)

    # What the copies say

    def _of_copies(self) -> Iterator[TraceEvent]:
        copies = self._copies.values()
        delivered = {(_topic_of(each.message), each.message.attempt) for each in copies if not _waits(each)}
        for copy in copies:
            message = copy.message
            if not _waits(copy):
                yield self._stored(copy)
            elif (_topic_of(message), message.attempt) not in delivered:
                topic = message.properties.get(REAL_TOPIC, "")
                yield TraceEvent(
                    message.stored_ms, "delayed", _place(self._admin, message), self._who(copy), None,
                    f"waits for {self._admin.unwrapped(topic)}{_due(message)}",
                )  # fmt: skip

    def _stored(self, copy: _Copy) -> TraceEvent:
        message, where = copy.message, _place(self._admin, copy.message)
        topic = message.queue.topic
        if topic.startswith(DEAD_LETTER_PREFIX):
            letter = letter_of(message)
            who = " ".join(filter(None, (self._who(copy), message.properties.get(MEMBER))))
            return TraceEvent(letter.dead_ms, "dead letter", where, who, None, _end_of(letter))
        if topic.startswith(RETRY_PREFIX):
            what = "replayed" if REPLAY_OF in message.properties else f"retry {message.attempt - 1}"
            return TraceEvent(message.stored_ms, what, where, self._who(copy))
        what = "replayed" if REPLAY_OF in message.properties else "stored"
        return TraceEvent(message.stored_ms, what, where, copy.host)

    def _who(self, copy: _Copy) -> str | None:
        group = _group_of(_topic_of(copy.message))
        return None if group is None else self._admin.unwrapped(group)

    # How it stands

    def _of_groups(self, groups: Sequence[str], told: Sequence[tuple[trace.Traced, str]]) -> list[TraceEvent]:
        first = (each.message for each in self._copies.values() if _is_origin(each))
        origin = min(first, key=lambda each: each.stored_ms, default=None)
        place = None if origin is None else _place(self._admin, origin)
        return [
            TraceEvent(None, "group", place, self._admin.unwrapped(each), None, self._standing(each, origin, told))
            for each in groups
        ]

    def _standing(self, group: str, origin: Message | None, told: Sequence[tuple[trace.Traced, str]]) -> str:
        """The furthest that is known of a group."""
        mine = [each.message for each in self._copies.values() if _group_of(_topic_of(each.message)) == group]
        letters = [each for each in mine if each.queue.topic.startswith(DEAD_LETTER_PREFIX)]
        if letters:
            letter = letter_of(max(letters, key=lambda each: each.stored_ms))
            copies = (each.message for each in self._copies.values())
            replays = [each for each in copies if each.properties.get(REPLAY_OF) == letter.place]
            again = f"; replayed since, {self._against(group, replays[-1])}" if replays else ""
            return f"dead letter: {_end_of(letter)}{again}"
        if (success := _success(group, told, self._admin)) is not None:
            return success
        retries = [each for each in mine if each.queue.topic.startswith(RETRY_PREFIX)]
        if retries:
            last = max(retries, key=lambda each: (each.attempt, each.stored_ms))
            return f"retry {last.attempt - 1}: {self._against(group, last)}"
        if any(_waits(each) for each in self._copies.values() if _group_of(_topic_of(each.message)) == group):
            return "waits for a retry"
        return "not known: the message itself was not found" if origin is None else self._against(group, origin)

    def _against(self, group: str, message: Message) -> str:
        """The message and the group's offset."""
        stored = tried(lambda: self._admin.ask_master(message.queue, exchanges.stored_offset(group, message.queue)))
        if isinstance(stored, FrameworkError):
            self._found.unknown[f"{self._admin.unwrapped(group)} {message.queue.broker}"] = reason_of(stored)
            return "not known"
        if stored is None:
            return "not read: the group has stored no offset in its queue"
        before = message.queue_offset - stored
        if before >= 0:
            waiting = f"{before:,} message{'s' * (before != 1)} before it" if before else "it is next"
            return f"not confirmed yet: {waiting}"
        passed = f"passed: the group's offset is {stored:,}"
        if (tags := self._filter(group, message)) is not None:
            return f"{passed}; its filter {tags!r} leaves the message out"
        return f"{passed}, so it was handled, or left out by a filter, or waits for a retry"

    def _filter(self, group: str, message: Message) -> str | None:
        """The tags that the group wants, where the message has none of them."""
        for broker in self._brokers:
            listed = tried(lambda broker=broker: self._admin.ask(broker, connections_of(group)))  # type: ignore[misc]
            if isinstance(listed, FrameworkError):
                continue
            wanted = listed.subscriptions.get(message.queue.topic)
            if wanted is not None and wanted.tags and message.tags not in wanted.tags:
                return wanted.expression
        return None


# Of one copy


def _copy(broker: str, record: Record) -> _Copy:
    body = tried(lambda: decompress(record.body, record.sys_flag))
    queue = MessageQueue(record.topic, broker, record.queue_id)
    message = Message(
        record.topic, body if isinstance(body, bytes) else b"", properties=record.properties, queue=queue,
        queue_offset=record.queue_offset, attempt=record.reconsume_times + 1, born_ms=record.born_ms,
        stored_ms=record.stored_ms,
        offset_message_id=ids.offset_message_id(record.store_host, record.commit_log_offset),
    )  # fmt: skip
    return _Copy(message, ids.unpack_host(record.born_host)[0])


def _host(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _topic_of(message: Message) -> str:
    """The topic that it is for: one that is delayed lies elsewhere."""
    return message.properties.get(REAL_TOPIC, "") if message.queue.topic == SCHEDULE_TOPIC else message.queue.topic


def _waits(copy: _Copy) -> bool:
    return copy.message.queue.topic == SCHEDULE_TOPIC


def _is_origin(copy: _Copy) -> bool:
    return not _waits(copy) and not copy.message.queue.topic.startswith(_MADE)


def _origin(copy: _Copy) -> str | None:
    """Where the message was first stored."""
    if copy.message.queue.topic.startswith(DEAD_LETTER_PREFIX):
        return letter_of(copy.message).origin_topic
    topic = _topic_of(copy.message)
    return copy.message.properties.get(RETRY_TOPIC) if topic.startswith(RETRY_PREFIX) else topic or None


def _group_of(topic: str) -> str | None:
    """Whose retry or dead-letter topic this is."""
    return next((topic.removeprefix(prefix) for prefix in _MADE if topic.startswith(prefix)), None)


def _place(admin: Admin, message: Message) -> str:
    queue = message.queue
    return f"{admin.unwrapped(queue.topic)}@{queue.broker}:{queue.number}:{message.queue_offset}"


def _due(message: Message) -> str:
    level = message.properties.get(DELAY_LEVEL, "")
    return f", delay level {level}" if level.isdecimal() and int(level) <= len(DELAYS_MS) else ""


def _end_of(letter: Letter) -> str:
    count = letter.attempts
    attempts = "attempts not known" if count is None else f"after {count} attempt{'s' * (count != 1)}"
    # The reason of an exception begins with its class as a rule.
    said = letter.error if letter.error and not (letter.reason or "").startswith(letter.error) else None
    cause = ": ".join(each for each in (said, letter.reason) if each)
    return f"{attempts}: {cause}" if cause else f"{attempts}; why is not said"


def _is_not_there(error: FrameworkError) -> bool:
    """A broker that has no such message or topic has answered."""
    nowhere = (ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND)
    return isinstance(error, Refused) and error.code in nowhere and not is_denied(error)


# Of the trace topic


def _ids(each: trace.Traced) -> tuple[str, ...]:
    return each.message_ids if isinstance(each, trace.TracedSend | trace.TracedDecision) else (each.message_id,)


def _of_traces(told: Sequence[tuple[trace.Traced, str]], admin: Admin) -> Iterator[TraceEvent]:
    ends = {each.request_id: each for each, _ in told if isinstance(each, trace.TracedEnd)}
    for each, host in told:
        match each:
            case trace.TracedSend():
                result = "success" if each.is_stored else "failed"
                where = f"{each.topic} {each.broker}".strip()
                yield TraceEvent(each.at_ms, "sent", where, f"{each.group} {host}", each.cost_ms, result)
            case trace.TracedStart():
                event = TraceEvent(each.at_ms, f"attempt {each.retries + 1}", host, each.group)
                end = ends.get(each.request_id)
                elapsed, result = (None, "not ended, as far as it is told") if end is None else _ended(end)
                yield replace(event, elapsed_ms=elapsed, result=result)
            case trace.TracedDecision():
                yield TraceEvent(each.at_ms, "transaction", each.topic, f"{each.group} {host}", None, each.state)
            case trace.TracedEnd():
                pass  # beside its beginning


def _ended(end: trace.TracedEnd) -> tuple[int, str]:
    if end.is_success:
        return end.cost_ms, "success"
    known = end.code is not None and 0 < end.code < len(_RESULTS)
    return end.cost_ms, _RESULTS[end.code] if known and end.code is not None else "failed"


def _success(group: str, told: Sequence[tuple[trace.Traced, str]], admin: Admin) -> str | None:
    ends = {each.request_id: each for each, _ in told if isinstance(each, trace.TracedEnd) and each.is_success}
    for each, host in told:
        if isinstance(each, trace.TracedStart) and admin.wrapped(each.group) == group and each.request_id in ends:
            return f"handled by {host}, attempt {each.retries + 1}, in {ends[each.request_id].cost_ms:,} ms"
    return None
