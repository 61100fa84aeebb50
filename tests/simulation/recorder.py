"""Recorder: writes down the history of a run, and makes it part of the trace.

It listens at four places: the producers and handlers of the cluster call it, brokers show it commits, the wire shows it
answers, and log lines pass through it. It changes nothing of what it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.broker.server import Broker
from framework.broker.store.sent_back import GroupPlace
from framework.core.offset_file import decode
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.testing.contents import OFFSETS_FILE
from framework.testing.sim.logs import BREAKDOWNS, LINES_MAX, breakdown
from framework.testing.sim.node import CURRENT_NODE
from framework.testing.sim.virtual_loop import VirtualLoop
from framework.wire.codes import RequestCode
from framework.wire.requests.pull import COMMIT_OFFSET
from tests.simulation.facts import (
    Acquired,
    Asked,
    Bent,
    ByHand,
    Committed,
    Copied,
    CopyAsked,
    Fact,
    Fault,
    Finished,
    Kept,
    Life,
    PassedOver,
    Reassigned,
    Remade,
    Reset,
    Resized,
    RoomAgain,
    Said,
    Saved,
    Sent,
    SentBack,
    Skipped,
    Started,
    Subscribed,
    Swallowed,
    ThrownAway,
    Unexpected,
)
from tests.simulation.history import History
from tests.simulation.ways.facts import (
    Looked,
    PopFinished,
    PopStarted,
    Published,
    Remembered,
    Repeated,
    Returned,
)

OUTSIDE = "the world"
FORMER_LIFE_S = 20.0
"""How long a deleted topic may go on: in answers under way, long polls that still wait, commits that are late. An
offset of its former life, met by a new one that has grown past it, skips what is new; nothing in the protocol tells."""


class Recorder:
    """One a run."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.history = History(loop.seed)
        self.name_of: Callable[[str], str] = lambda peer: peer
        """Whose connection this is, by its address."""
        self.holder_of: Callable[[str, MessageQueue], str] = lambda group, queue: ""
        """Which process has a queue's lock at the broker now."""
        self.stored_of: Callable[[str, str], int | None] = lambda group, queue: None
        """The offset that a queue's broker has stored for a group now."""
        self.is_half_open: Callable[[str], bool] = lambda who: False
        self.heard_of: Callable[[str, str], frozenset[str]] = lambda group, topic: frozenset()
        self.end_of: Callable[[str], int | None] = lambda queue: None
        """Where a queue ends at its broker now."""
        self.on_fall: Callable[[str, GroupPlace], object] = lambda broker, key: None
        """Told which offset of which broker goes back, or is told where there was none (any more)."""
        self._begun: dict[int, float] = {}
        """When a handler began with a message: of one that is got twice, each has its own."""
        self._said = self._tokens = 0

    @property
    def who(self) -> str:
        node = CURRENT_NODE.get()
        return OUTSIDE if node is None else node.name

    # -- producers and handlers

    def sent(self, message_id: str, queue: MessageQueue, offset: int) -> None:
        self.loop.note("sent", message_id, *queue, offset)
        self.history.facts.append(Sent(self.loop.now, self.who, message_id, queue, offset))

    def started(self, group: str, message: Message, epoch: int | None = None) -> None:
        offset = message.queue_offset
        self.loop.note("started", self.who, group, *message.queue, offset)
        holder = self.holder_of(group, message.queue) if group in self.history.orderly else ""
        is_half_open = holder not in {"", self.who} and self.is_half_open(self.who)
        self._begun[id(message)] = self.loop.now
        kind = PopStarted if group in self.history.popping else Started
        self.history.facts.append(
            kind(
                self.loop.now, self.who, group, message.message_id, message.queue, offset, message.attempt, holder,
                epoch, is_half_open,
            )
        )  # fmt: skip

    def finished(self, group: str, message: Message, outcome: str) -> None:
        kind = PopFinished if group in self.history.popping else Finished
        self.history.facts.append(
            kind(
                self.loop.now,
                self.who,
                group,
                message.message_id,
                message.queue,
                message.queue_offset,
                message.attempt,
                outcome,
                self._begun.pop(id(message), None),
            )
        )

    def repeated(self, group: str, message: Message) -> None:
        offset = message.queue_offset
        self.loop.note("repeated", self.who, group, *message.queue, offset)
        self.history.facts.append(Repeated(self.loop.now, self.who, group, message.message_id, message.queue, offset))

    def looked(self, group: str, key: str, is_there: bool | None, began: float) -> None:
        self.history.facts.append(Looked(self.loop.now, self.who, group, key, is_there, began))

    def remembered(self, group: str, key: str, keep_s: float | None, began: float) -> None:
        self.history.facts.append(Remembered(self.loop.now, self.who, group, key, keep_s, began))

    def returned(self, group: str, message: Message) -> str:
        """The token of what a handler is about to return."""
        self._tokens += 1
        token = f"token-{self._tokens}-{message.message_id}"
        place = (group, message.queue, message.queue_offset)
        self.history.facts.append(Returned(self.loop.now, self.who, *place, token))
        return token

    def published(self, token: str) -> None:
        self.history.facts.append(Published(self.loop.now, self.who, token))

    def committed_by_hand(self, group: str, message: Message) -> None:
        self._by_hand(group, message, is_commit=True)

    def rolled_back(self, group: str, message: Message) -> None:
        self._by_hand(group, message, is_commit=False)

    def _by_hand(self, group: str, message: Message, *, is_commit: bool) -> None:
        offset = message.queue_offset
        self.loop.note("by hand", self.who, group, *message.queue, offset, is_commit)
        self.history.facts.append(ByHand(self.loop.now, self.who, group, message.queue, offset, is_commit))

    # -- the world

    def fault(self, kind: str, who: str, detail: str = "", group: str = "") -> None:
        self.loop.note("fault", kind, who, detail)
        self.history.facts.append(Fault(self.loop.now, who, kind, detail, group))

    def reset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.loop.note("reset", group, *queue, offset)
        self.history.resets.add(group)
        self.history.facts.append(Reset(self.loop.now, self.who, group, queue, offset))

    def resized(self, group: str, size: int) -> None:
        self.loop.note("resized", self.who, group, size)
        self.history.facts.append(Resized(self.loop.now, self.who, group, size))

    def subscribed(self, group: str, topic: str, *, is_on: bool) -> None:
        self.loop.note("subscribed", self.who, group, topic, is_on)
        self.history.facts.append(Subscribed(self.loop.now, self.who, group, topic, is_on))

    def swallowed(self, group: str, message_id: str) -> None:
        self.loop.note("swallowed", group, message_id)
        self.history.facts.append(Swallowed(self.loop.now, self.who, group, message_id))

    def room_again(self, broker: str, group: str) -> None:
        self.loop.note("room again", broker, group)
        self.history.facts.append(RoomAgain(self.loop.now, broker, group))

    def saved(self, path: str, content: bytes) -> None:
        """A process wrote a small file of its own."""
        if not path.endswith(OFFSETS_FILE):
            return
        group = path.rpartition("/")[2].partition(".")[0]
        offsets = {str(queue): offset for queue, offset in decode(content, group).offsets.items()}
        self.history.facts.append(Saved(self.loop.now, self.who, group, offsets))

    def remade(self, topic: str) -> None:
        self.loop.note("remade", topic)
        self.history.excused_until = self.loop.now + FORMER_LIFE_S
        self.history.facts.append(Remade(self.loop.now, self.who, topic))

    def life(self, who: str, event: str) -> None:
        self.loop.note("life", who, event)
        self.history.facts.append(Life(self.loop.now, who, event))

    def unexpected(self, who: str, what: str) -> None:
        if self.loop.is_over:
            return
        self.history.facts.append(Unexpected(self.loop.now, who, what))

    def reached(self, mark: str) -> None:
        marks = self.history.marks
        marks[mark] = marks.get(mark, 0) + 1

    def rarely(self, mark: str, what: str) -> None:
        """A rare mark did what it does."""
        self.reached(mark)
        self.loop.note("rare", self.who, mark, what)
        self.history.facts.append(Bent(self.loop.now, self.who, mark, what))

    # -- brokers and the wire

    def watch(self, broker: Broker) -> None:
        """See what reaches the broker: commits, by themselves or riding on a pull, and what is sent back."""
        for code, look in (
            (RequestCode.UPDATE_CONSUMER_OFFSET, self._commit),
            (RequestCode.PULL_MESSAGE, self._commit_on_a_pull),
            (RequestCode.CONSUMER_SEND_MSG_BACK, self._sent_back),
        ):
            broker.intercept(Interceptor(code=code, times=None, when=_only_look(look)))

    def _commit(self, request: Request) -> None:
        fields = request.command.fields
        epoch = fields.get("epoch")
        self._committed(request, fields["consumerGroup"], fields["commitOffset"], None if epoch is None else int(epoch))

    def _commit_on_a_pull(self, request: Request) -> None:
        fields = request.command.fields
        if int(fields["sysFlag"]) & COMMIT_OFFSET and int(fields["commitOffset"]) >= 0:
            self._committed(request, fields["consumerGroup"], fields["commitOffset"], is_on_a_pull=True)

    def _committed(
        self, request: Request, group: str, offset: str, epoch: int | None = None, *, is_on_a_pull: bool = False
    ) -> None:
        fields = request.command.fields
        queue = MessageQueue(fields["topic"], request.node.name, int(fields["queueId"]))
        by = self.name_of(request.client.peer)
        self.loop.note("committed", by, group, *queue, offset)
        is_refused = epoch is not None and request.node.progress.is_outdated(
            GroupPlace(group, queue.topic, queue.number), epoch
        )
        before = request.node.offsets.get(group, queue.topic, queue.number)
        if before is None or int(offset) < before:
            self.on_fall(request.node.name, GroupPlace(group, queue.topic, queue.number))
        if group in self.history.popping:  # of what it pulled before it was switched
            return
        self.history.facts.append(
            Committed(self.loop.now, self.who, by, group, queue, int(offset), epoch, is_refused, before, is_on_a_pull)
        )

    def _sent_back(self, request: Request) -> None:
        fields = request.command.fields
        self.history.facts.append(SentBack(self.loop.now, self.who, fields["group"], fields["originMsgId"]))

    def copy_asked(self, who: str, group: str, message_id: str) -> None:
        self.history.facts.append(CopyAsked(self.loop.now, who, group, message_id))

    def copied(self, group: str, message_id: str) -> None:
        self.history.facts.append(Copied(self.loop.now, self.who, group, message_id))

    # -- logs

    def _progress(self, who: str, name: str, fields: dict[str, Any]) -> None:
        at, group, queue = self.loop.now, fields["group"], fields["queue"]
        fact: Fact
        match name:
            case "progress requested":
                fact = Asked(at, who, group, queue)
            case "progress kept":
                fact = Kept(
                    at, who, group, queue, fields["epoch"], fields["low"], fields["ranges"], fields["built_ms"] / 1000
                )
            case "progress discarded":
                fact = ThrownAway(at, who, group, queue, fields["reason"])
            case _:
                fact = PassedOver(at, who, group, queue, tuple(fields["offsets"]))
        self.history.facts.append(fact)

    def said(self, who: str, event: Mapping[str, Any]) -> None:
        """A log line. Two of them are facts of their own: who owns which queue is only known from inside."""
        if self.loop.is_over:
            return
        fields = dict(event)
        name, level = str(fields.pop("event", "")), str(fields.pop("level", ""))
        at, facts = self.loop.now, self.history.facts
        if fields.get("group") in self.history.popping and name not in BREAKDOWNS:
            pass  # its queues are everybody's
        elif name in {"queue positioned", "queue moved"}:
            offset = fields.get("to", fields["offset"])
            group, queue = fields["group"], fields["queue"]
            stored, end = self.stored_of(group, queue), self.end_of(queue)
            facts.append(Acquired(at, who, group, queue, offset, is_moved="to" in fields, stored=stored, end=end))
        elif name == "messages skipped":
            queue = fields["queue"]
            end = self.end_of(queue)
            facts.append(Skipped(at, who, fields["group"], queue, fields["begin"], fields["end"], queue_end=end))
        elif name == "assignment changed":
            group, heard = fields["group"], self.heard_of(fields["group"], fields["topic"])
            gained, lost = tuple(fields["gained"]), tuple(fields["lost"])
            facts.append(Reassigned(at, who, group, gained, lost, fields["members"], heard))
        elif name in PROGRESS:
            self._progress(who, name, fields)
        elif (what := breakdown(name, fields)) is not None:
            self.unexpected(who, what)
        self._said += 1
        if self._said <= LINES_MAX:
            fields.pop("exc_info", None)  # a traceback keeps whole frames alive
            facts.append(Said(at, who, level, name, fields))


PROGRESS = ("progress requested", "progress kept", "progress discarded", "messages already done")


def _only_look(look: Callable[[Request], None]) -> Callable[[Request], bool]:
    def when(request: Request) -> bool:
        look(request)
        return False

    return when
