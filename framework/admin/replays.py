"""Replays: dead letters sent once more, each once also where a replay was killed and begun again; and letters dropped.

Two things tell what was done. Each letter's copy is looked for before it is sent (`Replayed`). And the offset of the
replay group passes the letters at the front that are done, so that nobody asks for those. Before the first one is sent,
the offset of a second group says how far letters may be sent: nobody has to ask for those behind it.

What a broker cannot find, because it keeps no index (`messageIndexEnable=false`) or has deleted the copy, is sent
again: the last `STORE_EACH` letters before a kill, and those that a choice sent from behind others. Two replays of one
group at the same time may both send a letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Event
from typing import Literal

from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.dead_letters import (
    Letter,
    LetterChoice,
    LetterQueue,
    Replayed,
    dropped_topic,
    letters,
    queues,
    reach_group,
    replay_group,
)
from framework.admin.groups import reason_of, view
from framework.admin.topics import readers
from framework.errors import BrokerUnreachable, ConnectionLost, FrameworkError, Refused
from framework.mistakes import ClusterCannot
from framework.model.death_reason import REPLAY_OF, without_death_reason
from framework.model.message import DELAY_LEVEL, ORIGIN_MESSAGE_ID, RETRY_TOPIC, UNIQUE_KEY, WAIT_STORE
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, retry_topic
from framework.model.sendable import RESERVED
from framework.reading.pulls import EVERYTHING, Pulls
from framework.wire import exchanges, properties
from framework.wire.bodies.running import IS_ORDERLY
from framework.wire.codes import ResponseCode
from framework.wire.compression import compressed
from framework.wire.exchanges import Exchange, nothing
from framework.wire.requests.copies import STORED
from framework.wire.requests.send import DEFAULT_QUEUES, SendRequestV2

PRODUCER = "framework_dlq_replay"
STORE_EACH = 20
"""Letters that are done between two stored offsets."""
INDEX_SECONDS = 0.5
"""So long a broker may take to find what it has just stored."""
ATTEMPTS = 4
MARK = b"dropped"
# Said by brokers that have stored nothing, and that may do so a moment later.
_BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What a replay is going to do."""

    group: str
    places: Sequence[LetterQueue]
    choice: LetterChoice
    limit: int | None
    """So many are sent at most, or fail: no other one is tried in the place of one that fails."""
    to_retry: bool
    marks: str | None = None
    """The topic that gets a mark for each, where they are to be dropped and not to be sent."""
    counts: dict[str | None, int] = field(default_factory=dict)
    """Topic -> how many go there; None: those that do not say where they came from, which fail."""
    others: set[str] = field(default_factory=set)
    """Other groups that read these topics, and get the copies, too."""

    @property
    def count(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one letter."""

    letter: Letter
    what: Literal["sent", "skipped", "failed"]
    """Skipped: a replay has sent it before."""
    why: str = ""


def plan(
    admin: Admin,
    group: str,
    choice: LetterChoice,
    *,
    limit: int | None = None,
    to_retry: bool = False,
    is_drop: bool = False,
    advance: Callable[[int, int], None] = lambda *_: None,
) -> ReplayPlan:
    """Which letters go where, or are to be dropped; `advance` as in `queues`. Sends nothing. ConfigurationError where
    the group could not get them by a retry.
    """
    if to_retry:
        _check_not_orderly(admin, group)
    marks = dropped_topic(admin, group) if is_drop else None
    planned = ReplayPlan(group, queues(admin, group, advance=advance), choice, limit, to_retry, marks)
    found = (each for each in letters(admin, planned.places, Scan()) if choice.has(each))
    for letter in islice(found, limit):
        topic = _target(planned, letter)
        planned.counts[topic] = planned.counts.get(topic, 0) + 1
    for topic in () if to_retry or is_drop else planned.counts:
        if topic is not None:
            planned.others.update(*readers(admin, topic).found.values())
    planned.others.discard(group)
    return planned


def _target(planned: ReplayPlan, letter: Letter) -> str | None:
    if planned.marks is not None or letter.origin_topic is None:
        return planned.marks
    return retry_topic(planned.group) if planned.to_retry else letter.origin_topic


def _check_not_orderly(admin: Admin, group: str) -> None:
    for member in view(admin, group).members:
        if member.info is not None and member.info.properties.get(IS_ORDERLY) == "true":
            raise ClusterCannot(
                f"group {admin.unwrapped(group)} works in order: while it does, brokers make a dead letter of each "
                "message that is sent to its retry topic; replay to the topic instead"
            )


def run(admin: Admin, planned: ReplayPlan, pace: Callable[[], None]) -> Iterator[ReplayOutcome]:
    """Send what is planned, oldest first; `pace` is called before each send. Raises BrokerUnreachable at the first one
    whose fate is not known: where it was stored all the same, the next replay finds it.
    """
    sender, front, tried = _Sender(admin, planned), _Front(admin, planned), 0
    for each in planned.places:
        if each.end > max(each.reach, each.begin):
            _commit(admin, reach_group(admin, planned.group), each.queue, each.end)
    try:
        for letter in letters(admin, planned.places, Scan()):
            if tried == planned.limit:
                break
            if not planned.choice.has(letter):
                front.hold(letter)
                continue
            outcome = sender.replay(letter, pace)
            if outcome.what == "failed":
                front.hold(letter)
            else:
                front.pass_over(letter)
            tried += outcome.what != "skipped"
            yield outcome
    finally:
        front.store()


# Dropping


def fronts(admin: Admin, places: Sequence[LetterQueue], limit: int | None) -> dict[LetterQueue, int]:
    """Where each queue's offset goes when the oldest letters are dropped, all or so many. Queues that move, only."""
    if limit is None:
        found = {each: each.end for each in places}
    else:
        by_queue = {each.queue: each for each in places}
        found = {}
        for letter in islice(letters(admin, places, Scan()), limit):
            each = by_queue[letter.message.queue]
            found[each] = each.past(letter.message.queue_offset + 1)
    return {each: offset for each, offset in found.items() if offset > each.begin}


def passed_over(moves: Mapping[LetterQueue, int]) -> int:
    """How many letters that is, without those that were replayed."""
    return sum(
        offset - each.begin - sum(replayed < offset for replayed in each.replayed) for each, offset in moves.items()
    )


def drop(admin: Admin, group: str, moves: Mapping[LetterQueue, int]) -> None:
    """Pass over them: no replay sends them, no list shows them. Brokers keep them as long as any message."""
    name = replay_group(admin, group)
    for each, offset in moves.items():
        _commit(admin, name, each.queue, offset)


class _Front:
    """The replay group's offsets: how far the letters at the front of each queue are done."""

    def __init__(self, admin: Admin, planned: ReplayPlan) -> None:
        self._admin, self._group = admin, replay_group(admin, planned.group)
        self._places = {each.queue: each for each in planned.places}
        self._held: set[MessageQueue] = set()
        self._offsets: dict[MessageQueue, int] = {}
        self._count = 0

    def hold(self, letter: Letter) -> None:
        """It stays: no offset passes it."""
        self._held.add(letter.message.queue)

    def pass_over(self, letter: Letter) -> None:
        queue = letter.message.queue
        if queue not in self._held:
            self._offsets[queue] = self._places[queue].past(letter.message.queue_offset + 1)
            self._count += 1
            if self._count % STORE_EACH == 0:
                self.store()

    def store(self) -> None:
        offsets, self._offsets = self._offsets, {}
        for queue, offset in offsets.items():
            _commit(self._admin, self._group, queue, offset)


def _commit(admin: Admin, group: str, queue: MessageQueue, offset: int) -> None:
    """Brokers make a group, where they may, when somebody first pulls for it."""
    try:
        admin.ask_master(queue, exchanges.commit(group, queue, offset))
    except Refused as error:
        if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise
        pulls = Pulls(admin.reach, replace(admin.settings, group=group), queue, EVERYTHING)
        pulls.make_group_known(offset)
        pulls.close()
        admin.ask_master(queue, exchanges.commit(group, queue, offset))


class _Sender:
    """Sends copies, and asks first whether there is one."""

    def __init__(self, admin: Admin, planned: ReplayPlan) -> None:
        self._admin, self._planned = admin, planned
        self._copies = Replayed(admin, planned.group)
        self._turn = 0

    def replay(self, letter: Letter, pace: Callable[[], None]) -> ReplayOutcome:
        topic = _target(self._planned, letter)
        if topic is None:
            return ReplayOutcome(letter, "failed", "it does not say which topic it came from")
        try:
            if self._copies.has(letter):
                return ReplayOutcome(letter, "skipped")
            pace()
            self._send(letter, topic)
        except BrokerUnreachable:
            raise
        except FrameworkError as error:
            return ReplayOutcome(letter, "failed", reason_of(error))
        return ReplayOutcome(letter, "sent")

    # Sending

    def _send(self, letter: Letter, topic: str) -> None:
        is_mark = self._planned.marks is not None  # its broker makes the topic where there is none yet
        wanted = [MessageQueue(topic, letter.message.queue.broker, 0)] if is_mark else self._copies.queues(topic)
        if not wanted:
            raise ClusterCannot(f"no broker takes messages for {self._admin.unwrapped(topic)}")
        home = (letter.origin_broker, letter.origin_queue)
        # Its own queue where that is known: messages of one key stay in one queue.
        own = [each for each in wanted if not self._planned.to_retry and (each.broker, each.number) == home]
        for attempt in range(ATTEMPTS):
            self._turn += 1
            try:
                self._try(letter, own[0] if own else wanted[self._turn % len(wanted)])
            except Refused as error:
                if error.code not in _BUSY or attempt == ATTEMPTS - 1:
                    raise
                self._admin.reach.stand_back(attempt)
            else:
                return

    def _try(self, letter: Letter, queue: MessageQueue) -> None:
        """Once; again only where the connection was lost and no copy is found."""
        sending = self._copy(letter, queue)
        reach = self._admin.reach
        address = reach.address(
            queue.topic if self._planned.marks is None else letter.message.queue.topic, queue.broker
        )
        timeout_ms = self._admin.settings.request_timeout_ms
        try:  # not `reach.request`, which would ask twice by itself
            answer = reach.link(address).request(sending.request(), timeout_ms=timeout_ms)
        except ConnectionLost:
            reach.stand_back(0)
            Event().wait(INDEX_SECONDS)
            if self._copies.has(letter):
                return
            answer = reach.link(address).request(sending.request(), timeout_ms=timeout_ms)
        sending.result(answer, queue.broker)

    def _copy(self, letter: Letter, queue: MessageQueue) -> Exchange[None]:
        """As its sender made it; its attempts begin anew. Of a mark only what it is found and known by."""
        message, is_mark = letter.message, self._planned.marks is not None
        texts = (
            {}
            if is_mark
            else {
                name: text
                for name, text in without_death_reason(message.properties).items()
                if name not in RESERVED and name != DELAY_LEVEL
            }
        )
        texts |= {UNIQUE_KEY: message.message_id, WAIT_STORE: "true", REPLAY_OF: letter.place}
        if self._planned.to_retry:  # by these a member finds its handler, and says where it came from if it dies again
            texts[RETRY_TOPIC] = letter.origin_topic or ""
            texts[ORIGIN_MESSAGE_ID] = message.properties.get(ORIGIN_MESSAGE_ID, message.message_id)
        body, sys_flag = (MARK, 0) if is_mark else compressed(message.body)
        header = SendRequestV2(
            producer_group=self._admin.wrapped(PRODUCER),
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=queue.number,
            sys_flag=sys_flag,
            born_timestamp=message.born_ms,
            flag=message.flag,
            properties=properties.encode(texts),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=queue.broker,
        )
        return Exchange(header, nothing, body, STORED)
