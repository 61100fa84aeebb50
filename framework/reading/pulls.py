"""Pulls: one queue's pulls by a reader: which replica is asked, what its answer means, and the next one in advance.

A pull says itself what is wanted, so no group has to be joined; it never waits at the broker for what is not there yet.
While an answer is decoded the next pull is already under way: its offset is known from the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused
from framework.mistakes import FilterRefused
from framework.model.queue import MessageQueue
from framework.model.subscription import BY_SQL, BY_TAG, Subscription
from framework.model.subscription import EVERYTHING as ALL_TAGS
from framework.reading.link import Link
from framework.reading.reach import Reach
from framework.reading.settings import ReaderSettings
from framework.wire import stored
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import OFFSET_MAX, Exchange
from framework.wire.requests.pull import (
    LITE_PULL,
    SUBSCRIPTION,
    PullTemplate,
    pull_of,
    read_progress,
    suggested_replica,
)

BATCH_BYTES = 4 * 1024 * 1024  # asked for; a stock broker answers with at most 256 KiB
_NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
TOPIC_GONE = "the topic is not on its broker any more"
BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted of a topic; brokers do the filtering. `sql` needs enablePropertyFilter on a stock broker."""

    tags: str = ALL_TAGS
    """Tags joined by `||`, or `*` for all."""
    sql: str = ""
    """An SQL92 expression over properties. Not together with tags."""
    tag_set: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        tags = Subscription("", self.tags).tags
        if self.sql and tags:
            raise FilterRefused("filter: give either tags or sql, not both; sql can say TAGS = 'a'")
        if not self.sql and not tags and self.tags.strip() != ALL_TAGS:
            raise FilterRefused(f"filter: no tag in {self.tags!r}; write 'a || b', or '*' for all")
        if self.sql:
            from framework.model.sql92 import parse

            parse(self.sql)  # names the mistake before a broker has to
        object.__setattr__(self, "tag_set", frozenset(tags))

    @property
    def is_everything(self) -> bool:
        return not self.sql and not self.tag_set


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer: records as they are stored, and where to go on."""

    data: bytes
    next_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int = 0
    """To be added to the records' queue offsets (static topics)."""
    gone: tuple[int, int] | None = None
    """Offsets that were asked for and are gone: the first, and the one after the last."""


