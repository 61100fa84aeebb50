"""An owner of one queue with a store of progress, and a broker in memory, for the tests of what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from framework.core.budget import Budget
from framework.core.offsets import OffsetTable
from framework.core.ranges import proof_of
from framework.core.window import Window
from framework.errors import FrameworkError
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.contracts import KeepsProgress
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.services.offsets.handover import GroupProgress
from framework.services.offsets.progress import QueueProgress
from framework.services.offsets.progress_use import NamedStore, StoreUse
from framework.testing.sim.disk import SimDisk
from tests.core.making import PLENTY
from tests.services.parts import QUEUE, LoopClock, play
from tests.simulation.left_out import left_out

LOW, END = 10, 21


@dataclass
class Broker:
    """One queue, the group's offset, and a topic for progress."""

    log: dict[int, Any] = field(default_factory=dict)
    offset: int | None = None
    places: dict[MessageQueue, list[Message]] = field(default_factory=dict)
    refusal: FrameworkError | None = None
    handed_out: int = 8
    """A stock broker hands out fewer messages from its disk than it is asked for."""

    def append(self, *offsets: int, life: int = 1) -> list[Any]:
        new = [
            SimpleNamespace(queue_offset=at, stored_ms=1_000 * life + at, commit_log_offset=100_000 * life + at)
            for at in offsets
        ]
        self.log |= {message.queue_offset: message for message in new}
        return new

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Any]:
        self._check()
        if queue == QUEUE:
            return [self.log[offset]] if offset in self.log else []
        return self.places.get(queue, [])[offset : offset + min(count, self.handed_out)]

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        self._check()
        self.offset = committable()
        return self.offset

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        self._check()
        return self.offset

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal


class Means:
    """What a store is given, on this broker and this disk."""

    group, folder = "billing", "/progress/billing"

    def __init__(self, broker: Broker, disk: SimDisk | None = None, key: bytes = b"") -> None:
        self.broker, self.files, self.key = broker, disk or SimDisk(), key

    async def in_thread(self, job: Callable[[], Any]) -> Any:
        await asyncio.sleep(0.001)
        return job()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        return []

    async def end(self, queue: MessageQueue) -> int:
        self.broker._check()
        return len(self.broker.places.get(queue, []))

    async def peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[Message]:
        return await self.broker.peek(self.group, queue, offset, count)

    async def send(self, message: Message, queue: MessageQueue) -> int:
        self.broker._check()
        place = self.broker.places.setdefault(queue, [])
        place.append(
            Message(
                queue.topic, message.body, keys=message.keys, properties=message.properties, queue=queue,
                queue_offset=len(place),
            )
        )  # fmt: skip
        return len(place) - 1

    def proof(self, content: bytes) -> str:
        return proof_of(self.key, self.group.encode(), content) if self.key else ""

    def at_broker(self) -> KeepsProgress:
        raise AssertionError("the stores of these tests have no use for a box")


class Owner:
    """One acquisition of the queue."""

    def __init__(
        self, broker: Broker, store: KeepsProgress | None = None, member: str = "", members: Sequence[str] = (),
        use: StoreUse | None = None,
    ) -> None:  # fmt: skip
        self.broker, self.offsets = broker, OffsetTable()
        self.shared = GroupProgress(
            "billing", store or TopicStore().open(Means(broker)), use or NamedStore(), cast("Any", broker),
            self.offsets, LoopClock(), broker.query_offset, member, lambda: members,
        )  # fmt: skip
        self.progress = QueueProgress(self.shared, QUEUE)
        self.window = Window(0, Budget(PLENTY))
        self.bell = Wakeup()

    async def begin(self) -> Owner:
        offset = self.broker.offset
        await self.progress.begin(offset or 0, offset)
        self.goes_on_at(offset or 0)
        self.progress.begun(self.window)
        return self

    def goes_on_at(self, offset: int) -> None:
        self.window = Window(offset, Budget(PLENTY))
        self.offsets.begin(QUEUE, offset, stored=None)

    def pull(self, end: int) -> None:
        """Take in what the broker has up to here, less what is passed over."""
        begin, passing = self.window.end, self.progress.passing
        messages = [
            self.broker.log[at]
            for at in range(begin, end)
            if at in self.broker.log and not (passing is not None and passing.covers(at))
        ]
        assert self.window.admit(messages, begin, end, 10) is not None

    def end(self, *offsets: int) -> None:
        for chunk in self.window.chunks:
            for index, message in enumerate(chunk.messages):
                if message.queue_offset in offsets:
                    chunk.finish(index)
            self.window.release(chunk)

    async def flush(self) -> None:
        for _ in range(2):  # a gap that has stayed is kept
            await self.progress.flush(self.window, self.bell)

    @property
    def passed(self) -> tuple[tuple[int, int], ...]:
        return () if self.progress.passing is None else self.progress.passing.ranges


async def stuck_at_low(broker: Broker) -> Owner:
    """An owner that has kept 11 to 20, while 10 is at work."""
    broker.append(*range(END))
    broker.offset = LOW
    owner = await Owner(broker).begin()
    owner.pull(END)
    owner.end(*range(LOW + 1, END))
    await owner.flush()
    return owner


def holds(story: Callable[[], Any], safeguard: str | None) -> None:
    """The story is true, and without the safeguard it is not."""
    with left_out(safeguard):
        if safeguard is None:
            play(story)
        else:
            with pytest.raises(AssertionError):
                play(story)
