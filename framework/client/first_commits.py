"""FirstCommits: which brokers are known to keep offsets of a group's topic. The first that they are told goes alone.

A stock broker makes the table of a group's topic when its first offset comes. Two that come at once make two tables,
one of which is lost with its offset, though the broker has confirmed it (apache/rocketmq issue 10988).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand

Key = tuple[str, str, str]


class FirstCommits:
    """All of a cluster's."""

    def __init__(self) -> None:
        self._kept: set[Key] = set()
        self._under_way: dict[Key, asyncio.Future[None]] = {}
        """Done when its answer has come, whatever that is."""

    def is_kept(self, group: str, queue: MessageQueue) -> bool:
        """Whether an offset of any of the topic's queues there was confirmed, or read."""
        return _key(group, queue) in self._kept

    def note(self, group: str, queue: MessageQueue) -> None:
        self._kept.add(_key(group, queue))

    def is_under_way(self, group: str, queue: MessageQueue) -> bool:
        return _key(group, queue) in self._under_way

    def watch(self, group: str, queue: MessageQueue, answer: asyncio.Future[RemotingCommand]) -> None:
        """The answer to the first one, for which nobody waits; none may be under way."""
        key = _key(group, queue)
        self._begin(key)

        def done(ended: asyncio.Future[RemotingCommand]) -> None:
            if not ended.cancelled() and ended.exception() is None and ended.result().code == ResponseCode.SUCCESS:
                self._kept.add(key)
            self._end(key)

        answer.add_done_callback(done)

    @asynccontextmanager
    async def in_turn(self, group: str, queue: MessageQueue) -> AsyncIterator[None]:
        """Around a commit and its answer: after the first one, or as the first one, which is to be noted."""
        key = _key(group, queue)
        while key not in self._kept and (other := self._under_way.get(key)) is not None:
            await asyncio.shield(other)
        if key in self._kept:
            yield
            return
        self._begin(key)
        try:
            yield
        finally:
            self._end(key)

    def _begin(self, key: Key) -> None:
        self._under_way[key] = asyncio.get_running_loop().create_future()

    def _end(self, key: Key) -> None:
        self._under_way.pop(key).set_result(None)


def _key(group: str, queue: MessageQueue) -> Key:
    return group, queue.topic, queue.broker