class Pulls:
    """Asked for ranges one after the other, by one thread."""

    def __init__(self, reach: Reach, settings: ReaderSettings, queue: MessageQueue, wanted: Filter) -> None:
        self._reach, self._settings, self._queue = reach, settings, queue
        self._replica = self._asked = MASTER
        """Which one is asked next, and which one the last answer is from: a pull in advance went out before another
        was suggested.
        """
        self._ahead: tuple[Link, tuple[int, int], int] | None = None
        """The pull under way, to the replica that was asked last: its link, what was asked, and the offset."""
        expression, kind = (wanted.sql, BY_SQL) if wanted.sql else (wanted.tags, BY_TAG)
        request = pull_of(
            settings.group, queue, 0, settings.batch, SUBSCRIPTION | LITE_PULL, expression, kind, bytes_max=BATCH_BYTES
        )
        self._template = PullTemplate(request)

    def pull(self, offset: int, end: int, *, ahead: bool = False) -> Pulled:
        """What is at `offset` and behind it. `ahead` sends the next pull, up to `end`, before this is handed out."""
        last: BrokerUnreachable | Refused | None = None
        attempt = 0
        for attempt in self._reach.attempts():
            try:
                link, answer = self._answered(offset, end, fresh=attempt > 0)
                pulled = self._read(answer, offset, end)
            except BrokerUnreachable as error:
                last, queue = error, self._queue
                if attempt >= self._settings.retries and self._reach.lacks(queue.topic, queue.broker):
                    raise OffsetsGone(queue, offset, end, TOPIC_GONE) from error
                self._replica = self._reach.other_replica(queue.topic, queue.broker, self._asked)
                continue
            except Refused as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    raise OffsetsGone(self._queue, offset, end, TOPIC_GONE) from error
                if error.code not in BUSY and self._asked == MASTER:
                    raise
                last = error
                self._replica = MASTER
                continue
            if pulled is None:
                last = BrokerUnreachable(f"{self._queue}: broker has offset {offset} and does not hand it out")
                continue
            if ahead and pulled.next_offset < end and pulled.gone is None and link.is_open:
                self._ask_ahead(link, pulled.next_offset, end)
            return pulled
        assert last is not None, "there is at least one attempt"
        if isinstance(last, Refused):
            raise last
        raise BrokerUnreachable(
            f"{self._queue} from offset {offset}: {attempt + 1} attempts failed; the last: {last}"
        ) from last

    def _answered(self, offset: int, end: int, *, fresh: bool) -> tuple[Link, RemotingCommand]:
        timeout_ms = self._settings.request_timeout_ms
        under_way, self._ahead = self._ahead, None
        if under_way is not None:
            link, asked, at = under_way
            if at == offset and link.is_open:
                answer = link.answer(asked, timeout_ms=timeout_ms)
                if answer.code != ResponseCode.GO_AWAY:
                    return link, answer
                link.close()
            else:
                link.forget(asked)
        self._asked = self._replica
        address = self._reach.address(self._queue.topic, self._queue.broker, self._asked, fresh=fresh)
        link = self._reach.link(address)
        answer = link.answer(link.ask(self._command(offset, end), timeout_ms=timeout_ms), timeout_ms=timeout_ms)
        if answer.code == ResponseCode.GO_AWAY:
            link.close()
            raise BrokerUnreachable(f"{address}: told to go away")
        return link, answer

    def _ask_ahead(self, link: Link, offset: int, end: int) -> None:
        try:
            asked = link.ask(self._command(offset, end), timeout_ms=self._settings.request_timeout_ms)
        except BrokerUnreachable:
            return  # the next pull finds the link ended, and says so if another does not help
        self._ahead = (link, asked, offset)

    def _command(self, offset: int, end: int) -> RemotingCommand:
        command = self._template.command(offset, None)
        command.code = int(RequestCode.LITE_PULL_MESSAGE)
        command.fields["maxMsgNums"] = str(min(self._settings.batch, end - offset))
        return command

    def _read(self, answer: RemotingCommand, offset: int, end: int) -> Pulled | None:
        """What the answer says; None where it says nothing and must be asked for again."""
        code = answer.code
        if code not in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED, *_NOTHING):
            raise Refused(
                code, (answer.remark or "")[:200], request=request_name(RequestCode.LITE_PULL_MESSAGE),
                peer=self._queue.broker,
            )  # fmt: skip
        following, low, high, delta = read_progress(answer.fields)
        was_master = self._asked == MASTER
        self._reach.counts.pulls += 1
        self._reach.counts.bytes += len(answer.body)
        self._reach.counts.empty_pulls += not answer.body
        self._replica = suggested_replica(answer.fields)
        if not 0 <= following <= OFFSET_MAX:
            raise ProtocolError(f"{self._queue}: goes on from offset {following}", peer=self._queue.broker)
        if code == ResponseCode.SUCCESS:
            if following <= offset:
                raise ProtocolError(f"{self._queue}: goes back to offset {following}", peer=self._queue.broker)
            return Pulled(answer.body, following, low, high, delta)
        if not was_master:  # a replica that is behind proves nothing
            self._replica = MASTER
            return None
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if low <= offset <= high:
                return (
                    None  # it is there: the group was reset, which brokers say once, to whoever pulls next in its name
                )
            # Below the queue's beginning: retention. At or past its end: a log that was lost, or a topic made anew.
            upto = min(following, end) if following > offset else end
            return Pulled(b"", upto, low, high, delta, (offset, upto))
        if following > offset:  # nothing up to there that was wanted
            return Pulled(b"", following, low, high, delta)
        return None if offset < high else Pulled(b"", end, low, high, delta, (offset, end))

    def make_group_known(self, offset: int) -> None:
        """Have the broker create the group, where it may; what the pull brings does not matter."""
        self._answered(offset, offset + 1, fresh=False)

    def close(self) -> None:
        """The answer under way is not wanted any more."""
        under_way, self._ahead = self._ahead, None
        if under_way is not None:
            under_way[0].forget(under_way[1])


class Head(NamedTuple):
    """When a message was stored and where in its broker's log, which together tell it from any other: a topic that was
    deleted and made again has other messages at the same offsets.
    """

    stored_ms: int
    place: int
    """Its offset in the broker's commit log."""


class HeadAt(Exchange[Head | None]):
    """Of the message at an offset; None where there is none, or what is there cannot be read. It comes with its body,
    for brokers hand out no less.
    """

    def request(self) -> RemotingCommand:
        command = super().request()
        command.code = int(RequestCode.LITE_PULL_MESSAGE)
        return command


def head_at(queue: MessageQueue, offset: int, group: str) -> HeadAt:
    header = pull_of(group, queue, offset, 1, SUBSCRIPTION | LITE_PULL)

    def read(answer: RemotingCommand) -> Head | None:
        try:
            delta = read_progress(answer.fields)[3]
            found = stored.decode(answer.body, queue, offset_delta=delta)
        except ProtocolError:
            return None
        return next(
            (Head(each.stored_ms, each.commit_log_offset) for each in found if each.queue_offset == offset), None
        )

    return HeadAt(header, read)


class OffsetsGone(FrameworkError):
    """Offsets `begin` to `end` - 1 of a queue: taken by retention, deleted with the topic, or lost with a log."""

    id = "FA-C012"

    def __init__(
        self, queue: MessageQueue, begin: int, end: int, why: str = "retention, a deleted topic or a lost log"
    ) -> None:
        super().__init__(f"{queue}: offsets {begin} to {end - 1} are gone ({why})")
        self.queue = queue
        self.begin = begin
        self.end = end
        self.why = why

    def __reduce__(self) -> tuple[type[OffsetsGone], tuple[MessageQueue, int, int, str]]:
        return OffsetsGone, (self.queue, self.begin, self.end, self.why)
