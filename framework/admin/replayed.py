"""Replayed: which dead letters have a copy that a replay made. A copy names the letter that it was made from, and keeps
its unique key, by which brokers find it. Reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.model.last_words import REPLAY_OF
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.wire import exchanges

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.dead_letters import Letter


class Replayed:
    """Of one group's letters. Each costs a question to each broker of two topics."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin, self._group = admin, group
        self._writable: dict[str, Sequence[MessageQueue]] = {}

    def has(self, letter: Letter) -> bool:
        """Whether a broker finds a copy, in the topic that the letter came from or in the group's retry topic."""
        for topic in (letter.origin_topic, retry_topic(self._group)):
            by_broker = {queue.broker: queue for queue in self.queues(topic)} if topic else {}
            asking = exchanges.by_key(topic or "", letter.message.message_id, is_unique=True)
            for queue in by_broker.values():
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
