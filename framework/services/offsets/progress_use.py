"""StoreUse: whether a group's store of progress is in use yet (`progress: auto`).

While no gap lasts, a group costs its cluster one question. A queue that is acquired may have records: in a topic that
name servers know, or in a file of this machine. So a name server is asked for that topic's route when queues come and
the member list has changed, because only another member can have left records since. From the first gap that lasts on,
or the first record that is found, the store is used as if it had been named. One per group; it knows no store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import structlog

from framework import marks
from framework.core import limits
from framework.errors import BrokerUnreachable, FrameworkError
from framework.model.queue import MessageQueue
from framework.net.task_tree import in_time

log = structlog.get_logger()


class StoreUse:
    """Asked by the acquisitions of a group's queues."""

    is_auto = True

    def __init__(
        self,
        group: str,
        knows_topic: Callable[[], Coroutine[Any, Any, bool]],
        has_file: Callable[[MessageQueue], Coroutine[Any, Any, bool]],
        changes: Callable[[], int],
        store: Callable[[], tuple[str, str]],
    ) -> None:
        """`changes`: how often the member list has changed. `store`: which one is used, and why not the first one."""
        self._group, self._knows_topic, self._has_file = group, knows_topic, has_file
        self._changes, self._store = changes, store
        self.is_open = False
        self.is_in_doubt = False
        """Nobody could say whether there are records."""
        self._asked_at = -1
        """How often the member list had changed when a name server was asked last."""
        self._is_asking = asyncio.Lock()
        self._reason = ""
        self._is_told = False

    async def looked(self, queue: MessageQueue) -> bool:
        """Whether the store is in use, for a queue that was taken; not where nobody can say: the queue goes on."""
        if self.is_open:
            return True
        members = self._changes()
        try:
            async with self._is_asking:  # whoever waits here is told by the same answer
                if not self.is_open and self._asked_at < members:
                    await self._ask(members)
        except FrameworkError as error:
            self._not_read(queue, error)
        if not self.is_open:  # whatever name servers say, or do not: a file of this machine needs none
            try:
                if await in_time(limits.LOOK_SECONDS, self._has_file(queue)):
                    self.begin(f"{queue}: this machine has a record of it")
            except (FrameworkError, TimeoutError) as error:
                self._not_read(queue, error)
        return self.is_open

    def _not_read(self, queue: MessageQueue, error: Exception) -> None:
        reason = str(error) or f"its file was not read within {limits.LOOK_SECONDS:g} s"
        log.debug("progress not read", group=self._group, queue=str(queue), reason=reason)

    async def asked(self, queue: MessageQueue) -> bool:
        """The same, asked anew; raises what nobody could answer."""
        if not self.is_open:
            async with self._is_asking:
                await self._ask(self._changes())
        return self.is_open

    async def _ask(self, members: int) -> None:
        self.is_in_doubt = True
        try:
            is_known = await in_time(limits.LOOK_SECONDS, self._knows_topic())
        except TimeoutError:
            self._asked_at = members
            raise BrokerUnreachable(f"no name server answered within {limits.LOOK_SECONDS:g} s") from None
        except FrameworkError:
            self._asked_at = members
            raise
        self._asked_at, self.is_in_doubt = members, False
        if is_known:
            self.begin("the group has a topic for it")

    def begin(self, reason: str) -> None:
        """From now on, as if the store had been named."""
        if not self.is_open:
            self.is_open, self._reason = True, reason

    def has_begun(self) -> None:
        """The store has kept a record: say once which one it is, and why."""
        if self._is_told:
            return
        self._is_told = True
        name, refusal = self._store()
        marks.sometimes("a store of progress was put to use")
        reason = f"{self._reason}; not in a topic: {refusal}" if refusal else self._reason
        log.info("progress enabled", group=self._group, store=name, reason=reason)

    def __repr__(self) -> str:
        return f"<Use of {self._group}: {'open' if self.is_open else 'closed'}>"


class NamedStore:
    """Stands for `StoreUse` where the settings name a store: it is in use from the start."""

    is_auto = is_in_doubt = False
    is_open = True

    async def looked(self, queue: MessageQueue) -> Literal[True]:
        return True

    async def asked(self, queue: MessageQueue) -> Literal[True]:
        return True

    def begin(self, reason: str) -> None: ...
    def has_begun(self) -> None: ...
