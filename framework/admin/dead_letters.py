"""Dead letters: what lies in a group's dead-letter topic, where each came from, and why it ended there. Reads only.

What is dealt with is known from the offset of a group of its own, `DLQ_REPLAY_<group>`: below it every letter was
replayed, or dropped. Of those behind it some may have been replayed where a replay left others: up to the offset of
`DLQ_REPLAY_-TO-<group>` each is looked for by its copy. So it is with letters that were dropped from among others: each
has a mark in `dropped_topic`. Nothing at a broker is ever deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from framework.admin import browse
from framework.admin.browse import Scan, Span
from framework.admin.cluster import Admin
from framework.admin.groups import check_known
from framework.mistakes import ClusterCannot
from framework.model.death_reason import ATTEMPTS, ERROR, LINE, ORIGIN, REASON, REPLAY_OF, TIME, origin_of
from framework.model.message import RETRY_TOPIC, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    DEAD_LETTER_PREFIX,
    GROUP_LENGTH_MAX,
    REPLAY_PREFIX,
    RETRY_PREFIX,
    dead_letter_topic,
    is_legal,
    retry_topic,
)
from framework.reading.pulls import EVERYTHING
from framework.wire import exchanges

DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
"""Written by RocketMQ's proxy."""
CLOCK_SET_BACK_MS = 60_000
"""So far a broker's clock may have been set back between a letter and its copy."""
CLOCKS_APART_MS = 3_600_000
"""So far the clocks of two brokers may be apart; `doctor` finds less."""
_ORIGIN = re.compile(r"(?P<topic>[^@]+)@(?P<broker>[^@:]+):(?P<queue>\d{1,9}):(?P<offset>\d{1,18})")
_DIGITS = re.compile(r"\d+")
_MADE = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter. What its writer did not say is None: those of Java have neither a reason nor an error."""

    message: Message
    origin_topic: str | None
    """As the cluster calls it."""
    origin_broker: str | None
    origin_queue: int | None
    origin_offset: int | None
    attempts: int | None
    reason: str | None
    error: str | None
    """The exception's class."""
    dead_ms: int
    line: str | None = None
    """Where in its author's code it was raised."""

    @property
    def place(self) -> str:
        """Where it lies: what names this letter and no other."""
        return origin_of(self.message.queue, self.message.queue_offset)

    @property
    def cause(self) -> tuple[str | None, str | None]:
        return (self.error, self.reason)


def letter_of(message: Message) -> Letter:
    """What a message of a dead-letter topic says of its end. Nothing in it is trusted beyond its form."""
    texts = message.properties
    named = _ORIGIN.fullmatch(texts.get(ORIGIN, ""))
    told = (texts.get(RETRY_TOPIC), named["topic"] if named else None, texts.get(DLQ_ORIGIN_TOPIC))
    topic = next((name for name in told if name and is_legal(name) and not name.startswith(_MADE)), None)
    is_exact = named is not None and named["topic"] == topic
    attempts = texts.get(ATTEMPTS, "")
    # Who has no word on it: brokers count an attempt with each copy, also with the one that ends here.
    counted = int(attempts) if _is_number(attempts) else message.attempt - 1 or None
    at = texts.get(TIME, "")
    return Letter(
        message,
        topic,
        named["broker"] if named and is_exact else None,
        int(named["queue"]) if named and is_exact else None,
        int(named["offset"]) if named and is_exact else None,
        counted,
        texts.get(REASON),
        texts.get(ERROR),
        int(at) if _is_number(at) else message.stored_ms,
        texts.get(LINE),
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 13


# Where they lie


def replay_group(admin: Admin, group: str) -> str:
    """The group whose offset says how far the dead letters are dealt with. Names are the cluster's."""
    return _own_group(admin, group, "")


def reach_group(admin: Admin, group: str) -> str:
    """The group whose offset says how far replays may have sent letters, some or all."""
    return _own_group(admin, group, "-TO-")


def dropped_topic(admin: Admin, group: str) -> str:
    """Where the marks are of letters that were dropped from among others. Brokers make such a topic by themselves."""
    return retry_topic(replay_group(admin, group))


def _own_group(admin: Admin, group: str, kind: str) -> str:
    bare = admin.unwrapped(group)
    name = admin.wrapped(f"{REPLAY_PREFIX}{kind}{bare}")
    if len(name) > GROUP_LENGTH_MAX:
        name = admin.wrapped(f"{REPLAY_PREFIX}{kind}{sha256(bare.encode()).hexdigest()[:32]}")
    return name


@dataclass(frozen=True, slots=True)
class LetterQueue:
    """One queue of a dead-letter topic: what is kept, and how much of it is dealt with."""

    queue: MessageQueue
    low: int
    end: int
    stored: int | None
    """The replay group's offset; None where nothing was ever replayed or dropped."""
    reach: int = 0
    """Letters behind this offset were never replayed."""
    replayed: frozenset[int] = frozenset()
    """Offsets of those behind `begin` that were."""
    unasked: int = 0
    """So many of those that wait may have been replayed: there were too many to ask for."""

    @property
    def begin(self) -> int:
        """The first one that may not be dealt with."""
        return min(max(self.low, self.stored or 0), self.end)

    @property
    def done(self) -> int:
        """So many of those that are kept are dealt with."""
        return self.begin - self.low + len(self.replayed)

    @property
    def waiting(self) -> int:
        return self.end - self.low - self.done

    def past(self, offset: int) -> int:
        """The first one from there on that was not replayed."""
        while offset in self.replayed:
            offset += 1
        return offset


def queues(
    admin: Admin, group: str, *, most: int | None = None, advance: Callable[[int, int], None] = lambda *_: None
) -> list[LetterQueue]:
    """The queues of the group's dead letters, as they are now; none where there was never one. `most`: where more
    letters than that had to be asked for one by one, those behind the offset count as not replayed, and as `unasked`.
    `advance` hears how many were asked for, and of how many.

    ConfigurationError where no broker knows the group, or where its dead letters may not be read.
    """
    topic = dead_letter_topic(group)
    route = admin.route(topic)
    if route is None:
        check_known(admin, group)
        return []
    if not route.readable:
        raise ClusterCannot(
            f"{topic} may not be read: brokers before 5.0 make it for writing only; "
            f"`mqadmin updateTopicPerm -n {admin.settings.name_servers[0]} -c CLUSTER -t {topic} -p 6` lets it be read"
        )
    name, reach_name, found = replay_group(admin, group), reach_group(admin, group), []
    for queue in route.readable:
        end = admin.ask_master(queue, exchanges.max_offset(queue))
        low = admin.ask_master(queue, exchanges.min_offset(queue))
        stored = admin.ask_master(queue, exchanges.stored_offset(name, queue))
        reach = admin.ask_master(queue, exchanges.stored_offset(reach_name, queue))
        found.append(LetterQueue(queue, low, end, stored, reach or 0))
    return _with_replayed(admin, group, found, most, advance)


def _with_replayed(
    admin: Admin, group: str, found: list[LetterQueue], most: int | None, advance: Callable[[int, int], None]
) -> list[LetterQueue]:
    """Only where a replay left letters behind it, its letters are asked for, one by one."""
    spans = [Span(each.queue, each.begin, min(each.reach, each.end)) for each in found if each.reach > each.begin]
    if not spans:
        return found
    total = sum(span.end - span.begin for span in spans)
    if most is not None and total > most:
        return [replace(each, unasked=max(min(each.reach, each.end) - each.begin, 0)) for each in found]
    copies, replayed = Replayed(admin, group), set[tuple[MessageQueue, int]]()
    for count, message in enumerate(browse.messages(admin, EVERYTHING, spans, Scan()), start=1):
        if copies.has(letter_of(message)):
            replayed.add((message.queue, message.queue_offset))
        advance(count, total)
    return [
        replace(each, replayed=frozenset(offset for queue, offset in replayed if queue == each.queue))
        for each in found
    ]  # fmt: skip


class Replayed:
    """Which letters of a group have a copy that a replay made, or a mark that they were dropped. Either names its
    letter, and keeps the unique key, by which brokers find it: each letter costs a question to each broker of two
    topics, and of a third where some were dropped.
    """

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin, self._group = admin, group
        self._writable: dict[str, Sequence[MessageQueue]] = {}

    def has(self, letter: Letter) -> bool:
        """Whether a broker finds one: where the letter came from, in the group's retry topic or among the marks."""
        for topic in (letter.origin_topic, retry_topic(self._group), dropped_topic(self._admin, self._group)):
            by_broker = {queue.broker: queue for queue in self.queues(topic)} if topic else {}
            for queue in by_broker.values():
                since_ms = _copied_since(letter, queue.broker)
                asking = exchanges.by_key(queue.topic, letter.message.message_id, is_unique=True, since_ms=since_ms)
                found = self._admin.ask_master(queue, asking)
                if any(each.properties.get(REPLAY_OF) == letter.place for each in found):
                    return True
        return False

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Those that may be written to, as they were at the first look."""
        if topic not in self._writable:
            route = self._admin.route(topic)
            self._writable[topic] = () if route is None else route.writable
        return self._writable[topic]


def _copied_since(letter: Letter, broker: str) -> int:
    """A copy is younger than its letter. A broker that looks through what is older, too, takes the longer the more it
    keeps: ten thousand letters behind a million messages took ten minutes to be asked for.
    """
    leeway_ms = CLOCK_SET_BACK_MS if broker == letter.message.queue.broker else CLOCKS_APART_MS
    return max(letter.message.stored_ms - leeway_ms, 0)


def letters(admin: Admin, places: Sequence[LetterQueue], scan: Scan, *, is_all: bool = False) -> Iterator[Letter]:
    """Oldest first; `is_all`: also those that are dealt with."""
    spans = [Span(each.queue, each.low if is_all else each.begin, each.end) for each in places]
    replayed = {} if is_all else {each.queue: each.replayed for each in places if each.replayed}
    for message in browse.messages(admin, EVERYTHING, spans, scan):
        if message.queue_offset not in replayed.get(message.queue, ()):
            yield letter_of(message)


# Which are meant


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """Which dead letters somebody means; without anything: all."""

    since_ms: int | None = None
    key: str | None = None
    reason: Callable[[str], bool] | None = None
    """Of `error: reason`, as far as there is one; or of its line."""
    place: str | None = None
    """Where one letter lies: it and no other."""

    def has(self, letter: Letter) -> bool:
        if self.since_ms is not None and letter.dead_ms < self.since_ms:
            return False
        if self.key is not None and self.key not in letter.message.keys:
            return False
        if self.place is not None and self.place != letter.place:
            return False
        told = (": ".join(each for each in letter.cause if each), letter.line or "")
        return self.reason is None or any(map(self.reason, told))


def reason_of(text: str) -> Callable[[str], bool]:
    """`timed out`: a part of it; `~Key.*card`: a regular expression. ValueError says what is wrong with that."""
    if not text.startswith("~"):
        return lambda told: text in told
    try:
        pattern = re.compile(text[1:])
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return lambda told: pattern.search(told) is not None


# What they have in common


@dataclass(slots=True)
class Cause:
    """Dead letters that ended for the same reason."""

    error: str | None
    reason: str | None
    line: str | None = None
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    attempts: set[int | None] = field(default_factory=set)

    def add(self, letter: Letter) -> None:
        self.first_ms = min(self.first_ms, letter.dead_ms) if self.count else letter.dead_ms
        self.last_ms = max(self.last_ms, letter.dead_ms)
        self.attempts.add(letter.attempts)
        self.reason = self.reason if self.reason == letter.reason else masked(letter.reason)
        self.count += 1


def causes(found: Iterable[Letter]) -> list[Cause]:
    """By error, line and reason, the most frequent first. Figures in reasons differ from letter to letter: there `#`
    stands for each.
    """
    by_cause: dict[tuple[str | None, str | None, str | None], Cause] = {}
    for letter in found:
        key = (letter.error, masked(letter.reason), letter.line)
        by_cause.setdefault(key, Cause(letter.error, letter.reason, letter.line)).add(letter)
    return sorted(by_cause.values(), key=lambda each: (-each.count, each.first_ms))


def masked(reason: str | None) -> str | None:
    """With `#` for each figure."""
    return None if reason is None else _DIGITS.sub("#", reason)
